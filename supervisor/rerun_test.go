package supervisor_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sagalog/sagalog/events"
)

// rerun asks for a rerun of t1, and returns why it is refused.
func (b *bench) rerun(a *candidate, from string) string {
	b.decide(a, events.Request{ID: "again-" + from, Kind: events.RequestRerun, From: from})
	if answer, known := b.task("t1").Request("again-" + from); known {
		return answer.Refused
	}
	return last[*events.InputRejected](b).Detail
}

// reportOfRun reports the success of an attempt of t1 in that run.
func (b *bench) reportOfRun(step string, run, attempt int) {
	b.report(events.Report{Task: "t1", Run: run, Step: step, Operation: events.Do, Attempt: attempt, Result: events.ResultCompleted, Output: []byte(`{"v":1}`)})
}

// keys returns the idempotency keys of the work requests of a step's operation, in the order in which they left.
func (c *candidate) keys(step string, op events.Operation) (keys, undoes []string) {
	for _, s := range c.sent {
		if w, _, err := events.DecodeWork(&s.Record); err == nil && w.Step == step && w.Operation == op {
			keys, undoes = append(keys, w.IdempotencyKey), append(undoes, w.Undoes)
		}
	}
	return keys, undoes
}

// A task that ended well runs once more: what it did is undone first, under the keys of the first run, and done again under others.
func TestARerunUndoesAndDoesAgain(t *testing.T) {
	t.Parallel()
	b := newBench(t, twoSteps)
	a := b.candidate("A").own()
	after(submitted("two"), completes("first"), completes("second"))(b, a)
	require.Equal(t, events.TaskStateProcessed, b.task("t1").State)
	require.Empty(t, b.rerun(a, ""))
	require.Equal(t, events.TaskStateUndoing, b.task("t1").State)
	require.Zero(t, b.task("t1").EndedAt)
	b.undone("t1", "second", 1)
	a.run()
	b.undone("t1", "first", 1)
	a.run()
	task := b.task("t1")
	require.Equal(t, 2, task.Run)
	require.Equal(t, events.TaskStateProcessing, task.State)
	require.Equal(t, 2, task.Step("first").Attempt, "attempts count on")
	require.Equal(t, 2, task.Step("first").Run)
	b.reportOfRun("first", 2, 2)
	a.run()
	b.reportOfRun("second", 2, 1)
	a.run()
	require.Equal(t, events.TaskStateProcessing, b.task("t1").State, "a report of the first run counts for nothing")
	b.reportOfRun("second", 2, 2)
	a.run()
	require.Equal(t, events.TaskStateProcessed, b.task("t1").State)
	require.Equal(t, 2, count[*events.TaskProcessed](b))
	dos, _ := a.keys("first", events.Do)
	_, undoes := a.keys("first", events.Undo)
	require.Len(t, dos, 2)
	require.NotEqual(t, dos[0], dos[1], "services see another call")
	require.Equal(t, dos[:1], undoes)
}

// A step that is kept keeps its run, and is undone under the key of the run in which it was done.
func TestAKeptStepKeepsItsRun(t *testing.T) {
	t.Parallel()
	b := newBench(t, twoSteps)
	a := b.candidate("A").own()
	after(submitted("two"), completes("first"), completes("second"))(b, a)
	require.Empty(t, b.rerun(a, "second"))
	b.undone("t1", "second", 1)
	a.run()
	require.Zero(t, b.task("t1").Step("first").Run)
	require.Equal(t, 2, last[*events.StepStarted](b).Run)
	b.decide(a, events.Request{ID: "c", Kind: events.RequestCancel})
	b.reportOfRun("second", 2, 2)
	a.run()
	a.run()
	require.Equal(t, 2, last[*events.CompensationStarted](b).Run)
	require.Equal(t, 2, last[*events.CompensationStarted](b).Attempt, "its undo in the first run had attempt 1")
}

func TestARerunIsRefusedWhileItWouldDoHarm(t *testing.T) {
	t.Parallel()
	for name, x := range map[string]struct {
		reach func(*bench, *candidate)
		why   string
	}{
		"running":     {running, "an attempt to do step"},
		"undoing":     {undoingTask, "an attempt to undo step"},
		"pending":     {unoffered, "the task is pending"},
		"paused":      {after(parkedTask, asks(events.RequestPause)), "the task is paused"},
		"a pivot":     {after(submitted("through"), completes("first"), completes("second")), "step \"first\" is the pivot"},
		"parked":      {parkedTask, ""},
		"processed":   {processed, ""},
		"parked undo": {after(undoingTask, undoFails), ""},
		"terminated":  {after(unoffered, asks(events.RequestTerminate)), ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t, oneStep, throughPivot)
			a := b.candidate("A").own()
			x.reach(b, a)
			why := b.rerun(a, "")
			if x.why == "" {
				require.Empty(t, why)
				require.False(t, b.task("t1").State.Ended())
				require.NotEqual(t, events.TaskStateError, b.task("t1").State)
				return
			}
			require.Contains(t, why, x.why)
		})
	}
}
