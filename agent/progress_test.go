package agent_test

import (
	"context"
	"encoding/json"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sagalog/sagalog/agent"
	"github.com/sagalog/sagalog/agent/agenttest"
	"github.com/sagalog/sagalog/events"
)

// beating returns a request of a step with a heartbeat of 30 s that may take an hour.
func beating(h *agenttest.Harness) events.Work {
	w := h.Work("package", events.Do, parcel{ID: "long"})
	w.Heartbeat, w.CompleteBy, w.CompleteWithin = events.Duration(30*time.Second), events.At(time.Now().Add(30*time.Second)), events.Duration(30*time.Second)
	w.CapBy = events.At(time.Now().Add(time.Hour))
	return w
}

// ended runs an attempt and returns how long it took until its context ended.
func ended(t *testing.T, do func(ctx context.Context) error, options ...agenttest.Option) (took time.Duration, reports []events.Report) {
	synctest.Test(t, func(t *testing.T) {
		over := make(chan time.Duration, 1)
		h := agenttest.Start(t, handle(func(ctx context.Context, in parcel) (parcel, error) {
			began := time.Now()
			err := do(ctx)
			over <- time.Since(began)
			return in, err
		}), options...)
		h.Send(beating(h))
		took = <-over
		wait(time.Second)
		reports = h.Reports()
	})
	return took, reports
}

func TestAnAttemptThatShowsNoProgressEndsAfterAHeartbeat(t *testing.T) {
	t.Parallel()
	took, reports := ended(t, func(ctx context.Context) error {
		<-ctx.Done()
		require.ErrorIs(t, context.Cause(ctx), agent.ErrCompleteBy)
		require.ErrorIs(t, agent.Progress(ctx, 1), agent.ErrCompleteBy)
		return ctx.Err()
	})
	require.InDelta(t, 30*time.Second, took, float64(2*time.Second))
	require.Empty(t, reports, "nothing is reported after the end")
}

func TestProgressExtendsAnAttemptUpToItsCap(t *testing.T) {
	t.Parallel()
	took, reports := ended(t, func(ctx context.Context) error {
		for n := 0; ctx.Err() == nil; n++ {
			_ = agent.Progress(ctx, map[string]int{"n": n})
			wait(time.Second)
		}
		require.ErrorIs(t, context.Cause(ctx), agent.ErrCompleteBy)
		return ctx.Err()
	})
	require.InDelta(t, time.Hour, took, float64(3*time.Second))
	require.InDelta(t, 360, len(reports), 10, "a third of the heartbeat lies between two of them")
	last := reports[len(reports)-1]
	require.Equal(t, events.ResultProgress, last.Result)
	var value struct{ N int }
	require.NoError(t, json.Unmarshal(last.Progress, &value))
	require.Greater(t, value.N, 3580, "the latest value is sent")
}

// slowSink acknowledges progress late.
type slowSink struct {
	*agenttest.Sink
	late time.Duration
}

func (s *slowSink) Produce(ctx context.Context, r events.Record, done func(error)) {
	if !strings.HasSuffix(r.Topic, ".reports") {
		s.Sink.Produce(ctx, r, done)
		return
	}
	s.Sink.Produce(ctx, r, func(error) {})
	time.AfterFunc(s.late, func() { done(nil) })
}

// The only progress is sent after 15 s. An attempt counts from before it was sent, since the engine may have judged it at once, and an
// acknowledgement that comes after the end is too late.
func TestAnAttemptCountsFromBeforeItsProgressWasSent(t *testing.T) {
	t.Parallel()
	for late, ends := range map[time.Duration]time.Duration{10 * time.Second: 45 * time.Second, 20 * time.Second: 30 * time.Second} {
		t.Run(late.String(), func(t *testing.T) {
			t.Parallel()
			took, _ := ended(t, func(ctx context.Context) error {
				wait(15 * time.Second)
				_ = agent.Progress(ctx, "once")
				<-ctx.Done()
				return ctx.Err()
			}, func(c *agent.Config) { c.Sink = &slowSink{c.Sink.(*agenttest.Sink), late} })
			require.InDelta(t, ends, took, float64(2*time.Second))
		})
	}
}

func TestAnAttemptThatWasExtendedReportsItsResult(t *testing.T) {
	t.Parallel()
	_, reports := ended(t, func(ctx context.Context) error {
		for range 10 {
			wait(20 * time.Second)
			if err := agent.Progress(ctx, nil); err != nil {
				return err
			}
		}
		return nil
	})
	require.Equal(t, events.ResultCompleted, reports[len(reports)-1].Result)
}

func TestAnAttemptGetsTheLastProgressOfTheOneBefore(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		h := agenttest.Start(t, handle(func(ctx context.Context, in parcel) (parcel, error) {
			ok, err := agent.LastProgress(ctx, &in)
			if err == nil && !ok {
				in.ID = "none"
			}
			return in, err
		}))
		w := beating(h)
		w.Progress = json.RawMessage(`{"id":"half"}`)
		h.Send(w)
		r, ok := h.Await(w)
		require.True(t, ok)
		require.Contains(t, string(r.Output), "half")
		other := beating(h)
		h.Send(other)
		r, ok = h.Await(other)
		require.True(t, ok)
		require.Contains(t, string(r.Output), "none")
	})
}

func TestProgressOverTheLimitIsRefused(t *testing.T) {
	t.Parallel()
	require.ErrorContains(t, agent.Progress(context.Background(), strings.Repeat("x", events.MaxProgress)), "16384 are allowed")
	require.Error(t, agent.Progress(context.Background(), func() {}))
	require.NoError(t, agent.Progress(context.Background(), "outside an attempt"))
}

// A test sets the heartbeat of a request and nothing else of it, and waits for the outcome.
func TestTheHarnessAwaitsTheOutcomeBehindTheProgress(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		h := agenttest.Start(t, handle(func(ctx context.Context, in parcel) (parcel, error) {
			for range 10 {
				if err := agent.Progress(ctx, "on the way"); err != nil {
					return in, err
				}
				select {
				case <-time.After(20 * time.Second):
				case <-ctx.Done():
				}
			}
			return in, ctx.Err()
		}))
		w := h.Work("package", events.Do, parcel{ID: "p"})
		w.Heartbeat, w.CompleteBy = events.Duration(30*time.Second), events.At(time.Now().Add(time.Hour))
		h.Send(w)
		r, ok := h.Await(w)
		require.True(t, ok)
		require.Equal(t, events.ResultCompleted, r.Result, "%+v", r)
		require.Equal(t, events.ResultProgress, h.Reports()[0].Result)

		short := h.Work("package", events.Do, parcel{ID: "q"})
		short.Heartbeat = events.Duration(10 * time.Second)
		h.Send(short)
		_, ok = h.Await(short)
		require.False(t, ok, "it has until its complete-by time, which is less than a heartbeat away")
	})
}
