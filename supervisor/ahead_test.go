package supervisor_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sagalog/sagalog/events"
	"github.com/sagalog/sagalog/supervisor"
)

// The clock of an earlier owner was ahead, and the times of its facts are in the future. The next owner's facts must
// not go back in time, but its timers must still fire.
func TestTimersFireAlthoughTheLogIsAheadOfTheClock(t *testing.T) {
	t.Parallel()
	for _, ahead := range []time.Duration{time.Hour, 10 * 365 * 24 * time.Hour} {
		t.Run(ahead.String(), func(t *testing.T) {
			t.Parallel()
			b := newBench(t, oneStep)
			right := b.now
			b.now = right.Add(ahead)
			a := b.candidate("A").own()
			b.submit("t1", "one", "")
			a.run()
			b.now = right
			next := b.candidate("B").own()
			b.submit("t2", "one", "")
			next.run()
			require.Equal(t, events.StepStateRunning, b.task("t1").Step("only").State)
			for range 10 {
				next.pass(500 * time.Millisecond)
			}
			require.NotZero(t, b.task("t1").FailureCount, "the attempt that the earlier owner started timed out")
			require.NotZero(t, b.task("t2").FailureCount, "so did the one that it started itself")
			require.Less(t, b.task("t2").UpdatedAt, right.Add(ahead+5*time.Second), "time advances at half speed")
			require.NoError(t, next.stopped)
		})
	}
}

// The clock is right again while the log still is days ahead: a task that ended a few minutes ago is not old.
func TestALogThatIsAheadForgetsByTheClock(t *testing.T) {
	t.Parallel()
	b := newBench(t, oneStep)
	a := b.candidate("A").own()
	b.submit("t1", "one", "")
	a.run()
	b.done("t1", "only", 1)
	a.run()
	right := b.now
	b.now = right.Add(8 * 24 * time.Hour)
	b.candidate("C").own().pass(10 * time.Second)
	b.now = right.Add(time.Minute)
	d := b.candidate("D").own()
	for range 150 {
		d.pass(10 * time.Second)
	}
	b.submit("t1", "one", "")
	d.run()
	require.Equal(t, 1, count[*events.Submitted](b))
}

// An owner whose clock was ahead found a retry due, and wrote that it is ready, but started nothing, since its agent was missing. For the
// next owner, whose clock is right, the retry is due later, and must not be forgotten until then.
func TestARetryThatWasReadyTooEarlyStillStarts(t *testing.T) {
	t.Parallel()
	b := newBench(t, `
workflow: slow
defaults: {complete_within: 1h, retry: {attempts: 3, backoff: 10s, then: park}}
steps: {only: {agent: alpha}}
`)
	a := b.candidate("A").own()
	a.o.SetOffers(b.now, offers(8))
	b.submit("t", "slow", "")
	a.run()
	b.failed("t", "only", 1, events.ClassRetryable, events.EffectNone)
	a.run()
	right := b.now
	a.o.SetOffers(b.now, map[string]supervisor.Offer{})
	a.pass(time.Minute) // its clock jumps
	require.Equal(t, 1, b.task("t").Step("only").Attempt)
	b.now = right
	a.restart()
	a.own()
	a.o.SetOffers(b.now, offers(8))
	a.pass(time.Second)
	require.Equal(t, 1, b.task("t").Step("only").Attempt, "it is not due yet")
	for range 10 {
		a.pass(10 * time.Second)
	}
	require.Equal(t, 2, b.task("t").Step("only").Attempt)
}
