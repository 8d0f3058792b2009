package supervisor_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sagalog/sagalog/events"
	"github.com/sagalog/sagalog/supervisor"
)

// The more runs in a partition, the longer its owner gathers what it decides about.
func TestThePaceFollowsWhatRuns(t *testing.T) {
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
		require.Equal(t, c.want, a.o.Pace(), "%d running", c.running)
	}
}

// While the owner is only asked what it has said, it decides nothing; what came meanwhile is then one append.
func TestWhatComesWhileItRestsSharesAnAppend(t *testing.T) {
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
		for _, said := range a.o.Said() {
			_, decided := said.(supervisor.Append)
			require.False(t, decided)
			a.do(said)
		}
	}
	var appends []supervisor.Append
	for _, said := range a.o.Actions() {
		if x, ok := said.(supervisor.Append); ok {
			appends = append(appends, x)
		}
		a.do(said)
	}
	require.Len(t, appends, 1)
	a.run()
	for i := range 5 {
		require.Equal(t, events.Processed, b.task(fmt.Sprintf("t-%d", i)).State)
	}
	require.GreaterOrEqual(t, len(appends[0].Records), 5)
}

// While reports come, a batch takes few submissions, however many wait; when none comes any more, it takes what it can.
func TestSubmissionsLeaveRoomForWork(t *testing.T) {
	t.Parallel()
	b := newBench(t, oneStep)
	a := b.candidate("A").own()
	b.submit("t-0", "one", "")
	a.run()
	for i := range 400 {
		b.submit(fmt.Sprintf("later-%d", i), "one", "")
	}
	b.done("t-0", "only", 1)
	for a.deliver() {
	}
	var accepted []int
	for n := 0; n < 400; {
		if len(accepted) == 10 {
			b.now = b.now.Add(101 * time.Millisecond)
			a.o.Tick(b.now)
		}
		a.drain()
		for a.next() {
		}
		before := n
		n = count[*events.Submitted](b) - 1
		accepted = append(accepted, n-before)
		require.Less(t, len(accepted), 20)
	}
	for _, n := range accepted[:10] {
		require.LessOrEqual(t, n, 5, "%v", accepted) // four, and one for the starts that share a batch with them
	}
	require.Len(t, accepted, 11)
	require.Greater(t, accepted[10], 300)
	require.Equal(t, events.Processed, b.task("t-0").State)
}
