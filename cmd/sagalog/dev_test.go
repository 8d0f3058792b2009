package main

import (
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestDevReportsWhatSurvivesAPowerCut(t *testing.T) {
	t.Parallel()
	for want, flags := range map[string][]string{
		"Durability  accepted tasks survive Ctrl-C and kill -9; a power cut may lose the most recent ones": nil,
		"Durability  accepted tasks survive Ctrl-C, kill -9 and a power cut":                               {"--fsync"},
	} {
		at := place{dir: t.TempDir()}
		p := at.start(t, append([]string{"dev", "--kafka", "127.0.0.1:0", "--http", "127.0.0.1:0", "--demo", "none", "--partitions", "2"}, flags...)...)
		p.endpoints(filepath.Join(at.dir, "sagalog-data"))
		require.Equal(t, 0, p.stop())
		require.Contains(t, p.out.String(), want)
	}
}
