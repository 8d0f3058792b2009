package scheduler_test

import (
	"encoding/json"
	"fmt"
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

// Most undos use no entry. A list that cannot be evaluated any more must not keep them from being done.
func TestAnItemThatDoesNotUseItsEntryNeedsNoList(t *testing.T) {
	t.Parallel()
	const text = "workflow: w\nsteps:\n  send: {agent: m, for: {each: \"${ input.ids }\", as: id}, with: {id: \"${ id }\", at: \"${ index }\"}, fail_if: \"%s\", undo: {with: {was: \"${ step.output }\", at: \"${ index }\"}}}"
	item := &events.Step{Path: "send[1]", State: events.StepStateCompleted, Output: json.RawMessage(`7`), Undoable: true, Touched: true, Completion: 1}
	for _, c := range []struct{ input, do, fails string }{
		{`{"ids":["a","b"]}`, "", ""},
		{`{"ids":["a"]}`, "for.each gives 1 entries, and none for index 1", "for.each gives 1 entries, and none for index 1"},
		{`{"ids":7}`, "for.each gives a number", "for.each gives a number"},
	} {
		s, task := prepared(t, fmt.Sprintf(text, "output == id"), &events.Step{Path: "send", State: events.StepStateRunning, Fan: &events.FanOut{Count: 2, Begun: 2}}, item)
		task.Input = json.RawMessage(c.input)
		do, err := s.Start(task, "send[1]", events.Do)
		if c.do != "" {
			require.ErrorContains(t, err, c.do)
		} else {
			require.NoError(t, err)
			require.JSONEq(t, `{"id":"b","at":1}`, string(do.Input))
		}
		undo, err := s.Start(task, "send[1]", events.Undo)
		require.NoError(t, err)
		require.JSONEq(t, `{"was":7,"at":1}`, string(undo.Input))
		fault, _, err := s.Check(task, "send[1]", item.Output)
		require.NoError(t, err)
		if c.fails != "" {
			require.Contains(t, fault.Message, "fail_if: ")
			require.Contains(t, fault.Message, c.fails)
		} else {
			require.Nil(t, fault)
		}

		s, task = prepared(t, fmt.Sprintf(text, "output == 8"), task.Steps...)
		task.Input = json.RawMessage(c.input)
		fault, _, err = s.Check(task, "send[1]", item.Output)
		require.NoError(t, err)
		require.Nil(t, fault, "it does not ask for the entry")
	}

	s, task := prepared(t, strings.Replace(fmt.Sprintf(text, "output == 8"), "input.ids", "filter(input.ids, # != 'x')", 1), &events.Step{Path: "send", State: events.StepStateRunning, Fan: &events.FanOut{Count: 1, Begun: 1}})
	task.Input = json.RawMessage(`{"ids":["a"]}`)
	first, err := s.Start(task, "send[0]", events.Do)
	require.NoError(t, err)
	again, err := s.Start(task, "send[0]", events.Do)
	require.NoError(t, err)
	require.Greater(t, first.Cost, again.Cost, "the list is made once")
}

// What follows from facts that turn out to be void is forgotten, and what it costs to use an output does not depend on whether it is known.
func TestOutputsThatFollowFromVoidFactsAreForgotten(t *testing.T) {
	t.Parallel()
	s, task := prepared(t, "workflow: w\nsteps:\n  send: {agent: m, for: {each: \"${ filter(steps.ids.output, true) }\", collect: outputs}, needs: [ids]}\n  ids: {agent: m}\n  last: {needs: [send], agent: m, with: \"${ map(steps.send.output, # + 0) }\"}",
		&events.Step{Path: "ids", State: events.StepStateCompleted, Output: json.RawMessage(`["x"]`)},
		&events.Step{Path: "send", State: events.StepStateCompleted, Fan: &events.FanOut{Count: 1, Begun: 1, Completed: 1, Collect: events.CollectOutputs}},
		&events.Step{Path: "send[0]", State: events.StepStateCompleted, Output: json.RawMessage(`1`)})
	starts := func(path string) (string, int) {
		start, err := s.Start(task, path, events.Do)
		require.NoError(t, err)
		return string(start.Input), start.Cost
	}
	input, cost := starts("last")
	require.JSONEq(t, `[1]`, input)
	task.Step("send[0]").Output = json.RawMessage(`2`)
	again, sameCost := starts("last")
	require.JSONEq(t, `[1]`, again, "it is known")
	require.Equal(t, cost, sameCost)
	s.Reset()
	input, _ = starts("last")
	require.JSONEq(t, `[2]`, input)
}

// A list that cannot be used stops the step before its first item.
func TestAListThatIsTooLongBeginsNoItem(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ collect, input, want string }{
		{"outputs", `{"a":1}`, "for.each gives an object, but must give a list"},
		{"outputs", `null`, "for.each gives null"},
		{"outputs", `"a"`, "for.each gives a string"},
		{"outputs", `true`, "for.each gives a boolean"},
		{"none", "[" + strings.Repeat("1,", 10_000) + "1]", "for.each gives 10001 entries, and a step has at most 10000 items: split the list"},
		{"none", `["` + strings.Repeat("x", 256<<10) + `"]`, "for.each gives 262148 bytes, and at most 262144 are allowed: give IDs instead of whole objects"},
		{"", "[" + strings.Repeat("1,", 1_000) + "1]", "for.each gives 1001 entries, and the outputs of more than 1000 are collected only on request: write collect: outputs"},
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
