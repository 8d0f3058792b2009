package events_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sagalog/sagalog/events"
)

// A task that is about to be parked because of a failed do is not parked if it begins to undo. The failed step is then
// undone, and nobody has to decide.
func TestUndoingCancelsADueParking(t *testing.T) {
	t.Parallel()
	w := owned(t)
	w.submit("t")
	w.start("t", "a", 1)
	w.start("t", "b", 1)
	w.fail("t", "a", 1, park("used up"))
	require.Equal(t, "a", w.task("t").ParkDue)
	w.fail("t", "b", 1, undo("no such product"))
	got := w.task("t")
	require.Equal(t, events.TaskStateUndoing, got.State)
	require.Empty(t, got.ParkDue)
	require.Empty(t, got.ParkReason)
	require.Equal(t, "no such product", got.Reason)
}

// INV10: a task that is parked because an undo failed stays parked until its operator acts. Neither its deadline nor a cancel
// nor a late failure ends the parking, since none of its steps could make progress.
func TestParkedWhileUndoingStaysParked(t *testing.T) {
	t.Parallel()
	w := owned(t)
	w.write("t", &events.Submitted{Workflow: "w", Version: 1, Hash: "d1", Deadline: w.now.Add(9e9), Content: "c"})
	w.start("t", "a", 1)
	w.complete("t", "a", 1)
	w.write("t", &events.CancelRequested{Request: "q1"})
	w.write("t", &events.CompensationStarted{Step: "a", Agent: "a", Attempt: 1, CompleteBy: w.now.Add(5e9)})
	w.write("t", &events.CompensationFailed{Step: "a", Attempt: 1, Verdict: park("refused"), Error: events.Error{Class: events.ClassPermanent, Message: "no"}})
	require.Equal(t, events.StepStateUndoFailed, w.task("t").Step("a").State)
	w.write("t", &events.TaskParked{Step: "a", Reason: "refused"})
	require.Empty(t, w.task("t").Timers())
	w.write("t", &events.CancelRequested{Request: "q2"})
	w.write("t", &events.DeadlinePassed{Action: events.DeadlineUndo})
	got := w.task("t")
	require.Equal(t, events.TaskStateError, got.State)
	require.Equal(t, events.TaskStateUndoing, got.ParkedFrom)
	require.Equal(t, "refused", got.Reason)
	require.True(t, got.HasRequest("q2"))

	w.write("t", &events.TaskReopened{Request: "q3", Steps: []string{"a"}})
	require.Equal(t, events.TaskStateUndoing, w.task("t").State)
	require.Equal(t, []events.Timer{{Due: w.now, Kind: events.TimerRetry, Path: "a", Operation: events.Undo, Attempt: 2}}, w.task("t").Timers())
	w.write("t", &events.CompensationStarted{Step: "a", Agent: "a", Attempt: 2, CompleteBy: w.now.Add(5e9)})
	w.write("t", &events.Compensated{Step: "a", Attempt: 2})
	w.write("t", &events.TaskUndone{Reason: "cancelled"})
	require.Equal(t, "cancelled", w.task("t").Reason)
}

// The do of a step ends before its undo begins, and a step is undone once.
func TestAnUndoThatDoesNotFitIsRefused(t *testing.T) {
	t.Parallel()
	begin := func(attempt int) events.Body {
		return &events.CompensationStarted{Step: "a", Agent: "a", Attempt: attempt, CompleteBy: testStart}
	}
	w := owned(t)
	w.submit("t")
	w.start("t", "a", 1)
	w.write("t", &events.CancelRequested{Request: "q"})
	w.refused("t", begin(1))

	setup := func(t *testing.T) *scribe {
		w := owned(t)
		w.submit("t")
		w.start("t", "a", 1)
		w.fail("t", "a", 1, undo(""))
		return w
	}
	setup(t).refused("t", begin(2))
	setup(t).refused("t", &events.CompensationStarted{Step: "b", Attempt: 1})
	w = setup(t)
	w.write("t", begin(1))
	w.refused("t", begin(2))
	w = setup(t)
	w.write("t", begin(1))
	w.refused("t", &events.CompensationFailed{Step: "a", Attempt: 0, Verdict: park("")})
	w = setup(t)
	w.write("t", begin(1))
	w.write("t", &events.Compensated{Step: "a", Attempt: 1})
	w.refused("t", begin(2))
	w = setup(t)
	w.write("t", &events.CompensationFailed{Step: "a", Attempt: 0, Verdict: park("no such member"), Error: events.Error{Class: events.ClassExpression, Message: "no such member"}})
	require.Equal(t, events.StepStateUndoFailed, w.task("t").Step("a").State)
	require.Equal(t, "a", w.task("t").ParkDue)
}

// A cool-down of an undo starts its attempts again, as a do's does.
func TestACoolDownRestartsTheTriesOfAnUndo(t *testing.T) {
	t.Parallel()
	w := owned(t)
	w.submit("t")
	w.start("t", "a", 1)
	w.fail("t", "a", 1, undo(""))
	w.write("t", &events.CompensationStarted{Step: "a", Agent: "a", Attempt: 1, CompleteBy: w.now})
	require.Equal(t, 1, w.task("t").Step("a").Undo.Tries)
	w.write("t", &events.CompensationFailed{Step: "a", Attempt: 1, Verdict: events.Verdict{Action: events.ActionCoolDown, At: w.now.Add(9e9)}})
	require.Zero(t, w.task("t").Step("a").Undo.Tries)
	require.Equal(t, 1, w.task("t").Step("a").Undo.FailureCount)
}

// Undo goes through the completed steps in reverse order. The point of no return is a pivot that completed or may have
// completed.
func TestPivotAndOrderOfCompletion(t *testing.T) {
	t.Parallel()
	w := owned(t)
	w.submit("t")
	pivot := &events.StepStarted{Step: "p", Agent: "p", Attempt: 1, CompleteBy: w.now, Pivot: true}
	w.start("t", "a", 1)
	w.start("t", "b", 1)
	require.False(t, w.task("t").Irrevocable())
	w.complete("t", "b", 1)
	w.complete("t", "a", 1)
	require.Equal(t, 1, w.task("t").Step("b").Completion)
	require.Equal(t, 2, w.task("t").Step("a").Completion)
	w.write("t", pivot)
	require.True(t, w.task("t").Irrevocable(), "it may complete at any time")
	refused := failure("p", 1, retryAt(w.now))
	refused.Effect = events.EffectNone
	w.write("t", refused)
	require.False(t, w.task("t").Irrevocable(), "the only attempt had no effect")
	again := *pivot
	again.Attempt = 2
	w.write("t", &again)
	w.write("t", &events.Timeout{Step: "p", Operation: events.Do, Attempt: 2, Verdict: retryAt(w.now)})
	require.True(t, w.task("t").Irrevocable(), "its outcome is unknown")
	again.Attempt = 3
	w.write("t", &again)
	w.complete("t", "p", 3)
	require.True(t, w.task("t").PivotPassed)
}

// A result that arrives while the task is already undoing completes the step, which is then undone.
func TestACompletionWhileUndoing(t *testing.T) {
	t.Parallel()
	w := owned(t)
	w.submit("t")
	w.start("t", "a", 1)
	w.write("t", &events.CancelRequested{Request: "q", Reason: "not wanted"})
	w.complete("t", "a", 1)
	got := w.task("t")
	require.Equal(t, events.TaskStateUndoing, got.State)
	require.Equal(t, "not wanted", got.Reason)
	require.True(t, got.Step("a").Touched)
	require.Equal(t, 1, got.Step("a").Completion)
}

// No undo starts before the last request of a timed-out attempt can no longer land.
func TestTheLatestQuietTimeCounts(t *testing.T) {
	t.Parallel()
	w := owned(t)
	w.submit("t")
	w.start("t", "a", 1)
	quiet := w.now.Add(60e9)
	w.start("t", "b", 1)
	w.write("t", &events.Timeout{Step: "a", Operation: events.Do, Attempt: 1, QuietAt: quiet, Verdict: undo("x")})
	w.write("t", &events.Timeout{Step: "b", Operation: events.Do, Attempt: 1, QuietAt: quiet - 1, Verdict: undo("y")})
	require.Equal(t, "x", w.task("t").Reason, "the first reason to undo is kept")
	require.Equal(t, events.StepStateTimedOut, w.task("t").Step("a").State)
	require.Equal(t, []events.Timer{{Due: quiet, Kind: events.TimerQuiet}}, w.task("t").Timers())
	require.Equal(t, quiet, w.task("t").Due())
}
