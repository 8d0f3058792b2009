package node_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sagalog/sagalog/internal/kafka/embedded"
	"github.com/sagalog/sagalog/internal/kafka/kafkatest"
	"github.com/sagalog/sagalog/supervisor"
	"github.com/stretchr/testify/require"
)

// restart closes the broker, applies change to its files, and opens it again.
func (w *world) restart(disk string, change func()) {
	w.t.Helper()
	require.NoError(w.t, w.broker.Close())
	change()
	w.broker = kafkatest.StartBroker(w.t, embedded.Config{Network: w.network, Dir: disk})
}

// copied copies a directory into an empty one.
func copied(t *testing.T, from, to string) {
	t.Helper()
	require.NoError(t, os.RemoveAll(to))
	require.NoError(t, os.CopyFS(to, os.DirFS(from)))
}

// history is a world on disk whose broker's files were copied before its last tasks.
type history struct {
	*world
	disk, copy, dir string
}

// diverge makes a history with some tasks before the copy and some after it. The node is stopped afterwards.
func diverge(t *testing.T) *history {
	h := &history{disk: t.TempDir(), copy: filepath.Join(t.TempDir(), "copy"), dir: t.TempDir()}
	h.world = setupOn(t, 1, h.disk)
	n := h.node(h.dir)
	h.apply(n, order)
	crew := h.hire(nil)
	before, after := ids("before", 10), ids("after", 10)
	h.submit(before...)
	h.watch.ended(before...)
	require.NoError(t, n.stop())
	h.restart(h.disk, func() { copied(t, h.disk, h.copy) })
	n = h.node(h.dir)
	h.submit(after...)
	h.watch.ended(after...)
	require.NoError(t, n.stop())
	crew.leave()
	return h
}

// refresh replaces the observer, because the log that it followed is gone.
func (h *history) refresh() { h.watch = observe(h.world) }

func TestALogThatWasCutAndRefilledIsRebuilt(t *testing.T) {
	for name, refilled := range map[string]int{"shorter than before": 2, "longer than before": 30} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				h := diverge(t)
				h.watch.pauseErrors()
				h.restart(h.disk, func() { copied(t, h.copy, h.disk) })
				h.refresh()
				h.hire(nil)
				other := h.node(t.TempDir())
				others := ids("other", refilled)
				h.submit(others...)
				h.watch.ended(others...)
				require.NoError(t, other.stop())
				require.Empty(t, h.logs.find("is rebuilt from the log"))

				n := h.node(h.dir)
				require.Len(t, h.logs.find("the log is not the one that the state was folded from"), 1)
				h.submit("t-new")
				h.watch.ended("t-new")
				require.NotNil(t, h.found("other-0001"))
				require.Nil(t, h.found("after-0001"))
				task, err := n.Tasks().Task(t.Context(), "after-0001")
				require.NoError(t, err)
				require.Nil(t, task, "a task that is not in the log is forgotten")
				require.NoError(t, n.stop())
				h.watch.verify()
				h.proveHashes(h.dir)
			})
		})
	}
}

func TestAnInputThatLostRecordsStopsThePartition(t *testing.T) {
	for name, refill := range map[string]bool{"cut": false, "cut and refilled": true} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				h := diverge(t)
				h.watch.pauseErrors()
				h.restart(h.disk, func() { h.replaceTopic(h.topics.Submissions()) })
				if refill {
					h.submit(ids("other", 30)...)
				}
				p, err := h.open(h.dir)
				require.NoError(t, err)
				p.run()
				t.Cleanup(func() { _ = p.stop() })
				h.stopped(p)
				err = p.Ready()
				require.ErrorIs(t, err, supervisor.ErrInputLost)
				require.NotEmpty(t, h.logs.find("ERROR the partition stopped"))
				if !refill {
					require.ErrorContains(t, err, "sagalog.submissions partition 0 ends at offset 10, and the log has judged everything below offset 20")
				}
				t.Log(err)
				require.NoError(t, p.stop())
			})
		})
	}
}

// replaceTopic replaces the files of a topic's partitions by those of the copy.
func (h *history) replaceTopic(topic string) {
	h.t.Helper()
	found := 0
	require.NoError(h.t, filepath.WalkDir(h.copy, func(path string, d os.DirEntry, err error) error {
		if err == nil && d.IsDir() && strings.HasPrefix(d.Name(), topic+"-") {
			rel, _ := filepath.Rel(h.copy, path)
			copied(h.t, path, filepath.Join(h.disk, rel))
			found++
		}
		return err
	}))
	require.Positive(h.t, found)
	// The broker has noticed that its files were replaced. An operator who trusts the copy does this.
	require.NoError(h.t, os.Remove(filepath.Join(h.disk, "sums.json")))
}

// stopped waits until partition 0 of the node has stopped.
func (w *world) stopped(p *process) {
	w.t.Helper()
	for {
		if s, _ := p.Status(0); s.Phase == "stopped" {
			return
		}
		w.pause(w.t.Context(), "the partition to stop")
	}
}
