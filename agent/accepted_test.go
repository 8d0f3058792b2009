package agent_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sagalog/sagalog/agent"
	"github.com/sagalog/sagalog/agent/agenttest"
	"github.com/sagalog/sagalog/events"
)

// The agent is done with an attempt that goes on elsewhere: it has room for the next one and never runs it again.
func TestAnAcceptedAttemptIsFinishedWithoutAReport(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		calls := 0
		h := agenttest.Start(t, handle(func(ctx context.Context, in parcel) (parcel, error) {
			calls++
			agent.Accepted(ctx)
			return in, nil
		}, agent.Concurrency(1)))
		for range 3 {
			h.Send(h.Work("package", events.Do, parcel{ID: "job"}))
		}
		wait(time.Second)
		require.Equal(t, 3, calls)
		require.NoError(t, h.Stop())
		require.Empty(t, h.Reports())
		require.EqualValues(t, 3, h.Sources["package"].Committed()[0])
	})
}

// Only the last try says that the attempt goes on elsewhere, and an earlier one that is in doubt makes its outcome doubtful.
func TestAnAttemptIsAcceptedByItsLastTry(t *testing.T) {
	t.Parallel()
	retry := agent.WithRetry(agent.Retry{Tries: 2, Backoff: time.Millisecond, BackoffMax: time.Millisecond})
	for name, c := range map[string]struct {
		first error
		again bool
	}{"in doubt": {errBoom, true}, "no effect": {agent.NoEffect(errBoom), false}, "ended": {agent.Ended(errBoom), false}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var attempts []agent.Attempt
			h := agenttest.Start(t, handle(func(ctx context.Context, in parcel) (parcel, error) {
				a, _ := agent.FromContext(ctx)
				attempts = append(attempts, a)
				if a.Try == 1 {
					agent.Accepted(ctx)
					return in, c.first
				}
				return in, nil
			}, retry))
			require.Equal(t, events.ResultCompleted, h.Do("package", parcel{ID: "job"}).Result)
			require.False(t, attempts[0].Again)
			require.Equal(t, c.again, attempts[1].Again)
		})
	}
}
