package projector_test

import (
	"fmt"
	"os"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"
	"github.com/stretchr/testify/require"

	"github.com/sagalog/sagalog/projector"
)

// Only what a killed process left is removed to make room: neither a directory of the user that has the name, nor a copy of a checkpoint.
func TestOnlyWhatWasMadeHereIsRemoved(t *testing.T) {
	t.Parallel()
	fs, s, c := checkpointed(t)
	try := map[string]func() error{
		"x":     func() error { _, err := projector.MakeCheckpoint(t.Context(), s, "x", about); return err },
		"other": func() error { return c.Restore(fs, "cp", "other") },
	}
	for name, act := range try {
		partial := name + projector.PartialSuffix
		for what, files := range map[string][]string{
			"of the user":          {"notes"},
			"more than was made":   {"being-made", "notes"},
			"a copy that goes on":  {"checkpoint.json"},
			"a store without mark": {"state"},
		} {
			require.NoError(t, fs.MkdirAll(partial, 0o700))
			for _, f := range files {
				replace(t, fs, partial+"/"+f, "mine")
			}
			err := act()
			require.ErrorIs(t, err, projector.ErrNotOurs, what)
			require.ErrorContains(t, err, partial+" is in the way")
			for _, f := range files {
				require.Equal(t, "mine", content(t, fs, partial+"/"+f))
			}
			require.NoError(t, fs.RemoveAll(partial))
		}
		replace(t, fs, partial, "a file")
		require.ErrorIs(t, act(), projector.ErrNotOurs)
		require.Equal(t, "a file", content(t, fs, partial))
		require.NoError(t, fs.Remove(partial))

		require.NoError(t, fs.MkdirAll(partial+"/state", 0o700))
		replace(t, fs, partial+"/being-made", "")
		require.NoError(t, act(), "a killed process left it")
		_, err := fs.Stat(partial)
		require.ErrorIs(t, err, os.ErrNotExist)
	}
}

// A disk is full at each write in turn: nothing is left, and the store goes on.
func TestACheckpointOnAFullDiskLeavesNothing(t *testing.T) {
	t.Parallel()
	var left atomic.Int64
	left.Store(-1)
	mem := vfs.NewMem()
	fs := errorfs.Wrap(mem, errorfs.InjectorFunc(func(op errorfs.Op) error {
		if op.Kind.ReadOrWrite() == errorfs.OpIsWrite && strings.HasPrefix(op.Path, "full") && left.Add(-1) == 0 {
			return syscall.ENOSPC
		}
		return nil
	}))
	s := open(t, fs)
	t.Cleanup(func() { require.NoError(t, s.Close()) })
	for n := int64(1); ; n++ {
		grow(t, s, n, n)
		left.Store(n)
		_, err := projector.MakeCheckpoint(t.Context(), s, "full/cp", about)
		failed := left.Load() <= 0
		left.Store(-1)
		if err == nil {
			_, err := projector.ReadCheckpoint(fs, "full/cp")
			require.NoError(t, err)
			require.Greater(t, n, int64(10))
			if !failed {
				return
			}
			require.NoError(t, fs.RemoveAll("full/cp"))
			continue
		}
		require.ErrorIs(t, err, syscall.ENOSPC)
		names, err := mem.List("full")
		if err == nil && len(names) > 0 { // only the sync of the directory above may have failed
			require.Equal(t, []string{"cp"}, names)
			_, err := projector.ReadCheckpoint(fs, "full/cp")
			require.NoError(t, err)
			require.NoError(t, fs.RemoveAll("full/cp"))
		}
	}
}

// A checkpoint whose directories are new is there after a power cut.
func TestACheckpointInANewDirectoryIsDurable(t *testing.T) {
	t.Parallel()
	fs := vfs.NewCrashableMem()
	s := open(t, fs)
	grow(t, s, 1, 3)
	_, err := projector.MakeCheckpoint(t.Context(), s, "a/b/cp", about)
	require.NoError(t, err)
	cut := fs.CrashClone(vfs.CrashCloneCfg{})
	require.NoError(t, s.Close())
	c, err := projector.ReadCheckpoint(cut, "a/b/cp")
	require.NoError(t, err)
	require.NoError(t, c.Restore(cut, "a/b/cp", "other"))
}

// A restored state is there after a power cut, even if the checkpoint is a copy that nobody synced.
func TestARestoredStateIsDurable(t *testing.T) {
	t.Parallel()
	fs := vfs.NewCrashableMem()
	s := open(t, fs)
	grow(t, s, 1, 3)
	c, err := projector.MakeCheckpoint(t.Context(), s, "cp", about)
	require.NoError(t, err)
	require.NoError(t, s.Close())
	require.NoError(t, fs.MkdirAll("copy/state", 0o700))
	for _, f := range c.Files {
		replace(t, fs, "copy/state/"+f.Name, content(t, fs, "cp/state/"+f.Name))
	}
	require.NoError(t, c.Restore(fs, "copy", "other"))
	cut := fs.CrashClone(vfs.CrashCloneCfg{})
	r, err := projector.OpenIntact("other", projector.Options{Namespace: namespace, FS: cut})
	require.NoError(t, err)
	require.EqualValues(t, 3, r.Partition(0).Next())
	require.NoError(t, r.Close())
}

// The kernel may refuse links to files of other users, and some file systems have none.
func TestWhatCannotBeLinkedIsCopied(t *testing.T) {
	t.Parallel()
	mem, _, c := checkpointed(t)
	fs := errorfs.Wrap(mem, errorfs.InjectorFunc(func(op errorfs.Op) error {
		if op.Kind == errorfs.OpLink {
			return syscall.EPERM
		}
		return nil
	}))
	require.NoError(t, c.Restore(fs, "cp", "other"))
	r, err := projector.OpenIntact("other", projector.Options{Namespace: namespace, FS: mem})
	require.NoError(t, err)
	require.NoError(t, r.Close())
}

func TestTwoProcessesDoNotUseADirectoryOfCheckpointsAtOnce(t *testing.T) {
	t.Parallel()
	dir := t.TempDir() + "/shared"
	lock, err := projector.LockCheckpoints(projector.OnDisk(), dir)
	require.NoError(t, err)
	_, err = projector.LockCheckpoints(projector.OnDisk(), dir)
	require.ErrorIs(t, err, projector.ErrCheckpointsLocked)
	require.NoError(t, lock.Close())
	info, err := os.Stat(dir)
	require.NoError(t, err)
	require.EqualValues(t, 0o700, info.Mode().Perm())
	lock, err = projector.LockCheckpoints(projector.OnDisk(), dir)
	require.NoError(t, err)
	require.NoError(t, lock.Close())
	require.NoError(t, os.WriteFile(dir+"/file", nil, 0o600))
	_, err = projector.LockCheckpoints(projector.OnDisk(), dir+"/file/below")
	require.Error(t, err)
	require.NotErrorIs(t, err, projector.ErrCheckpointsLocked)
}

// Inputs of tasks are private: others can read neither a checkpoint nor what is restored.
func TestACheckpointIsPrivate(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s, err := projector.Open(dir+"/state", projector.Options{Namespace: namespace})
	require.NoError(t, err)
	grow(t, s, 1, 3)
	require.NoError(t, os.Mkdir(dir+"/cp.partial", 0o777))
	require.NoError(t, os.Chmod(dir+"/cp.partial", 0o777))
	c, err := projector.MakeCheckpoint(t.Context(), s, dir+"/cp", about)
	require.NoError(t, err)
	require.NoError(t, s.Close())
	require.NoError(t, c.Restore(nil, dir+"/cp", dir+"/other"))
	for _, name := range []string{"cp", "other"} {
		info, err := os.Stat(dir + "/" + name)
		require.NoError(t, err)
		require.EqualValues(t, 0o700, info.Mode().Perm(), name)
	}
}

// The tables of a damaged store would get checksums that say that they are whole.
func TestADamagedStoreMakesNoCheckpoint(t *testing.T) {
	t.Parallel()
	disk := vfs.NewMem()
	s := open(t, disk)
	grow(t, s, 1, 1000)
	require.NoError(t, s.Close())
	names := filesOf(t, disk, "sst")
	path := directory + "/" + names[len(names)-1] // the tasks; the first one was written when the store was made
	whole := content(t, disk, path)
	tried := 0
	for at := range 40 {
		raw := []byte(whole)
		raw[at*len(raw)/40] ^= 1
		replace(t, disk, path, string(raw))
		_ = disk.Remove(directory + "/DAMAGED")
		s, err := projector.Open(directory, projector.Options{Namespace: namespace, FS: disk})
		if err != nil {
			continue // Open reads this block
		}
		for n := 1; err == nil && n <= 1000; n++ {
			_, _, err = s.Get(0, fmt.Sprintf("t%d", n))
		}
		if err != nil {
			tried++
			_, err = projector.MakeCheckpoint(t.Context(), s, "cp", about)
			require.ErrorIs(t, err, projector.ErrDamaged)
			_, err = disk.Stat("cp")
			require.ErrorIs(t, err, os.ErrNotExist)
		}
		_ = s.Close()
	}
	require.Positive(t, tried)
}
