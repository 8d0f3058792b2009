package projector_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"
	"github.com/stretchr/testify/require"

	"github.com/sagalog/sagalog/events"
	"github.com/sagalog/sagalog/projector"
)

// fullEnv tells a child process of this test for which file the disk is full.
const fullEnv = "SAGALOG_TEST_FULL"

// Creating a store on a full disk fails with an error that names the directory and a remedy, whichever file hits the full disk.
// Pebble panics in these cases and leaves goroutines behind, so each case runs in another process.
func TestAStoreOnAFullDiskIsRefused(t *testing.T) {
	if file := os.Getenv(fullEnv); file != "" {
		_, err := projector.Open(directory, smallTables(fullAt(file)))
		fmt.Println("refused:", err)
		os.Exit(0)
	}
	t.Parallel()
	for _, file := range []string{".log", "MANIFEST"} {
		t.Run(file, func(t *testing.T) {
			t.Parallel()
			c := exec.Command(os.Args[0], "-test.run", "^TestAStoreOnAFullDiskIsRefused$")
			c.Env = append(os.Environ(), fullEnv+"="+file)
			out, err := c.CombinedOutput()
			require.NoError(t, err, "%s", out)
			require.Regexp(t, "refused: .*"+directory+": .*no space left on device; free some space or repair the disk", string(out))
		})
	}
}

func fullAt(file string) projector.FS {
	return errorfs.Wrap(vfs.NewMem(), errorfs.InjectorFunc(func(op errorfs.Op) error {
		if op.Kind.ReadOrWrite() != errorfs.OpIsWrite || !strings.Contains(op.Path, file) {
			return nil
		}
		return &os.PathError{Op: "write", Path: op.Path, Err: syscall.ENOSPC}
	}))
}

// goneEnv tells a child process of this test in which directory its store is.
const goneEnv = "SAGALOG_TEST_GONE"

// A store whose directory is removed while it is open ends its process at the next flush: the next start folds the state again.
func TestAStoreWhoseDirectoryIsRemovedEndsItsProcess(t *testing.T) {
	if dir := os.Getenv(goneEnv); dir != "" {
		require.NoError(t, os.Chdir(dir))
		s := &script{t: t, keys: map[string]*events.Keys{}, allowed: map[int64][]string{}}
		_ = s.try(smallTables(errorfs.Wrap(vfs.Default, errorfs.InjectorFunc(func(op errorfs.Op) error {
			if op.Kind != errorfs.OpCreate || !strings.HasSuffix(op.Path, ".sst") {
				return nil
			}
			return &os.PathError{Op: "open", Path: op.Path, Err: syscall.ENOENT}
		}))))
		fmt.Println("it goes on")
		os.Exit(0)
	}
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	c := exec.CommandContext(ctx, os.Args[0], "-test.run", "^TestAStoreWhoseDirectoryIsRemovedEndsItsProcess$")
	c.Env = append(os.Environ(), goneEnv+"="+t.TempDir())
	out, err := c.CombinedOutput()
	require.NoError(t, ctx.Err())
	require.Error(t, err, "%s", out)
	require.Contains(t, string(out), "no such file or directory")
	require.Contains(t, string(out), "then start this process again; missing state is folded from the log")
	require.NotContains(t, string(out), "it goes on")
}

// smallEnv tells a child process of this test where a small disk is mounted.
const smallEnv = "SAGALOG_TEST_SMALL"

// A process whose store has no room ends with the exit code 1 and one line, not with the stacks of its goroutines. With room again, the store opens, and
// holds what it held at the end of one of its batches.
func TestAFullDiskEndsTheProcessWithOneLine(t *testing.T) {
	s := &script{t: t, keys: map[string]*events.Keys{}, allowed: map[int64][]string{}}
	if dir := os.Getenv(smallEnv); dir != "" {
		require.NoError(t, os.Chdir(dir))
		store, err := projector.Open(directory, smallTables(nil))
		require.NoError(t, err)
		fill(t, "ballast")
		err = errors.Join(s.steps(store), store.Close())
		fmt.Println("it goes on:", err)
		os.Exit(0)
	}
	disk := t.TempDir()
	if err := syscall.Mount("tmpfs", disk, "tmpfs", 0, "size=8m"); err != nil {
		t.Skipf("SKIPPED: no small disk can be mounted (%s); run it as root", err)
	}
	t.Cleanup(func() { _ = syscall.Unmount(disk, syscall.MNT_DETACH) })
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	c := exec.CommandContext(ctx, os.Args[0], "-test.run", "^TestAFullDiskEndsTheProcessWithOneLine$")
	c.Env = append(os.Environ(), smallEnv+"="+disk)
	var out, errs strings.Builder
	c.Stdout, c.Stderr = &out, &errs
	_ = c.Run()
	require.NoError(t, ctx.Err())
	require.Equal(t, 1, c.ProcessState.ExitCode(), "%s%s", &out, &errs)
	require.Regexp(t, "^state store "+directory+` \(0 MiB free on its disk\): [^\n]*no space left on device[^\n]*: free some space or repair the disk, then start this process again; missing state is folded from the log\n$`, errs.String())
	require.NotContains(t, out.String(), "it goes on")

	require.NoError(t, os.Remove(filepath.Join(disk, "ballast")))
	memory, err := projector.Open(directory, smallTables(vfs.NewMem()))
	require.NoError(t, err)
	require.NoError(t, errors.Join(s.steps(memory), memory.Close()), "to know what is allowed")
	store, err := projector.Open(filepath.Join(disk, directory), smallTables(nil))
	require.NoError(t, err)
	require.NoError(t, store.CheckIndexes())
	next, lines := picture(t, store)
	if next > 0 {
		require.Contains(t, s.allowed[next], lines)
	}
	require.NoError(t, store.Close())
}

// fill writes a file that takes all the room.
func fill(t *testing.T, name string) {
	t.Helper()
	f, err := os.Create(name)
	require.NoError(t, err)
	for size := 1 << 16; size > 0; {
		if _, err := f.Write(make([]byte, size)); err != nil {
			size /= 2
		}
	}
	require.NoError(t, f.Close())
}
