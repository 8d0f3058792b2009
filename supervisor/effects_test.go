package supervisor_test

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/sagalog/sagalog/events"
	"github.com/sagalog/sagalog/supervisor"
)

func kinds(a *candidate) (list []string) {
	for _, s := range a.sent {
		list = append(list, s.Kind)
	}
	return list
}

func settledBehind(t *testing.T, b *bench, a *candidate) {
	t.Helper()
	for range 3 {
		a.pass(2 * time.Second)
	}
	s, _, _ := b.read()
	require.False(t, s.Partition.Settled.IsZero(), "the settled position moves on")
}

func TestARefusedWorkRequestIsAFailedAttempt(t *testing.T) {
	t.Parallel()
	b := newBench(t, oneStep)
	a := b.candidate("A").own()
	a.refuse = func(s supervisor.Send) bool { return s.Kind == events.EffectWork }
	b.submit("t1", "one", "")
	a.run()
	for range 5 {
		a.pass(500 * time.Millisecond)
	}
	require.Equal(t, []string{"Submitted", "StepStarted", "EffectFailed", "StepStarted", "EffectFailed", "TaskParked"}, b.names())
	f := last[*events.EffectFailed](b)
	require.Equal(t, events.ClassDispatch, f.Failed.Error.Class)
	require.Equal(t, events.EffectNone, f.Failed.Effect)
	require.Equal(t, 3, countOf(kinds(a), events.EffectAlert), "two refusals and the parking")
	settledBehind(t, b, a)
	b.request(events.RequestCancel, "q", "t1")
	a.run()
	require.Equal(t, events.Undone, b.task("t1").State, "no agent saw it: there is nothing to undo")
}

func TestARefusedDeadLetterRaisesOneAlert(t *testing.T) {
	t.Parallel()
	b := newBench(t, oneStep)
	a := b.candidate("A").own()
	refusals := 0
	a.refuse = func(s supervisor.Send) bool {
		if s.Kind == events.EffectDeadLetter {
			refusals++
		}
		return s.Kind == events.EffectDeadLetter
	}
	b.put(events.Submissions, events.Record{Value: []byte("garbage")})
	a.run()
	a.pass(6 * time.Second)
	a.pass(6 * time.Second)
	require.Equal(t, 3, refusals, "it is tried again for as long as it takes")
	require.Equal(t, 1, countOf(kinds(a), events.EffectAlert))
}

func TestARefusedUndoRequestIsAFailedUndo(t *testing.T) {
	t.Parallel()
	b := newBench(t, oneStep)
	a := b.candidate("A").own()
	b.submit("t1", "one", "")
	a.run()
	a.refuse = func(s supervisor.Send) bool { return s.Kind == events.EffectWork }
	b.request(events.RequestCancel, "q", "t1")
	b.done("t1", "only", 1)
	a.run()
	for range 5 {
		a.pass(500 * time.Millisecond)
	}
	require.Equal(t, events.Parked, b.task("t1").State)
	require.NotNil(t, last[*events.EffectFailed](b).UndoFailed)
}

func TestARefusedWorkRequestOfAnAttemptThatEnded(t *testing.T) {
	t.Parallel()
	b := newBench(t, oneStep)
	a := b.candidate("A").own()
	a.hold["Send"] = true
	b.submit("t1", "one", "")
	a.run()
	b.done("t1", "only", 1) // another copy of the request had arrived
	a.run()
	send := held[supervisor.Send](a)[0]
	a.todo = nil
	a.hold["Send"] = false
	a.o.Sent(b.now, send.Generation, send.ID, errDisk)
	a.run()
	require.Nil(t, last[*events.EffectFailed](b).Failed)
	require.Equal(t, events.Processed, b.task("t1").State)
	settledBehind(t, b, a)
}

// TestAWorkRequestThatIsRefusedWhenSentAgainMayHaveHadAnEffect: the owner before had sent it, and the agent did it.
func TestAWorkRequestThatIsRefusedWhenSentAgainMayHaveHadAnEffect(t *testing.T) {
	t.Parallel()
	b := newBench(t, oneStep)
	a := b.candidate("A").own()
	b.submit("t1", "one", "")
	a.run()
	require.Equal(t, []string{"t1.only do#1"}, a.work())
	c := b.candidate("C")
	c.refuse = func(s supervisor.Send) bool { return s.Kind == events.EffectWork }
	c.own()
	require.Equal(t, events.EffectUnknown, last[*events.EffectFailed](b).Failed.Effect)
	b.request(events.RequestCancel, "q", "t1")
	c.refuse = nil
	c.run()
	require.Equal(t, []string{"t1.only undo#1"}, c.work())
}

func TestARefusedForwardBecomesADeadLetter(t *testing.T) {
	t.Parallel()
	b := newBench(t, oneStep)
	b.partitions, b.partition = 2, 1-events.Home("t1", 2)
	a := b.candidate("A").own()
	a.refuse = func(s supervisor.Send) bool { return s.Kind == events.EffectForward }
	b.submit("t1", "one", "")
	a.run()
	require.Equal(t, []string{"InputForwarded", "EffectFailed"}, b.names())
	dead := a.sentTo("dlq.submissions")
	require.Len(t, dead, 1)
	require.Equal(t, b.inputs[events.Submissions][0].Value, dead[0].Value)
	require.Equal(t, 1, countOf(kinds(a), events.EffectAlert))
	settledBehind(t, b, a)
}

func TestARefusedAlertIsWrittenDownAndRaisesNone(t *testing.T) {
	t.Parallel()
	b := newBench(t, oneStep)
	a := b.candidate("A").own()
	a.refuse = func(s supervisor.Send) bool { return s.Kind == events.EffectAlert }
	b.submit("t1", "one", "")
	a.run()
	b.failed("t1", "only", 1, events.ClassPermanent, events.EffectNone)
	a.run()
	require.Equal(t, []string{"Submitted", "StepStarted", "StepFailed", "TaskParked", "EffectFailed", "EffectFailed"}, b.names())
	require.Equal(t, events.EffectAlert, last[*events.EffectFailed](b).Kind)
	settledBehind(t, b, a)
}

func TestADeadLetterIsNeverGivenUp(t *testing.T) {
	t.Parallel()
	b := newBench(t, oneStep)
	a := b.candidate("A").own()
	tried := 0
	a.refuse = func(s supervisor.Send) bool {
		if s.Kind == events.EffectDeadLetter {
			tried++
			return tried < 5
		}
		return false
	}
	b.put(events.Submissions, events.Record{Value: []byte("garbage")})
	b.submit("t1", "one", "")
	a.run()
	require.Equal(t, 1, tried)
	for range 3 {
		a.pass(5 * time.Second)
		s, _, _ := b.read()
		require.True(t, s.Partition.Settled.Before(events.Position{Epoch: s.Partition.Epoch, Sequence: 2}), "settled waits")
	}
	for range 3 {
		a.pass(5 * time.Second)
	}
	require.Equal(t, 5, tried)
	require.Len(t, a.sentTo("dlq.submissions"), 1)
	require.Zero(t, count[*events.EffectFailed](b))
	settledBehind(t, b, a)
}

func TestAnAttemptThatEndedIsNotSentAgain(t *testing.T) {
	t.Parallel()
	b := newBench(t, oneStep)
	a := b.candidate("A").own()
	a.hold["Send"] = true
	b.submit("t1", "one", "")
	b.submit("t2", "one", "")
	a.run()
	b.done("t1", "only", 1)
	a.run()
	c := b.candidate("C").own()
	require.Equal(t, []string{"t2.only do#1"}, c.work())
}

// TestWhatNobodyOwesIsSaidToBeSettled: an attempt that ended before its request was settled is not sent again, and the
// settled position, behind which inputs are trimmed, moves on all the same.
func TestWhatNobodyOwesIsSaidToBeSettled(t *testing.T) {
	t.Parallel()
	b := newBench(t, oneStep)
	a := b.candidate("A").own()
	a.hold["Send"] = true
	b.submit("t1", "one", "")
	a.run()
	b.done("t1", "only", 1)
	a.run()
	c := b.candidate("C").own()
	for range 3 {
		c.pass(2 * time.Second)
	}
	require.Empty(t, c.sent)
	s, accepted, _ := b.read()
	for _, f := range accepted {
		if _, ok := f.Body.(*events.StepStarted); ok {
			require.False(t, s.Partition.Settled.Before(f.Position()))
		}
	}
}

func TestEffectsThatWereSettledAreNotSentAgain(t *testing.T) {
	t.Parallel()
	b := newBench(t, oneStep)
	a := b.candidate("A").own()
	b.submit("t1", "one", "")
	b.put(events.Submissions, events.Record{Value: []byte("garbage")})
	a.run()
	b.done("t1", "only", 1)
	a.run()
	settledBehind(t, b, a)
	c := b.candidate("C").own()
	require.Empty(t, c.sent)
}

func TestAnAlertSaysWhatAnOperatorMustSee(t *testing.T) {
	t.Parallel()
	b := newBench(t, oneStep)
	a := b.candidate("A").own()
	b.submit("t1", "one", "")
	a.run()
	b.failed("t1", "only", 1, events.ClassPermanent, events.EffectNone)
	a.run()
	list := a.sentTo("alerts")
	require.Len(t, list, 2)
	var alerts [2]supervisor.Alert
	for i := range list {
		require.NoError(t, json.Unmarshal(list[i].Value, &alerts[i]))
		require.Equal(t, "t1", alerts[i].Task)
		require.Equal(t, "one", alerts[i].Workflow)
		require.NotEmpty(t, alerts[i].Reason)
	}
	require.Equal(t, supervisor.AlertPermanent, alerts[0].Kind)
	require.Equal(t, supervisor.AlertParked, alerts[1].Kind)
}

func TestAWorkRequestCarriesWhatAnAgentNeeds(t *testing.T) {
	t.Parallel()
	b := newBench(t, twoSteps)
	a := b.candidate("A").own()
	b.submit("t1", "two", `,"input":{"a":1}`)
	a.run()
	b.done("t1", "first", 1)
	a.run()
	b.failed("t1", "second", 1, events.ClassPermanent, events.EffectNone)
	a.run()
	var last events.Work
	for _, s := range a.sent {
		if s.Kind == events.EffectWork {
			w, env, err := events.DecodeWork(&s.Record)
			require.NoError(t, err)
			require.NotEmpty(t, env.ID)
			require.Equal(t, "work."+w.Agent, s.Topic)
			require.NotEmpty(t, w.Ticket)
			require.NotZero(t, w.CompleteBy)
			last = w
		}
	}
	require.Equal(t, events.Undo, last.Operation)
	require.JSONEq(t, `{"a":1}`, string(last.Input))
	require.JSONEq(t, `{"v":1}`, string(last.Output))
	require.Equal(t, events.IdempotencyKey(uuid.Nil, "t1", 1, "first", events.Undo), last.IdempotencyKey)
}

// A copy that is sent home says when it was sent, and not what a client had written there: an old time would have it
// refused at home.
func TestAForwardReplacesTheMarksOfOthers(t *testing.T) {
	t.Parallel()
	b := newBench(t, oneStep)
	b.partitions, b.partition = 2, 1-events.Home("t1", 2)
	a := b.candidate("A").own()
	old := start.Add(-8 * 24 * time.Hour).String()
	b.put(events.Submissions, events.Record{
		Value: []byte(`{"id":"t1","workflow":"one"}`), Headers: []events.Header{{Key: events.HeaderForwardedAt, Value: []byte(old)}},
	})
	a.run()
	sent := a.sentTo("submissions")
	require.Len(t, sent, 1)
	var marks []string
	for _, h := range sent[0].Headers {
		if h.Key == events.HeaderForwardedAt {
			marks = append(marks, string(h.Value))
		}
	}
	require.Len(t, marks, 1)
	require.NotEqual(t, old, marks[0])
}
