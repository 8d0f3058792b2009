package events_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sagalog/sagalog/events"
)

// INV7: at most one outcome of an attempt is accepted, and only while the attempt is running.
func TestOutcomesAreOfRunningAttempts(t *testing.T) {
	t.Parallel()
	setup := func(t *testing.T) *scribe {
		w := owned(t)
		w.submit("t")
		w.start("t", "a", 1)
		return w
	}
	for name, b := range map[string]events.Body{
		"another attempt":                &events.StepCompleted{Step: "a", Attempt: 2},
		"an attempt before":              &events.StepCompleted{Step: "a", Attempt: 0},
		"a step that was never started":  &events.StepCompleted{Step: "b", Attempt: 1},
		"an undo that was never started": &events.Compensated{Step: "a", Attempt: 1},
		"a negative attempt":             failure("a", -1, park("")),
		"a timeout of an undo":           &events.Timeout{Step: "a", Operation: events.Undo, Attempt: 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			setup(t).refused("t", b)
		})
	}
	w := setup(t)
	w.complete("t", "a", 1)
	w.refused("t", &events.StepCompleted{Step: "a", Attempt: 1})
	w = setup(t)
	w.complete("t", "a", 1)
	w.refused("t", &events.Timeout{Step: "a", Operation: events.Do, Attempt: 1})
}

// A step starts only if nothing is lost by starting it.
func TestAStartThatDoesNotFitIsRefused(t *testing.T) {
	t.Parallel()
	begin := func(step string, attempt int) events.Body {
		return &events.StepStarted{Step: step, Agent: "a", Attempt: attempt, CompleteBy: testStart}
	}
	w := owned(t)
	w.refused("unknown", begin("a", 1))
	w = owned(t)
	w.submit("t")
	w.refused("t", begin("a", 2))
	for name, make := range map[string]func(*scribe){
		"running":   func(*scribe) {},
		"completed": func(w *scribe) { w.complete("t", "a", 1) },
		"failed":    func(w *scribe) { w.fail("t", "a", 1, park("")) },
		"undoing":   func(w *scribe) { w.fail("t", "a", 1, undo("")) },
		"parked":    func(w *scribe) { w.write("t", &events.TaskParked{Reason: "x"}) },
	} {
		w := owned(t)
		w.submit("t")
		w.start("t", "a", 1)
		make(w)
		_, err := w.state.Apply(w.fact("t", begin("a", 2)), w.state.Next)
		require.ErrorIs(t, err, events.ErrImpossible, name)
	}
}

// A step that has an attempt, an outcome or an undo is neither skipped nor failed before its start, because its possible
// effects outside would never be undone.
func TestAStepWithAnAttemptIsNotSkipped(t *testing.T) {
	t.Parallel()
	for name, make := range map[string]func(*scribe){
		"running":   func(*scribe) {},
		"completed": func(w *scribe) { w.complete("t", "a", 1) },
		"failed":    func(w *scribe) { w.fail("t", "a", 1, park("")) },
		"being undone": func(w *scribe) {
			w.fail("t", "a", 1, undo(""))
			w.write("t", &events.CompensationStarted{Step: "a", Agent: "a", Attempt: 1, CompleteBy: w.now})
		},
	} {
		for _, b := range []events.Body{&events.StepSkipped{Step: "a", Why: events.SkipCondition}, failure("a", 0, park(""))} {
			w := owned(t)
			w.submit("t")
			w.start("t", "a", 1)
			make(w)
			_, err := w.state.Apply(w.fact("t", b), w.state.Next)
			require.ErrorIs(t, err, events.ErrImpossible, "%s: %s", name, b.Name())
		}
	}
	w := owned(t)
	w.submit("t")
	w.start("t", "a", 1)
	w.fail("t", "a", 1, retryAt(w.now))
	w.refused("t", &events.StepSkipped{Step: "a", Why: events.SkipCondition})
}

// A failure before any work was sent has changed nothing outside, so nothing is undone because of it.
func TestAFailureBeforeTheStartTouchesNothing(t *testing.T) {
	t.Parallel()
	w := owned(t)
	w.submit("t")
	w.fail("t", "a", 0, park("no such member"))
	s := w.task("t").Step("a")
	require.False(t, s.Touched)
	require.Equal(t, events.StepStateFailed, s.State)
	require.Equal(t, 1, s.FailureCount)
	require.Equal(t, "a", w.task("t").ParkDue)

	w.write("t", &events.TaskParked{Step: "a", Reason: "no such member"})
	w.write("t", &events.TaskReopened{Request: "q", Steps: []string{"a"}})
	require.Equal(t, events.TaskStatePending, w.task("t").State)
	// INV10: it waits for its next attempt and has a timer, although no step of the task ever ran.
	require.Equal(t, w.now, w.task("t").Due())
	w.write("t", &events.StepSkipped{Step: "a", Why: events.SkipCondition})
	require.Equal(t, events.StepStateSkipped, w.task("t").Step("a").State)
}

// INV9: a finished task never changes.
func TestAFinishedTaskNeverChanges(t *testing.T) {
	t.Parallel()
	for _, end := range []events.Body{&events.TaskProcessed{}, &events.TaskUndone{Reason: "r"}} {
		ended := func() *scribe {
			w := owned(t)
			w.submit("t")
			w.write("t", end)
			return w
		}
		require.True(t, ended().task("t").State.Ended())
		require.Empty(t, ended().task("t").Timers())
		for _, b := range []events.Body{
			&events.StepStarted{Step: "a", Attempt: 1}, &events.StepSkipped{Step: "a"}, &events.CancelRequested{Request: "q"},
			&events.DeadlinePassed{}, &events.TaskParked{}, &events.TaskReopened{}, &events.TaskProcessed{}, &events.TaskUndone{},
			failure("a", 0, park("")), &events.EffectFailed{Failed: failure("a", 1, park(""))},
		} {
			ended().refused("t", b)
		}
		// If one of its effects fails, that is only recorded.
		w := ended()
		w.write("t", &events.EffectFailed{Kind: events.EffectAlert, Error: "x"})
		w.refused("t", &events.Submitted{Workflow: "w"})
	}
}

// A task that is parked twice, for example because two of its reports cannot be judged, returns to the state before the first
// parking.
func TestATaskParkedTwiceReturnsToWhereItWas(t *testing.T) {
	t.Parallel()
	w := owned(t)
	w.submit("t")
	w.start("t", "a", 1)
	w.write("t", &events.TaskParked{Reason: "one"})
	w.write("t", &events.TaskParked{Reason: "two"})
	require.Equal(t, "two", w.task("t").Reason)
	w.write("t", &events.TaskReopened{Request: "q"})
	require.Equal(t, events.TaskStateProcessing, w.task("t").State)
	require.Empty(t, w.task("t").ParkedFrom)
}

// An operator who retries a task still sees why it was parked, until there is another reason or it ends well.
func TestAReopenedTaskKeepsItsReason(t *testing.T) {
	t.Parallel()
	w := owned(t)
	w.submit("t")
	w.start("t", "a", 1)
	w.fail("t", "a", 1, park("attempts used up"))
	w.write("t", &events.TaskParked{Step: "a", Reason: "attempts used up"})
	w.write("t", &events.TaskReopened{Request: "q", Steps: []string{"a"}})
	for _, goesOn := range []func(){func() {}, func() { w.start("t", "a", 2) }} {
		goesOn()
		require.Equal(t, "attempts used up", w.task("t").Reason)
		require.NotNil(t, w.task("t").Step("a").Error)
		require.Equal(t, "attempts used up", w.task("t").Step("a").Reason)
	}
	w.complete("t", "a", 2)
	require.Nil(t, w.task("t").Step("a").Error)
	w.write("t", &events.TaskProcessed{})
	require.Empty(t, w.task("t").Reason)
}

// A task that was parked because an undo failed ends with the reason for which it is undone.
func TestATaskParkedInItsUndoKeepsTheFirstReason(t *testing.T) {
	t.Parallel()
	w := owned(t)
	w.submit("t")
	w.start("t", "a", 1)
	w.complete("t", "a", 1)
	w.write("t", &events.CancelRequested{Request: "q1", Reason: "not wanted"})
	w.write("t", &events.CompensationStarted{Step: "a", Agent: "a", Attempt: 1, CompleteBy: w.now.Add(5e9)})
	w.write("t", &events.CompensationFailed{Step: "a", Attempt: 1, Error: events.Error{Class: events.ClassPermanent, Message: "no"}, Verdict: park("it cannot be undone")})
	w.write("t", &events.TaskParked{Step: "a", Reason: "it cannot be undone"})
	w.write("t", &events.TaskParked{Reason: "internal: again"})
	require.Equal(t, "internal: again", w.task("t").Reason)
	w.write("t", &events.TaskReopened{Request: "q2", Steps: []string{"a"}})
	require.Equal(t, "not wanted", w.task("t").Reason)
	require.NotNil(t, w.task("t").Step("a").Undo.Error)
	require.Empty(t, w.task("t").ParkedReason)
}

// The time for which a task is parked does not count towards its deadline, however often it is parked. A deadline that passed in the
// meantime has only raised an alert, so it can pass again.
func TestADeadlineCountsOnAfterAReopening(t *testing.T) {
	t.Parallel()
	w := owned(t)
	w.write("t", &events.Submitted{Workflow: "w", Deadline: w.now.Add(60e9), Content: "c"})
	for i := range 3 {
		due := w.task("t").Deadline
		w.start("t", "a", i+1)
		w.fail("t", "a", i+1, park("x"))
		w.write("t", &events.TaskParked{Step: "a", Reason: "x"})
		parked := w.now
		require.Equal(t, parked, w.task("t").ParkedAt)
		w.now += 3600e3
		if i == 1 {
			w.write("t", &events.DeadlinePassed{Deadline: due, Action: events.DeadlineAlert})
			require.Zero(t, w.task("t").Due(), "a parked task raises one alert")
			w.write("t", &events.TaskParked{Reason: "again"})
		}
		w.write("t", &events.TaskReopened{Request: fmt.Sprint("q", i), Steps: []string{"a"}})
		require.Equal(t, due+w.now-parked, w.task("t").Deadline)
		require.False(t, w.task("t").DeadlinePassed)
		require.Zero(t, w.task("t").ParkedAt)
		w.write("t", &events.TaskReopened{Request: fmt.Sprint("w", i), Steps: []string{"a"}}) // of a waiting step
		require.Equal(t, due+w.now-parked-1e3, w.task("t").Deadline, "it was not parked")
	}
}

// A deadline that came before the task was parked keeps its place: it has been seen, or acts once.
func TestADeadlineThatCameBeforeTheParkingStays(t *testing.T) {
	t.Parallel()
	for _, seen := range []bool{true, false} {
		w := owned(t)
		w.write("t", &events.Submitted{Workflow: "w", Deadline: w.now.Add(1e9), Content: "c"})
		due := w.task("t").Deadline
		w.start("t", "a", 1)
		w.fail("t", "a", 1, park("x"))
		w.now = due - 1e3 // the time of the next fact is a second later
		w.write("t", &events.TaskParked{Step: "a", Reason: "x"})
		if seen {
			w.write("t", &events.DeadlinePassed{Deadline: due, Action: events.DeadlineAlert})
		}
		w.write("t", &events.TaskReopened{Request: "q", Steps: []string{"a"}})
		require.Equal(t, due, w.task("t").Deadline)
		require.Equal(t, seen, w.task("t").DeadlinePassed)
	}
}

// No deadline moves behind the last instant that has a text.
func TestADeadlineMovesNoFurtherThanAnInstantCan(t *testing.T) {
	t.Parallel()
	w := owned(t)
	last, err := events.ParseInstant("9999-12-31T23:59:59.999Z")
	require.NoError(t, err)
	w.write("t", &events.Submitted{Workflow: "w", Deadline: last - 1, Content: "c"})
	w.write("t", &events.TaskParked{Reason: "x"})
	w.now += 3600e3
	w.write("t", &events.TaskReopened{Request: "q"})
	require.Equal(t, last, w.task("t").Deadline)
}

// A cancel or its deadline makes a parked task undo its steps.
func TestParkedTasksCanTurnBack(t *testing.T) {
	t.Parallel()
	for _, b := range []events.Body{&events.CancelRequested{Request: "q"}, &events.DeadlinePassed{Action: events.DeadlineUndo}} {
		w := owned(t)
		w.write("t", &events.Submitted{Workflow: "w", Deadline: w.now.Add(9e9), Content: "c"})
		due := w.task("t").Deadline
		w.start("t", "a", 1)
		w.fail("t", "a", 1, retryAt(w.now.Add(5e9)))
		w.write("t", &events.TaskParked{Reason: "x"})
		require.Equal(t, due, w.task("t").Due())
		w.write("t", b)
		require.Equal(t, events.TaskStateUndoing, w.task("t").State)
		require.Empty(t, w.task("t").ParkedFrom)
		require.Zero(t, w.task("t").ParkedAt)
		require.Equal(t, events.StepStateFailed, w.task("t").Step("a").State, "no do starts any more")
	}
}

// An operator can retry steps that failed or are waiting. A step that is running, done or undone takes a rerun.
func TestOnlyFailedAndWaitingStepsReopen(t *testing.T) {
	t.Parallel()
	reopen := &events.TaskReopened{Request: "q", Steps: []string{"a"}}
	for name, make := range map[string]func(*scribe){
		"running":   func(w *scribe) { w.start("t", "a", 1) },
		"completed": func(w *scribe) { w.start("t", "a", 1); w.complete("t", "a", 1) },
		"skipped":   func(w *scribe) { w.write("t", &events.StepSkipped{Step: "a"}) },
		"unknown":   func(w *scribe) {},
		"undone": func(w *scribe) {
			w.start("t", "a", 1)
			w.fail("t", "a", 1, undo(""))
			w.write("t", &events.CompensationStarted{Step: "a", Attempt: 1})
			w.write("t", &events.Compensated{Step: "a", Attempt: 1})
		},
	} {
		w := owned(t)
		w.submit("t")
		make(w)
		_, err := w.state.Apply(w.fact("t", reopen), w.state.Next)
		require.ErrorIs(t, err, events.ErrImpossible, name)
	}

	w := owned(t)
	w.submit("t")
	w.start("t", "a", 1)
	w.fail("t", "a", 1, events.Verdict{Action: events.ActionCoolDown, At: w.now.Add(1e12)})
	require.Equal(t, 1, w.task("t").Step("a").CoolDowns)
	require.Zero(t, w.task("t").Step("a").Tries)
	w.write("t", reopen) // the operator does not wait
	s := w.task("t").Step("a")
	require.Equal(t, w.now, s.RetryAt)
	require.Zero(t, s.CoolDowns)
	require.Equal(t, 1, s.Attempt, "attempts keep counting up, since each is a separate one in the log")
	w.start("t", "a", 2)
	require.Zero(t, s.RetryAt)
	require.Zero(t, s.EndedAt, "it has not ended again yet")
	require.NotNil(t, s.Error, "the last failure is still there")
	w.complete("t", "a", 2)
	require.Nil(t, s.Error)
	require.Empty(t, s.Reason)
}

// The IDs of judged requests are remembered as long as the task, each once.
func TestRequestsAreRemembered(t *testing.T) {
	t.Parallel()
	w := owned(t)
	w.submit("t")
	w.start("t", "a", 1)
	for i := range 70 {
		w.write("t", &events.TaskReopened{Request: fmt.Sprint("q", i)})
		w.write("t", &events.TaskReopened{Request: fmt.Sprint("q", i)})
	}
	got := w.task("t")
	require.Len(t, got.Requests, 70)
	for i := range 70 {
		require.True(t, got.HasRequest(fmt.Sprint("q", i)))
	}
	require.False(t, got.HasRequest("q70"))
}

// A request that overtakes its task is held by a fact, moves into the task when the task is accepted, and is removed
// when it is judged.
func TestAHeldRequestMovesIntoItsTask(t *testing.T) {
	t.Parallel()
	w := owned(t)
	hold := func(task, request string) {
		// The body need not name the task: the record's key does.
		w.write(task, &events.RequestHeld{Request: events.Request{ID: request, Kind: events.RequestCancel}, ExpiresAt: w.now.Add(9e9)}, fromInput(events.Reports, int64(w.next)))
	}
	hold("t", "q2")
	hold("t", "q1")
	hold("u", "q1")
	hold("u", "q1")
	require.Len(t, w.state.Held(), 3)
	list := w.state.HeldFor("t")
	require.Len(t, list, 2)
	require.Equal(t, "q1", list[0].Request.ID)
	require.Equal(t, "t", list[0].Request.Task)
	require.EqualValues(t, "r/3/1", list[0].Cause)
	require.Equal(t, "00112233445566ff", list[0].CauseHash)
	w.submit("t")
	require.Empty(t, w.state.HeldFor("t"))
	require.Len(t, w.task("t").Held, 2)
	w.write("t", &events.CancelRequested{Request: "q1"})
	require.Equal(t, events.TaskStateUndoing, w.task("t").State)
	require.Len(t, w.task("t").Held, 1)
	w.write("t", &events.CancelRequested{Request: "q2"})
	require.Empty(t, w.task("t").Held)
	w.write("u", &events.InputRejected{Reason: events.RejectExpired, Held: "q1"})
	require.Empty(t, w.state.Held())
}

// A client that asks with the token of a held request finds why it had no effect.
func TestARequestThatExpiresIsRejectedAtItsPlace(t *testing.T) {
	t.Parallel()
	w := owned(t)
	w.write("t", &events.RequestHeld{Request: events.Request{ID: "q", Kind: events.RequestCancel}, ExpiresAt: w.now.Add(9e9)}, fromInput(events.Reports, 4))
	w.write("t", &events.InputRejected{
		Reason: events.RejectExpired, Held: "q", HeldAt: events.CauseInput(events.Reports, testPartition, 4),
	}, cause(events.CauseTimer("t", 1, "", 0, events.TimerExpiry)))
	d, err := w.state.Flush(nil)
	require.NoError(t, err)
	require.Len(t, d.Rejected, 1)
	require.Equal(t, events.Reports, d.Rejected[0].Input)
	require.EqualValues(t, 4, d.Rejected[0].Offset)
	require.Equal(t, w.state.Next-1, d.Rejected[0].Fact)
}

// The resume point of each topic rises separately, with the inputs that were judged in this partition.
func TestTheResumePointsOfTopicsRiseSeparately(t *testing.T) {
	t.Parallel()
	w := owned(t)
	next := func() [2]int64 {
		p := w.state.Partition.Inputs
		return [2]int64{p[events.Submissions].Next, p[events.Reports].Next}
	}
	require.Equal(t, [2]int64{}, next())
	w.submit("t", fromInput(events.Submissions, 4))
	require.Equal(t, [2]int64{5, 0}, next())
	w.write("x", &events.InputRejected{Reason: events.RejectInvalid}, fromInput(events.Reports, 7))
	require.Equal(t, [2]int64{5, 8}, next())
	w.write("", &events.InputsPassed{}, cause(events.CauseInput(events.Submissions, testPartition+1, 99)))
	require.Equal(t, [2]int64{5, 8}, next(), "another partition's input")
	w.write("", &events.InputsPassed{Inputs: map[events.Input]events.Passed{events.Submissions: {Next: 20, Hash: "h"}, events.Reports: {Next: 3}}})
	require.Equal(t, [2]int64{20, 8}, next(), "it never falls")
	require.Equal(t, "h", w.state.Partition.Inputs[events.Submissions].Hash)
	require.Equal(t, "00112233445566ff", w.state.Partition.Inputs[events.Reports].Hash)
	w.write("", &events.DefinitionAdopted{Hash: "d"}, cause(events.CauseDefinition(100)))
	require.Equal(t, [2]int64{20, 8}, next())
	w.write("", &events.InputRejected{Reason: events.RejectTooLarge, Last: 1_000_000}, fromInput(events.Submissions, 20))
	require.Equal(t, [2]int64{1_000_001, 8}, next(), "a whole batch")
	require.Empty(t, w.state.Partition.Inputs[events.Submissions].Hash)
}

// A sweep forgets finished tasks and nothing else.
func TestASweepForgetsFinishedTasksOnly(t *testing.T) {
	t.Parallel()
	w := owned(t)
	w.submit("t")
	w.refused("", &events.TasksSwept{Tasks: []string{"t"}})
	w = owned(t)
	w.refused("", &events.TasksSwept{Tasks: []string{"unknown"}})
	w = owned(t)
	empty := w.hash()
	w.submit("t")
	w.write("t", &events.TaskProcessed{})
	w.write("", &events.TasksSwept{Tasks: []string{"t"}})
	require.Nil(t, w.task("t"))
	require.NotEqual(t, empty, w.hash())
	w.submit("t") // the retention for duplicates has ended
	require.Equal(t, events.TaskStatePending, w.task("t").State)
}

// A StateHash that differs stops the partition, both with a live state and with one that was never flushed.
func TestAnotherStateHashStopsThePartition(t *testing.T) {
	t.Parallel()
	w := owned(t)
	w.submit("t")
	require.Equal(t, 1, w.state.Partition.SinceHash)
	w.write("", &events.StateHash{Hash: w.hash()})
	require.Zero(t, w.state.Partition.SinceHash)
	_, err := w.state.Apply(w.fact("", &events.StateHash{Hash: w.hash().Add(events.Hash{Lo: 1})}), w.state.Next)
	require.ErrorIs(t, err, events.ErrStateHash)
}

// A task counts its running attempts for its agents' windows, and knows when its owner must look at it.
func TestATaskCountsItsRunningAttempts(t *testing.T) {
	t.Parallel()
	w := owned(t)
	w.submit("t")
	w.start("t", "a", 1)
	w.start("t", "b", 1)
	first := w.task("t").Step("a").CompleteBy
	require.Equal(t, first, w.task("t").CompleteBy())
	counts := map[string]int{}
	w.task("t").RunningBy(counts, 1)
	require.Equal(t, map[string]int{"a": 1, "b": 1}, counts)
	w.task("t").RunningBy(counts, -1)
	require.Equal(t, map[string]int{"a": 0, "b": 0}, counts)
	w.fail("t", "a", 1, undo(""))
	w.complete("t", "b", 1)
	w.write("t", &events.CompensationStarted{Step: "b", Agent: "b", Attempt: 1, CompleteBy: first})
	require.Equal(t, first, w.task("t").CompleteBy())
	w.task("t").RunningBy(counts, 1)
	require.Equal(t, 1, counts["b"])
	require.True(t, w.task("t").Running("b", events.Undo, 1))
	require.False(t, w.task("t").Running("b", events.Do, 1))
}

// A verdict may take an attempt off the count. The next attempt still gets the next number.
func TestAnAttemptThatWasNotMadeIsNotCounted(t *testing.T) {
	t.Parallel()
	w := owned(t)
	w.submit("t")
	w.start("t", "a", 1)
	w.fail("t", "a", 1, events.Verdict{Action: events.ActionRetry, At: w.now, Uncounted: true})
	w.start("t", "a", 2)
	require.Equal(t, 1, w.task("t").Step("a").Tries)
	require.Equal(t, 2, w.task("t").Step("a").Attempt)
	w.fail("t", "a", 2, undo(""))
	for n := 1; n <= 2; n++ {
		w.write("t", &events.CompensationStarted{Step: "a", Attempt: n})
		require.Equal(t, 1, w.task("t").Step("a").Undo.Tries)
		w.write("t", &events.CompensationFailed{Step: "a", Attempt: n, Verdict: events.Verdict{Action: events.ActionRetry, At: w.now, Uncounted: true}})
		require.Zero(t, w.task("t").Step("a").Undo.Tries)
	}
}
