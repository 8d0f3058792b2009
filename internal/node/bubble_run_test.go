//go:build !synctests

package node_test

import (
	"flag"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"
)

var (
	bubbleSeeds = flag.Int("bubble.seeds", 5, "how many seeds the random test of whole nodes runs")
	bubbleSeed  = flag.Uint64("bubble.seed", 1, "the first seed")
)

// The tests of single faults and of random ones need a separate build. With the tag synctests, the Kafka client waits
// for channels instead of mutexes, because a goroutine that waits for a mutex keeps virtual time from advancing. This
// test makes that build and runs it.
func TestFaultsInTheBubble(t *testing.T) {
	if testing.Short() {
		t.Skip("SKIPPED with -short: go test -tags synctests -run '^Test(Fault|Random)' ./internal/node")
	}
	t.Parallel()
	binary := filepath.Join(t.TempDir(), "bubble.test")
	build := exec.Command("go", "test", "-c", "-tags", "synctests", "-o", binary, ".")
	out, err := build.CombinedOutput()
	require.NoError(t, err, "%s", out)
	run := exec.Command(binary, "-test.run", "^Test(Fault|Random)", "-test.timeout", "10m", "-test.v",
		"-bubble.seeds", strconv.Itoa(*bubbleSeeds), "-bubble.seed", strconv.FormatUint(*bubbleSeed, 10))
	run.Env = os.Environ()
	out, err = run.CombinedOutput()
	require.NoError(t, err, "%s\nrun it by itself: go test -tags synctests -run '^Test(Fault|Random)' ./internal/node", out)
}
