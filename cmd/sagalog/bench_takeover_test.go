package main

import (
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/sagalog/sagalog/internal/kafka/embedded"
	"github.com/stretchr/testify/require"
)

// takingOver starts a take-over benchmark and waits until both nodes work. It returns the temporary directory.
func takingOver(t *testing.T, temporary string, args ...string) (p *program, dir string) {
	t.Helper()
	p = place{dir: t.TempDir(), env: []string{"TMPDIR=" + temporary}}.start(t, append([]string{"bench", "takeover", "--partitions", "4",
		"--kills", "1000", "--rate", "50", "--warmup", "500ms"}, args...)...)
	p.eventually("a take-over", func() bool { return strings.Contains(p.err.String(), "killed: ") })
	return p, oneIn(t, temporary)
}

func oneIn(t *testing.T, temporary string) string {
	t.Helper()
	dirs, err := filepath.Glob(filepath.Join(temporary, "*"))
	require.NoError(t, err)
	require.Len(t, dirs, 1)
	return dirs[0]
}

// requireNodesEnd waits until no node holds its state open.
func requireNodesEnd(t *testing.T, dir string) {
	t.Helper()
	for _, node := range []string{"bench-a", "bench-b"} {
		require.Eventually(t, func() bool { return embedded.LockFree(filepath.Join(dir, node, lockFile)) == nil }, stepWait, 20*time.Millisecond, node)
	}
}

func TestTakeoverIsEndedByCtrlCWithTheKillsSoFar(t *testing.T) {
	if testing.Short() {
		t.Skip("the race detector cannot observe other processes")
	}
	t.Parallel()
	temporary := t.TempDir()
	p, _ := takingOver(t, temporary)
	require.NoError(t, p.cmd.Process.Signal(syscall.SIGINT))
	require.Equal(t, 0, p.end(), p.err.String())
	for _, part := range []string{"interrupted", "0 lost, 0 doubled", "asked for   1000", "first new fact p99: left out"} {
		require.Contains(t, p.out.String(), part)
	}
	require.NotRegexp(t, `first new fact p99 +\d`, p.out.String())
	left, err := filepath.Glob(filepath.Join(temporary, "*"))
	require.NoError(t, err)
	require.Empty(t, left)
}

func TestBenchThatIsKilledLeavesNoProcess(t *testing.T) {
	if testing.Short() {
		t.Skip("the race detector cannot observe other processes")
	}
	t.Parallel()
	temporary := t.TempDir()
	p, dir := takingOver(t, temporary)
	require.NoError(t, p.cmd.Process.Kill())
	p.end()
	requireNodesEnd(t, dir)
}

func TestBenchIsEndedAtOnceByASecondCtrlC(t *testing.T) {
	t.Parallel()
	temporary := t.TempDir()
	// Calls that take longer than the test keep the first Ctrl-C from ending it.
	p := place{dir: t.TempDir(), env: []string{"TMPDIR=" + temporary}}.start(t, "bench", "tasks", "--agents", "outside", "--partitions", "4",
		"--outstanding", "50", "--warmup", "0s", "--tail", "5%:1h")
	p.eventually("progress", func() bool { return strings.Contains(p.err.String(), "tasks/s") })
	require.NoError(t, p.cmd.Process.Signal(syscall.SIGINT))
	p.eventually("the first", func() bool { return strings.Contains(p.err.String(), "waiting for the tasks under way") })
	require.NoError(t, p.cmd.Process.Signal(syscall.SIGINT))
	require.Equal(t, exitAtOnce, p.end())
	require.Contains(t, p.err.String(), "ending at once")
	left, err := filepath.Glob(filepath.Join(temporary, "*"))
	require.NoError(t, err)
	require.Empty(t, left)
}
