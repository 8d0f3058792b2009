package node_test

import (
	"context"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sagalog/sagalog/events"
	"github.com/sagalog/sagalog/internal/node"
	"github.com/sagalog/sagalog/internal/verify"
	"github.com/sagalog/sagalog/internal/verify/kafkalog"
)

// docs/protocol.md, "The log is cut where a carry begins". Facts are deleted once they are older than keep_log. A node without a state begins at the
// cut, one whose state ends before it does so too, and the embedded broker remembers where the log begins, also after kill -9.
func TestTheLogIsCut(t *testing.T) {
	bubble(t, func(t *testing.T) {
		disk, dir := t.TempDir(), t.TempDir()
		w := setupOn(t, 1, disk)
		keep := func(c *node.Config) {
			node.Trims(c)
			c.Settings = events.DefaultSettings()
			c.Settings.KeepLog = events.Duration(40 * time.Second)
		}
		begin := func() int64 {
			b, _ := w.begins(w.topics.Events())
			return b
		}
		run := func(what string) {
			for i := range 8 {
				list := ids(what+string(rune('a'+i)), 5)
				w.submit(list...)
				w.watch.ended(list...)
				<-time.After(15 * time.Second)
			}
		}
		n := w.node(dir, keep)
		w.apply(n, order)
		crew := w.hire(nil)
		older := t.TempDir()
		run("a")
		first := begin()
		require.Positive(t, first)
		shown, err := n.ClusterView().Partitions(t.Context())
		require.NoError(t, err)
		inputs, _ := w.begins(w.topics.Submissions())
		require.Positive(t, inputs)
		require.LessOrEqual(t, first, shown[0].Begins.Events)
		require.LessOrEqual(t, inputs, shown[0].Begins.Submissions)
		require.NoError(t, n.stop())
		m := w.node(older, keep) // without a state
		run("b")
		require.Greater(t, begin(), first)
		carried, err := m.BeginsWithCarry(t.Context(), 0, first)
		require.NoError(t, err, "of a log that is cut between the two questions")
		require.True(t, carried)
		require.NoError(t, m.stop())
		w.proveHashes(older)
		second := begin()
		crashed := filepath.Join(t.TempDir(), "copy")
		copied(t, disk, crashed) // as kill -9 would leave it
		w.restart(crashed, func() {})
		require.Equal(t, second, begin())
		n = w.node(dir, keep) // its state ends before the cut
		run("c")
		require.NoError(t, n.stop())
		w.proveHashes(dir)
		w.everyCallIsInTheLog(crew)
		w.proveCut()
	})
}

// proveCut checks everything that the log and its inputs and effects still hold.
func (w *world) proveCut() {
	w.t.Helper()
	r, err := verify.Run(context.Background(), verify.Config{Log: kafkalog.Log{Cluster: w.cluster}, Topics: kafkalog.Topics(w.topics.Namespace), AtRest: true, Now: events.At(time.Now())})
	require.NoError(w.t, err)
	require.Empty(w.t, r.Findings)
	require.Equal(w.t, verify.Proved, r.Verdict, "%+v", r.Checks)
	require.Positive(w.t, r.Counts.Carried)
	require.Positive(w.t, r.Counts.Tasks)
	require.Positive(w.t, r.Partitions[0].From)
	require.NotEmpty(w.t, r.Checks[0].Trimmed)
}
