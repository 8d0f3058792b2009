package projector_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/cockroachdb/pebble/v2"
	"github.com/stretchr/testify/require"

	"github.com/sagalog/sagalog/events"
	"github.com/sagalog/sagalog/projector"
)

// Inspecting a store before a start shows who owns it, and changes no file.
func TestInspectReportsTheOwnerAndChangesNothing(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "state")
	of, err := projector.Inspect(dir)
	require.NoError(t, err)
	require.Empty(t, of, "no store exists yet")
	require.NoDirExists(t, dir)

	s, err := projector.Open(dir, projector.Options{Namespace: namespace})
	require.NoError(t, err)
	commit(t, s, &events.Delta{Next: 1, Tasks: []events.TaskRow{row(t, pending("a", 1), events.Keys{}, nil)}})
	_, err = projector.Inspect(dir)
	require.ErrorContains(t, err, "lock", "while another process has it open")
	require.NoError(t, s.Close())

	before := files(t, dir)
	of, err = projector.Inspect(dir)
	require.NoError(t, err)
	require.Equal(t, namespace, of)
	require.Equal(t, before, files(t, dir))
}

func TestInspectRefusesWhatOpenRefuses(t *testing.T) {
	t.Parallel()
	whole := func(t *testing.T) string {
		dir := filepath.Join(t.TempDir(), "state")
		s, err := projector.Open(dir, projector.Options{Namespace: namespace})
		require.NoError(t, err)
		require.NoError(t, s.Close())
		return dir
	}
	format := func(t *testing.T, dir, value string) {
		db, err := pebble.Open(dir, &pebble.Options{Logger: quiet{}, FormatMajorVersion: pebble.FormatValueSeparation})
		require.NoError(t, err)
		require.NoError(t, db.Set([]byte("sf"), []byte(value), pebble.Sync))
		require.NoError(t, db.Close())
	}
	for name, c := range map[string]struct {
		spoil func(t *testing.T, dir string)
		is    error
	}{
		"a newer format of ours":   {func(t *testing.T, dir string) { format(t, dir, "10") }, projector.ErrNewer},
		"an older format of ours":  {func(t *testing.T, dir string) { format(t, dir, "0") }, projector.ErrFormat},
		"a newer format of Pebble": {newerPebble, projector.ErrNewer},
		"a missing manifest": {func(t *testing.T, dir string) {
			found, err := filepath.Glob(filepath.Join(dir, "MANIFEST-*"))
			require.NoError(t, err)
			for _, f := range found {
				require.NoError(t, os.Remove(f))
			}
		}, projector.ErrDamaged},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := whole(t)
			c.spoil(t, dir)
			before := files(t, dir)
			_, err := projector.Inspect(dir)
			require.ErrorIs(t, err, c.is)
			require.Equal(t, before, files(t, dir))
			_, err = projector.Open(dir, projector.Options{Namespace: namespace})
			require.ErrorIs(t, err, c.is)
		})
	}
}

// newerPebble renames the file that marks the format, as a newer version of Pebble would.
func newerPebble(t *testing.T, dir string) {
	found, err := filepath.Glob(filepath.Join(dir, "marker.format-version.*"))
	require.NoError(t, err)
	require.NotEmpty(t, found)
	for _, f := range found {
		require.NoError(t, os.Remove(f))
	}
	require.NoError(t, os.WriteFile(filepath.Join(dir, "marker.format-version.000900.900"), nil, 0o600))
}

// files returns the names and contents of the files in a folder, except the lock.
func files(t *testing.T, dir string) map[string]string {
	t.Helper()
	all := map[string]string{}
	require.NoError(t, filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || strings.HasSuffix(path, "LOCK") {
			return err
		}
		b, err := os.ReadFile(path)
		all[path] = string(b)
		return err
	}))
	return all
}
