package supervisor_test

import (
	"encoding/json"
	"fmt"
	"strings"
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

func watermarkBehind(t *testing.T, b *bench, a *candidate) {
	t.Helper()
	for range 3 {
		a.pass(2 * time.Second)
	}
	s, _, _ := b.read()
	require.False(t, s.Partition.Watermark.IsZero(), "the watermark advances")
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
	require.Equal(t, 3, countOf(kinds(a), events.EffectAlert), "one for each refusal, one for parking")
	watermarkBehind(t, b, a)
	b.request(events.RequestCancel, "q", "t1")
	a.run()
	require.Equal(t, events.TaskStateUndone, b.task("t1").State, "no agent received the request, so there is nothing to undo")
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
	require.Equal(t, 3, refusals, "it is retried for as long as it takes")
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
	require.Equal(t, events.TaskStateError, b.task("t1").State)
	require.NotNil(t, last[*events.EffectFailed](b).CompensationFailed)
}

func TestARefusedWorkRequestOfAnAttemptThatEnded(t *testing.T) {
	t.Parallel()
	b := newBench(t, oneStep)
	a := b.candidate("A").own()
	a.hold["Send"] = true
	b.submit("t1", "one", "")
	a.run()
	b.done("t1", "only", 1) // another copy of the request had reached the agent
	a.run()
	send := held[supervisor.Send](a)[0]
	a.todo = nil
	a.hold["Send"] = false
	a.o.Sent(b.now, send.Generation, send.ID, errDisk)
	a.run()
	require.Nil(t, last[*events.EffectFailed](b).Failed)
	require.Equal(t, events.TaskStateProcessed, b.task("t1").State)
	watermarkBehind(t, b, a)
}

// TestWorkRefusedWhenSentAgainMayHaveHadAnEffect: the previous owner sent the request too, and the agent carried it
// out.
func TestWorkRefusedWhenSentAgainMayHaveHadAnEffect(t *testing.T) {
	t.Parallel()
	b := newBench(t, oneStep)
	a := b.candidate("A").own()
	b.submit("t1", "one", "")
	a.run()
	require.Equal(t, []string{"t1.only do#1"}, a.work())
	c := b.candidate("C")
	c.refuse = func(s supervisor.Send) bool { return s.Kind == events.EffectWork }
	c.own()
	require.Equal(t, events.EffectInDoubt, last[*events.EffectFailed](b).Failed.Effect)
	b.request(events.RequestCancel, "q", "t1")
	c.refuse = nil
	c.run()
	require.Empty(t, c.work(), "the agent may still be at it")
	c.pass(3 * time.Second)
	require.Equal(t, []string{"t1.only undo#1"}, c.work())
}

// Within an epoch a try without an answer may have reached the agent, before the next one was refused.
func TestWorkRefusedAfterAnUnansweredTryIsInDoubt(t *testing.T) {
	t.Parallel()
	b := newBench(t, oneStep)
	a := b.candidate("A").own()
	a.refuse = func(s supervisor.Send) bool { return s.Kind == events.EffectWork }
	a.refuseAs = fmt.Errorf("%w: refused", supervisor.ErrUnanswered)
	b.submit("t1", "one", "")
	a.run()
	f := last[*events.EffectFailed](b).Failed
	require.Equal(t, events.EffectInDoubt, f.Effect)
	require.Greater(t, f.QuietAt, b.now)
}

// A dead letter that no broker takes would hold back its partition.
func TestADeadLetterAlwaysFits(t *testing.T) {
	t.Parallel()
	value, key := strings.Repeat("v", 9<<20), strings.Repeat("k", 8<<20)
	tiny := make([]events.Header, 1<<20)
	for name, c := range map[string]struct {
		input      events.Record
		key, value int
		cut        string
	}{
		"a small one":     {events.Record{Key: []byte("k"), Value: []byte("v")}, 1, 1, ""},
		"a large value":   {events.Record{Key: []byte("k"), Value: []byte(value)}, 1, 64 << 10, "9437184"},
		"a large key":     {events.Record{Key: []byte(key), Value: []byte("v")}, 0, 0, "1"},
		"a header a byte": {events.Record{Key: []byte("k"), Value: []byte("v"), Headers: tiny}, 0, 0, "1"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t, oneStep)
			a := b.candidate("A").own()
			b.put(events.Submissions, c.input)
			a.run()
			sent := a.sentTo("dlq.submissions")
			require.Len(t, sent, 1)
			require.Equal(t, []int{c.key, c.value}, []int{len(sent[0].Key), len(sent[0].Value)})
			require.Equal(t, c.cut, sent[0].Header(events.HeaderCut))
			require.NotEmpty(t, sent[0].Header(supervisor.DeadReason))
			require.Less(t, sent[0].Size()+16*len(sent[0].Headers), 8<<20)
		})
	}
}

// The request of an attempt whose outcome is in doubt may still be under way at its service. An undo that overtook it would undo
// nothing, and the effect would stay.
func TestAnUndoWaitsForAnAttemptInDoubt(t *testing.T) {
	t.Parallel()
	for effect, waits := range map[events.Effect]bool{events.EffectDoneUnknown: false, events.EffectInDoubt: true, "": true, "unheard-of": true} {
		t.Run(string(effect), func(t *testing.T) {
			t.Parallel()
			b := newBench(t, strings.Replace(oneStep, "then: park", "then: undo", 1))
			a := b.candidate("A").own()
			b.submit("t1", "one", "")
			a.run()
			began := b.task("t1").Step("only")
			b.failed("t1", "only", 1, events.ClassPermanent, effect)
			a.run()
			if waits {
				quiet := began.CompleteBy.Add(events.DefaultSettings().Grace.Std())
				require.Equal(t, quiet, last[*events.StepFailed](b).QuietAt)
				a.pass(quiet.Sub(b.now) - time.Millisecond)
				require.NotContains(t, a.work(), "t1.only undo#1")
				a.pass(time.Millisecond)
			}
			require.Contains(t, a.work(), "t1.only undo#1")
		})
	}
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
	watermarkBehind(t, b, a)
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
	watermarkBehind(t, b, a)
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
		at := events.Position{Epoch: s.Partition.Epoch, Sequence: 2}
		after, delayed := s.Partition.Delayed["dlq.submissions"]
		require.True(t, s.Partition.Watermark.Before(at) || delayed && after.Before(at), "the log says that it is owed")
	}
	for range 3 {
		a.pass(5 * time.Second)
	}
	require.Equal(t, 5, tried)
	require.Len(t, a.sentTo("dlq.submissions"), 1)
	require.Zero(t, count[*events.EffectFailed](b))
	watermarkBehind(t, b, a)
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

// If an attempt ends before its request is acknowledged, the request is not sent again. The watermark, below which
// inputs may be deleted, advances all the same.
func TestTheWatermarkPassesEffectsOfEndedAttempts(t *testing.T) {
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
			require.False(t, s.Partition.Watermark.Before(f.Position()))
		}
	}
}

func TestAcknowledgedEffectsAreNotSentAgain(t *testing.T) {
	t.Parallel()
	b := newBench(t, oneStep)
	a := b.candidate("A").own()
	b.submit("t1", "one", "")
	b.put(events.Submissions, events.Record{Value: []byte("garbage")})
	a.run()
	b.done("t1", "only", 1)
	a.run()
	watermarkBehind(t, b, a)
	c := b.candidate("C").own()
	require.Empty(t, c.sent)
}

func TestAnAlertSaysWhatAnOperatorNeeds(t *testing.T) {
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
	dos := map[string]events.Work{}
	for _, s := range a.sent {
		if s.Kind == events.EffectWork {
			w, env, err := events.DecodeWork(&s.Record)
			require.NoError(t, err)
			require.NotEmpty(t, env.ID)
			require.Equal(t, "work."+w.Agent, s.Topic)
			require.NotEmpty(t, w.Ticket)
			require.NotZero(t, w.CompleteBy)
			if last = w; w.Operation == events.Do {
				dos[w.Step] = w
			}
		}
	}
	require.Equal(t, events.Undo, last.Operation)
	require.JSONEq(t, `{"a":1}`, string(last.Input))
	require.JSONEq(t, `{"v":1}`, string(last.Output))
	require.Equal(t, b.task("t1").Incarnation, last.Ticket)
	require.Equal(t, last.Key(uuid.Nil, events.Undo), last.IdempotencyKey)
	require.Equal(t, dos["first"].IdempotencyKey, last.Undoes)
	require.Empty(t, dos["first"].Undoes)
}

// A copy that is forwarded home carries the time of the forward and not a time that a client wrote. If that were an old
// time, the home partition would refuse the copy.
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
