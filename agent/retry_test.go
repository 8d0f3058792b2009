package agent_test

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sagalog/sagalog/agent"
	"github.com/sagalog/sagalog/agent/agenttest"
	"github.com/sagalog/sagalog/events"
)

func TestRetriesInsideTheAgentKeepTheAttempt(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var keys []string
		h := agenttest.Start(t, handle(func(ctx context.Context, in parcel) (parcel, error) {
			a, _ := agent.FromContext(ctx)
			keys = append(keys, fmt.Sprint(a.Attempt, a.IdempotencyKey))
			if len(keys) < 3 {
				return in, errBoom
			}
			return in, nil
		}, agent.WithRetry(agent.Retry{Tries: 3})))
		require.Equal(t, events.ResultCompleted, h.Do("package", parcel{}).Result)
		require.Len(t, keys, 3)
		require.Equal(t, keys[0], keys[2])
	})
}

func TestRetryAfterIsWaitedForIfItFits(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var at []time.Time
		h := agenttest.Start(t, handle(func(ctx context.Context, in parcel) (parcel, error) {
			at = append(at, time.Now())
			if len(at) == 1 {
				return in, agent.RetryAfter(errBoom, 2*time.Second)
			}
			return in, agent.RetryAfter(errBoom, time.Minute)
		}, agent.WithRetry(agent.Retry{Tries: 5})))
		r := h.Do("package", parcel{})
		require.Len(t, at, 2)
		require.GreaterOrEqual(t, at[1].Sub(at[0]), 2*time.Second)
		require.Less(t, at[1].Sub(at[0]), 2100*time.Millisecond)
		require.Equal(t, time.Minute, r.RetryAfter.Std(), "if the wait does not fit, it is left to the engine")
	})
}

func TestTheLastFailureIsReportedBeforeTheCompleteByTime(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		tries := 0
		h := agenttest.Start(t, handle(func(ctx context.Context, in parcel) (parcel, error) {
			tries++
			if tries > 1 {
				<-ctx.Done()
				return in, ctx.Err()
			}
			return in, agent.NoEffect(errBoom)
		}, agent.WithRetry(agent.Retry{Tries: 100})))
		r := h.Do("package", parcel{})
		require.Equal(t, events.ClassRetryable, r.Error.Class)
		require.Equal(t, events.EffectInDoubt, r.Effect)
		require.Equal(t, 2, tries)
	})
}

func TestTheEffectIsNoneOnlyIfEveryTryHasNone(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		first error
		want  events.Effect
	}{
		"unknown first": {errBoom, events.EffectInDoubt},
		"none first":    {agent.NoEffect(errBoom), events.EffectNone},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				tries := 0
				h := agenttest.Start(t, handle(func(context.Context, parcel) (parcel, error) {
					tries++
					if tries == 1 {
						return parcel{}, c.first
					}
					return parcel{}, agent.NoEffect(agent.Permanent(errBoom))
				}, agent.WithRetry(agent.DefaultRetry)))
				r := h.Do("package", parcel{})
				require.Equal(t, events.ClassPermanent, r.Error.Class)
				require.Equal(t, c.want, r.Effect)
				require.Equal(t, 2, tries)
			})
		})
	}
}

func TestTheBreakerOpensAndRecovers(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var broken atomic.Bool
		var calls atomic.Int64
		broken.Store(true)
		h := agenttest.Start(t, handle(func(_ context.Context, in parcel) (parcel, error) {
			calls.Add(1)
			if broken.Load() {
				return in, errBoom
			}
			return in, nil
		}, agent.WithBreaker(agent.Breaker{Calls: 4, Open: 10 * time.Second})))
		for range 4 {
			require.Equal(t, "boom", h.Do("package", parcel{}).Error.Message)
		}
		r := h.Do("package", parcel{})
		require.EqualValues(t, 4, calls.Load(), "the service is not called")
		require.Equal(t, events.ClassUnavailable, r.Error.Class)
		require.Equal(t, events.EffectNone, r.Effect)
		require.Positive(t, r.RetryAfter)
		wait(2 * time.Second)
		heartbeats := h.Heartbeats()
		require.Equal(t, events.Unhealthy, heartbeats[len(heartbeats)-1].Health["package"])

		// An attempt with more time waits for the probe, and closes the breaker.
		broken.Store(false)
		w := h.Work("package", events.Do, parcel{})
		w.CompleteBy = w.CompleteBy.Add(time.Minute)
		h.Send(w)
		r, ok := h.Await(w)
		require.True(t, ok)
		require.Equal(t, events.ResultCompleted, r.Result)
		wait(2 * time.Second)
		heartbeats = h.Heartbeats()
		require.Equal(t, events.Healthy, heartbeats[len(heartbeats)-1].Health["package"])
	})
}

func TestAnOpenBreakerInvitesAProbeOnceItsTimeIsOver(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		h := agenttest.Start(t, handle(func(_ context.Context, in parcel) (parcel, error) { panic("not a call of the service") },
			agent.WithBreaker(agent.Breaker{Calls: 1, Open: time.Second})))
		h.Do("package", parcel{})
		wait(1500 * time.Millisecond)
		heartbeats := h.Heartbeats()
		require.Equal(t, events.Healthy, heartbeats[len(heartbeats)-1].Health["package"], "a panic does not count as a failure of the service")
	})
	synctest.Test(t, func(t *testing.T) {
		h := agenttest.Start(t, handle(func(_ context.Context, in parcel) (parcel, error) { return in, errBoom },
			agent.WithBreaker(agent.Breaker{Calls: 1, Open: time.Second})))
		h.Do("package", parcel{})
		wait(3 * time.Second)
		heartbeats := h.Heartbeats()
		require.Equal(t, events.Degraded, heartbeats[len(heartbeats)-1].Health["package"])
	})
}

func TestAPanickingProbeDoesNotLeaveTheBreakerHalfOpen(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		calls := 0
		h := agenttest.Start(t, handle(func(_ context.Context, in parcel) (parcel, error) {
			calls++
			switch calls {
			case 1:
				return in, errBoom
			case 2:
				panic("probe")
			}
			return in, nil
		}, agent.WithBreaker(agent.Breaker{Calls: 1, Open: time.Second})))
		h.Do("package", parcel{})
		require.Equal(t, events.ClassInternal, h.Do("package", parcel{}).Error.Class)
		require.Equal(t, events.ResultCompleted, h.Do("package", parcel{}).Result)
	})
}

// The first try may still be under way when the second one has completed.
func TestASuccessAfterATryInDoubtIsInDoubt(t *testing.T) {
	t.Parallel()
	for want, first := range map[events.Effect]error{events.EffectInDoubt: errBoom, "": agent.Ended(errBoom)} {
		synctest.Test(t, func(t *testing.T) {
			tries := 0
			try := func() error {
				if tries++; tries == 1 {
					return first
				}
				return nil
			}
			h := agenttest.Start(t, handle(func(_ context.Context, in parcel) (parcel, error) { return in, try() },
				agent.WithRetry(agent.Retry{Tries: 2}), agent.WithUndo(func(context.Context, agent.Undo[parcel, parcel]) error { return try() })))
			r := h.Do("package", parcel{})
			require.Equal(t, events.ResultCompleted, r.Result)
			require.Equal(t, want, r.Effect)
			tries = 0
			r = h.Undo("package", parcel{}, parcel{})
			require.Equal(t, events.ResultCompleted, r.Result)
			require.Equal(t, want, r.Effect)
		})
	}
}
