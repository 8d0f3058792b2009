package events_test

import (
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sagalog/sagalog/events"
)

func TestATaskSaysWhatItsStateWaitsFor(t *testing.T) {
	t.Parallel()
	const now, later = testStart, testStart + 1000
	unavailable := &events.Error{Class: events.ClassUnavailable}
	for name, c := range map[string]struct {
		task events.Task
		want []events.WaitReason
	}{
		"it has ended": {events.Task{State: events.TaskStateProcessed, NotBefore: later}, nil},
		"a running attempt": {
			events.Task{State: events.TaskStateProcessing, Steps: []*events.Step{{Path: "a", State: events.StepStateRunning}}}, nil,
		},
		"a retry, a cool-down and a failing service": {
			events.Task{State: events.TaskStateProcessing, Steps: []*events.Step{
				{Path: "a", Agent: "x", State: events.StepStateWaiting, Tries: 1, EndedAt: 3, RetryAt: later},
				{Path: "b", Agent: "x", State: events.StepStateWaiting, CoolDowns: 1, EndedAt: 4, RetryAt: later},
				{Path: "c", Agent: "x", State: events.StepStateWaiting, CoolDowns: 1, RetryAt: later, Error: unavailable},
				{Path: "d", Agent: "x", State: events.StepStateWaiting, Tries: 1, RetryAt: now},
			}},
			[]events.WaitReason{
				{Step: "a", Kind: events.WaitingRetry, Call: events.Call{Agent: "x", Operation: events.Do}, Since: 3, Until: later},
				{Step: "b", Kind: events.WaitingCoolDown, Call: events.Call{Agent: "x", Operation: events.Do}, Since: 4, Until: later},
				{Step: "c", Kind: events.WaitingAgent, Call: events.Call{Agent: "x", Operation: events.Do}, Until: later},
			},
		},
		"a signal and a sleep go on while the task is paused, a retry does not": {
			events.Task{State: events.TaskStateProcessing, Paused: &events.Paused{Since: now}, Steps: []*events.Step{
				{Path: "a", State: events.StepStateWaiting, StartedAt: 5, Wait: &events.Wait{Signals: []string{"s"}}},
				{Path: "b", State: events.StepStateWaiting, StartedAt: 6, Wait: &events.Wait{Until: later}},
				{Path: "c", State: events.StepStateWaiting, Tries: 1, RetryAt: later},
			}},
			[]events.WaitReason{
				{Kind: events.WaitingPaused, Since: now},
				{Step: "a", Kind: events.WaitingSignal, Since: 5},
				{Step: "b", Kind: events.WaitingSleep, Since: 6, Until: later},
			},
		},
		"the undo of an item whose failure is tolerated": {
			events.Task{State: events.TaskStateProcessing, QuietAt: later, Steps: []*events.Step{
				{Path: "a[0]", State: events.StepStateFailed, Continued: true, Undoable: true, Touched: true},
				{Path: "a[1]", State: events.StepStateFailed, Continued: true, Undoable: true},
				{Path: "a[2]", State: events.StepStateRunning},
			}},
			[]events.WaitReason{{Step: "a[0]", Kind: events.WaitingQuiet, Until: later}},
		},
		"parked": {events.Task{State: events.TaskStateError, ParkedAt: 7}, []events.WaitReason{{Kind: events.WaitingOperator, Since: 7}}},
		"early": {
			events.Task{State: events.TaskStatePending, SubmittedAt: 8, NotBefore: later}, []events.WaitReason{{Kind: events.WaitingNotBefore, Since: 8, Until: later}},
		},
		"a permit": {
			events.Task{State: events.TaskStatePending, Permit: &events.TaskPermit{State: events.PermitStateAsked, At: 9}},
			[]events.WaitReason{{Kind: events.WaitingConcurrency, Since: 9}},
		},
		"a request in doubt, and the retry of an undo": {
			events.Task{State: events.TaskStateUndoing, QuietAt: later, Steps: []*events.Step{
				{Path: "a", State: events.StepStateUndoing, Undo: &events.UndoState{State: events.StepStateWaiting, Agent: "y", EndedAt: 5, RetryAt: later}},
			}},
			[]events.WaitReason{
				{Kind: events.WaitingQuiet, Until: later},
				{Step: "a", Kind: events.WaitingRetry, Call: events.Call{Agent: "y", Operation: events.Undo}, Since: 5, Until: later},
			},
		},
		"an attempt that runs ends before the quiet time counts": {
			events.Task{State: events.TaskStateUndoing, QuietAt: later, Steps: []*events.Step{{Path: "a", State: events.StepStateRunning}}}, nil,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := slices.Collect(events.WaitingFor(&c.task, now))
			require.Equal(t, c.want, got)
			sum := 0
			for _, n := range events.CountWaits(&c.task, now) {
				sum += n.N
			}
			require.Len(t, got, sum)
			for range events.WaitingFor(&c.task, now) {
				break // whoever has seen enough may leave
			}
		})
	}
}

func TestWaitsAreCountedByKind(t *testing.T) {
	t.Parallel()
	task := events.Task{State: events.TaskStateProcessing}
	for _, w := range []*events.Wait{{Signals: []string{"s"}}, {Until: 1}, {Signals: []string{"r"}}} {
		task.Steps = append(task.Steps, &events.Step{State: events.StepStateWaiting, Wait: w})
	}
	require.Equal(t, []events.WaitCount{{Kind: events.WaitingSignal, N: 2}, {Kind: events.WaitingSleep, N: 1}}, events.CountWaits(&task, testStart))
}

func TestAQueuedStepWaitsForWhatItsAgentLacks(t *testing.T) {
	t.Parallel()
	agents := events.Availability{
		Offered: func(c events.Call) bool { return c.Agent != "gone" && c.Operation == events.Do && c.Function != "none" },
		Paused:  func(agent string) bool { return agent == "held" },
		Missing: []events.Missing{{Agent: "slow", Operation: events.Do, Since: 5, Behind: true}, {Agent: "gone", Operation: events.Do, Since: 6}},
	}
	for _, c := range []struct {
		call  events.Call
		want  events.Waiting
		since events.Instant
	}{
		{events.Call{Agent: "busy", Operation: events.Do}, events.WaitingCapacity, 0},
		{events.Call{Agent: "busy", Function: "none", Operation: events.Do}, events.WaitingAgent, 0},
		{events.Call{Agent: "busy", Operation: events.Undo}, events.WaitingAgent, 0},
		{events.Call{Agent: "gone", Operation: events.Do}, events.WaitingAgent, 6},
		{events.Call{Agent: "slow", Operation: events.Do}, events.WaitingAgent, 5},
		{events.Call{Agent: "held", Operation: events.Do}, events.WaitingPaused, 0},
	} {
		kind, missing := agents.QueuedFor(c.call)
		require.Equal(t, c.want, kind, c.call)
		require.Equal(t, c.since, missing.Since)
	}
}

func BenchmarkCountWaits(b *testing.B) {
	task := events.Task{State: events.TaskStateProcessing}
	for range 3 {
		task.Steps = append(task.Steps, &events.Step{State: events.StepStateCompleted})
	}
	task.Steps = append(task.Steps, &events.Step{State: events.StepStateRunning})
	b.ReportAllocs()
	for b.Loop() {
		if n := events.CountWaits(&task, testStart); n != nil {
			b.Fatal(n)
		}
	}
}

func TestAnAttemptWithoutAKeyWaitsForTheKey(t *testing.T) {
	t.Parallel()
	const now, later = events.Instant(1_000_000), events.Instant(2_000_000)
	refused := &events.Error{Class: events.ClassUnavailable, Code: events.CodeNoKey}
	task := events.Task{State: events.TaskStateProcessing, Steps: []*events.Step{
		{Path: "a", Agent: "x", State: events.StepStateWaiting, Error: refused, EndedAt: 5, RetryAt: later},
		{Path: "b", Agent: "x", State: events.StepStateWaiting, Error: &events.Error{Class: events.ClassUnavailable, Code: "breaker_open"}, EndedAt: 5, RetryAt: later},
	}}
	require.Equal(t, []events.WaitCount{{Kind: events.WaitingKey, N: 1}, {Kind: events.WaitingAgent, N: 1}}, events.CountWaits(&task, now))
	k := events.Keys{State: task.State, Waits: events.CountWaits(&task, now)}
	require.False(t, events.HeldForKey(&task, &k), "its agent lacks the key, and not its owner")
	k.Waits = append(k.Waits, events.WaitCount{Kind: events.WaitingKey, N: 1})
	require.True(t, events.HeldForKey(&task, &k))
	require.False(t, (*events.Error)(nil).LacksKey())
}

// A task waits for its owner if nobody has planned it, or if what was due has been due for too long. A busy owner that is a moment late changes nothing.
func TestATaskWaitsForAnOwnerThatIsLate(t *testing.T) {
	t.Parallel()
	const due = events.Instant(1_000_000)
	for _, c := range []struct {
		keys  events.Keys
		after time.Duration
		since events.Instant
		waits bool
	}{
		{events.Keys{Due: due}, events.LateAfter, 0, false},
		{events.Keys{Due: due}, events.LateAfter + time.Millisecond, due, true},
		{events.Keys{Wake: due, Due: due + 1}, time.Hour, due, true},
		{events.Keys{Due: due, Unplanned: true}, 0, 0, true},
		{events.Keys{}, time.Hour, 0, false},
		{events.Keys{State: events.TaskStateProcessed, Due: due, Unplanned: true}, time.Hour, 0, false},
	} {
		since, waits := events.WaitsForOwner(&c.keys, due.Add(c.after))
		require.Equal(t, c.waits, waits, "%+v", c)
		require.Equal(t, c.since, since, "%+v", c)
	}
}
