package bench

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/sagalog/sagalog/internal/kafka/embedded"
	"github.com/stretchr/testify/require"
)

func TestARunRemovesOnlyTheFilesOfAKilledRun(t *testing.T) {
	temporary := t.TempDir()
	t.Setenv("TMPDIR", temporary)
	made := func(name string, owner bool) string {
		dir := filepath.Join(temporary, name)
		require.NoError(t, os.Mkdir(dir, 0o700))
		if owner {
			require.NoError(t, os.WriteFile(filepath.Join(dir, ownerFile), nil, 0o600))
			old := time.Now().Add(-2 * forgottenAfter)
			require.NoError(t, os.Chtimes(filepath.Join(dir, ownerFile), old, old))
		}
		return dir
	}
	left := made(temporaryName+"left", true)
	kept := []string{made(temporaryName+"no-owner", false), made("somebody's", true), made(temporaryName+"new", true), made(temporaryName+"owned", true)}
	require.NoError(t, os.Chtimes(filepath.Join(kept[2], ownerFile), time.Time{}, time.Now()))
	unlock, err := embedded.Lock(filepath.Join(kept[3], ownerFile))
	require.NoError(t, err)
	old := time.Now().Add(-2 * forgottenAfter)
	require.NoError(t, os.Chtimes(filepath.Join(kept[3], ownerFile), old, old))
	linked := filepath.Join(temporary, temporaryName+"link")
	require.NoError(t, os.Symlink(kept[1], linked))

	var said bytes.Buffer
	dir, err := makeTemporary(&said)
	require.NoError(t, err)
	require.NoDirExists(t, left)
	require.Equal(t, "removed "+left+", which a run that was killed had left\n", said.String())
	for _, dir := range append(kept, linked, filepath.Join(linked, ownerFile)) {
		_, err := os.Lstat(dir)
		require.NoError(t, err)
	}
	require.False(t, forgotten(dir))
	require.NoError(t, removeTemporary(dir))
	require.NoDirExists(t, dir)
	require.NoError(t, unlock())
}
