package node_test

import (
	"testing"
	"time"

	"github.com/sagalog/sagalog/internal/api"
	"github.com/stretchr/testify/require"
)

// Each node remembers the take-overs of all, with their causes if it was there, also after its restart. A node that begins later reads who
// and when in the log.
func TestEachNodeKnowsTheTakeoversOfAll(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w := setup(t, 4)
		one := w.node(t.TempDir(), together)
		w.apply(one, order)
		w.hire(nil)
		w.shared(one.name)
		require.Empty(t, one.ClusterView().TakeOvers(0), "nobody owned it before")
		two := w.node(t.TempDir(), together)
		w.shared("node-1", "node-2")
		two.kill()
		w.shared("node-1")
		w.submit(ids("t", 8)...)
		w.watch.ended(ids("t", 8)...)
		var moved int32 = -1
		for p := range w.parts {
			if len(one.ClusterView().TakeOvers(p)) > 0 {
				moved = p
			}
		}
		require.GreaterOrEqual(t, moved, int32(0))
		list := one.ClusterView().TakeOvers(moved)
		require.Len(t, list, 2)
		back, there := list[0], list[1]
		require.Equal(t, []string{"node-2", "node-1"}, []string{back.From, back.Owner})
		require.Equal(t, "silent", back.Cause)
		require.NotNil(t, back.Gap)
		require.Greater(t, time.Duration(*back.Gap), time.Second, "until its session had ended")
		require.NotNil(t, back.Void)
		require.Equal(t, []string{"node-1", "node-2"}, []string{there.From, there.Owner})
		require.Equal(t, "stopped", there.Cause, "which the other node said")
		require.Nil(t, there.Gap, "only the other node knew")
		require.Less(t, there.At, back.At)
		require.NoError(t, one.stop())

		again := w.node(one.dir, together)
		w.shared(again.name)
		var after []api.PastTakeOver
		w.soon("its own take-over is above them", func() bool {
			after = again.ClusterView().TakeOvers(moved)
			return len(after) == 1+len(list)
		})
		require.Equal(t, plain(list), plain(after[1:]))
		late := w.node(t.TempDir(), together)
		w.shared(again.name, late.name)
		var read []api.PastTakeOver
		w.soon("it has read them", func() bool {
			read = late.ClusterView().TakeOvers(moved)
			return len(read) >= len(list)
		})
		for i, x := range read[len(read)-len(list):] {
			require.NotNil(t, x.Void)
			x.Void = nil
			require.Equal(t, api.PastTakeOver{Owner: list[i].Owner, From: list[i].From, Epoch: list[i].Epoch, At: list[i].At}, x, "from the log alone")
		}
		require.NoError(t, again.stop())
		require.NoError(t, late.stop())
		w.watch.verify()
	})
}

// plain leaves out the void records, which a node that was restarted does not know.
func plain(list []api.PastTakeOver) (all []api.PastTakeOver) {
	for _, x := range list {
		x.Void = nil
		all = append(all, x)
	}
	return all
}
