package node_test

import (
	"context"
	"os"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"github.com/sagalog/sagalog/internal/api"
	"github.com/sagalog/sagalog/internal/kafka/kafkatest"
	"github.com/sagalog/sagalog/internal/node"
	"github.com/sagalog/sagalog/projector"
	"github.com/stretchr/testify/require"
)

// A checkpoint is made while tasks run. A node without a state begins with it, also while the first one runs on, and comes to the same hash.
func TestANodeWithoutAStateBeginsWithACheckpoint(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w := setup(t, 2)
		old := t.TempDir()
		n := w.node(old)
		w.apply(n, order)
		w.hire(nil)
		before, after := ids("before", 20), ids("after", 20)
		w.submit(before...)
		w.watch.ended(before...)
		d, err := n.Checkpoints().MakeCheckpoint(t.Context(), "one")
		require.NoError(t, err)
		require.Equal(t, filepath.Join(old, "checkpoints", "one"), d.Path)
		require.Len(t, d.Partitions, 2)
		w.submit(after...)
		w.watch.ended(after...)
		require.NoError(t, n.stop())

		fresh := t.TempDir()
		copied(t, filepath.Join(old, "checkpoints"), filepath.Join(fresh, "checkpoints"))
		n = w.node(fresh)
		require.Len(t, w.logs.find("the state was restored from a checkpoint"), 1)
		w.submit("t-new")
		w.watch.ended("t-new")
		require.NoError(t, n.stop())
		w.watch.verify()
		w.proveHashes(fresh)

		n = w.node(fresh) // it has a state now
		require.Len(t, w.logs.find("the state was restored from a checkpoint"), 1)
		require.NoError(t, n.stop())
	})
}

// What does not fit the log is passed over with the reason, and the log is folded from its beginning.
func TestACheckpointThatDoesNotFitIsNotUsed(t *testing.T) {
	for says, spoil := range map[string]func(t *testing.T, dir string){
		"is damaged": func(t *testing.T, dir string) {
			files, err := filepath.Glob(filepath.Join(dir, "state", "MANIFEST-*"))
			require.NoError(t, err)
			require.NoError(t, os.WriteFile(files[0], []byte("x"), 0o600))
		},
		"it holds no checkpoint.json": func(t *testing.T, dir string) {
			require.NoError(t, os.Remove(filepath.Join(dir, "checkpoint.json")))
		},
	} {
		t.Run(says, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				w := setup(t, 1)
				dir := t.TempDir()
				n := w.node(dir)
				w.apply(n, order)
				w.hire(nil)
				w.submit("a")
				w.watch.ended("a")
				d, err := n.Checkpoints().MakeCheckpoint(t.Context(), "")
				require.NoError(t, err)
				require.NoError(t, n.stop())
				spoil(t, d.Path)
				require.NoError(t, os.RemoveAll(filepath.Join(dir, "state")))
				n = w.node(dir)
				require.Len(t, w.logs.find("a checkpoint is not used"), 1)
				require.Contains(t, w.logs.find("a checkpoint is not used")[0], says)
				w.submit("b")
				w.watch.ended("b")
				require.NoError(t, n.stop())
				w.proveHashes(dir)
			})
		})
	}
}

// A log that was cut back and refilled does not hold the checkpoint's last record.
func TestACheckpointOfAnotherLogIsNotUsed(t *testing.T) {
	bubble(t, func(t *testing.T) {
		h := diverge(t)
		n := h.node(h.dir)
		_, err := n.Checkpoints().MakeCheckpoint(t.Context(), "late")
		require.NoError(t, err)
		require.NoError(t, n.stop())
		h.watch.pauseErrors()
		h.restart(h.disk, func() { copied(t, h.copy, h.disk) })
		h.refresh()
		h.hire(nil)
		require.NoError(t, os.RemoveAll(filepath.Join(h.dir, "state")))
		n = h.node(h.dir)
		found := h.logs.find("a checkpoint is not used")
		require.Len(t, found, 1)
		require.Contains(t, found[0], projector.ErrAnchor.Error())
		h.submit("t-new")
		h.watch.ended("t-new")
		require.NoError(t, n.stop())
		h.proveHashes(h.dir)
	})
}

func TestACheckpointIsMadeOnlyInItsDirectory(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w := setup(t, 1)
		dir := t.TempDir()
		n := w.node(dir)
		for _, to := range []string{
			"/tmp/x", "../x", "a/b", ".", "..", ".hidden", "x.partial", "auto-1", filepath.Join(dir, "x"),
			filepath.Join(dir, "checkpoints"), filepath.Join(dir, "checkpoints", "a", "b"), filepath.Join(dir, "checkpoints", "..", "x"),
		} {
			_, err := n.Checkpoints().MakeCheckpoint(t.Context(), to)
			require.ErrorIs(t, err, api.ErrCheckpointPlace, to)
		}
		_, err := n.Checkpoints().MakeCheckpoint(t.Context(), filepath.Join(dir, "checkpoints", "x"))
		require.NoError(t, err)
		_, err = n.Checkpoints().MakeCheckpoint(t.Context(), "x")
		require.ErrorIs(t, err, api.ErrCheckpointExists)
		for i := range 1000 {
			require.NoError(t, os.WriteFile(filepath.Join(dir, "checkpoints", strconv.Itoa(i)), nil, 0o600))
		}
		_, err = n.Checkpoints().MakeCheckpoint(t.Context(), "one-more")
		require.ErrorIs(t, err, api.ErrCheckpointMany)
		require.NoError(t, n.stop())
	})
}

// Checkpoints are made by time and by records, only while something is folded, and the last ones are kept. Those that were asked for stay.
func TestANodeMakesCheckpointsByTimeAndByRecords(t *testing.T) {
	for name, policy := range map[string]node.Checkpoints{
		"time": {Every: 2 * time.Minute, Keep: 2}, "records": {Records: 5, Keep: 2},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				w := setup(t, 1)
				dir := t.TempDir()
				n := w.node(dir, func(c *node.Config) { c.Checkpoints = policy })
				w.apply(n, order)
				w.hire(nil)
				_, err := n.Checkpoints().MakeCheckpoint(t.Context(), "mine")
				require.NoError(t, err)
				own := map[string]bool{}
				look := func() (now int) {
					found, err := projector.FindCheckpoints(projector.OnDisk(), filepath.Join(dir, "checkpoints"))
					require.NoError(t, err)
					for _, f := range found {
						require.NoError(t, f.Err)
						if f.Name != "mine" {
							own[f.Name] = true
							now++
						}
					}
					return now
				}
				for i, tasks := range [][]string{{"a"}, {"b"}, {"c"}} {
					w.submit(tasks...)
					w.watch.ended(tasks...)
					time.Sleep(3 * time.Minute) // virtual
					look()
					require.Greater(t, len(own), i)
				}
				require.Equal(t, 2, look(), "the last two are kept")
				many := len(own)
				if name == "records" {
					time.Sleep(5 * time.Minute)
					look()
					require.Equal(t, many, len(own), "nothing was folded")
				}
				_, err = os.Stat(filepath.Join(dir, "checkpoints", "mine", projector.CheckpointManifest))
				require.NoError(t, err)
				require.NoError(t, n.stop())
			})
		})
	}
}

// A directory that cannot be written costs a warning and a count; tasks go on.
func TestAFailedCheckpointHurtsNoTask(t *testing.T) {
	minutes(t)
	bubble(t, func(t *testing.T) {
		w := setup(t, 1)
		dir := t.TempDir()
		place := filepath.Join(dir, "checkpoints")
		require.NoError(t, os.WriteFile(place, nil, 0o600)) // a file where the directory should be
		n := w.node(dir, func(c *node.Config) { c.Checkpoints = node.Checkpoints{Records: 1} })
		w.apply(n, order)
		w.hire(nil)
		w.submit("a")
		w.watch.ended("a")
		time.Sleep(5 * time.Minute) // virtual
		require.NotEmpty(t, w.logs.find("a checkpoint of the state could not be made"))
		require.LessOrEqual(t, len(w.logs.find("a checkpoint of the state could not be made")), 6, "it is tried once a minute")
		w.submit("b")
		w.watch.ended("b")
		require.NoError(t, n.stop())
		w.proveHashes(dir)
	})
}

// A node was down while the log was cut behind its state. A checkpoint of another node takes the place of that state, which is kept.
func TestACheckpointReplacesAStateBeforeTheLog(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w := setup(t, 1)
		one, two := t.TempDir(), t.TempDir()
		n := w.node(one)
		w.apply(n, order)
		w.hire(nil)
		before, after := ids("before", 5), ids("after", 20)
		w.submit(before...)
		w.watch.ended(before...)
		require.NoError(t, n.stop())
		copied(t, one, two)
		n = w.node(one)
		w.submit(after...)
		w.watch.ended(after...)
		d, err := n.Checkpoints().MakeCheckpoint(t.Context(), "late")
		require.NoError(t, err)
		old, err := n.Store().PartitionInfo(0)
		require.NoError(t, err)
		require.NoError(t, n.stop())
		kafkatest.DeleteRecords(t, w.broker, w.topics.Events(), 0, d.Partitions[0].Offset-5)
		_, err = w.open(two)
		require.ErrorIs(t, err, node.ErrGap)
		copied(t, filepath.Join(one, "checkpoints"), filepath.Join(two, "checkpoints"))
		p, err := w.open(two)
		require.NoError(t, err)
		require.Len(t, w.logs.find("a checkpoint takes its place"), 1)
		require.DirExists(t, filepath.Join(two, "state.replaced"))
		info, err := p.Store().PartitionInfo(0)
		require.NoError(t, err)
		require.LessOrEqual(t, d.Partitions[0].Offset, old.Next)
		require.Equal(t, d.Partitions[0].Offset, info.Next)
		require.Equal(t, d.Partitions[0].Hash, info.StateHash.String())
		p.run()
		require.NoError(t, p.stop())
	})
}

// Each difference from the log has a sentence.
func TestWhatALogMustContainOfACheckpoint(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w := setup(t, 1)
		dir := t.TempDir()
		n := w.node(dir)
		w.apply(n, order)
		w.hire(nil)
		w.submit("a")
		w.watch.ended("a")
		d, err := n.Checkpoints().MakeCheckpoint(t.Context(), "one")
		require.NoError(t, err)
		require.NoError(t, n.stop())
		made, err := projector.ReadCheckpoint(projector.OnDisk(), d.Path)
		require.NoError(t, err)
		log := node.CheckpointLog{Cluster: w.cluster, Namespace: "sagalog", ID: d.NamespaceID, Partitions: 1}
		require.NoError(t, log.Fits(t.Context(), &made))
		for says, change := range map[string]func(c *projector.Checkpoint){
			"and the log is of namespace sagalog": func(c *projector.Checkpoint) { c.NamespaceID = "other" },
			"it was deleted and made again":       func(c *projector.Checkpoint) { c.TopicID[0] ^= 1 },
			"there is another record":             func(c *projector.Checkpoint) { c.Partitions[0].Anchor.Hash = "x" },
			"no longer in the log":                func(c *projector.Checkpoint) { c.Partitions[0].Anchor.Offset += 1000 },
			"the namespace has 1 partitions":      func(c *projector.Checkpoint) { c.Partitions[0].Partition = 1 },
		} {
			c := made
			c.Partitions = append([]projector.CheckpointPartition{}, made.Partitions...)
			change(&c)
			err := log.Fits(t.Context(), &c)
			require.ErrorIs(t, err, projector.ErrCheckpoint, says)
			require.ErrorContains(t, err, says)
		}
		without := made
		without.Partitions = nil
		require.NoError(t, log.Fits(t.Context(), &without), "the log holds all of the partition")
		kafkatest.DeleteRecords(t, w.broker, w.topics.Events(), 0, made.Partitions[0].Offset)
		require.NoError(t, log.Fits(t.Context(), &made), "nothing is missing")
		require.ErrorContains(t, log.Fits(t.Context(), &without), "it holds nothing of partition 0, whose log begins at offset")
		other := made
		other.Partitions = append([]projector.CheckpointPartition{}, made.Partitions...)
		other.Partitions[0].Anchor.TopicID[0] ^= 1
		require.ErrorIs(t, log.Fits(t.Context(), &other), projector.ErrAnchor, "it ends where the log begins, but was folded from another topic")
		cancelled, cancel := context.WithCancel(t.Context())
		cancel()
		err = log.Fits(cancelled, &made)
		require.Error(t, err)
		require.NotErrorIs(t, err, projector.ErrCheckpoint, "the brokers do not answer: the checkpoint may fit")
		made.Partitions[0].Offset--
		require.ErrorContains(t, log.Fits(t.Context(), &made), "the records between are gone")
	})
}

// What a killed process left is removed by the next start, and nothing else.
func TestAStartRemovesHalfMadeCheckpoints(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w := setup(t, 1)
		dir := t.TempDir()
		place := filepath.Join(dir, "checkpoints")
		for _, name := range []string{
			"checkpoints/asked.partial/state", "checkpoints/auto-1.partial", "state.partial/state",
			"checkpoints/mine", "checkpoints/mine.partial/state", "checkpoints/other.partial",
		} {
			require.NoError(t, os.MkdirAll(filepath.Join(dir, name), 0o700))
		}
		for _, name := range []string{
			"checkpoints/asked.partial/being-made", "checkpoints/auto-1.partial/being-made", "state.partial/being-made",
			"checkpoints/notes.partial", "checkpoints/other.partial/being-made", "checkpoints/other.partial/notes",
		} {
			require.NoError(t, os.WriteFile(filepath.Join(dir, name), nil, 0o600))
		}
		require.NoError(t, w.node(dir).stop())
		left, err := filepath.Glob(filepath.Join(place, "[^.]*"))
		require.NoError(t, err)
		for i := range left {
			left[i] = filepath.Base(left[i])
		}
		require.ElementsMatch(t, []string{"mine", "mine.partial", "notes.partial", "other.partial"}, left)
		require.NoDirExists(t, filepath.Join(dir, "state.partial"))
	})
}
