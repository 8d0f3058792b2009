package agent_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sagalog/sagalog/agent"
	"github.com/sagalog/sagalog/agent/agenttest"
	"github.com/sagalog/sagalog/events"
)

// sendDecided sends a request that was decided that long after now by the owner's clock, with five seconds to complete.
func sendDecided(t *testing.T, h *agenttest.Harness, id string, ahead time.Duration) {
	t.Helper()
	w := h.Work("package", events.Do, parcel{ID: id})
	decided := events.At(time.Now().Add(ahead))
	w.Home, w.CompleteBy, w.CompleteWithin = 1, decided.Add(5*time.Second), events.Duration(5*time.Second)
	r, err := events.EncodeWork(w, events.Subject{ID: id, Source: "test", Time: decided})
	require.NoError(t, err)
	h.Sources["package"].Add(r)
}

// recorder notes how much time each call gets.
type recorder struct {
	mu  sync.Mutex
	got map[string]time.Duration
}

func (r *recorder) do(ctx context.Context, in parcel) (parcel, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	a, _ := agent.FromContext(ctx)
	by, _ := ctx.Deadline()
	if by.Equal(a.CompleteBy) {
		r.got[in.ID] = time.Until(by)
	}
	return in, nil
}

func TestRequestsFromTheFutureGoByTheirDuration(t *testing.T) {
	t.Parallel()
	for _, ahead := range []time.Duration{30 * time.Second, 365 * 24 * time.Hour} {
		synctest.Test(t, func(t *testing.T) {
			r := &recorder{got: map[string]time.Duration{}}
			h := agenttest.Start(t, handle(r.do))
			sendDecided(t, h, "a", ahead)
			synctest.Wait()
			require.Equal(t, map[string]time.Duration{"a": 5 * time.Second}, r.got)
		})
	}
}

// By the owner's clock its complete-by time passed three seconds ago, and it has perhaps been undone. By this machine's clock it
// is still to come.
func TestAnAgentWhoseClockIsBehindDropsLateRequests(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := &recorder{got: map[string]time.Duration{}}
		h := agenttest.Start(t, handle(r.do))
		const behind = 30 * time.Second
		sendDecided(t, h, "fresh", behind)
		sendDecided(t, h, "late", behind-8*time.Second)
		sendDecided(t, h, "waited", behind-2*time.Second)
		synctest.Wait()
		require.Equal(t, map[string]time.Duration{"fresh": 5 * time.Second, "waited": 3 * time.Second}, r.got)

		// The clock is corrected. Requests come from the past then, as they should.
		wait(3 * time.Minute)
		sendDecided(t, h, "corrected", 0)
		synctest.Wait()
		require.Equal(t, 5*time.Second, r.got["corrected"])
	})
}

func TestALogOfALaterYearExpiresNoRequests(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := &recorder{got: map[string]time.Duration{}}
		h := agenttest.Start(t, handle(r.do))
		sendDecided(t, h, "ahead", 365*24*time.Hour)
		sendDecided(t, h, "corrected", 0)
		synctest.Wait()
		require.Equal(t, map[string]time.Duration{"ahead": 5 * time.Second, "corrected": 5 * time.Second}, r.got)
	})
}

// An owner whose clock is behind its log decides at half speed until the clock has caught up.
func TestRequestsOfAnOwnerThatGoesAtHalfSpeedAreNotLate(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := &recorder{got: map[string]time.Duration{}}
		h := agenttest.Start(t, handle(r.do))
		for i := range 50 {
			sendDecided(t, h, fmt.Sprint(i), 10*time.Minute-time.Duration(i)*time.Second)
			wait(2 * time.Second)
		}
		require.Len(t, r.got, 50)
		for id, got := range r.got {
			require.Equal(t, 5*time.Second, got, id)
		}
	})
}
