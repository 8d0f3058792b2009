package events_test

import (
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sagalog/sagalog/events"
)

// rerunDoubted writes a task whose only step was done, rerun, and undone by its second attempt. ends writes how the first one, which acts for 5 s, ended.
func rerunDoubted(t *testing.T, ends func(w *scribe, quietAt events.Instant)) (w *scribe, quietAt events.Instant) {
	w = owned(t)
	w.submit("t")
	w.write("t", &events.StepStarted{Step: "a", Agent: "a", Attempt: 1, CompleteBy: w.now.Add(5e9), Undoable: true})
	w.complete("t", "a", 1)
	w.write("t", &events.TaskProcessed{})
	w.write("t", &events.TaskRerun{Request: "q", Steps: []string{"a"}})
	w.write("t", &events.CompensationStarted{Step: "a", Agent: "a", Attempt: 1, CompleteBy: w.now.Add(5e9)})
	quietAt = w.now.Add(3600e9)
	ends(w, quietAt)
	return w, quietAt
}

// The next run of a step waits for each attempt to undo it that may still act, whatever came after that, and nothing of a later rerun ends the wait.
func TestARunWaitsForAnUndoInDoubt(t *testing.T) {
	t.Parallel()
	failed := events.Error{Class: events.ClassRetryable, Message: "no"}
	undoAgain := func(w *scribe) {
		w.write("t", &events.CompensationStarted{Step: "a", Agent: "a", Attempt: 2, CompleteBy: w.now.Add(5e9)})
		w.write("t", &events.Compensated{Step: "a", Attempt: 2})
	}
	for name, ends := range map[string]func(w *scribe, quietAt events.Instant){
		"completed": func(w *scribe, quietAt events.Instant) {
			w.write("t", &events.Compensated{Step: "a", Attempt: 1, QuietAt: quietAt})
		},
		"failed": func(w *scribe, quietAt events.Instant) {
			w.write("t", &events.CompensationFailed{Step: "a", Attempt: 1, Error: failed, QuietAt: quietAt, Verdict: retryAt(w.now)})
			undoAgain(w)
		},
		"timed out": func(w *scribe, quietAt events.Instant) {
			w.write("t", &events.Timeout{Step: "a", Operation: events.Undo, Attempt: 1, QuietAt: quietAt, Verdict: retryAt(w.now)})
			undoAgain(w)
		},
		"skipped": func(w *scribe, quietAt events.Instant) {
			w.write("t", &events.CompensationFailed{Step: "a", Attempt: 1, Error: failed, QuietAt: quietAt, Verdict: park("no")})
			w.write("t", &events.TaskParked{Step: "a", Reason: "no"})
			w.write("t", &events.StepSkipped{Step: "a", Why: events.SkipOperator, Left: true, Operator: events.Operator{Request: "s"}})
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w, quietAt := rerunDoubted(t, ends)
			w.write("t", &events.RunBegun{Run: 2})
			w.write("t", &events.TaskPaused{Request: "p"})
			w.write("t", &events.TaskResumed{Request: "g"})
			w.write("t", &events.TaskTerminated{Request: "e"})
			w.write("t", &events.TaskRerun{Request: "r", Steps: []string{"a"}})
			w.write("t", &events.RunBegun{Run: 3})
			task := w.task("t")
			require.Equal(t, quietAt, task.Step("a").NotBefore())
			require.Contains(t, task.Timers(), events.Timer{Due: quietAt, Kind: events.TimerRetry, Path: "a", Operation: events.Do, Attempt: 2})
			require.Equal(t, []events.WaitReason{{Step: "a", Kind: events.WaitingQuiet, Until: quietAt}}, slices.Collect(events.WaitingFor(task, w.now)))
			require.Empty(t, slices.Collect(events.WaitingFor(task, quietAt)))
			require.Equal(t, name == "skipped", slices.Contains(task.NotUndone(), "a"), "what an operator left is left in each run")
			w.write("t", &events.StepStarted{Step: "a", Agent: "a", Attempt: 2, Run: 3, CompleteBy: w.now.Add(5e9), Undoable: true})
			require.Zero(t, w.task("t").Step("a").UndoQuietAt)
		})
	}
}

// A step was undone while the clock was wrong. Its next run waits for the whole time of the attempt, and not for the time that the clock showed,
// whether the task is corrected or has ended and is rerun.
func TestAnUndoInDoubtLastsAsLongWhateverTheClock(t *testing.T) {
	t.Parallel()
	w, quietAt := rerunDoubted(t, func(w *scribe, quietAt events.Instant) {
		w.write("t", &events.Compensated{Step: "a", Attempt: 1, QuietAt: quietAt})
	})
	w.write("t", &events.RunBegun{Run: 2})
	rerun, _ := rerunDoubted(t, func(w *scribe, quietAt events.Instant) {
		w.write("t", &events.Compensated{Step: "a", Attempt: 1, QuietAt: quietAt})
	})
	rerun.write("t", &events.RunBegun{Run: 2})
	rerun.write("t", &events.TaskTerminated{Request: "e"})
	lasts := quietAt.Sub(w.task("t").Step("a").UndoQuietFrom)
	require.Greater(t, lasts, 59*time.Minute)
	w.claim("d1", w.epoch.ID)
	w.now = w.now.Add(-days)
	to := w.now + w.step
	w.write("", &events.TimeCorrected{To: to})
	w.write("t", &events.TimeCorrected{To: to})
	require.Equal(t, to.Add(lasts), w.task("t").Step("a").NotBefore())

	rerun.claim("d1", rerun.epoch.ID)
	rerun.now = rerun.now.Add(-days)
	rerun.write("", &events.TimeCorrected{To: rerun.now + rerun.step})
	rerun.write("", &events.TimeCorrected{To: rerun.now, Settled: true})
	at := rerun.write("t", &events.TaskRerun{Request: "r", Steps: []string{"a"}}).Time
	rerun.write("t", &events.RunBegun{Run: 3})
	require.Equal(t, at.Add(lasts), rerun.task("t").Step("a").NotBefore())
}
