package embedded_test

import (
	"bytes"
	"encoding/binary"
	"hash/crc32"
	"log/slog"
	"os"
	"path/filepath"
	"testing"

	"github.com/sagalog/sagalog/internal/kafka/embedded"
	"github.com/stretchr/testify/require"
)

// alter replaces a text in a file of the directory.
func (d disk) alter(t *testing.T, name, from, to string) {
	t.Helper()
	path := filepath.Join(d.dir, name)
	b, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Contains(t, string(b), from)
	require.NoError(t, os.WriteFile(path, bytes.Replace(b, []byte(from), []byte(to), 1), 0o600))
}

const itsSnapshot = "partitions/ns.events-0/snapshot.json"

// A changed digit in a snapshot once hid the end of a log, or its beginning, without any message.
func TestASmallFileChangedWhileStoppedIsRefused(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ name, from, to string }{
		{itsSnapshot, `"high_watermark":4`, `"high_watermark":1`},
		{itsSnapshot, `"log_start_offset":0`, `"log_start_offset":2`},
		{itsSnapshot, `"last_stable_offset":4`, `"last_stable_offset":3`},
		{"topics.json", `"partitions":2`, `"partitions":3`},
		{"topics.json", `ns.events`, `ns.ewents`},
		{"meta.json", `sagalog`, `salagog`},
	} {
		d := stopped(t)
		d.alter(t, c.name, c.from, c.to)
		_, err := embedded.Open(embedded.Config{Dir: d.dir})
		require.ErrorContains(t, err, filepath.Base(c.name), "%v", c)
		require.ErrorContains(t, err, "Restore it from a copy")
	}
}

// A snapshot that contradicts its log is refused even without the checksums of a clean stop.
func TestASnapshotThatContradictsTheLogIsRefused(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ name, from, to string }{
		{itsSnapshot, `"high_watermark":4`, `"high_watermark":1`},
		{itsSnapshot, `"log_start_offset":0`, `"log_start_offset":7`},
		{"topics.json", `ns.events`, `ns.ewents`},
		{"topics.json", `"partitions":2`, `"partitions":0`},
		{"topics.json", `"topics"`, `"topicz"`},
	} {
		d := stopped(t)
		require.NoError(t, os.Remove(filepath.Join(d.dir, "sums.json")))
		d.alter(t, c.name, c.from, c.to)
		_, err := embedded.Open(embedded.Config{Dir: d.dir})
		require.ErrorContains(t, err, filepath.Base(c.name), "%v", c)
	}
}

func TestSnapshotChecksumsHoldAfterACrash(t *testing.T) {
	t.Parallel()
	d := stopped(t)
	b, _ := reopen(t, nil, d.dir)
	killed := disk{dir: filepath.Join(t.TempDir(), "killed")}
	require.NoError(t, os.CopyFS(killed.dir, os.DirFS(d.dir)))
	require.NoError(t, b.Close())
	whole := disk{dir: filepath.Join(t.TempDir(), "whole")}
	require.NoError(t, os.CopyFS(whole.dir, os.DirFS(killed.dir)))
	require.Equal(t, []string{"a", "b", "c", "d"}, whole.contents(t))
	killed.alter(t, itsSnapshot, `"log_start_offset":0`, `"log_start_offset":2`)
	_, err := embedded.Open(embedded.Config{Dir: killed.dir})
	require.ErrorContains(t, err, "snapshot.json")
}

// A broker is stopped before it has a topic, started again, used and killed. Its directory is intact.
func TestTheChecksumsOfABrokerWithoutTopicsDoNotOutliveItsStop(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	b, _ := reopen(t, nil, dir)
	_, w := reopen(t, b, dir)
	fill(t, w)
	killed := copied(t, dir)
	require.Equal(t, []string{"a", "b", "c", "d"}, killed.contents(t))
}

// entry is one entry of the broker's log of groups.
func entry(text string) []byte {
	body := append([]byte{1, 0}, text...)
	b := binary.LittleEndian.AppendUint32(nil, uint32(len(body)))
	b = binary.LittleEndian.AppendUint32(b, crc32.Checksum(body, crc32.MakeTable(crc32.Castagnoli)))
	return append(b, body...)
}

// A full disk leaves half an entry. The broker would append after it, and would never read those entries again.
func TestHalfAnEntryInTheGroupLogCostsOnlyThatEntry(t *testing.T) {
	t.Parallel()
	d := crashed(t)
	path := filepath.Join(d.dir, "groups.log")
	var raw []byte
	first, torn, last := entry(`{"type":"meta","group":"g"}`), entry(`{"type":"commit","group":"g","topic":"t","offset":7}`), entry(`{"type":"commit","group":"g","topic":"t","offset":9}`)
	raw = append(append(append(raw, first...), torn[:len(torn)/2]...), last...)
	require.NoError(t, os.WriteFile(path, raw, 0o600))
	var log bytes.Buffer
	b, err := embedded.Open(embedded.Config{Dir: d.dir, Logger: slog.New(slog.NewTextHandler(&log, nil))})
	require.NoError(t, err)
	repaired, err := os.ReadFile(path)
	require.NoError(t, err)
	require.NoError(t, b.Close())
	require.Equal(t, append(first, last...), repaired)
	require.Contains(t, log.String(), "groups.log")
}

// The broker dies again while it starts after a crash: some snapshots are already repaired, but the checksums are still
// the old ones.
func TestAStartThatDiesDuringRepairsIsNoDamage(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	b, w := reopen(t, nil, dir)
	fill(t, w)
	b, w = reopen(t, b, dir) // from now on the snapshots have checksums
	w.Write(t, "ns.events", "e")
	d := disk{dir: filepath.Join(t.TempDir(), "copy")}
	require.NoError(t, os.CopyFS(d.dir, os.DirFS(dir)))
	require.NoError(t, b.Close())

	before := snapshotOf(t, d.dir)
	inTheWay := filepath.Join(d.dir, "sums.json.tmp", "x")
	require.NoError(t, os.MkdirAll(inTheWay, 0o700))
	_, err := embedded.Open(embedded.Config{Dir: d.dir})
	require.ErrorContains(t, err, "checksums", "the start fails after everything but the list was repaired")
	require.NotEqual(t, before, snapshotOf(t, d.dir), "a snapshot was repaired")
	require.NoError(t, os.RemoveAll(filepath.Dir(inTheWay)))
	reopen(t, nil, d.dir)
}
