package supervisor_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sagalog/sagalog/events"
	"github.com/sagalog/sagalog/supervisor"
)

// The more attempts run in a partition, the longer its owner waits to collect inputs before it decides.
func TestTheLingerGrowsWithRunningAttempts(t *testing.T) {
	t.Parallel()
	b := newBench(t, oneStep)
	a := b.candidate("A").own()
	submitted := 0
	for _, c := range []struct {
		running int
		want    time.Duration
	}{{0, 0}, {1, 0}, {3, 0}, {4, time.Millisecond}, {7, time.Millisecond}, {8, 2 * time.Millisecond}, {24, 4 * time.Millisecond}, {63, 4 * time.Millisecond}, {64, 8 * time.Millisecond}} {
		for ; submitted < c.running; submitted++ {
			b.submit(fmt.Sprintf("t-%d", submitted), "one", "")
		}
		a.run()
		require.Equal(t, c.want, a.o.Lingers(), "%d running", c.running)
	}
}

// While the shell still has decided actions to carry out, the owner decides nothing, so everything that arrives
// meanwhile shares one append.
func TestInputsDuringALingerShareAnAppend(t *testing.T) {
	t.Parallel()
	b := newBench(t, oneStep)
	a := b.candidate("A").own()
	for i := range 5 {
		b.submit(fmt.Sprintf("t-%d", i), "one", "")
	}
	a.run()
	for i := range 5 {
		b.done(fmt.Sprintf("t-%d", i), "only", 1)
		require.True(t, a.deliver())
		for _, said := range a.o.TakeActions() {
			_, decided := said.(supervisor.Append)
			require.False(t, decided)
			a.do(said)
		}
	}
	var appends []supervisor.Append
	a.o.Decide()
	for _, said := range a.o.TakeActions() {
		if x, ok := said.(supervisor.Append); ok {
			appends = append(appends, x)
		}
		a.do(said)
	}
	require.Len(t, appends, 1)
	a.run()
	for i := range 5 {
		require.Equal(t, events.TaskStateProcessed, b.task(fmt.Sprintf("t-%d", i)).State)
	}
	require.GreaterOrEqual(t, len(appends[0].Records), 5)
}

// While attempts end, a batch takes only some of the waiting submissions, but always at least a few. The more attempts
// end, the more it takes. Once no more attempts end, it takes as many as it can.
func TestSubmissionsLeaveRoomForWork(t *testing.T) {
	t.Parallel()
	b := newBench(t, oneStep)
	a := b.candidate("A", func(c *candidate) { c.cfg.Beside = 64 }).own()
	for i := range 64 {
		b.submit(fmt.Sprintf("t-%d", i), "one", "")
	}
	a.run()
	require.Equal(t, 8*time.Millisecond, a.o.Lingers())
	for i := range 600 {
		b.submit(fmt.Sprintf("later-%d", i), "one", "")
	}
	accepted := func() int {
		for a.deliver() {
		}
		a.drain()
		before := count[*events.Submitted](b)
		for a.next() {
		}
		return count[*events.Submitted](b) - before
	}
	b.done("t-0", "only", 1)
	require.Zero(t, accepted(), "the owner asks for definitions first")
	require.Equal(t, 64/8, accepted())
	require.Equal(t, 64/8, accepted())
	for i := range 20 {
		b.done(fmt.Sprintf("t-%d", 1+i), "only", 1)
	}
	require.Equal(t, 64/8+3*20/2, accepted(), "sixty facts are about attempts that end and start")
	b.now = b.now.Add(100 * time.Millisecond)
	a.o.Tick(b.now)
	require.Equal(t, 64/8, accepted())
	b.now++
	a.o.Tick(b.now)
	require.Greater(t, accepted(), 300)
}

// Submissions do not pile up if agents can keep up with them, however many there are and however many steps their tasks
// have.
func TestShortTasksAreAcceptedAsFastAsTheyEnd(t *testing.T) {
	t.Parallel()
	b := newBench(t, oneStep)
	a := b.candidate("A", func(c *candidate) { c.cfg.Window = 2000 }).own()
	const each, calls = 24, 6 // submissions per beat, and the number of beats that a call takes
	for beat := range 200 {
		b.now = b.now.Add(8 * time.Millisecond)
		for i := range each {
			b.submit(fmt.Sprintf("t-%d", beat*each+i), "one", "")
		}
		if from := beat - calls; from >= 0 {
			for i := range each {
				b.done(fmt.Sprintf("t-%d", from*each+i), "only", 1)
			}
		}
		for a.deliver() {
		}
		a.drain()
		for a.next() {
		}
		require.LessOrEqual(t, a.o.Backlog(events.Submissions), 5*each, "beat %d", beat)
	}
}
