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

// The rows of the crash table (DESIGN 7), in its order.

func TestCrashAfterASubmissionIsAcknowledged(t *testing.T) {
	t.Parallel()
	b := newBench(t, oneStep)
	b.submit("t1", "one", "")
	b.submit("t1", "one", "")
	b.candidate("A").own().run()
	require.Equal(t, []string{"Submitted", "StepStarted"}, b.names(), "a repeat is a duplicate")
	s, _, _ := b.read()
	require.EqualValues(t, 2, s.Partition.Inputs[events.Submissions].Next, "and is passed, so that its token arrives")
}

func TestCrashAfterAnInputIsReadAndBeforeItsAppend(t *testing.T) {
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
			a.pass(11 * time.Second) // the outcome counts as unknown: the epoch ends
			require.NotEqual(t, first[0].Generation, a.o.Generation())
			a.hold["Append"], a.todo = false, without(a.todo, first[0].Generation)
			a.own()
			if lands == "behind the next claim" {
				b.land(first[0].Records...)
				a.run()
			}
			a.own().run()
			require.Equal(t, 1, count[*events.Submitted](b), "identical facts are not accepted twice (INV7)")
			a.pass(300 * time.Millisecond) // an attempt that is overdue at the take-over is over, and made again
			require.NotEmpty(t, a.work())
			b.done("t1", "only", b.task("t1").Step("only").Attempt)
			a.run()
			require.Equal(t, events.Processed, b.task("t1").State)
		})
	}
}

// without leaves out the appends of a generation.
func without(list []supervisor.Action, gen uint64) (keep []supervisor.Action) {
	for _, a := range list {
		if x, ok := a.(supervisor.Append); !ok || x.Generation != gen {
			keep = append(keep, a)
		}
	}
	return keep
}

func TestCrashAfterFactsAreDurableAndBeforeTheCommit(t *testing.T) {
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
	require.Equal(t, h, a.store.Sum(), "folded again from the checkpoint (INV2)")
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
	require.Equal(t, []string{"t1.only do#1"}, a.work(), "effects behind settled are sent again")
	require.Len(t, a.sentTo("dlq.submissions"), 1)
	require.Equal(t, "garbage", string(a.sentTo("dlq.submissions")[0].Value))
}

// A report that is durable at the take-over is judged before any work is sent again: a copy could act after the step was
// judged to have had no effect.
func TestWorkIsSentAgainOnlyAfterTheReportsAreJudged(t *testing.T) {
	t.Parallel()
	b := newBench(t, strings.Replace(oneStep, "then: park", "then: undo", 1))
	a := b.candidate("A").own()
	a.hold["Send"] = true // the work lands, and its answer never comes
	b.submit("t1", "one", "")
	a.run()
	a.hold["Send"] = false
	b.failed("t1", "only", 1, events.ClassPermanent, events.EffectNone)
	a.restart()
	a.own()
	a.pass(100 * time.Millisecond)
	require.Equal(t, []string{"t1.only undo#1"}, a.work(), "the attempt is over")
	require.Equal(t, events.EffectUnknown, failure(t, b).Effect, "another copy of the request may still act")
	b.undone("t1", "only", 1)
	a.run()
	require.Equal(t, events.Undone, b.task("t1").State)
	require.Zero(t, a.o.Status().Unsent, "and nothing is owed for it")
}

// An attempt that an earlier owner sent may have been sent twice: that one copy had no effect proves nothing. One that
// was started in the epoch was sent once.
func TestEffectNoneIsBelievedOnlyOfWhatWasSentOnce(t *testing.T) {
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
				want = events.EffectUnknown
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

func TestCrashAfterAMisplacedInputIsFoundAndBeforeItIsSentHome(t *testing.T) {
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
			require.Equal(t, []string{"Submitted", "StepStarted", "Timeout"}, b.names(), "the first in the log wins")
		})
	}
}

func TestAnOldOwnerWakesUp(t *testing.T) {
	t.Parallel()
	b := newBench(t, oneStep)
	a := b.candidate("A").own()
	a.hold["Append"], a.hold["Tail"] = true, true
	b.submit("t1", "one", "")
	a.run()
	b.candidate("B").own().run() // the group took A for dead
	durable := len(b.log)
	a.hold["Append"] = false
	a.run() // its append lands behind B's claim, and is acknowledged there
	require.Greater(t, len(b.log), durable)
	_, _, void := b.read()
	require.Positive(t, void)
	require.Equal(t, 1, count[*events.Submitted](b), "ignored by every reader")
	require.Empty(t, a.sent, "none of its effects leave")
	require.False(t, a.o.Owning(), "it steps down")
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
	require.Equal(t, events.Processed, b.task("t1").State)
}

func TestTheLogWasTrimmedPastTheCheckpoint(t *testing.T) {
	t.Parallel()
	b := newBench(t, oneStep)
	a := b.candidate("A").own()
	a.restart()
	a.hold["Tail"], a.hold["Load"] = true, true
	a.o.Assign(b.now)
	a.run()
	a.o.TailLost(b.now, a.o.Generation(), supervisor.ErrPosition)
	a.drain()
	require.ErrorIs(t, a.stopped, supervisor.ErrFold, "refused loudly")
	require.ErrorIs(t, a.stopped, supervisor.ErrPosition)
}

func TestAnInputTopicThatLostItsTail(t *testing.T) {
	t.Parallel()
	for name, spoil := range map[string]func(b *bench){
		"filled anew": func(b *bench) { b.inputs[events.Submissions][1].Value = []byte(`{"other":1}`) },
		"passed by":   func(b *bench) { b.inputs[events.Submissions][1].Control = true },
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
			if name == "passed by" { // a reading that gives nothing and is behind the record
				b, a = newBench(t, oneStep), nil
				b.submit("t1", "one", "")
				b.submit("t2", "one", "")
				a = b.candidate("A").own()
				a.restart()
				a.hold["Input"] = true
				a.o.Assign(b.now)
				a.run()
				a.pass(time.Second)
				a.o.Input(b.now, a.o.Generation(), events.Submissions, nil, 9)
				a.drain()
			}
			if name != "shorter" {
				require.ErrorIs(t, a.stopped, supervisor.ErrInputLost)
				return
			}
			a.o.Input(b.now, a.o.Generation(), events.Submissions, []events.Record{{Offset: 7, Value: []byte("{}")}}, 8)
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
