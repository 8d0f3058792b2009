package agent_test

import (
	"context"
	"errors"
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

// An instance is replaced while it works, and keeps working.
func TestAFailureOfASharedRequestHasUnknownEffect(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var effect atomic.Bool
		h := agenttest.Start(t, handle(func(_ context.Context, in parcel) (parcel, error) {
			wait(3 * time.Second)
			effect.Store(true)
			return in, nil
		}))
		w := h.Work("package", events.Do, parcel{})
		h.Send(w)
		synctest.Wait()

		next := h.Sources["package"].Successor()
		refusing := agenttest.Start(t, handle(func(context.Context, parcel) (parcel, error) {
			return parcel{}, agent.Permanent(agent.NoEffect(errBoom))
		}), func(c *agent.Config) { c.Sources["package"] = next })
		r, ok := refusing.Await(w)
		require.True(t, ok)
		require.Equal(t, events.EffectInDoubt, r.Effect, "the other one is not done")
		require.False(t, effect.Load())
		wait(4 * time.Second)
		require.True(t, effect.Load())

		later := refusing.Work("package", events.Do, parcel{})
		later.Task = "later"
		next.Add(refusing.Record(later))
		r, ok = refusing.Await(later)
		require.True(t, ok)
		require.Equal(t, events.EffectNone, r.Effect, "no other instance can have this request")
		require.EqualValues(t, 2, next.Committed()[0])
	})
}

func TestAnInstanceThatWasReplacedStartsNothingMore(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ran := make(chan string, 9)
		h := agenttest.Start(t, handle(func(_ context.Context, in parcel) (parcel, error) {
			ran <- in.ID
			wait(4 * time.Second)
			return in, nil
		}, agent.Concurrency(1)))
		for _, id := range []string{"running", "waiting"} {
			w := h.Work("package", events.Do, parcel{ID: id})
			w.CompleteBy = w.CompleteBy.Add(time.Minute)
			h.Send(w)
		}
		synctest.Wait()
		next := h.Sources["package"].Successor()
		late := h.Work("package", events.Do, parcel{ID: "read by an instance that does not know yet"})
		h.Send(late)
		wait(10 * time.Second)
		require.Len(t, ran, 1)
		require.Equal(t, "running", <-ran)
		require.Equal(t, 2, next.Left())
		require.NoError(t, h.Stop())
		require.Len(t, h.Reports(), 1, "the attempt that ran is reported")
	})
}

// guarded answers Confirm by a function of how often it was asked.
type guarded struct {
	*agenttest.Source
	answer func(n int) (map[int32]int64, error)
	mu     sync.Mutex
	asked  int
}

func (g *guarded) Confirm(context.Context) (map[int32]int64, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.asked++
	return g.answer(g.asked)
}

func (g *guarded) count() int {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.asked
}

func guard(answer func(n int) (map[int32]int64, error)) (*guarded, agenttest.Option) {
	g := &guarded{answer: answer}
	return g, func(c *agent.Config) {
		g.Source = c.Sources["package"].(*agenttest.Source)
		c.Sources["package"] = g
	}
}

var ours = map[int32]int64{0: 1, 1: 1}

func TestWorkWaitsUntilTheGroupConfirmsOwnership(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		g, option := guard(func(int) (map[int32]int64, error) {
			if time.Since(began) < 2*time.Second {
				return nil, errors.New("no answer")
			}
			return ours, nil
		})
		h := agenttest.Start(t, handle(echo), option)
		short := h.Work("package", events.Do, parcel{})
		short.CompleteBy = events.At(began.Add(time.Second))
		h.Send(short)
		require.Equal(t, events.ResultCompleted, h.Do("package", parcel{}).Result)
		require.InDelta(t, 2, time.Since(began).Seconds(), 0.1)
		require.Len(t, h.Reports(), 1, "a request whose time is over is dropped")
		require.Equal(t, events.ResultCompleted, h.Do("package", parcel{}).Result)
		asked := g.count()
		require.Equal(t, events.ResultCompleted, h.Do("package", parcel{}).Result)
		require.Greater(t, g.count(), asked, "an answer from before a request was read proves nothing")
		require.NoError(t, h.Stop())
		require.EqualValues(t, 4, h.Sources["package"].Committed()[0])
	})
}

func TestAnOldConfirmationIsAskedForAgain(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		g, option := guard(func(n int) (map[int32]int64, error) {
			if n > 1 {
				return nil, nil
			}
			return ours, nil
		})
		var ran atomic.Int64
		h := agenttest.Start(t, handle(func(_ context.Context, in parcel) (parcel, error) {
			ran.Add(1)
			wait(4 * time.Second)
			return in, nil
		}, agent.Concurrency(1)), option)
		for range 2 {
			w := h.Work("package", events.Do, parcel{})
			w.CompleteBy = w.CompleteBy.Add(time.Minute)
			h.Send(w)
		}
		wait(10 * time.Second)
		require.EqualValues(t, 1, ran.Load(), "the second request has waited for longer than the confirmation is valid")
		require.Equal(t, 2, g.count())
	})
}

func TestAStopDoesNotWaitForAConfirmation(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		_, option := guard(func(int) (map[int32]int64, error) { return nil, errors.New("no answer") })
		h := agenttest.Start(t, handle(echo), option)
		h.Send(h.Work("package", events.Do, parcel{}))
		wait(time.Second)
		began := time.Now()
		require.NoError(t, h.Stop())
		require.Less(t, time.Since(began), 100*time.Millisecond)
		require.Empty(t, h.Reports())
		require.Empty(t, h.Sources["package"].Committed())
	})
}

// moved is a source whose partition was interrupted: it is the same partition under a new assignment, and is read again.
type moved struct {
	*agenttest.Source
	mu         sync.Mutex
	assignment int64
}

func (m *moved) now() int64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.assignment
}

func (m *moved) Assigned(int32) transport.Assigned {
	return transport.Assigned{Position: transport.Position{Assignment: m.now()}, Shared: (m.now() - 1) * 100}
}

func (m *moved) Confirm(context.Context) (map[int32]int64, error) {
	return map[int32]int64{0: m.now()}, nil
}

func (m *moved) Commit(ctx context.Context, positions map[int32]transport.Position) (map[int32]transport.Position, error) {
	if positions[0].Assignment != m.now() {
		return nil, nil
	}
	return m.Source.Commit(ctx, positions)
}

// A process does not repeat requests that it has finished, even if none of them was committed.
func TestAPartitionThatComesBackResumesWhereItWas(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		m := &moved{assignment: 1}
		ran := map[string]int{}
		var mu sync.Mutex
		h := agenttest.Start(t, handle(func(_ context.Context, in parcel) (parcel, error) {
			mu.Lock()
			ran[in.ID]++
			mu.Unlock()
			if in.ID == "long" {
				wait(time.Second)
				return in, agent.NoEffect(errBoom)
			}
			return in, nil
		}, agent.Concurrency(2)), func(c *agent.Config) {
			m.Source = c.Sources["package"].(*agenttest.Source)
			c.Sources["package"] = m
			c.CommitEvery = time.Minute
		})
		var records []events.Record
		var works []events.Work
		for i, id := range []string{"long", "done", "done too"} {
			w := h.Work("package", events.Do, parcel{ID: id})
			r := h.Record(w)
			r.Offset = m.Add(r)
			require.EqualValues(t, i, r.Offset)
			records, works = append(records, r), append(works, w)
		}
		synctest.Wait()
		m.mu.Lock()
		m.assignment = 2
		m.mu.Unlock()
		for _, r := range records {
			m.Redeliver(r)
		}
		r, ok := h.Await(works[0])
		require.True(t, ok)
		require.Equal(t, events.EffectInDoubt, r.Effect, "another may have had it in between")
		require.NoError(t, h.Stop())
		require.Equal(t, map[string]int{"long": 1, "done": 1, "done too": 1}, ran)
		require.EqualValues(t, 3, m.Committed()[0])
	})
}

// The other instance may still be working on the request when this one has completed it.
func TestASuccessOfASharedRequestIsInDoubt(t *testing.T) {
	t.Parallel()
	for name, outcome := range map[string]error{"completed": nil, "over": agent.Ended(errBoom)} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				h := agenttest.Start(t, handle(func(_ context.Context, in parcel) (parcel, error) {
					wait(3 * time.Second)
					return in, nil
				}))
				w := h.Work("package", events.Do, parcel{})
				h.Send(w)
				synctest.Wait()

				next := h.Sources["package"].Successor()
				second := agenttest.Start(t, handle(func(_ context.Context, in parcel) (parcel, error) { return in, outcome }),
					func(c *agent.Config) { c.Sources["package"] = next })
				r, ok := second.Await(w)
				require.True(t, ok)
				require.Equal(t, events.EffectInDoubt, r.Effect)
				wait(4 * time.Second)

				later := second.Work("package", events.Do, parcel{})
				later.Task = "later"
				next.Add(second.Record(later))
				r, ok = second.Await(later)
				require.True(t, ok)
				require.NotEqual(t, events.EffectInDoubt, r.Effect, "no other instance can have this request")
			})
		})
	}
}

// What another instance has undone is not there any more.
func TestAnUndoKnowsThatItMayHaveRunBefore(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var repeated []bool
		undo := agent.WithUndo(func(ctx context.Context, _ agent.Undo[parcel, parcel]) error {
			a, _ := agent.FromContext(ctx)
			repeated = append(repeated, a.Repeated)
			if len(repeated) == 1 {
				wait(3 * time.Second)
			}
			return nil
		})
		do := func(_ context.Context, in parcel) (parcel, error) { return in, nil }
		h := agenttest.Start(t, handle(do, undo))
		w := h.Work("package", events.Undo, parcel{})
		h.Send(w)
		synctest.Wait()
		next := h.Sources["package"].Successor()
		second := agenttest.Start(t, handle(do, undo), func(c *agent.Config) { c.Sources["package"] = next })
		_, ok := second.Await(w)
		require.True(t, ok)
		require.Equal(t, []bool{false, true}, repeated)
		wait(4 * time.Second)
	})
}
