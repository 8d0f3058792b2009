package events_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sagalog/sagalog/events"
)

var goOn = events.Verdict{Action: events.ActionContinue, Reason: "its time was over"}

// lapse is the fact that the time to do a step is over while no attempt of it runs.
func lapse(step string, v events.Verdict) *events.Timeout {
	return &events.Timeout{Step: step, Operation: events.Do, Verdict: v}
}

// continued returns a partition with the task t, which goes on without the steps a, whose only attempt is in doubt, and b, which never started.
func continued(t *testing.T) *scribe {
	w := owned(t)
	w.submit("t")
	w.start("t", "a", 1)
	w.fail("t", "a", 1, retryAt(w.now.Add(5e9)))
	w.write("t", lapse("a", goOn))
	w.write("t", lapse("b", goOn))
	return w
}

func TestATaskContinuesWithoutAStepWhoseTimeIsOver(t *testing.T) {
	t.Parallel()
	w := continued(t)
	for _, path := range []string{"a", "b"} {
		s := w.task("t").Step(path)
		require.Equal(t, events.StepStateTimedOut, s.State)
		require.True(t, s.Over())
		require.False(t, s.Failed())
		require.Empty(t, s.Output)
		require.Zero(t, s.RetryAt)
		require.Equal(t, events.ClassTimeout, s.Error.Class)
	}
	require.True(t, w.task("t").Step("a").Touched, "its first attempt may have had an effect")
	require.False(t, w.task("t").Step("b").Touched)
	require.Empty(t, w.task("t").Timers())

	w.write("t", &events.CancelRequested{Request: "q"})
	w.write("t", &events.CompensationStarted{Step: "a", Attempt: 1, CompleteBy: w.now.Add(5e9)})
	w.write("t", &events.Compensated{Step: "a", Attempt: 1})
	require.False(t, w.task("t").Step("a").Over())
}

func TestNothingStartsAContinuedStepAgain(t *testing.T) {
	t.Parallel()
	for _, b := range []events.Body{
		lapse("a", goOn),
		&events.StepStarted{Step: "a", Attempt: 2},
		&events.TaskReopened{Request: "q", Steps: []string{"a"}},
		&events.StepSkipped{Step: "a", Why: events.SkipOperator, Operator: events.Operator{Request: "q"}},
		&events.StepCompleted{Step: "a", Attempt: 1, Operator: events.Operator{Request: "q"}},
	} {
		continued(t).refused("t", b)
	}
}

func TestTheTimeOfAStepIsOverOnlyWhereItMayStart(t *testing.T) {
	t.Parallel()
	for name, prepare := range map[string]func(*scribe){
		"running":   func(w *scribe) { w.start("t", "a", 1) },
		"completed": func(w *scribe) { w.start("t", "a", 1); w.complete("t", "a", 1) },
		"paused":    func(w *scribe) { w.write("t", &events.TaskPaused{Request: "p"}) },
		"parked":    func(w *scribe) { w.write("t", &events.TaskParked{Reason: "r"}) },
		"undoing":   func(w *scribe) { w.write("t", &events.CancelRequested{Request: "c"}) },
		"continued": func(w *scribe) { w.write("t", lapse("a", goOn)) },
	} {
		w := owned(t)
		w.submit("t")
		prepare(w)
		_, err := w.state.Apply(w.fact("t", lapse("a", goOn)), w.state.Next)
		require.ErrorIs(t, err, events.ErrImpossible, name)
	}
}

func TestAParkedTaskGoesOnThoughAnotherStepContinued(t *testing.T) {
	t.Parallel()
	w := owned(t)
	w.submit("t")
	w.write("t", lapse("a", goOn))
	w.start("t", "b", 1)
	w.fail("t", "b", 1, park("refused"))
	w.write("t", &events.TaskParked{Step: "b", Reason: "refused"})
	w.write("t", &events.StepCompleted{Step: "b", Attempt: 1, Operator: events.Operator{Request: "q"}})
	require.Equal(t, events.TaskStateProcessing, w.task("t").State)
}

func TestTheTimeOfAnUndoIsOver(t *testing.T) {
	t.Parallel()
	w := owned(t)
	w.submit("t")
	w.start("t", "a", 1)
	w.complete("t", "a", 1)
	w.write("t", &events.CancelRequested{Request: "q"})
	w.write("t", &events.Timeout{Step: "a", Operation: events.Undo, Verdict: park("late")})
	require.Equal(t, events.StepStateUndoFailed, w.task("t").Step("a").State)
	require.Equal(t, "a", w.task("t").ParkDue)
}
