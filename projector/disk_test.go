package projector_test

import (
	"context"
	"fmt"
	"os"
	"os/exec"
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
