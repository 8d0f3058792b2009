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

func TestAPreviewSaysWhatATaskWouldDoFirst(t *testing.T) {
	t.Parallel()
	src, faults := scheduler.Parse("f", []byte(`workflow: w
steps:
  gift: {agent: g, if: "${ input.gift }"}
  wrap: {agent: g, needs: [gift], if: "${ steps.gift.state == 'completed' }"}
  pay: {agent: p, with: {of: "${ task.id }", amount: "${ input.amount }"}}
  big: {agent: p, needs: [pay], if: "${ input.amount > 100 }"}
  mail: {agent: m, needs: [pay], if: "${ steps.pay.output.ok }"}
  odd: {agent: m, with: "${ input.list[3].x }"}
  after: {agent: m, needs: [gift], with: {gift: "${ steps.gift.state }"}}
`), nil)
	require.NotNil(t, src, lines(faults))
	d, err := scheduler.Complete(src.Body)
	require.NoError(t, err)
	p, err := scheduler.Compile(d)
	require.NoError(t, err)
	show := func(input string) map[string]string {
		out := map[string]string{}
		for _, x := range p.Preview(&events.Task{ID: "t1", Run: 1, Workflow: "w", Version: 1, State: events.TaskStatePending, Input: json.RawMessage(input)}) {
			var parts []string
			if x.Condition != nil {
				parts = append(parts, fmt.Sprint("if ", *x.Condition))
			}
			if x.Skipped {
				parts = append(parts, "skipped")
			}
			if x.Starts {
				parts = append(parts, "starts with "+string(x.Input))
			}
			if x.Error != "" {
				parts = append(parts, "error")
			}
			out[x.Step.ID] = strings.Join(parts, ", ")
		}
		return out
	}
	require.Equal(t, map[string]string{
		"gift": "if false, skipped", "wrap": "if false, skipped", "pay": `starts with {"amount":1.50,"of":"t1"}`, "big": "if false",
		"mail": "", "odd": "error", "after": `starts with {"gift":"skipped"}`,
	}, show(`{"gift": false, "amount": 1.50, "list": null}`))
	require.Equal(t, map[string]string{
		"gift": `if true, starts with {"gift":true,"amount":500,"list":[0,0,0,{"x":7}]}`, "wrap": "", "pay": `starts with {"amount":500,"of":"t1"}`, "big": "if true",
		"mail": "", "odd": "starts with 7", "after": "",
	}, show(`{"gift":true,"amount":500,"list":[0,0,0,{"x":7}]}`))
}

// A preview says how many items would begin, and shows the input of the first.
func TestAPreviewSaysHowManyItemsAStepHas(t *testing.T) {
	t.Parallel()
	p := program(t, `workflow: w
steps:
  send: {agent: m, for: {each: "${ input.ids }", as: id}, with: {id: "${ id }", at: "${ index }"}}
  fixed: {agent: m, for: {each: [x, y], tolerate: 1}, with: "${ item }"}
  later: {agent: m, needs: [send], for: {each: "${ steps.send.output }", collect: none}}
`)
	at := map[string]scheduler.Preview{}
	show := func(input string) {
		for _, x := range p.Preview(&events.Task{ID: "t1", Run: 1, Workflow: "w", Version: 1, State: events.TaskStatePending, Input: json.RawMessage(input)}) {
			at[x.Step.ID] = x
		}
	}
	show(`{"ids":[7,8,9]}`)
	require.Equal(t, 3, *at["send"].Items)
	require.JSONEq(t, `{"id":7,"at":0}`, string(at["send"].Input))
	require.Equal(t, 2, *at["fixed"].Items)
	require.JSONEq(t, `"x"`, string(at["fixed"].Input))
	require.False(t, at["later"].Starts)
	require.Nil(t, at["later"].Items)
	show(`{"ids":[]}`)
	require.True(t, at["send"].Starts)
	require.Zero(t, *at["send"].Items)
	require.Nil(t, at["send"].Input)
	show(`{"ids":5}`)
	require.Equal(t, "for.each gives a number, but must give a list: correct the expression \"${ input.ids }\"", at["send"].Error)
	require.False(t, at["send"].Starts)
	var texts []string
	for _, s := range p.Definition().Steps {
		texts = append(texts, s.ID+": "+s.For.String())
	}
	require.ElementsMatch(t, []string{"send: for each of input.ids, 10 at a time", "fixed: for each of 2 entries, 10 at a time, up to 1 may fail", "later: for each of steps.send.output, 10 at a time"}, texts)
}
