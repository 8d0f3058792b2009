package supervisor_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

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

// A step with a for does its items in order, as many at a time as it says, and goes on without those whose failure is tolerated.
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
	require.Empty(t, a.sentTo("alerts"), "the failure is tolerated")
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
	require.Equal(t, []string{"t.send[4] undo#1", "t.send[0] undo#1"}, latest(a), "two at a time, and the latest first")
	b.undone("t", "send[0]", 1)
	a.run()
	require.Equal(t, []string{"t.send[1] undo#1"}, latest(a))
	b.undone("t", "send[1]", 1)
	b.undone("t", "send[4]", 1)
	a.run()
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

// A tolerated failure that may have had an effect is undone before the step is over, and the task goes on meanwhile.
func TestAToleratedItemIsUndone(t *testing.T) {
	t.Parallel()
	b := newBench(t, fanOut)
	a := b.candidate("A").own()
	b.submit("t", "invoices", `,"input":{"ids":["x","y","z"]}`)
	a.run()
	latest(a)
	b.failed("t", "send[0]", 1, events.ClassPermanent, events.EffectInDoubt)
	b.done("t", "send[1]", 1)
	a.run()
	require.Equal(t, []string{"t.send[2] do#1"}, latest(a), "the request of send[0] may yet land")
	b.done("t", "send[2]", 1)
	a.run()
	a.pass(4 * time.Second)
	a.pass(4 * time.Second)
	require.Equal(t, []string{"t.send[0] undo#1"}, latest(a))
	require.Empty(t, latest(a), "the item is not undone yet")
	require.Equal(t, events.TaskStateProcessing, b.task("t").State)
	b.undone("t", "send[0]", 1)
	a.run()
	fan := b.task("t").Step("send")
	require.Equal(t, events.StepStateCompleted, fan.State)
	require.Equal(t, &events.FanOut{Count: 3, Tolerate: 1, Collect: events.CollectFailures, Begun: 3, Completed: 2, Failed: 1}, fan.Fan)
	require.Equal(t, []string{"t.report do#1"}, latest(a))
	require.Contains(t, string(b.task("t").Step("report").Input), `"index":0`)
	sameEverywhere(t, b, a)
}

// If the undo of a tolerated item fails, the task is parked. Once an operator has decided about it, it goes on.
func TestAToleratedItemThatCannotBeUndoneParksTheTask(t *testing.T) {
	t.Parallel()
	b := newBench(t, fanOut)
	a := b.candidate("A").own()
	b.submit("t1", "invoices", `,"input":{"ids":["x","y"]}`)
	a.run()
	b.failed("t1", "send[0]", 1, events.ClassPermanent, events.EffectDoneUnknown)
	b.done("t1", "send[1]", 1)
	a.run()
	b.undoFails("t1", "send[0]", 1)
	a.run()
	require.Equal(t, events.TaskStateError, b.task("t1").State)
	b.decide(a, events.Request{ID: "again", Kind: events.RequestRetry, Step: "send[0]"})
	require.Equal(t, events.TaskStateProcessing, b.task("t1").State)
	b.undoFails("t1", "send[0]", 2)
	a.run()
	require.Equal(t, events.TaskStateError, b.task("t1").State)
	b.decide(a, events.Request{ID: "skip", Kind: events.RequestSkip, Step: "send[0]"})
	require.Equal(t, events.StepStateCompleted, b.task("t1").Step("send").State)
	require.True(t, b.task("t1").Step("send[0]").Left)
	sameEverywhere(t, b, a)
}

// A rerun does all items once more.
func TestAFanOutIsRerun(t *testing.T) {
	t.Parallel()
	b := newBench(t, fanOut)
	a := b.candidate("A").own()
	b.submit("t1", "invoices", `,"input":{"ids":["x","y"]}`)
	a.run()
	b.failed("t1", "send[1]", 1, events.ClassPermanent, events.EffectDoneUnknown)
	b.done("t1", "send[0]", 1)
	a.run()
	b.undone("t1", "send[1]", 1)
	a.run()
	b.done("t1", "report", 1)
	a.run()
	require.Equal(t, events.TaskStateProcessed, b.task("t1").State)
	latest(a)
	require.Equal(t, `"send[0]" is an item, and items do not run again alone: rerun the task from step "send"`, b.rerun(a, "send[0]"))
	require.Empty(t, b.rerun(a, "send"))
	require.Equal(t, []string{"t1.send[0] undo#1"}, latest(a))
	b.undone("t1", "send[0]", 1)
	a.run()
	require.Equal(t, []string{"t1.send[0] do#2", "t1.send[1] do#2"}, latest(a))
	require.Equal(t, 2, b.task("t1").Step("send").Fan.Begun)
	b.reportOfRun("send[0]", 2, 2)
	b.reportOfRun("send[1]", 2, 2)
	a.run()
	b.reportOfRun("report", 2, 2)
	a.run()
	require.Equal(t, events.TaskStateProcessed, b.task("t1").State)
	sameEverywhere(t, b, a)
}

// A fan-out some of whose items are undone is not over, so a rerun from a later step concerns it too.
func TestAFanOutThatIsHalfUndoneIsRerun(t *testing.T) {
	t.Parallel()
	b := newBench(t, fanOut)
	a := b.candidate("A").own()
	b.submit("t1", "invoices", `,"input":{"ids":["x","y"]}`)
	a.run()
	b.done("t1", "send[0]", 1)
	b.done("t1", "send[1]", 1)
	a.run()
	b.failed("t1", "report", 1, events.ClassPermanent, events.EffectNone)
	a.run()
	b.undone("t1", "send[1]", 1)
	b.undoFails("t1", "send[0]", 1)
	a.run()
	require.Equal(t, events.TaskStateError, b.task("t1").State)
	require.Empty(t, b.rerun(a, "report"))
	require.Equal(t, []string{"send", "report"}, b.task("t1").Rerun.Steps)
	sameEverywhere(t, b, a)
}

// An item of a rerun does not begin before no request to undo it can land any more.
func TestAnItemWaitsForItsUndoInDoubt(t *testing.T) {
	t.Parallel()
	b := newBench(t, strings.Replace(fanOut, "undo: {with", "undo: {retry: {attempts: 5, backoff: 100ms}, with", 1))
	a := b.candidate("A").own()
	b.submit("t1", "invoices", `,"input":{"ids":["x"]}`)
	a.run()
	b.done("t1", "send[0]", 1)
	a.run()
	b.done("t1", "report", 1)
	a.run()
	require.Empty(t, b.rerun(a, "send"))
	latest(a)
	a.pass(5100 * time.Millisecond) // the undo is in doubt
	a.pass(200 * time.Millisecond)
	undo := b.task("t1").Step("send[0]").Undo.Attempt
	b.undone("t1", "send[0]", undo)
	a.run()
	require.True(t, b.task("t1").Step("send").Fans())
	require.NotZero(t, b.task("t1").Step("send[0]").UndoQuietAt)
	latest(a)
	require.Equal(t, events.StepStateNotStarted, b.task("t1").Step("send[0]").State)
	a.pass(10 * time.Second)
	require.Equal(t, []string{"t1.send[0] do#2"}, latest(a))
	sameEverywhere(t, b, a)
}

// What the items give together is bounded where an expression reads it: the step behind them fails, and says what to do.
func TestTheOutputsOfAFanOutAreBounded(t *testing.T) {
	t.Parallel()
	b := newBench(t, strings.Replace(fanOut, "failures", "outputs", 1))
	a := b.candidate("A").own()
	b.submit("t", "invoices", `,"input":{"ids":[`+strings.Repeat("1,", 24)+`1]}`)
	large := json.RawMessage(`"` + strings.Repeat("x", 200_000) + `"`)
	for i := range 25 {
		a.run()
		b.report(events.Report{Task: "t", Run: 1, Step: events.ItemPath("send", i), Operation: events.Do, Attempt: 1, Result: events.ResultCompleted, Output: large})
	}
	a.run()
	at := b.task("t").Step("report")
	require.NotNil(t, at)
	require.Contains(t, at.Error.Message, "the outputs of the items of step \"send\" take more than 4 MiB")
	sameEverywhere(t, b, a)
}

// What a step put out stays what it was when its items are undone, for the undos that come later.
func TestTheOutputOfAFanOutOutlastsItsItems(t *testing.T) {
	t.Parallel()
	b := newBench(t, strings.Replace(fanOut, `report: {needs: [send], agent: beta,`, `report: {needs: [send], agent: beta, undo: {with: {was: "${ steps.send.output }"}},`, 1))
	a := b.candidate("A").own()
	b.submit("t1", "invoices", `,"input":{"ids":["x","y"]}`)
	a.run()
	b.failed("t1", "send[0]", 1, events.ClassPermanent, events.EffectDoneUnknown)
	b.done("t1", "send[1]", 1)
	a.run()
	b.undone("t1", "send[0]", 1)
	a.run()
	b.done("t1", "report", 1)
	a.run()
	require.Empty(t, b.rerun(a, ""))
	undo := last[*events.CompensationStarted](b)
	require.Equal(t, "report", undo.Step)
	require.Contains(t, string(undo.Input), `"index":0`)
	b.undone("t1", "report", 1)
	a.run()
	b.undone("t1", "send[1]", 1)
	a.run()
	require.Equal(t, 2, b.task("t1").Run)
	sameEverywhere(t, b, a)
}

// A rerun may give another input to a task whose items are all done once more, but not to one whose items are kept.
func TestAFanOutIsRerunWithAnotherInput(t *testing.T) {
	t.Parallel()
	b := newBench(t, fanOut)
	a := b.candidate("A").own()
	b.submit("t1", "invoices", `,"input":{"ids":["x"]}`)
	a.run()
	b.done("t1", "send[0]", 1)
	a.run()
	b.done("t1", "report", 1)
	a.run()
	ask := func(id, from string) string {
		b.decide(a, events.Request{ID: id, Kind: events.RequestRerun, From: from, Input: json.RawMessage(`{"ids":["y"]}`)})
		if answer, known := b.task("t1").Request(id); known {
			return answer.Refused
		}
		return last[*events.InputRejected](b).Detail
	}
	require.Contains(t, ask("q1", "report"), `rerun the task from step "send"`)
	require.Empty(t, ask("q2", "send"))
	b.undone("t1", "send[0]", 1)
	a.run()
	require.JSONEq(t, `{"id":"y","place":0}`, string(b.task("t1").Step("send[0]").Input))
	sameEverywhere(t, b, a)
}

// undoFails reports the failure of an attempt of an undo.
func (b *bench) undoFails(task, step string, attempt int) {
	b.report(events.Report{
		Task: task, Run: 1, Step: step, Operation: events.Undo, Attempt: attempt, Result: events.ResultFailed, Effect: events.EffectNone,
		Error: &events.Error{Class: events.ClassPermanent, Message: "it failed"},
	})
}

// A task that begins with a fan-out is answered with processing like any other.
func TestATaskThatBeginsWithItemsIsAnswered(t *testing.T) {
	t.Parallel()
	b := newBench(t, fanOut)
	a := b.candidate("A", answering).own()
	b.submit("t1", "invoices", `,"input":{"ids":["x","y"]}`+toShop)
	a.run()
	require.Equal(t, []string{"t1 received", "t1 processing"}, a.replies("shop.replies"))
}

// An item of a rerun begins only when no request to undo it in the run before can take effect any more.
func TestAnItemWaitsForItsUndoInTheRunBefore(t *testing.T) {
	t.Parallel()
	b := newBench(t, fanOut)
	a := b.candidate("A").own()
	b.submit("t1", "invoices", `,"input":{"ids":["x"]}`)
	a.run()
	b.done("t1", "send[0]", 1)
	a.run()
	b.done("t1", "report", 1)
	a.run()
	require.Empty(t, b.rerun(a, ""))
	latest(a)
	quiet := b.task("t1").Step("send[0]").Undo.CompleteBy.Add(events.DefaultSettings().Grace.Std())
	b.report(events.Report{Task: "t1", Run: 1, Step: "send[0]", Operation: events.Undo, Attempt: 1, Result: events.ResultCompleted, Effect: events.EffectInDoubt})
	a.run()
	require.Equal(t, 1, count[*events.RunBegun](b))
	require.Equal(t, quiet, b.task("t1").Step("send[0]").UndoQuietAt)
	a.pass(quiet.Sub(b.now) - time.Millisecond)
	require.Empty(t, latest(a))
	a.pass(time.Millisecond)
	require.Equal(t, []string{"t1.send[0] do#2"}, latest(a))
	sameEverywhere(t, b, a)
}

// However many children run, one decision asks all of them to turn back.
func TestATaskWithManyChildrenTurnsBack(t *testing.T) {
	t.Parallel()
	const fans, parallel = 22, 100
	var w strings.Builder
	w.WriteString("workflow: parent\nsteps:\n")
	for i := range fans {
		fmt.Fprintf(&w, "  s%d: {child: {workflow: child}, for: {each: \"${ input }\", as: n, parallel: %d}, with: 1, undo: {}}\n", i, parallel)
	}
	b := newBench(t, w.String(), offspring)
	a := b.candidate("A").own()
	b.submit("p", "parent", `,"input":[`+strings.Repeat("1,", parallel-1)+`1]`)
	a.run()
	b.request(events.RequestCancel, "c", "p")
	a.run()
	require.Equal(t, events.TaskStateUndoing, b.task("p").State, b.task("p").Reason)
	require.Equal(t, fans*parallel, count[*events.ChildAsked](b))
	require.EqualValues(t, 1, a.o.Status().Stats.Epochs)
}

// A rerun with another input is refused if the undos of the kept steps take too long to compare. The partition is not held up by it.
func TestARerunDoesNotCompareUndosWithoutBound(t *testing.T) {
	t.Parallel()
	b := newBench(t, `
workflow: heavy
defaults: {complete_within: 5s, retry: {attempts: 1, then: park}}
steps:
  send:
    for: {each: "${ 1..60 }", parallel: 60, collect: none}
    agent: alpha
    undo: {with: "${ len(filter(1..20000, # > 3)) }"}
  last: {needs: [send], agent: alpha}
`)
	a := b.candidate("A").own()
	b.submit("t1", "heavy", "")
	a.run()
	for i := range 60 {
		b.done("t1", events.ItemPath("send", i), 1)
	}
	a.run()
	b.done("t1", "last", 1)
	a.run()
	require.Equal(t, events.TaskStateProcessed, b.task("t1").State)
	b.decide(a, events.Request{ID: "r", Kind: events.RequestRerun, From: "last", Input: json.RawMessage(`{"n":2}`)})
	require.Contains(t, last[*events.InputRejected](b).Detail, "too much work to find out")
	sameEverywhere(t, b, a)
}
