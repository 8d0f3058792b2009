//go:build synctests

package node_test

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sagalog/sagalog/agent"
	"github.com/sagalog/sagalog/events"
	"github.com/stretchr/testify/require"
)

// hourLong is a workflow whose first step may take an hour.
const hourLong = `
workflow: order
defaults: {complete_within: 5s, retry: {attempts: 3, backoff: 200ms, then: undo}}
steps:
  train: {agent: stock, complete_within: 1h, undo: {}}
  publish: {agent: bank, needs: [train]}
`

// A step of an hour is cancelled. Its agent sees its context end within a second and says that nothing is under way any more, so the undo
// starts at once. If the owner dies before the stop leaves, no other owner sends it: the agent sees the end of its context only when its
// time is over, and the task is undone then.
func TestFaultAnHourLongStepIsCancelled(t *testing.T) {
	for name, lost := range map[string]bool{"the stop arrives": false, "the stop is lost": true} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				w := setup(t, 1)
				dir := t.TempDir()
				n := w.node(dir)
				w.apply(n, hourLong)
				var mu sync.Mutex
				var stopped, undone time.Time
				crew := w.hire(func(ctx context.Context, a agent.Attempt) error {
					if a.Operation == events.Undo {
						mu.Lock()
						undone = time.Now()
						mu.Unlock()
						return nil
					}
					<-ctx.Done()
					mu.Lock()
					stopped = time.Now()
					mu.Unlock()
					return agent.Permanent(agent.Ended(ctx.Err()))
				})
				w.windowKnown(n, "stock")
				var dropped atomic.Int64
				if lost {
					n.net.inject([][]byte{[]byte(events.TypeStop)}, func(int) fate {
						dropped.Add(1)
						return fate{cutBefore: true}
					})
				}
				w.submit("t")
				w.watch.await("the step runs", func() bool { return len(crew.of("t", "train", events.Do)) == 1 })
				<-time.After(5 * time.Minute)
				asked := time.Now()
				w.request(events.RequestCancel, "t", "c")
				w.watch.state("t", events.TaskStateUndoing, events.TaskStateUndone) // the stop may end it before anyone looks
				if lost {
					w.soon("the stop is sent", func() bool { return dropped.Load() > 0 })
					n.kill()
					n = w.node(dir)
					<-time.After(time.Minute)
					mu.Lock()
					require.Zero(t, stopped, "nothing else stops the attempt")
					mu.Unlock()
					<-time.After(54 * time.Minute)
				}
				w.watch.ended("t")
				w.watch.state("t", events.TaskStateUndone)
				mu.Lock()
				defer mu.Unlock()
				if lost {
					require.Greater(t, stopped.Sub(asked), 54*time.Minute)
				} else {
					require.Less(t, stopped.Sub(asked), time.Second)
					require.Less(t, undone.Sub(stopped), time.Second)
				}
				require.False(t, undone.Before(stopped))
				require.Len(t, crew.of("t", "train", events.Do), 1)
				require.Len(t, crew.of("t", "train", events.Undo), 1)
				require.NoError(t, n.stop())
				w.watch.verify()
				w.everyCallIsInTheLog(crew)
				w.proveHashes(dir)
			})
		})
	}
}

// An attempt that an operator fails is stopped like one whose task turned back.
func TestFaultAnAttemptThatAnOperatorFailsIsStopped(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w := setup(t, 1)
		n := w.node(t.TempDir())
		w.apply(n, hourLong)
		ended := make(chan time.Time, 1)
		crew := w.hire(func(ctx context.Context, a agent.Attempt) error {
			if a.Operation == events.Do && a.Step == "train" && a.Attempt == 1 {
				<-ctx.Done()
				ended <- time.Now()
				return agent.Ended(ctx.Err())
			}
			return nil
		})
		w.windowKnown(n, "stock")
		w.submit("t")
		w.watch.await("the step runs", func() bool { return len(crew.of("t", "train", events.Do)) == 1 })
		asked := time.Now()
		q := events.Request{ID: "f", Kind: events.RequestFail, Task: "t", Step: "train", Error: &events.Error{Class: events.ClassRetryable, Message: "it hangs"}}
		r, err := events.EncodeRequest(q, events.Subject{ID: q.ID, Source: "/test", Time: events.At(asked)})
		require.NoError(t, err)
		w.produce(w.topics.Reports(), -1, r)
		require.Less(t, (<-ended).Sub(asked), time.Second)
		w.watch.state("t", events.TaskStateProcessed)
		require.Len(t, crew.of("t", "train", events.Do), 2, "the policy makes another attempt")
		require.NoError(t, n.stop())
		w.watch.verify()
	})
}
