package scheduler_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sagalog/sagalog/events"
	"github.com/sagalog/sagalog/scheduler"
)

// The output of a fan-out is made of its items, by what its for collects.
func TestAFanOutCollectsWhatItsForSays(t *testing.T) {
	t.Parallel()
	fan := &events.Step{Path: "send", State: events.StepStateCompleted, Fan: &events.FanOut{Count: 3, Begun: 3, Completed: 2, Failed: 1}}
	task := &events.Task{ID: "t", Steps: []*events.Step{
		fan,
		{Path: "send[2]", State: events.StepStateCompleted, Output: json.RawMessage(`{"n":2}`)},
		{Path: "send[0]", State: events.StepStateCompleted},
		{Path: "send[1]", State: events.StepStateFailed, Continued: true, Input: json.RawMessage(`"b"`), Error: &events.Error{Class: events.ClassPermanent, Message: "no"}},
	}}
	for collect, want := range map[string]string{
		events.CollectOutputs:  `[null,null,{"n":2}]`,
		events.CollectFailures: `[{"index":1,"input":"b","error":{"class":"permanent","message":"no"}}]`,
	} {
		fan.Fan.Collect = collect
		got, err := scheduler.Collected(task, fan)
		require.NoError(t, err)
		require.JSONEq(t, want, string(got), collect)
	}
	fan.Fan.Collect = events.CollectNone
	got, err := scheduler.Collected(task, fan)
	require.NoError(t, err)
	require.Nil(t, got)
}

// A list that cannot be used stops the step before its first item.
func TestAListThatIsTooLongBeginsNoItem(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ collect, input, want string }{
		{"outputs", `{"a":1}`, "for.each gives no list"},
		{"outputs", `null`, "for.each gives no list"},
		{"none", "[" + strings.Repeat("1,", 10_000) + "1]", "for.each gives 10001 entries, and a step has at most 10000 items: split the list"},
		{"none", `["` + strings.Repeat("x", 256<<10) + `"]`, "for.each gives 262148 bytes, and 262144 are allowed: give IDs instead of whole objects"},
		{"", "[" + strings.Repeat("1,", 1_000) + "1]", "for.each gives 1001 entries; of more than 1000 the outputs are collected only with collect: outputs"},
	} {
		collect := ""
		if c.collect != "" {
			collect = ", collect: " + c.collect
		}
		p := program(t, "workflow: w\nsteps: {send: {agent: m, for: {each: \"${ input }\""+collect+"}}}")
		x := p.Preview(&events.Task{ID: "t1", Run: 1, Workflow: "w", Version: 1, State: events.TaskStatePending, Input: json.RawMessage(c.input)})
		require.False(t, x[0].Starts)
		require.Contains(t, x[0].Error, c.want)
	}
}
