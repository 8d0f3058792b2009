package supervisor_test

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sagalog/sagalog/events"
	"github.com/sagalog/sagalog/internal/sim"
	"github.com/sagalog/sagalog/supervisor"
)

// The tests follow the rows of the crash table in ARCHITECTURE.md, in order.

func TestCrashAfterASubmissionIsAcknowledged(t *testing.T) {
	t.Parallel()
	b := newBench(t, oneStep)
	b.submit("t1", "one", "")
	b.submit("t1", "one", "")
	b.candidate("A").own().run()
	require.Equal(t, []string{"Submitted", "StepStarted"}, b.names(), "a repeat is a duplicate")
	s, _, _ := b.read()
	require.EqualValues(t, 2, s.Partition.Inputs[events.Submissions].Next, "and is passed, so a client that waits for its token is answered")
}

func TestCrashBetweenAnInputAndItsAppend(t *testing.T) {
	t.Parallel()
	b := newBench(t, oneStep)
	a := b.candidate("A").own()
	a.hold["Append"] = true
	b.submit("t1", "one", "")
	a.run()
	require.Len(t, held[supervisor.Append](a), 1)
	require.Empty(t, b.names())
	b.candidate("B").own()
	require.Equal(t, []string{"Submitted", "StepStarted"}, b.names(), "the next owner reads it again")
}

// The decisions of a batch may take longer than an answer may take. If that ended the epoch, the next epoch would decide the same
// again, and the partition would stand still.
func TestSlowDecisionsDoNotEndTheEpoch(t *testing.T) {
	t.Parallel()
	b := newBench(t, oneStep)
	a := b.candidate("A").own()
	a.hold["Append"] = true
	b.submit("t1", "one", "")
	a.run()
	require.Len(t, held[supervisor.Append](a), 1)
	a.pass(15 * time.Second) // spent deciding
	a.pass(9 * time.Second)  // without an answer
	a.hold["Append"] = false
	a.run()
	require.Equal(t, []string{"Submitted", "StepStarted"}, b.names())
	require.EqualValues(t, 1, a.o.Status().Epoch.N)
}

func TestCrashAfterAnAppendWithoutAnAnswer(t *testing.T) {
	t.Parallel()
	for _, lands := range []string{"never", "before the next claim", "behind the next claim"} {
		t.Run(lands, func(t *testing.T) {
			t.Parallel()
			b := newBench(t, oneStep)
			a := b.candidate("A").own()
			a.hold["Append"] = true
			b.submit("t1", "one", "")
			a.run()
			first := held[supervisor.Append](a)
			require.NotEmpty(t, first)
			if lands == "before the next claim" {
				b.land(first[0].Records...)
			}
			a.pass(time.Millisecond)
			a.pass(11 * time.Second) // the outcome counts as unknown: the epoch ends
			require.NotEqual(t, first[0].Generation, a.o.Status().Generation)
			a.hold["Append"], a.todo = false, without(a.todo, first[0].Generation)
			a.own()
			if lands == "behind the next claim" {
				b.land(first[0].Records...)
				a.run()
			}
			a.own().run()
			require.Equal(t, 1, count[*events.Submitted](b), "identical facts are not accepted twice (INV7)")
			a.pass(300 * time.Millisecond) // an attempt that is overdue at the take-over times out and is retried
			require.NotEmpty(t, a.work())
			b.done("t1", "only", b.task("t1").Step("only").Attempt)
			a.run()
			require.Equal(t, events.TaskStateProcessed, b.task("t1").State)
		})
	}
}

// without removes the appends of a generation.
func without(list []supervisor.Action, gen uint64) (keep []supervisor.Action) {
	for _, a := range list {
		if x, ok := a.(supervisor.Append); !ok || x.Generation != gen {
			keep = append(keep, a)
		}
	}
	return keep
}

func TestCrashBetweenAppendAndCommit(t *testing.T) {
	t.Parallel()
	b := newBench(t, oneStep)
	a := b.candidate("A").own()
	checkpoint := a.store.Clone()
	b.submit("t1", "one", "")
	a.run()
	a.store = checkpoint
	a.restart()
	a.own()
	require.Equal(t, a.store.Next(), int64(len(b.log)))
	s, _, _ := b.read()
	h, err := s.Hash()
	require.NoError(t, err)
	require.Equal(t, h, a.store.Sum(), "the log is folded again from the checkpoint (INV2)")
}

func TestCrashAfterTheCommitAndBeforeTheEffects(t *testing.T) {
	t.Parallel()
	b := newBench(t, oneStep)
	a := b.candidate("A").own()
	a.hold["Send"] = true
	b.submit("t1", "one", "")
	b.put(events.Submissions, events.Record{Value: []byte("garbage")})
	a.run()
	require.Empty(t, a.sent)
	a.hold["Send"] = false
	a.restart()
	a.own()
	require.Equal(t, []string{"t1.only do#1"}, a.work(), "effects above the watermark are sent again")
	require.Len(t, a.sentTo("dlq.submissions"), 1)
	require.Equal(t, "garbage", string(a.sentTo("dlq.submissions")[0].Value))
}

// Reports that are durable at the take-over are judged before any work is sent again. Otherwise a copy of the request
// could act after the engine had decided that the step had no effect.
func TestWorkIsSentAgainAfterTheReportsAreJudged(t *testing.T) {
	t.Parallel()
	b := newBench(t, strings.Replace(oneStep, "then: park", "then: undo", 1))
	a := b.candidate("A").own()
	a.hold["Send"] = true // the request reaches the broker, but no acknowledgement comes back
	b.submit("t1", "one", "")
	a.run()
	a.hold["Send"] = false
	b.failed("t1", "only", 1, events.ClassPermanent, events.EffectNone)
	a.restart()
	a.own()
	a.pass(100 * time.Millisecond)
	require.Empty(t, a.work(), "the attempt is over, but another copy of the request may still act")
	a.pass(3 * time.Second)
	require.Equal(t, []string{"t1.only undo#1"}, a.work())
	require.Equal(t, events.EffectInDoubt, failure(t, b).Effect, "another copy of the request may still act")
	b.undone("t1", "only", 1)
	a.run()
	require.Equal(t, events.TaskStateUndone, b.task("t1").State)
	require.Zero(t, a.o.Status().Unsent, "no effect is left to send")
}

// Two instances have a copy of the first attempt of an undo. The slower one finds nothing, and is the first to be heard. That uses up no
// attempt: the next one may find nothing, and no operator is needed.
func TestACopyOfAnUndoThatFindsNothingParksNothing(t *testing.T) {
	t.Parallel()
	b := newBench(t, strings.Replace(oneStep, "undo: {retry: {attempts: 2,", "undo: {retry: {attempts: 1,", 1))
	a := b.candidate("A").own()
	b.submit("t1", "one", "")
	a.run()
	b.request(events.RequestCancel, "q", "t1")
	a.run()
	b.done("t1", "only", 1)
	a.run()
	require.Equal(t, []string{"t1.only do#1", "t1.only undo#1"}, a.work())
	c := b.candidate("C").own()
	c.pass(100 * time.Millisecond)
	require.Equal(t, []string{"t1.only undo#1"}, c.work())
	b.report(events.Report{Task: "t1", Step: "only", Operation: events.Undo, Attempt: 1, Result: events.ResultFailed, Effect: events.EffectNone, Error: &events.Error{Class: events.ClassPermanent}})
	c.run()
	require.Equal(t, events.TaskStateUndoing, b.task("t1").State)
	c.pass(2 * time.Second)
	c.pass(2 * time.Second)
	require.Equal(t, []string{"t1.only undo#1", "t1.only undo#2"}, c.work())
	b.report(events.Report{Task: "t1", Step: "only", Operation: events.Undo, Attempt: 2, Result: events.ResultFailed, Error: &events.Error{Class: events.ClassPermanent}})
	c.run()
	require.Equal(t, events.TaskStateError, b.task("t1").State, "the second attempt has one copy only")
}

// An attempt of an earlier owner may have been sent twice, so a report of no effect from one copy proves nothing about
// the other. An attempt started in this epoch was sent only once.
func TestEffectNoneIsBelievedOfWorkSentOnce(t *testing.T) {
	t.Parallel()
	for name, taken := range map[string]bool{"in its epoch": false, "after a take-over": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t, strings.Replace(oneStep, "then: park", "then: undo", 1))
			a := b.candidate("A").own()
			b.submit("t1", "one", "")
			a.run()
			want := events.EffectNone
			if taken {
				a.restart()
				a.own()
				want = events.EffectInDoubt
			}
			b.failed("t1", "only", 1, events.ClassPermanent, events.EffectNone)
			a.run()
			require.Equal(t, want, failure(t, b).Effect)
		})
	}
}

func TestCrashOfAnAgentBeforeItWorks(t *testing.T) {
	t.Parallel()
	b := newBench(t, oneStep)
	a := b.candidate("A").own()
	b.submit("t1", "one", "")
	a.run()
	a.pass(1100 * time.Millisecond)
	a.pass(time.Second)
	require.Equal(t, []string{"Submitted", "StepStarted", "Timeout", "StepStarted"}, b.names())
	require.Equal(t, []string{"t1.only do#1", "t1.only do#2"}, a.work())
}

func TestCrashOfAnAgentAfterItWorked(t *testing.T) {
	t.Parallel()
	b := newBench(t, oneStep)
	a := b.candidate("A").own()
	b.submit("t1", "one", "")
	a.run()
	a.pass(1100 * time.Millisecond)
	a.pass(time.Second)
	var keys []string
	for _, s := range a.sent {
		if s.Kind == events.EffectWork {
			w, _, err := events.DecodeWork(&s.Record)
			require.NoError(t, err)
			keys = append(keys, w.IdempotencyKey)
		}
	}
	require.Len(t, keys, 2)
	require.Equal(t, keys[0], keys[1], "attempt 2 has the same identifier")
}

func TestCrashBeforeAMisplacedInputIsSentHome(t *testing.T) {
	t.Parallel()
	b := newBench(t, oneStep)
	b.partitions = 2
	b.partition = 1 - events.Home("t1", 2)
	a := b.candidate("A").own()
	a.hold["Send"] = true
	b.submit("t1", "one", "")
	a.run()
	require.Equal(t, []string{"InputForwarded"}, b.names())
	next := b.candidate("B").own()
	require.Len(t, next.sentTo("submissions"), 1)
	r := next.sentTo("submissions")[0]
	require.Equal(t, events.Home("t1", 2), r.Partition)
	require.NotEmpty(t, r.Header(events.HeaderForwardedFrom))
	require.Equal(t, b.inputs[events.Submissions][0].Value, r.Value)
}

func TestATimeoutAndTheResultOnItsWay(t *testing.T) {
	t.Parallel()
	for _, before := range []string{"the result is durable before the time", "the result comes after the Timeout"} {
		t.Run(before, func(t *testing.T) {
			t.Parallel()
			b := newBench(t, oneStep)
			a := b.candidate("A").own()
			b.submit("t1", "one", "")
			a.run()
			if before == "the result is durable before the time" {
				a.hold["Input"] = true
				b.done("t1", "only", 1)
				a.pass(1100 * time.Millisecond)
				require.Zero(t, count[*events.Timeout](b), "the report is not judged yet")
				a.hold["Input"] = false
				a.run()
				require.Equal(t, []string{"Submitted", "StepStarted", "StepCompleted", "TaskProcessed"}, b.names())
				return
			}
			a.pass(1100 * time.Millisecond)
			b.done("t1", "only", 1)
			a.run()
			require.Equal(t, []string{"Submitted", "StepStarted", "Timeout"}, b.names(), "the first outcome in the log wins")
		})
	}
}

func TestAnOldOwnerWakesUp(t *testing.T) {
	t.Parallel()
	b := newBench(t, oneStep)
	a := b.candidate("A").own()
	a.hold["Append"], a.hold["LogRecords"] = true, true
	b.submit("t1", "one", "")
	a.run()
	b.candidate("B").own().run() // the group thinks that A is dead
	durable := len(b.log)
	a.hold["Append"] = false
	a.run() // its append lands after B's claim and is acknowledged there
	require.Greater(t, len(b.log), durable)
	_, _, void := b.read()
	require.Positive(t, void)
	require.Equal(t, 1, count[*events.Submitted](b), "every reader ignores A's copy")
	require.Empty(t, a.sent, "none of its effects leave")
	require.False(t, a.o.Status().Owning, "it steps down")
}

func TestTheStoreIsLost(t *testing.T) {
	t.Parallel()
	b := newBench(t, twoSteps)
	a := b.candidate("A").own()
	b.submit("t1", "two", "")
	a.run()
	b.done("t1", "first", 1)
	a.run()
	sum := a.store.Sum()
	replica := sim.NewStore()
	a.o.Revoke(b.now)
	a.drain()
	a.store = replica
	a.restart()
	a.hold["Claim"] = true
	a.o.Assign(b.now)
	a.run()
	a.hold["Claim"] = false
	a.own()
	require.NotEqual(t, sum, a.store.Sum(), "the claim is folded too")
	b.done("t1", "second", 1)
	a.run()
	require.Equal(t, events.TaskStateProcessed, b.task("t1").State)
}

func TestTheLogWasTrimmedPastTheCheckpoint(t *testing.T) {
	t.Parallel()
	b := newBench(t, oneStep)
	a := b.candidate("A").own()
	a.restart()
	a.hold["LogRecords"], a.hold["Load"] = true, true
	a.o.Assign(b.now)
	a.run()
	a.o.Lost(b.now, a.o.Status().Generation, supervisor.EventsTopic, supervisor.Loss{}, supervisor.ErrPosition)
	a.drain()
	require.ErrorIs(t, a.stopped, supervisor.ErrFold, "refused loudly")
	require.ErrorIs(t, a.stopped, supervisor.ErrPosition)
}

func TestAnInputTopicThatLostItsTail(t *testing.T) {
	t.Parallel()
	for name, spoil := range map[string]func(b *bench){
		"filled again": func(b *bench) { b.inputs[events.Submissions][1].Value = []byte(`{"other":1}`) },
		"passed by":    func(b *bench) { b.inputs[events.Submissions][1].Control = true },
		"shorter": func(b *bench) {
			b.inputs[events.Submissions] = b.inputs[events.Submissions][:0]
			b.inputs[events.Submissions] = append(b.inputs[events.Submissions], events.Record{Offset: 7, Value: []byte("{}")})
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t, oneStep)
			b.submit("t1", "one", "")
			b.submit("t2", "one", "")
			a := b.candidate("A").own()
			spoil(b)
			a.restart()
			a.o.Assign(b.now)
			a.run()
			for range 5 {
				a.pass(time.Second)
			}
			if name == "passed by" { // a read that returns no records, at a position after the lost record
				b, a = newBench(t, oneStep), nil
				b.submit("t1", "one", "")
				b.submit("t2", "one", "")
				a = b.candidate("A").own()
				a.restart()
				a.hold["Input"] = true
				a.o.Assign(b.now)
				a.run()
				a.pass(time.Second)
				a.o.Input(b.now, a.o.Status().Generation, events.Submissions, nil, 9)
				a.drain()
			}
			if name != "shorter" {
				require.ErrorIs(t, a.stopped, supervisor.ErrInputLost)
				return
			}
			a.o.Input(b.now, a.o.Status().Generation, events.Submissions, []events.Record{{Offset: 7, Value: []byte("{}")}}, 8)
			a.drain()
			require.ErrorIs(t, a.stopped, supervisor.ErrInputLost)
		})
	}
}

// failure returns the only StepFailed of the log.
func failure(t *testing.T, b *bench) *events.StepFailed {
	t.Helper()
	var found *events.StepFailed
	for i := range b.log {
		f, err := events.DecodeFact(&b.log[i])
		require.NoError(t, err)
		if body, ok := f.Body.(*events.StepFailed); ok {
			require.Nil(t, found)
			found = body
		}
	}
	require.NotNil(t, found)
	return found
}

// After a take-over two instances may have the same attempt. One reports that it has completed; the other may be slow and act after
// the undo, if that does not wait. An agent that got a request twice says so.
func TestAnUndoWaitsForACopyOfACompletedAttempt(t *testing.T) {
	t.Parallel()
	for name, x := range map[string]struct {
		taken  bool
		effect events.Effect
		waits  bool
	}{"sent once": {}, "after a take-over": {taken: true, waits: true}, "its agent got it twice": {effect: events.EffectInDoubt, waits: true}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t, undoable)
			a := b.candidate("A").own()
			b.submit("t1", "w", "")
			a.run()
			if x.taken {
				a.restart()
				a.own()
			}
			quiet := b.task("t1").Step("only").CompleteBy.Add(events.DefaultSettings().Grace.Std())
			b.report(events.Report{Task: "t1", Run: 1, Step: "only", Operation: events.Do, Attempt: 1, Result: events.ResultCompleted, Effect: x.effect})
			a.run()
			b.failed("t1", "next", 1, events.ClassPermanent, events.EffectNone)
			b.request(events.RequestCancel, "q", "t1")
			a.run()
			if x.waits {
				require.Equal(t, quiet, b.task("t1").QuietAt)
				a.pass(quiet.Sub(b.now) - time.Millisecond)
				require.NotContains(t, a.work(), "t1.only undo#1")
				a.pass(time.Millisecond)
			}
			require.Contains(t, a.work(), "t1.only undo#1")
		})
	}
}

// Two instances run the same undo. The one that comes second finds nothing, and its report comes first.
func TestAnUndoThatWasSentTwiceIsTriedAgain(t *testing.T) {
	t.Parallel()
	b := newBench(t, undoable)
	a := b.candidate("A").own()
	b.submit("t1", "w", "")
	a.run()
	b.done("t1", "only", 1)
	a.run()
	b.failed("t1", "next", 1, events.ClassPermanent, events.EffectNone)
	b.request(events.RequestCancel, "q", "t1")
	a.run()
	require.Contains(t, a.work(), "t1.only undo#1")
	a.restart()
	a.own()
	b.report(events.Report{Task: "t1", Run: 1, Step: "only", Operation: events.Undo, Attempt: 1, Result: events.ResultFailed,
		Error: &events.Error{Class: events.ClassPermanent, Code: "http_404", Message: "there is nothing"}})
	a.run()
	a.pass(time.Minute)
	require.Contains(t, a.work(), "t1.only undo#2")
	require.Equal(t, events.TaskStateUndoing, b.task("t1").State)
}
