package supervisor_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sagalog/sagalog/events"
)

const fanOut = `
workflow: invoices
defaults: {complete_within: 5s, retry: {attempts: 1, backoff: 100ms, then: undo}}
steps:
  send:
    for: {each: "${ input.ids }", as: id, parallel: 2, tolerate: 1, collect: failures}
    agent: alpha
    with: {id: "${ id }", place: "${ index }"}
    undo: {with: {id: "${ id }", was: "${ step.output }"}}
  report: {needs: [send], agent: beta, with: {failed: "${ steps.send.output }", counts: "${ steps.send.counts }"}}
`

// latest returns the work that was sent since it was asked last.
func latest(c *candidate) []string {
	list := c.work()
	c.sent = nil
	return list
}

// A step with a for does its items in order, so many at a time, and goes on without those whose failure is tolerated.
func TestAFanOutDoesItsItems(t *testing.T) {
	t.Parallel()
	b := newBench(t, fanOut)
	a := b.candidate("A").own()
	b.submit("t", "invoices", `,"input":{"ids":["x","y","z"]}`)
	a.run()
	require.Equal(t, []string{"t.send[0] do#1", "t.send[1] do#1"}, latest(a))
	require.JSONEq(t, `{"id":"x","place":0}`, string(b.task("t").Step("send[0]").Input))
	b.failed("t", "send[1]", 1, events.ClassPermanent, events.EffectNone)
	a.run()
	require.Equal(t, []string{"t.send[2] do#1"}, latest(a))
	b.done("t", "send[0]", 1)
	b.done("t", "send[2]", 1)
	a.run()
	fan := b.task("t").Step("send")
	require.Equal(t, events.StepStateCompleted, fan.State)
	require.Equal(t, &events.FanOut{Count: 3, Tolerate: 1, Collect: events.CollectFailures, Begun: 3, Completed: 2, Failed: 1}, fan.Fan)
	in := string(b.task("t").Step("report").Input)
	require.Contains(t, in, `"counts":{"completed":2,"failed":1,"skipped":0,"total":3}`)
	require.Contains(t, in, `"index":1,"input":{"id":"y","place":1}`)
	b.done("t", "report", 1)
	a.run()
	require.Equal(t, events.TaskStateProcessed, b.task("t").State)
	sameEverywhere(t, b, a)
}

// A failure beyond what is tolerated undoes the task: no more items begin, and those that were done are undone in the reverse order of their completion.
func TestAFanOutIsUndoneInReverseOrder(t *testing.T) {
	t.Parallel()
	b := newBench(t, fanOut)
	a := b.candidate("A").own()
	b.submit("t", "invoices", `,"input":{"ids":["u","v","w","x","y","z"]}`)
	a.run()
	latest(a)
	for _, i := range []int{1, 0} {
		b.done("t", fmt.Sprintf("send[%d]", i), 1)
		a.run()
	}
	b.failed("t", "send[2]", 1, events.ClassPermanent, events.EffectNone)
	a.run()
	b.failed("t", "send[3]", 1, events.ClassPermanent, events.EffectNone)
	a.run()
	latest(a)
	b.done("t", "send[4]", 1)
	a.run()
	for _, i := range []int{4, 0, 1} {
		require.Equal(t, []string{fmt.Sprintf("t.send[%d] undo#1", i)}, latest(a))
		b.undone("t", fmt.Sprintf("send[%d]", i), 1)
		a.run()
	}
	require.Equal(t, events.TaskStateUndone, b.task("t").State)
	require.Nil(t, b.task("t").Step("send[5]"))
	require.Equal(t, 3, b.task("t").Step("send").Fan.Undone)
	sameEverywhere(t, b, a)
}

// An empty list is done at once, and its output is an empty list.
func TestAFanOutOfNothingIsDone(t *testing.T) {
	t.Parallel()
	b := newBench(t, fanOut)
	a := b.candidate("A").own()
	b.submit("t", "invoices", `,"input":{"ids":[]}`)
	a.run()
	require.Contains(t, string(b.task("t").Step("report").Input), `"failed":[]`)
	sameEverywhere(t, b, a)
}
