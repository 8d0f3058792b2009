package node_test

import (
	"context"
	"runtime"
	"testing"
	"time"

	"github.com/sagalog/sagalog/agent"
	"github.com/sagalog/sagalog/events"
	"github.com/sagalog/sagalog/projector"
	"github.com/stretchr/testify/require"
)

// Thousands of tasks share two slots. The waiting ones are in the store and not in memory, and all of them end.
func TestWaitingTasksAreInTheStore(t *testing.T) {
	const tasksInMemory = 8192 + 3*500 // the tasks that an owner keeps, plus its appends in flight
	t.Parallel()                       // in real time: in a bubble, time and therefore heartbeats stop while anything runs
	w := setup(t, 1)
	dir := t.TempDir()
	n := w.node(dir)
	w.apply(n, single("w", 1))
	open := make(chan struct{})
	act := func(ctx context.Context, a agent.Attempt) error {
		select {
		case <-open:
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	small := w.hire(act, agent.Concurrency(2))
	w.windowKnown(n, "stock")
	tasks := ids("t", rounds(t, 1_000, 20_000))
	var list []events.Record
	for _, id := range tasks {
		list = append(list, events.Record{Key: []byte(id), Value: []byte(`{"workflow":"w"}`)})
	}
	w.produce(w.topics.Submissions(), -1, list...)
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	info, err := n.Store().Wait(ctx, 0, func(i projector.Info) bool { return i.Live == int64(len(tasks)) })
	require.NoError(t, err)
	status, err := n.Status(0)
	require.NoError(t, err)
	require.LessOrEqual(t, status.InMemory, tasksInMemory)
	require.Greater(t, info.Ready["stock"], int64(len(tasks)-200), "all the others wait in the store")
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	t.Logf("%d tasks in memory, %d in the queue of the store, heap %d MiB", status.InMemory, info.Ready["stock"], m.HeapAlloc>>20)
	close(open)
	small.leave()                       // two members cannot share the topic's only partition
	w.hire(act, agent.Concurrency(256)) // the queue has waited for it
	w.watch.ended(tasks...)
	status, _ = n.Status(0)
	require.LessOrEqual(t, status.InMemory, tasksInMemory)
	require.NoError(t, n.stop())
	w.watch.verify()
	w.proveHashes(dir)
}

// windowKnown waits until the node knows how much work the agent can take.
func (w *world) windowKnown(n *process, name string) {
	w.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	for {
		list, err := n.ClusterView().Agents(ctx)
		require.NoError(w.t, err)
		for _, a := range list {
			if a.Capacity[name] > 0 {
				timer := time.NewTimer(2 * time.Second) // virtual time, until the owners know it
				defer timer.Stop()
				<-timer.C
				return
			}
		}
		w.pause(ctx, "a heartbeat of "+name)
	}
}
