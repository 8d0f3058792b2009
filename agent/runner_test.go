package agent_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sagalog/sagalog/agent"
	"github.com/sagalog/sagalog/agent/agenttest"
	"github.com/sagalog/sagalog/agent/transport"
	"github.com/sagalog/sagalog/events"
)

type parcel struct {
	ID string `json:"id"`
}

var errBoom = errors.New("boom")

// handle returns a registry with one agent "package".
func handle(fn func(context.Context, parcel) (parcel, error), options ...agent.Option) *agent.Registry {
	r := agent.NewRegistry()
	agent.Handle(r, "package", fn, options...)
	return r
}

func echo(_ context.Context, in parcel) (parcel, error) { return in, nil }

func TestAnAttemptIsReportedHomeWithItsTicket(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var seen agent.Attempt
		h := agenttest.Start(t, handle(func(ctx context.Context, in parcel) (parcel, error) {
			seen, _ = agent.FromContext(ctx)
			deadline, _ := ctx.Deadline()
			require.True(t, deadline.Equal(seen.CompleteBy))
			return parcel{ID: "<" + in.ID + ">"}, nil
		}))
		w := h.Work("package", events.Do, parcel{ID: "p"})
		w.Home, w.Attempt = 3, 2
		h.Send(w)
		r, ok := h.Await(w)
		require.True(t, ok)
		require.Equal(t, events.ResultCompleted, r.Result)
		require.Equal(t, w.Ticket, r.Ticket)
		require.Equal(t, 2, r.Attempt)
		require.Equal(t, "test-1", r.Instance)
		require.JSONEq(t, `{"id":"<p>"}`, string(r.Output))
		last := h.LastReport()
		require.Equal(t, "sagalog.reports", last.Topic)
		require.EqualValues(t, 3, last.Partition)
		require.Contains(t, string(last.Value), `"<p>"`, "no HTML escapes in user data")
		require.Equal(t, w.IdempotencyKey, seen.IdempotencyKey)
		require.Equal(t, []any{w.Task, 1, "test", 1, "step", "package", events.Do, 2},
			[]any{seen.Task, seen.Run, seen.Workflow, seen.Version, seen.Step, seen.Agent, seen.Operation, seen.Attempt})
		require.Regexp(t, `^00-[0-9a-f]{32}-[0-9a-f]{16}-00$`, seen.Traceparent)
	})
}

func TestErrorsSayClassEffectAndRetryAfter(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		fn     func(context.Context, parcel) (parcel, error)
		class  events.Class
		effect events.Effect
		after  time.Duration
		text   string
	}{
		"any error is retryable and unknown": {func(context.Context, parcel) (parcel, error) { return parcel{}, errBoom },
			events.ClassRetryable, events.EffectInDoubt, 0, "boom"},
		"permanent": {func(context.Context, parcel) (parcel, error) {
			return parcel{}, fmt.Errorf("outer: %w", agent.Permanent(errBoom))
		}, events.ClassPermanent, events.EffectInDoubt, 0, "outer: boom"},
		"permanent without effect": {func(context.Context, parcel) (parcel, error) {
			return parcel{}, agent.NoEffect(agent.Permanent(errBoom))
		}, events.ClassPermanent, events.EffectNone, 0, "boom"},
		"over, with any effect": {func(context.Context, parcel) (parcel, error) {
			return parcel{}, agent.Ended(errBoom)
		}, events.ClassRetryable, events.EffectDoneUnknown, 0, "boom"},
		"the other way round": {func(context.Context, parcel) (parcel, error) {
			return parcel{}, agent.Permanent(agent.NoEffect(errBoom))
		}, events.ClassPermanent, events.EffectNone, 0, "boom"},
		"retry after": {func(context.Context, parcel) (parcel, error) {
			return parcel{}, agent.RetryAfter(errBoom, 3*time.Second)
		}, events.ClassRetryable, events.EffectInDoubt, 3 * time.Second, "boom"},
		"panic": {func(context.Context, parcel) (parcel, error) { panic("a\nb") },
			events.ClassInternal, events.EffectInDoubt, 0, "panic: a b"},
		"a foreign class": {func(context.Context, parcel) (parcel, error) {
			return parcel{}, &agent.Failure{Class: events.ClassTimeout, Err: errBoom}
		}, events.ClassInternal, events.EffectInDoubt, 0, "boom"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				r := agenttest.Start(t, handle(c.fn)).Do("package", parcel{})
				require.Equal(t, events.ResultFailed, r.Result)
				require.Equal(t, c.class, r.Error.Class)
				require.Equal(t, c.effect, r.Effect)
				require.Equal(t, c.after, r.RetryAfter.Std())
				require.Equal(t, c.text, r.Error.Message)
			})
		})
	}
	require.NoError(t, agent.Permanent(nil))
}

func TestInputThatDoesNotDecodeIsPermanentWithoutEffect(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		h := agenttest.Start(t, handle(echo))
		r := h.Do("package", []int{1})
		require.Equal(t, events.ClassPermanent, r.Error.Class)
		require.Equal(t, events.EffectNone, r.Effect)
		r = h.Undo("package", parcel{}, nil)
		require.Equal(t, "no_operation", r.Error.Code)
		require.Equal(t, events.EffectNone, r.Effect)
	})
}

func TestAnOutputOverTheLimitIsPermanent(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		h := agenttest.Start(t, handle(func(_ context.Context, in parcel) (parcel, error) {
			return parcel{ID: strings.Repeat("x", 256<<10)}, nil
		}))
		r := h.Do("package", parcel{})
		require.Equal(t, events.ClassPermanent, r.Error.Class)
		require.Equal(t, events.EffectDoneUnknown, r.Effect)
		require.Contains(t, r.Error.Message, "262144")
		require.Empty(t, r.Output)
	})
}

func TestUndoGetsInputAndOutput(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var got []agent.Undo[parcel, parcel]
		h := agenttest.Start(t, handle(echo, agent.WithUndo(func(_ context.Context, u agent.Undo[parcel, parcel]) error {
			got = append(got, u)
			return nil
		})))
		require.Equal(t, events.ResultCompleted, h.Undo("package", parcel{ID: "a"}, parcel{ID: "b"}).Result)
		require.Equal(t, events.ResultCompleted, h.Undo("package", parcel{ID: "a"}, nil).Result)
		require.Equal(t, "b", got[0].Output.ID)
		require.Nil(t, got[1].Output)
		require.Equal(t, "a", got[1].Input.ID)
	})
}

func TestAfterTheCompleteByTimeNothingIsReported(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var cause error
		for _, late := range []time.Duration{0, time.Second} {
			h := agenttest.Start(t, handle(func(ctx context.Context, in parcel) (parcel, error) {
				<-ctx.Done()
				cause = context.Cause(ctx)
				wait(late)
				return in, nil
			}))
			w := h.Work("package", events.Do, parcel{})
			h.Send(w)
			_, ok := h.Await(w)
			require.False(t, ok)
			wait(5 * time.Second)
			require.ErrorIs(t, cause, agent.ErrCompleteBy)
			require.Empty(t, h.Reports())
			require.NoError(t, h.Stop())
			require.EqualValues(t, 1, h.Sources["package"].Committed()[0], "it still counts as finished")
		}
	})
}

// wait lets virtual time pass.
func wait(d time.Duration) { <-time.After(d) }

func TestAnExpiredRequestIsDroppedAndLoggedNowAndThen(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ran := 0
		var said bytes.Buffer
		h := agenttest.Start(t, handle(func(_ context.Context, in parcel) (parcel, error) { ran++; return in, nil }),
			func(c *agent.Config) { c.Log = slog.New(slog.NewTextHandler(&said, nil)) })
		w := h.Work("package", events.Do, parcel{})
		w.CompleteBy = events.At(time.Now())
		h.Send(w)
		w.Attempt++
		h.Send(w)
		require.Equal(t, events.ResultCompleted, h.Do("package", parcel{}).Result)
		require.Equal(t, 1, ran)
		require.NoError(t, h.Stop())
		require.EqualValues(t, 3, h.Sources["package"].Committed()[0])
		require.Equal(t, 1, strings.Count(said.String(), "came after its complete-by time"), said.String())
	})
}

func TestARequestThatCannotBeDecodedIsSkipped(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		h := agenttest.Start(t, handle(echo))
		h.Sources["package"].Add(events.Record{Value: []byte("{")})
		require.Equal(t, events.ResultCompleted, h.Do("package", parcel{}).Result)
		require.NoError(t, h.Stop())
		require.EqualValues(t, 2, h.Sources["package"].Committed()[0])
	})
}

func TestTheSameAttemptInFlightRunsOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var ran atomic.Int64
		h := agenttest.Start(t, handle(func(_ context.Context, in parcel) (parcel, error) {
			ran.Add(1)
			wait(time.Second)
			return in, nil
		}))
		w := h.Work("package", events.Do, parcel{})
		record := h.Record(w)
		h.Sources["package"].Add(record)
		h.Sources["package"].Add(record)
		h.Sources["package"].Redeliver(record) // offset 0 again, as after a rebalance
		next := w
		next.Attempt = 2
		h.Send(next)
		_, ok := h.Await(w)
		require.True(t, ok)
		_, ok = h.Await(next)
		require.True(t, ok)
		require.NoError(t, h.Stop())
		require.EqualValues(t, 2, ran.Load())
		require.Len(t, h.Reports(), 2)
		require.EqualValues(t, 3, h.Sources["package"].Committed()[0])
	})
}

func TestConcurrencyAndReadAheadAreBounded(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var now, most atomic.Int64
		h := agenttest.Start(t, handle(func(_ context.Context, in parcel) (parcel, error) {
			most.Store(max(most.Load(), now.Add(1)))
			wait(10 * time.Millisecond)
			now.Add(-1)
			return in, nil
		}, agent.Concurrency(3)))
		const n = 100
		for range n {
			h.Send(h.Work("package", events.Do, parcel{}))
		}
		synctest.Wait()
		require.EqualValues(t, 3, now.Load())
		require.Equal(t, n-6, h.Sources["package"].Left(), "twice the concurrency is held")
		wait(time.Second)
		require.EqualValues(t, 3, most.Load())
		require.Len(t, h.Reports(), n)
		heartbeats := h.Heartbeats()
		require.Equal(t, 3, heartbeats[0].Capacity["package"])
	})
}

func TestASlowAgentOrPartitionDoesNotHoldAnother(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := handle(echo)
		agent.Handle(r, "slow", func(ctx context.Context, in parcel) (parcel, error) {
			if in.ID == "hang" {
				<-ctx.Done()
			}
			return in, nil
		}, agent.Concurrency(2))
		h := agenttest.Start(t, r)
		hang := h.Work("slow", events.Do, parcel{ID: "hang"})
		hang.CompleteBy = hang.CompleteBy.Add(time.Hour)
		h.Send(hang)
		other := h.Record(h.Work("slow", events.Do, parcel{}))
		other.Partition = 1
		h.Sources["slow"].Add(other)
		require.Equal(t, events.ResultCompleted, h.Do("package", parcel{}).Result)
		wait(time.Second)
		require.Equal(t, map[int32]int64{1: 1}, h.Sources["slow"].Committed())
	})
}

func TestAHeartbeatEachSecondDescribesTheInstance(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := handle(func(ctx context.Context, in parcel) (parcel, error) { wait(3 * time.Second); return in, nil },
			agent.Concurrency(7), agent.WithUndo(func(context.Context, agent.Undo[parcel, json.RawMessage]) error { return nil }))
		agent.Handle(r, "drone", echo)
		h := agenttest.Start(t, r)
		h.Send(h.Work("package", events.Do, parcel{}))
		wait(2500 * time.Millisecond)
		heartbeats := h.Heartbeats()
		require.Len(t, heartbeats, 3)
		b := heartbeats[2]
		require.Equal(t, events.PresenceAgent, b.Kind)
		require.Equal(t, []string{"drone", "package"}, b.Agents)
		require.Equal(t, map[string]int{"drone": agent.DefaultConcurrency, "package": 7}, b.Capacity)
		require.Equal(t, 1, b.InFlight["package"])
		require.Equal(t, []events.Operation{events.Do, events.Undo}, b.Operations["package"])
		require.Equal(t, []events.Operation{events.Do}, b.Operations["drone"])
		require.Equal(t, []int32{0, 1}, b.Partitions["package"])
		records, _ := h.Sink.Records()
		require.Equal(t, "sagalog.presence", records[0].Topic)
		require.EqualValues(t, 0, records[0].Partition)
		require.Equal(t, "agent/test-1", string(records[0].Key))
	})
}

func TestAllFaultsOfAConfigurationAreReportedAtOnce(t *testing.T) {
	t.Parallel()
	r := handle(echo, agent.Concurrency(0), agent.WithRetry(agent.Retry{Tries: -1}), agent.WithBreaker(agent.Breaker{Failures: 2}))
	agent.Handle(r, "package", echo)
	agent.Handle(r, "Bad", echo)
	_, err := agent.NewRunner(r, agent.Config{Sources: map[string]transport.Source{"ghost": agenttest.NewSource()}})
	for _, want := range []string{
		"concurrency is 0", "tries is -1", "failures is 2", `"package" is registered twice`, `agent "Bad"`,
		"instance is empty", "sink is missing", `"ghost"`, "agent package has no source",
	} {
		require.ErrorContains(t, err, want)
	}
	_, err = agent.NewRunner(agent.NewRegistry(), agent.Config{Instance: "i", Sink: agenttest.NewSink()})
	require.ErrorContains(t, err, "no agent")
}

// Real time and the race detector.
func TestManyAttemptsAtOnce(t *testing.T) {
	t.Parallel()
	var n atomic.Int64
	h := agenttest.Start(t, handle(func(_ context.Context, in parcel) (parcel, error) {
		if n.Add(1)%7 == 0 {
			return in, errBoom
		}
		return in, nil
	}, agent.Concurrency(32), agent.WithRetry(agent.Retry{Tries: 3, Backoff: time.Microsecond, BackoffMax: time.Microsecond}),
		agent.WithBreaker(agent.Breaker{Failures: 1})))
	var works []events.Work
	for range 500 {
		works = append(works, h.Work("package", events.Do, parcel{}))
	}
	var senders sync.WaitGroup
	for i := range 4 {
		senders.Go(func() {
			for j := i; j < len(works); j += 4 {
				h.Send(works[j])
			}
		})
	}
	senders.Wait()
	for _, w := range works {
		_, ok := h.Await(w)
		require.True(t, ok)
	}
	require.NoError(t, h.Stop())
	require.EqualValues(t, 500, h.Sources["package"].Committed()[0])
}
