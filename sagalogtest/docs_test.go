package sagalogtest_test

import (
	"os"
	"path/filepath"
	"regexp"
	"testing"

	"github.com/stretchr/testify/require"
)

// The blocks of docs/go.md that have a language are the files that it names above each, which are compiled, and whose test runs. The others are
// commands.
func TestTheBlocksOfThePageAreItsFiles(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../docs/go.md")
	require.NoError(t, err)
	blocks := regexp.MustCompile("(?s)\\]\\((examples/go/[^)]+)\\):\n\n```[a-z]+\n(.*?)```\n").FindAllStringSubmatch(string(page), -1)
	require.Len(t, blocks, len(regexp.MustCompile("(?m)^```[a-z]+$").FindAll(page, -1)), "each block with a language is a file")
	require.Len(t, blocks, 4)
	for _, b := range blocks {
		file, err := os.ReadFile(filepath.Join("../docs", b[1]))
		require.NoError(t, err)
		require.Equal(t, string(file), b[2], "%s", b[1])
	}
}
