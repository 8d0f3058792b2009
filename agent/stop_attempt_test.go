package agent_test

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sagalog/sagalog/agent"
	"github.com/sagalog/sagalog/agent/agenttest"
	"github.com/sagalog/sagalog/events"
)

// stopOf returns the record that stops the attempt of a request.
func stopOf(t *testing.T, w events.Work) events.Record {
	r, err := events.EncodeStop(events.Stop{Task: w.Task, Run: w.Run, Step: w.Step, Operation: w.Operation, Attempt: w.Attempt, Ticket: w.Ticket, Reason: "the task is being undone"},
		events.Subject{ID: "stop", Source: "test", Time: events.At(time.Now())})
	require.NoError(t, err)
	return r
}

// The function sees its context end at once, and says itself that nothing can happen any more.
func TestAStopEndsTheContextOfARunningAttempt(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		h := agenttest.Start(t, handle(func(ctx context.Context, in parcel) (parcel, error) {
			<-ctx.Done()
			return in, agent.Ended(ctx.Err())
		}))
		w := h.Work("package", events.Do, parcel{ID: "long"})
		w.CompleteBy = w.CompleteBy.Add(time.Hour)
		h.Send(w)
		wait(time.Minute)
		require.Empty(t, h.Reports())
		began := time.Now()
		other := w
		other.Attempt = 2
		h.Sources["package"].Add(stopOf(t, other))
		wait(time.Second)
		require.Empty(t, h.Reports(), "the stop is of another attempt")
		h.Sources["package"].Add(stopOf(t, w))
		for len(h.Reports()) == 0 && time.Since(began) < 10*time.Second {
			wait(10 * time.Millisecond)
		}
		require.Less(t, time.Since(began), 2*time.Second)
		require.Equal(t, events.ResultFailed, h.Reports()[0].Result)
		require.Equal(t, events.EffectDoneUnknown, h.Reports()[0].Effect)
		wait(5 * time.Second)
		require.EqualValues(t, 3, h.Sources["package"].Committed()[0], "a stop is finished when it is read")
	})
}

func TestAStoppedAttemptThatWaitsDoesNotBegin(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		ran := map[string]int{}
		h := agenttest.Start(t, handle(func(_ context.Context, in parcel) (parcel, error) {
			mu.Lock()
			ran[in.ID]++
			mu.Unlock()
			wait(30 * time.Second)
			return in, nil
		}, agent.Concurrency(2)))
		list := []events.Work{h.Work("package", events.Do, parcel{ID: "a"}), h.Work("package", events.Do, parcel{ID: "b"}), h.Work("package", events.Do, parcel{ID: "waits"})}
		for i := range list {
			list[i].CompleteBy = list[i].CompleteBy.Add(time.Hour)
			h.Send(list[i])
		}
		h.Sources["package"].Add(stopOf(t, list[2]))
		wait(time.Minute)
		require.Equal(t, map[string]int{"a": 1, "b": 1}, ran)
		reports := h.Reports()
		require.Len(t, reports, 3)
		for _, r := range reports {
			if r.Task != list[2].Task {
				require.Equal(t, events.ResultCompleted, r.Result)
				continue
			}
			require.Equal(t, events.ResultFailed, r.Result)
			require.Equal(t, events.EffectNone, r.Effect)
		}
	})
}
