//go:build unix

package access_test

import (
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/sagalog/sagalog/internal/access"
	"github.com/stretchr/testify/require"
)

// A service user reads the file of an administrator by its group, or by a link.
func TestAChangeKeepsTheModeAndTheOwnerOfTheFile(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	path, link := filepath.Join(dir, "tokens.json"), filepath.Join(dir, "link.json")
	_, err := access.Create(path, access.New{Name: "a", Role: access.Viewer, Now: time.Now()})
	require.NoError(t, err)
	require.NoError(t, os.Chmod(path, 0o640))
	if os.Getuid() == 0 {
		require.NoError(t, os.Chown(path, 1234, 5678))
	}
	before, err := os.Stat(path)
	require.NoError(t, err)
	require.NoError(t, os.Symlink(path, link))
	_, err = access.Create(link, access.New{Name: "b", Role: access.Admin, Now: time.Now()})
	require.NoError(t, err)
	require.NoError(t, access.Revoke(link, "a"))
	after, err := os.Stat(path)
	require.NoError(t, err)
	require.Equal(t, before.Mode(), after.Mode())
	if os.Getuid() == 0 {
		require.EqualValues(t, 1234, after.Sys().(*syscall.Stat_t).Uid)
		require.EqualValues(t, 5678, after.Sys().(*syscall.Stat_t).Gid)
	}
	list, err := access.ReadTokens(path)
	require.NoError(t, err)
	require.Len(t, list, 1)
	require.Equal(t, "b", list[0].Name)
	at, err := os.Lstat(link)
	require.NoError(t, err)
	require.NotZero(t, at.Mode()&os.ModeSymlink, "the link stays one")
}

func TestCommandsThatOverlapLoseNothing(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "tokens.json")
	var all sync.WaitGroup
	for i := range 20 {
		all.Go(func() {
			name := fmt.Sprintf("t%d", i)
			_, err := access.Create(path, access.New{Name: name, Role: access.Viewer, Now: time.Now()})
			if err == nil && i%2 == 0 {
				err = access.Revoke(path, name)
			}
			if err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	list, err := access.ReadTokens(path)
	require.NoError(t, err)
	require.Len(t, list, 10)
}
