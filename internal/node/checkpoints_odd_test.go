package node_test

import (
	"encoding/json"
	"fmt"
	"hash/crc32"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/sagalog/sagalog/internal/api"
	"github.com/sagalog/sagalog/internal/kafka/kafkatest"
	"github.com/sagalog/sagalog/internal/node"
	"github.com/sagalog/sagalog/projector"
	"github.com/stretchr/testify/require"
)

// Nodes may share a directory of checkpoints: each removes only old ones that it made, and nothing of the user, whatever its name is.
func TestNodesThatShareADirectoryKeepEachOthersCheckpoints(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w := setup(t, 1)
		shared := filepath.Join(t.TempDir(), "shared")
		as := func(name string) func(*node.Config) {
			return func(c *node.Config) {
				c.Name, c.Checkpoints = name, node.Checkpoints{Dir: shared, Records: 1, Keep: 1}
			}
		}
		mine := filepath.Join(shared, "auto-mine")
		require.NoError(t, os.MkdirAll(mine, 0o700))
		require.NoError(t, os.WriteFile(filepath.Join(mine, "notes"), nil, 0o600))
		names := func() (list []string) {
			found, err := projector.FindCheckpoints(projector.OnDisk(), shared)
			require.NoError(t, err)
			for _, f := range found {
				if f.Err == nil {
					list = append(list, f.Node+" "+f.Name)
				}
			}
			return list
		}
		one := t.TempDir()
		n := w.node(one, as("one"))
		w.apply(n, order)
		w.hire(nil)
		w.submit("a")
		w.watch.ended("a")
		time.Sleep(5 * time.Second) // virtual
		require.NoError(t, n.stop())
		ofOne := names()
		require.Len(t, ofOne, 1)
		n = w.node(t.TempDir(), as("two")) // it begins with that of the other, and has folded more than nothing since
		require.Len(t, w.logs.find("the state was restored from a checkpoint"), 1)
		for _, task := range []string{"b", "c", "d"} {
			w.submit(task)
			w.watch.ended(task)
			time.Sleep(5 * time.Second)
		}
		require.NoError(t, n.stop())
		now := names()
		require.Len(t, now, 2)
		require.Contains(t, now, ofOne[0])
		require.FileExists(t, filepath.Join(mine, "notes"))
	})
}

// While another process makes a checkpoint in a directory, none is made there, and what it is making is not removed.
func TestADirectoryOfCheckpointsInUseIsLeftAlone(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w := setup(t, 1)
		dir := t.TempDir()
		place := filepath.Join(dir, "checkpoints")
		lock, err := projector.LockCheckpoints(projector.OnDisk(), place)
		require.NoError(t, err)
		making := filepath.Join(place, "theirs.partial")
		require.NoError(t, os.Mkdir(making, 0o700))
		require.NoError(t, os.WriteFile(filepath.Join(making, "being-made"), nil, 0o600))
		n := w.node(dir)
		_, err = n.Checkpoints().MakeCheckpoint(t.Context(), "x")
		require.ErrorIs(t, err, api.ErrCheckpointBusy)
		require.DirExists(t, making)
		require.NoError(t, lock.Close())
		_, err = n.Checkpoints().MakeCheckpoint(t.Context(), "x")
		require.NoError(t, err)
		require.NoError(t, n.stop())
	})
}

// withCheckpoints runs a node over two batches of tasks, makes a checkpoint after each, and stops the node. The log is cut to begin within the
// second batch if cut is true.
func withCheckpoints(t *testing.T, cut bool) (w *world, dir string, made []api.CheckpointDocument) {
	w, dir = setup(t, 1), t.TempDir()
	n := w.node(dir)
	w.apply(n, order)
	w.hire(nil)
	for _, name := range []string{"one", "two", "three"} {
		tasks := ids(name, 5)
		w.submit(tasks...)
		w.watch.ended(tasks...)
		d, err := n.Checkpoints().MakeCheckpoint(t.Context(), name)
		require.NoError(t, err)
		made = append(made, d)
	}
	require.NoError(t, n.stop())
	if cut {
		kafkatest.DeleteRecords(t, w.broker, w.topics.Events(), 0, made[1].Partitions[0].Offset-3)
	}
	return w, dir, made
}

// spoiled changes one byte in each table of a checkpoint. If sums is true, the manifest says that they are whole: so is a copy of a damaged store.
func spoiled(t *testing.T, dir string, sums bool) {
	t.Helper()
	c, err := projector.ReadCheckpoint(projector.OnDisk(), dir)
	require.NoError(t, err)
	castagnoli := crc32.MakeTable(crc32.Castagnoli)
	for i, f := range c.Files {
		if !strings.HasSuffix(f.Name, ".sst") {
			continue
		}
		path := filepath.Join(dir, "state", f.Name)
		b, err := os.ReadFile(path)
		require.NoError(t, err)
		b[len(b)/4] ^= 1
		require.NoError(t, os.Remove(path)) // it is shared with the state
		require.NoError(t, os.WriteFile(path, b, 0o600))
		c.Files[i].Sum = fmt.Sprintf("%08x", crc32.Checksum(b, castagnoli))
	}
	if !sums {
		return
	}
	c.Sum = ""
	b, err := json.Marshal(c)
	require.NoError(t, err)
	c.Sum = fmt.Sprintf("%08x", crc32.Checksum(b, castagnoli))
	b, err = json.Marshal(c)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(filepath.Join(dir, projector.CheckpointManifest), b, 0o600))
	_, err = projector.ReadCheckpoint(projector.OnDisk(), dir)
	require.NoError(t, err)
}

// The log was cut, and the newest checkpoint is damaged: the one before is taken, and one that ends before the log never.
func TestAnOlderCheckpointIsTakenIfTheNewestIsDamaged(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w, dir, made := withCheckpoints(t, true)
		require.NoError(t, os.RemoveAll(filepath.Join(dir, "state")))
		spoiled(t, made[2].Path, false)
		n := w.node(dir)
		require.Len(t, w.logs.find("a checkpoint is not used"), 1)
		require.Contains(t, w.logs.find("the state was restored from a checkpoint")[0], made[1].Path)
		w.submit("t-new")
		w.watch.ended("t-new")
		require.NoError(t, n.stop())

		require.NoError(t, os.RemoveAll(filepath.Join(dir, "state")))
		spoiled(t, made[1].Path, false)
		_, err := w.open(dir)
		require.ErrorIs(t, err, node.ErrGap)
		found := w.logs.find("a checkpoint is not used")
		require.Contains(t, strings.Join(found, "\n"), "the records between are gone")
	})
}

// damagedState marks a state as found damaged.
func damagedState(t *testing.T, dir string) {
	t.Helper()
	require.NoError(t, os.WriteFile(filepath.Join(dir, "state", "DAMAGED"), []byte("a test"), 0o600))
}

// A damaged state over a log that was cut cannot be rebuilt from the log. A checkpoint takes its place, and it is kept, as is one that was kept before.
func TestACheckpointReplacesADamagedState(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w, dir, made := withCheckpoints(t, true)
		damagedState(t, dir)
		kept := filepath.Join(dir, "state.replaced")
		require.NoError(t, os.Mkdir(kept, 0o700))
		require.NoError(t, os.WriteFile(filepath.Join(kept, "only-record"), nil, 0o600))
		n := w.node(dir)
		require.Contains(t, w.logs.find("the state was restored from a checkpoint")[0], made[2].Path)
		require.FileExists(t, filepath.Join(kept, "only-record"))
		require.FileExists(t, filepath.Join(kept+"-2", "DAMAGED"))
		w.submit("t-new")
		w.watch.ended("t-new")
		require.NoError(t, n.stop())
	})
}

// A checkpoint that was made of a damaged store, before anybody noticed, is whole by its checksums. A damaged state must not be replaced by it at
// each start.
func TestADamagedStateIsNotReplacedByItsCopy(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w, dir, made := withCheckpoints(t, false)
		damagedState(t, dir)
		spoiled(t, made[2].Path, true)
		n := w.node(dir)
		require.Len(t, w.logs.find("a checkpoint is not used"), 1)
		require.Contains(t, w.logs.find("the state was restored from a checkpoint")[0], made[1].Path)
		require.NoError(t, n.stop())
		w.proveHashes(dir)
	})
}

// The topic was deleted and made again. A checkpoint from before the first fact belongs to any log; it must not take the place of a state with facts.
func TestAnEmptyCheckpointReplacesNoFacts(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w := setup(t, 1)
		dir := t.TempDir()
		n := w.node(dir)
		w.apply(n, order)
		w.hire(nil)
		w.submit("a")
		w.watch.ended("a")
		d, err := n.Checkpoints().MakeCheckpoint(t.Context(), "empty")
		require.NoError(t, err)
		require.NoError(t, n.stop())
		c, err := projector.ReadCheckpoint(projector.OnDisk(), d.Path)
		require.NoError(t, err)
		require.NoError(t, os.RemoveAll(d.Path))
		store, err := projector.Open(filepath.Join(t.TempDir(), "state"), projector.Options{Namespace: c.NamespaceID})
		require.NoError(t, err)
		_, err = projector.MakeCheckpoint(t.Context(), store, d.Path, projector.About{Namespace: c.Namespace, NamespaceID: c.NamespaceID, Time: c.Time})
		require.NoError(t, err)
		require.NoError(t, store.Close())

		w.watch.pauseErrors()
		kafkatest.DeleteTopic(t, w.broker, w.topics.Events())
		for _, s := range w.topics.Base(1) {
			if s.Name == w.topics.Events() {
				kafkatest.Create(t, w.cluster, s)
			}
		}
		for range 2 {
			_, err = w.open(dir)
			require.ErrorIs(t, err, node.ErrGap)
		}
		require.NoDirExists(t, filepath.Join(dir, "state.replaced"))
	})
}
