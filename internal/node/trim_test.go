package node_test

import (
	"context"
	"testing"
	"time"

	"github.com/sagalog/sagalog/events"
	"github.com/sagalog/sagalog/internal/node"
	"github.com/stretchr/testify/require"
)

// begins returns where a partition of a topic begins, and where it ends.
func (w *world) begins(topic string) (begin, end int64) {
	w.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	begin, err := w.cluster.StartOffset(ctx, topic, 0)
	require.NoError(w.t, err)
	end, err = w.cluster.EndOffset(ctx, topic, 0)
	require.NoError(w.t, err)
	return begin, end
}

// docs/protocol.md, "Inputs are trimmed". The last record of each partition stays, the embedded broker remembers where they begin, and a node
// with its own state or with none finds all that it needs.
func TestInputsAndWorkAreTrimmed(t *testing.T) {
	bubble(t, func(t *testing.T) {
		disk, dir := t.TempDir(), t.TempDir()
		w := setupOn(t, 1, disk)
		n := w.node(dir, node.Trims)
		w.apply(n, order)
		crew := w.hire(nil)
		trimmed := func(what ...string) {
			t.Helper()
			w.submit(what...)
			w.watch.ended(what...)
			<-time.After(20 * time.Second)
			for _, topic := range []string{w.topics.Submissions(), w.topics.Reports(), w.topics.Work("stock")} {
				begin, end := w.begins(topic)
				require.Greater(t, end, int64(10))
				require.Equal(t, end-1, begin, topic)
			}
		}
		trimmed(ids("a", 20)...)
		require.NoError(t, n.stop())
		w.restart(disk, func() {})
		begin, end := w.begins(w.topics.Submissions())
		require.Equal(t, []int64{19, 20}, []int64{begin, end})
		n = w.node(dir, node.Trims)
		trimmed(ids("b", 20)...)
		require.NoError(t, n.stop())
		rebuilt := t.TempDir()
		n = w.node(rebuilt, node.Trims)
		trimmed(ids("c", 20)...)
		require.NoError(t, n.stop())
		w.watch.verify()
		w.everyCallIsInTheLog(crew)
		w.proveHashes(dir, rebuilt)
	})
}

func TestInputsStayIfTheNodeShallKeepThem(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w := setup(t, 1)
		n := w.node(t.TempDir(), func(c *node.Config) { node.Trims(c); c.KeepInputs = true })
		w.apply(n, order)
		w.hire(nil)
		w.submit(ids("a", 20)...)
		w.watch.ended(ids("a", 20)...)
		<-time.After(20 * time.Second)
		begin, _ := w.begins(w.topics.Submissions())
		require.Zero(t, begin, "KeepInputs")
	})
}

// Requests for work that no group reads stay until their time is over.
func TestWorkWithoutAGroupStaysUntilItsTimeIsOver(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w := setup(t, 1)
		n := w.node(t.TempDir())
		w.apply(n, order)
		var list []events.Record
		for i, in := range []time.Duration{-time.Hour, -10 * time.Second, time.Minute, -time.Hour} {
			r, err := events.EncodeWork(events.Work{Task: "t", Agent: "stock", Step: "s", Attempt: i + 1, Operation: events.Do, CompleteBy: events.At(time.Now().Add(in))}, events.Subject{ID: "x", Source: "/test", Time: events.At(time.Now())})
			require.NoError(t, err)
			list = append(list, r)
		}
		topic := w.topics.Alerts() // any topic will do
		w.produce(topic, 0, append([]events.Record{{Value: []byte("no request")}}, list...)...)
		at, err := n.Expired(topic, 0, 0, 5)
		require.NoError(t, err)
		require.Equal(t, int64(3), at, "the one whose time is not over stays, and so does what is behind it")
		at, err = n.Expired(topic, 0, 0, 2)
		require.NoError(t, err)
		require.Equal(t, int64(2), at)
	})
}
