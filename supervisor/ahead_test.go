package supervisor_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sagalog/sagalog/events"
)

// The clock of an earlier owner was ahead, and its facts have its times: those of the next one are not earlier, and its
// timers must fire all the same.
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
			require.Equal(t, events.StepRunning, b.task("t1").Step("only").State)
			for range 10 {
				next.pass(500 * time.Millisecond)
			}
			require.NotZero(t, b.task("t1").FailureCount, "the attempt of the earlier owner timed out")
			require.NotZero(t, b.task("t2").FailureCount, "and its own")
			require.Less(t, b.task("t2").UpdatedAt, right.Add(ahead+5*time.Second), "time goes on at half the pace")
			require.NoError(t, next.stopped)
		})
	}
}
