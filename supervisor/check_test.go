package supervisor_test

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sagalog/sagalog/events"
	"github.com/sagalog/sagalog/scheduler"
)

const checkedSteps = `
workflow: two
defaults: {complete_within: 1s, retry: {attempts: 3, then: undo}}
steps:
  first: {agent: alpha, undo: {}}
  second: {needs: [first], agent: beta, fail_if: "${ output.v == 1 }", fail_reason: "v is ${ output.v }", undo: {with: {v: "${ step.output.v }"}}}
`

// An answer that means "no" is not asked for again. The step did its work, so its undo runs, with the output.
func TestAStepWhoseResultMeansNoIsUndone(t *testing.T) {
	t.Parallel()
	b := newBench(t, checkedSteps)
	a := b.candidate("A").own()
	b.submit("t1", "two", "")
	a.run()
	b.done("t1", "first", 1)
	a.run()
	b.done("t1", "second", 1)
	a.run()
	f := last[*events.StepFailed](b)
	require.Equal(t, events.Error{Class: events.ClassCheck, Message: "v is 1"}, f.Error)
	require.Equal(t, events.EffectDoneUnknown, f.Effect)
	require.JSONEq(t, `{"v":1}`, string(f.Output))
	require.Equal(t, events.ActionUndo, f.Verdict.Action)
	require.Equal(t, `step "second": its result means failure: v is 1`, f.Verdict.Reason)
	undo := last[*events.CompensationStarted](b)
	require.JSONEq(t, `{"v":1}`, string(undo.Input))
	require.JSONEq(t, `{"v":1}`, string(undo.Output))
	b.undone("t1", "second", 1)
	a.run()
	b.undone("t1", "first", 1)
	a.run()
	require.Equal(t, []string{
		"Submitted", "StepStarted", "StepCompleted", "StepStarted", "StepFailed", "CompensationStarted", "Compensated", "CompensationStarted", "Compensated", "TaskUndone",
	}, b.names())
	sameEverywhere(t, b, a)
}

// The answer of an attempt that two owners sent is in doubt like any other: the undo waits until no copy can land.
func TestARefusedResultOfARepeatedAttemptIsInDoubt(t *testing.T) {
	t.Parallel()
	b := newBench(t, checkedSteps)
	a := b.candidate("A").own()
	b.submit("t1", "two", "")
	a.run()
	b.done("t1", "first", 1)
	a.run()
	c := b.candidate("B").own()
	b.done("t1", "second", 1)
	c.run()
	f := last[*events.StepFailed](b)
	require.Equal(t, events.ClassCheck, f.Error.Class)
	require.Equal(t, events.EffectInDoubt, f.Effect)
	require.NotZero(t, f.QuietAt)
}

// Without its definition, a step that has a check does not pass: an operator looks at it.
func TestAStepDoesNotPassWithoutItsCheck(t *testing.T) {
	t.Parallel()
	b := newBench(t, checkedSteps)
	a := b.candidate("A").own()
	b.submit("t1", "two", "")
	a.run()
	a.sched = &unusable{scheduler.New()}
	a.restart()
	a.own()
	b.done("t1", "first", 1)
	a.run()
	require.Zero(t, count[*events.StepCompleted](b))
	require.Equal(t, events.ActionPark, last[*events.StepFailed](b).Verdict.Action)
	require.Equal(t, events.TaskStateError, b.task("t1").State)
}

// An output that the check cannot read must not pass it.
func TestACheckThatFailsToEvaluateFailsItsStep(t *testing.T) {
	t.Parallel()
	b := newBench(t, checkedSteps)
	a := b.candidate("A").own()
	b.submit("t1", "two", "")
	a.run()
	b.done("t1", "first", 1)
	a.run()
	b.report(events.Report{Task: "t1", Run: 1, Step: "second", Operation: events.Do, Attempt: 1, Result: events.ResultCompleted, Output: json.RawMessage(`"text"`)})
	a.run()
	f := last[*events.StepFailed](b)
	require.Equal(t, events.ClassExpression, f.Error.Class)
	require.Equal(t, events.EffectDoneUnknown, f.Effect)
	require.Equal(t, events.ActionUndo, f.Verdict.Action)
}
