package projector_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"
	"github.com/stretchr/testify/require"

	"github.com/sagalog/sagalog/events"
	"github.com/sagalog/sagalog/projector"
)

var about = projector.About{Namespace: "shop", NamespaceID: namespace, Node: "n1", Version: "1.2", Time: 7}

// grow commits the tasks t1 to tN to partition 0, each in a delta.
func grow(t *testing.T, s *projector.Store, from, to int64) {
	t.Helper()
	for n := from; n <= to; n++ {
		d := &events.Delta{Partition: 0, Next: n, Sum: events.Hash{Lo: uint64(n)}}
		d.Tasks = []events.TaskRow{row(t, pending(fmt.Sprintf("t%d", n), events.Instant(n)), events.Keys{}, nil)}
		commit(t, s, d)
	}
}

// checkpointed returns a file system with the checkpoint cp of a store with ten tasks, and the open store.
func checkpointed(t *testing.T) (vfs.FS, *projector.Store, projector.Checkpoint) {
	t.Helper()
	fs := vfs.NewMem()
	s := open(t, fs)
	t.Cleanup(func() { require.NoError(t, s.Close()) })
	grow(t, s, 1, 10)
	c, err := projector.MakeCheckpoint(t.Context(), s, "cp", about)
	require.NoError(t, err)
	return fs, s, c
}

func TestACheckpointIsTheStoreAsOfItsInstant(t *testing.T) {
	t.Parallel()
	fs, s, made := checkpointed(t)
	grow(t, s, 11, 20) // it runs on
	c, err := projector.ReadCheckpoint(fs, "cp")
	require.NoError(t, err)
	require.Equal(t, made, c)
	require.Equal(t, about, projector.About{Namespace: c.Namespace, NamespaceID: c.NamespaceID, Node: c.Node, Version: c.Version, Time: c.Time})
	require.Equal(t, topic, c.TopicID)
	require.Equal(t, []projector.CheckpointPartition{{
		Partition: 0, Offset: 10, Hash: events.Hash{Lo: 10}, Anchor: projector.Anchor{TopicID: topic, Offset: 9, Hash: "9"},
	}}, c.Partitions)
	require.NoError(t, c.Restore(fs, "cp", "other"))
	r, err := projector.Open("other", projector.Options{Namespace: namespace, FS: fs})
	require.NoError(t, err)
	require.EqualValues(t, 10, r.Partition(0).Next())
	grow(t, r, 11, 20)
	for _, store := range []*projector.Store{s, r} {
		_, ok, err := store.Get(0, "t20")
		require.NoError(t, err)
		require.True(t, ok)
	}
	require.NoError(t, r.Close())

	// Neither of them changed the checkpoint.
	require.NoError(t, c.Restore(fs, "cp", "third"))
	_, err = projector.MakeCheckpoint(t.Context(), s, "cp", about)
	require.ErrorContains(t, err, "give another name")
}

// A second checkpoint reads only new tables; the first can be deleted.
func TestCheckpointsAreIndependent(t *testing.T) {
	t.Parallel()
	fs, s, _ := checkpointed(t)
	grow(t, s, 11, 20)
	second, err := projector.MakeCheckpoint(t.Context(), s, "cp2", about)
	require.NoError(t, err)
	require.NoError(t, fs.RemoveAll("cp"))
	require.NoError(t, second.Restore(fs, "cp2", "other"))
	r, err := projector.OpenIntact("other", projector.Options{Namespace: namespace, FS: fs})
	require.NoError(t, err)
	require.EqualValues(t, 20, r.Partition(0).Next())
	require.NoError(t, r.Close())
}

// Each byte of each file is covered: one is changed in each file, and one file is missing.
func TestADamagedCheckpointIsRefused(t *testing.T) {
	t.Parallel()
	fs, _, c := checkpointed(t)
	refused := func(says string) {
		t.Helper()
		c, err := projector.ReadCheckpoint(fs, "cp")
		if err == nil {
			err = c.Restore(fs, "cp", "other")
		}
		require.ErrorIs(t, err, projector.ErrCheckpoint)
		require.ErrorContains(t, err, says)
		_, err = fs.Stat("other")
		require.Error(t, err)
	}
	for _, f := range c.Files {
		path := "cp/state/" + f.Name
		whole := content(t, fs, path)
		if len(whole) > 0 {
			bad := []byte(whole)
			bad[len(bad)/2] ^= 1
			replace(t, fs, path, string(bad))
			refused("the file " + f.Name + " is damaged")
		}
		require.NoError(t, fs.Remove(path))
		refused("the file " + f.Name + " is missing")
		replace(t, fs, path, whole)
	}
	manifest := content(t, fs, "cp/checkpoint.json")
	for says, change := range map[string]func(string) string{
		"its checksum is wrong": func(m string) string { return strings.Replace(m, `"offset": 10`, `"offset": 11`, 1) },
		"it cannot be read":     func(m string) string { return m[:len(m)/2] },
		"run the newer version": func(m string) string { return strings.Replace(m, `"format": 1`, `"format": 2`, 1) },
		"the older format 1":    func(m string) string { return strings.Replace(m, `"store_format": `, `"store_format": 1, "x": `, 1) },
	} {
		replace(t, fs, "cp/checkpoint.json", change(manifest))
		refused(says)
	}
	require.NoError(t, fs.Remove("cp/checkpoint.json"))
	refused("one that was never completed")
}

// A manifest that somebody wrote cannot make a restore read or write elsewhere.
func TestAManifestCannotNameFilesElsewhere(t *testing.T) {
	t.Parallel()
	fs, _, c := checkpointed(t)
	for _, name := range []string{"../checkpoint.json", "a/b", `a\b`, "..", ""} {
		bad := c
		bad.Files = append([]projector.CheckpointFile{}, projector.CheckpointFile{Name: name})
		require.ErrorContains(t, bad.Restore(fs, "cp", "other"), "no name of a file")
	}
}

// The process dies at each of its writes to the disk, by kill -9 (everything written is there) and by a power cut (only what was synced): the
// checkpoint is whole or does not exist, and the store is not hurt.
func TestAKilledCheckpointIsWholeOrNone(t *testing.T) {
	t.Parallel()
	mem := vfs.NewCrashableMem()
	var (
		mu     sync.Mutex
		record bool
		clones []vfs.FS
	)
	fs := errorfs.Wrap(mem, errorfs.InjectorFunc(func(op errorfs.Op) error {
		mu.Lock()
		defer mu.Unlock()
		if record && op.Kind.ReadOrWrite() == errorfs.OpIsWrite {
			rng := rand.New(rand.NewPCG(1, uint64(len(clones))))
			for _, percent := range []int{0, 100} {
				clones = append(clones, mem.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: percent, RNG: rng}))
			}
		}
		return nil
	}))
	s := open(t, fs)
	grow(t, s, 1, 3)
	require.NoError(t, s.Sync())
	record = true
	_, err := projector.MakeCheckpoint(t.Context(), s, "cp", about)
	require.NoError(t, err)
	mu.Lock()
	record = false
	clones = append(clones, mem.CrashClone(vfs.CrashCloneCfg{}))
	mu.Unlock()
	require.NoError(t, s.Close())
	whole := 0
	for _, fs := range clones {
		if c, err := projector.ReadCheckpoint(fs, "cp"); err == nil {
			whole++
			require.NoError(t, c.Restore(fs, "cp", "other"))
		} else {
			require.ErrorIs(t, err, projector.ErrCheckpoint)
			_, err := fs.Stat("cp")
			require.Error(t, err, "what is half made has another name")
		}
		again := open(t, fs)
		require.EqualValues(t, 3, again.Partition(0).Next())
		_, err := projector.MakeCheckpoint(t.Context(), again, "cp2", about)
		require.NoError(t, err, "the rest of the one before does no harm")
		require.NoError(t, again.Close())
	}
	require.Positive(t, whole)
	require.Greater(t, len(clones), 20)
}

func TestACheckpointThatIsCancelledLeavesNothing(t *testing.T) {
	t.Parallel()
	fs, s, _ := checkpointed(t)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := projector.MakeCheckpoint(ctx, s, "cancelled", about)
	require.ErrorIs(t, err, context.Canceled)
	names, err := fs.List("")
	require.NoError(t, err)
	require.NotContains(t, strings.Join(names, " "), "cancelled")
	grow(t, s, 11, 12)
}

func TestTheManifestHasStableNames(t *testing.T) {
	t.Parallel()
	fs, _, _ := checkpointed(t)
	var m map[string]json.RawMessage
	require.NoError(t, json.Unmarshal([]byte(content(t, fs, "cp/checkpoint.json")), &m))
	for _, name := range []string{"format", "store_format", "namespace", "namespace_id", "topic_id", "node", "time", "version", "partitions", "files", "sum"} {
		require.Contains(t, m, name)
	}
	require.Len(t, m, 11)
}

func content(t *testing.T, fs vfs.FS, path string) string {
	t.Helper()
	f, err := fs.Open(path)
	require.NoError(t, err)
	b, err := io.ReadAll(f)
	require.NoError(t, err)
	require.NoError(t, f.Close())
	return string(b)
}

// replace makes a new file: the old one may be shared with the store.
func replace(t *testing.T, fs vfs.FS, path, text string) {
	t.Helper()
	_ = fs.Remove(path)
	f, err := fs.Create(path, vfs.WriteCategoryUnspecified)
	require.NoError(t, err)
	_, err = f.Write([]byte(text))
	require.NoError(t, err)
	require.NoError(t, f.Close())
}
