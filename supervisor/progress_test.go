package supervisor_test

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sagalog/sagalog/events"
)

// beats has a step that must show progress.
const beats = `
workflow: w
defaults: {complete_within: 100s, retry: {attempts: 2, backoff: 100ms, then: undo}}
steps:
  long: {agent: alpha, heartbeat: 10s, undo: {with: {of: "${ step.progress.n }"}}}
`

// beat reports progress of the step's running attempt, and returns its complete-by time afterwards, from the start of the test.
func (b *bench) beat(a *candidate, attempt int, value string) time.Duration {
	b.report(events.Report{Task: "t1", Run: 1, Step: "long", Operation: events.Do, Attempt: attempt, Result: events.ResultProgress, Progress: json.RawMessage(value)})
	a.run()
	return b.task("t1").Step("long").CompleteBy.Sub(b.task("t1").Step("long").StartedAt)
}

func beating(t *testing.T) (*bench, *candidate) {
	b := newBench(t, beats)
	a := b.candidate("A").own()
	b.submit("t1", "w", "")
	a.run()
	return b, a
}

func stops(a *candidate) (n int) {
	for _, x := range a.sent {
		if x.Kind == events.EffectStop {
			n++
		}
	}
	return n
}

func TestProgressExtendsAnAttemptByTwoHeartbeats(t *testing.T) {
	t.Parallel()
	b, a := beating(t)
	s := b.task("t1").Step("long")
	require.Equal(t, 10*time.Second, s.CompleteBy.Sub(s.StartedAt), "until it shows progress, an attempt has one heartbeat")
	require.Equal(t, 100*time.Second, s.CapBy.Sub(s.StartedAt))
	facts := b.task("t1").Facts
	a.pass(6 * time.Second)
	require.InDelta(t, 26*time.Second, b.beat(a, 1, `{"n":1}`), float64(time.Second))
	a.pass(9 * time.Second)
	require.InDelta(t, 26*time.Second, b.beat(a, 1, `{"n":2}`), float64(time.Second), "the last fact covers it")
	require.Equal(t, 1, count[*events.StepProgressed](b))
	require.JSONEq(t, `{"n":1}`, string(b.task("t1").Step("long").Progress))
	a.pass(2 * time.Second)
	require.InDelta(t, 37*time.Second, b.beat(a, 1, `{"n":3}`), float64(time.Second))
	require.Equal(t, facts, b.task("t1").Facts, "progress does not count")
	for range 20 {
		a.pass(8 * time.Second)
		if b.task("t1").Step("long").Attempt > 1 {
			break
		}
		require.LessOrEqual(t, b.beat(a, 1, `{"n":4}`), 100*time.Second)
	}
	require.Equal(t, 2, b.task("t1").Step("long").Attempt, "the cap ends it, whatever progress it shows")
}

func TestASilentAttemptIsFollowedByOneWithItsProgress(t *testing.T) {
	t.Parallel()
	b, a := beating(t)
	b.beat(a, 1, `{"n":1}`)
	by := b.task("t1").Step("long").CompleteBy
	a.pass(by.Sub(b.now) - time.Millisecond)
	require.Zero(t, count[*events.Timeout](b))
	a.pass(time.Millisecond)
	require.Equal(t, 1, count[*events.Timeout](b))
	require.Contains(t, b.task("t1").Step("long").Error.Message, "its heartbeat was missed")
	require.Contains(t, last[*events.Timeout](b).Verdict.Reason, "its heartbeat was missed")
	require.Equal(t, by.Add(events.DefaultSettings().Grace.Std()), b.task("t1").QuietAt, "the agent has ended it")
	a.pass(time.Second)
	require.Equal(t, 2, last[*events.StepStarted](b).Attempt)
	require.JSONEq(t, `{"n":1}`, string(last[*events.StepStarted](b).Progress))
	before := len(b.names())
	b.beat(a, 1, `{"n":9}`)
	require.Len(t, b.names(), before, "progress of the attempt that is over changes nothing")
}

func TestAnAttemptInDoubtMayActUntilItsCap(t *testing.T) {
	t.Parallel()
	b, a := beating(t)
	b.beat(a, 1, `{"n":1}`)
	b.failed("t1", "long", 1, events.ClassRetryable, events.EffectInDoubt)
	a.run()
	s := b.task("t1").Step("long")
	require.Equal(t, s.CapBy.Add(events.DefaultSettings().Grace.Std()), b.task("t1").QuietAt)
}

func TestProgressOfAnUndoingTaskIsAnsweredByAStop(t *testing.T) {
	t.Parallel()
	b, a := beating(t)
	b.request(events.RequestCancel, "q", "t1")
	a.run()
	before := stops(a)
	require.NotZero(t, before)
	a.pass(time.Second)
	b.beat(a, 1, `{"n":1}`)
	require.Greater(t, stops(a), before)
	b.failed("t1", "long", 1, events.ClassPermanent, events.EffectDoneUnknown)
	a.run()
	require.JSONEq(t, `{"of":1}`, string(last[*events.CompensationStarted](b).Input), "an undo without an output sees the progress")
}

func TestProgressWithoutAHeartbeatOrTooLargeKeepsNoValue(t *testing.T) {
	t.Parallel()
	b, a := beating(t)
	b.beat(a, 1, `"`+strings.Repeat("x", events.MaxProgress)+`"`)
	require.Equal(t, 1, count[*events.StepProgressed](b), "it counts as progress")
	require.Empty(t, b.task("t1").Step("long").Progress)
	plain := newBench(t, undoable)
	p := plain.candidate("A").own()
	plain.submit("t1", "w", "")
	p.run()
	plain.report(events.Report{Task: "t1", Run: 1, Step: "only", Operation: events.Do, Attempt: 1, Result: events.ResultProgress, Progress: json.RawMessage(`1`)})
	p.run()
	require.Zero(t, count[*events.StepProgressed](plain))
}
