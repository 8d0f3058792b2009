package main

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// The references in the repository are those that the program writes.
func TestTheReferencesAreCurrent(t *testing.T) {
	startsAgain(t)
	t.Parallel()
	written := filepath.Join(t.TempDir(), "reference")
	require.Equal(t, 0, place{}.run(t, "generate", "reference", written).code())
	const kept = "../../docs/reference"
	files := func(dir string) (names []string) {
		entries, err := os.ReadDir(dir)
		require.NoError(t, err)
		for _, e := range entries {
			names = append(names, e.Name())
		}
		return names
	}
	require.Equal(t, files(written), files(kept))
	for _, name := range files(written) {
		want, err := os.ReadFile(filepath.Join(written, name))
		require.NoError(t, err)
		have, err := os.ReadFile(filepath.Join(kept, name))
		require.NoError(t, err)
		require.True(t, string(want) == string(have), "%s is outdated: run go generate ./cmd/sagalog", name)
	}
}
