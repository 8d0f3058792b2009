//go:build unix

package main

import (
	"io/fs"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestOthersCannotReadTheDataOfDev(t *testing.T) {
	startsAgain(t)
	t.Parallel()
	at := place{dir: t.TempDir()}
	p := at.start(t, "dev", "--kafka", "127.0.0.1:0", "--http", "127.0.0.1:0", "--demo", "none", "--partitions", "2")
	data := filepath.Join(at.dir, "sagalog-data")
	p.endpoints(data)
	require.Equal(t, 0, p.stop())
	files := 0
	require.NoError(t, filepath.WalkDir(data, func(path string, d fs.DirEntry, err error) error {
		require.NoError(t, err)
		info, err := d.Info()
		require.NoError(t, err)
		require.Zero(t, info.Mode().Perm()&0o077, "%s has mode %s", path, info.Mode())
		files++
		return nil
	}))
	require.Greater(t, files, 20)
}
