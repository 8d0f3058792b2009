package e2e

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// hashRow is a line of `sagalog state hash`.
type hashRow struct {
	Partition int32  `json:"partition"`
	Offset    int64  `json:"offset"`
	Hash      string `json:"hash"`
	Rebuilt   string `json:"rebuilt"`
}

// stateHash returns the state hashes of a stopped engine's data directory.
func stateHash(t *testing.T, data string, args ...string) []hashRow {
	t.Helper()
	code, out, errs := output(t, program("sagalog"), append([]string{"state", "hash", "--data", data, "-o", "json"}, args...)...)
	require.Zero(t, code, errs)
	var rows []hashRow
	requireJSON(t, []byte(out), &rows)
	require.NotEmpty(t, rows)
	return rows
}

// lived returns an engine that has run until some deliveries ended, and was then stopped.
func lived(t *testing.T, e *engine, prefix string, count int) {
	t.Helper()
	e.start()
	l := startLoad(t, e, prefix, count, 0)
	l.acknowledged(t, patience)
	e.quiet(5 * patience)
	e.stop()
}

// Without the state directory, the engine rebuilds the same state from the log. The events topic alone is enough for
// that.
func TestTheStateIsTheFoldOfTheLog(t *testing.T) {
	t.Parallel()
	work := workDir(t)
	f := startFleet(t, work, "--refuse", "drone=0.1")
	e := newEngineWith(t, work, f)
	n := sized(*deliveriesFlag/10, 100, 1000)
	lived(t, e, "s-", n)
	before := stateHash(t, e.data, "--rebuild")
	for _, r := range before {
		require.Equal(t, r.Hash, r.Rebuilt, "partition %d", r.Partition)
	}
	require.NoError(t, os.RemoveAll(filepath.Join(e.data, "state")))

	e.start()
	c := e.cluster()
	folded := 0
	for _, r := range before {
		once, again := fold(t, c, r.Partition, r.Offset), fold(t, c, r.Partition, r.Offset)
		require.Equal(t, once, again)
		require.Equal(t, r.Hash, once.hash.String(), "partition %d at offset %d", r.Partition, r.Offset)
		folded += once.facts
	}
	ended := 0
	for _, p := range e.partitions() { // the contents of the new store now, at an offset after the claims of this start
		require.Equal(t, p.StateHash, fold(t, c, p.Partition, p.AppliedOffset).hash.String(), "partition %d", p.Partition)
		require.Greater(t, p.AppliedOffset, before[p.Partition].Offset)
	}
	for _, state := range []string{"processed", "undone"} {
		ended += len(e.list("limit=1000&state=" + state))
	}
	require.Equal(t, n, ended)
	e.stop()
	after := stateHash(t, e.data, "--rebuild")
	for i, r := range after {
		require.Equal(t, r.Hash, r.Rebuilt)
		t.Logf("partition %d: offset %d %s before, offset %d %s after", i, before[i].Offset, before[i].Hash, r.Offset, r.Hash)
	}
	t.Logf("%d facts folded twice from events alone, with the same hashes as the deleted state", folded)
}

// The engine notices if the state was folded from a different log, and rebuilds the state.
func TestAnotherLogUnderAnOldState(t *testing.T) {
	t.Parallel()
	for name, refill := range map[string]int{"lost its tail": 0, "lost its tail and grew again": 120} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			work := workDir(t)
			f := startFleet(t, work)
			e := newEngineWith(t, work, f)
			lived(t, e, "first-", 40)
			other := filepath.Join(work, "other")
			require.NoError(t, os.CopyFS(other, os.DirFS(e.data)))
			lived(t, e, "lost-", 40)
			old := stateHash(t, e.data)

			// The log goes back to where the copy was taken, and grows with what a second engine writes.
			if refill > 0 {
				second := newEngineWith(t, work, f)
				second.data = other
				lived(t, second, "other-", refill)
			}
			require.NoError(t, os.RemoveAll(filepath.Join(e.data, "broker")))
			require.NoError(t, os.Rename(filepath.Join(other, "broker"), filepath.Join(e.data, "broker")))

			lines := strings.Count(e.stderr(), "\n")
			e.start()
			said := strings.Join(strings.SplitAfter(e.stderr(), "\n")[lines:], "")
			rebuilt := strings.Count(said, "the partition is rebuilt from the log")
			require.Positive(t, rebuilt, "the start reports nothing:\n%s", said)
			t.Logf("%d of %d partitions rebuilt; it reports: %s", rebuilt, len(old), strings.SplitN(said, "\n", 2)[0])
			for i := range max(40, refill) {
				if i < 40 {
					require.Equal(t, "processed", e.settled(fmt.Sprintf("first-%d", i+1)).State)
					e.ask(404, "GET", taskPath(fmt.Sprintf("lost-%d", i+1)), nil)
				}
				if i < refill {
					require.Equal(t, "processed", e.settled(fmt.Sprintf("other-%d", i+1)).State)
				}
			}
			// If the log lost a task's first submission, the next submission makes a new task.
			e.submit("lost-1", delivery("lost-1", 77))
			require.Equal(t, "processed", e.settled("lost-1").State)
			e.stop()
			for _, r := range stateHash(t, e.data, "--rebuild") {
				require.Equal(t, r.Hash, r.Rebuilt)
			}
		})
	}
}

// A hash that differs is an error. Otherwise the command would prove nothing.
func TestAStateThatDiffersIsFound(t *testing.T) {
	t.Parallel()
	work := workDir(t)
	f := startFleet(t, work)
	e := newEngineWith(t, work, f)
	lived(t, e, "a-", 20)
	stateHash(t, e.data, "--rebuild")
	other := filepath.Join(work, "other")
	require.NoError(t, os.CopyFS(other, os.DirFS(e.data)))
	second := newEngineWith(t, work, f)
	second.data = other
	lived(t, second, "b-", 60)
	lived(t, e, "c-", 20)
	require.NoError(t, os.RemoveAll(filepath.Join(e.data, "broker")))
	require.NoError(t, os.Rename(filepath.Join(other, "broker"), filepath.Join(e.data, "broker")))
	code, out, errs := output(t, program("sagalog"), "state", "hash", "--data", e.data, "-o", "json", "--rebuild")
	require.Equal(t, 1, code, "%s%s", out, errs)
	var rows []hashRow
	require.NoError(t, json.Unmarshal([]byte(out), &rows))
	t.Logf("exit 1: %s", tailOf(errs, 1))
}

func tailOf(s string, lines int) string {
	all := strings.Split(strings.TrimRight(s, "\n"), "\n")
	return strings.Join(all[max(0, len(all)-lines):], "\n")
}
