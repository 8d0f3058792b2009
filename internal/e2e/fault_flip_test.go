package e2e

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"io/fs"
	"log/slog"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/sagalog/sagalog/events"
	"github.com/sagalog/sagalog/internal/kafka"
	"github.com/sagalog/sagalog/internal/kafka/embedded"
	"github.com/stretchr/testify/require"
)

// brokerContents holds everything that a log directory serves: the records of each partition, by topic and partition.
type brokerContents map[string][]string

// flippedFile is a kind of file of the broker, and how many of its bytes a run flips.
type flippedFile struct {
	kind  string
	is    func(name string) bool
	flips int
}

var brokerFiles = []flippedFile{
	{"batch headers", func(n string) bool { return strings.HasSuffix(n, ".dat") }, 30},
	{"batches", func(n string) bool { return strings.HasSuffix(n, ".dat") }, 30},
	{"indexes", func(n string) bool { return strings.HasSuffix(n, ".idx") }, 15},
	{"snapshots", func(n string) bool { return filepath.Base(n) == "snapshot.json" }, 30},
	{"topics.json", func(n string) bool { return n == "topics.json" }, 30},
	{"meta.json", func(n string) bool { return n == "meta.json" }, 10},
	{"groups.log", func(n string) bool { return n == "groups.log" }, 20},
	{"others", func(n string) bool {
		return slices.Contains([]string{"pids.log", "seq_windows.json", "session_state.json", "broker_configs.json", "acls.json"}, n)
	}, 15},
}

// A byte of the broker's files changes while the broker is stopped. The next start refuses and names the file, or
// serves exactly what it served before. Only after a crash may it cut off an unreadable last batch, and then it reports
// that.
func TestAFlippedByteOfTheBrokerIsRefusedOrHarmless(t *testing.T) {
	skipUnlessSized(t)
	t.Parallel()
	r := rand.New(rand.NewPCG(seed(t), 77))
	work := workDir(t)
	f := startFleet(t, work)
	e := newEngineWith(t, work, f, "--partitions", "2") // so that each flip copies few files
	lived(t, e, "a-", 20)
	stopped := filepath.Join(work, "stopped")
	require.NoError(t, os.CopyFS(stopped, os.DirFS(filepath.Join(e.data, "broker"))))
	e.start()
	startLoad(t, e, "b-", 20, 0).acknowledged(t, patience)
	e.quiet(5 * patience)
	e.kill()
	crashed := filepath.Join(work, "crashed")
	require.NoError(t, os.CopyFS(crashed, os.DirFS(filepath.Join(e.data, "broker"))))

	for _, from := range []string{stopped, crashed} {
		flipBroker(t, r, from)
	}
}

func flipBroker(t *testing.T, r *rand.Rand, from string) {
	t.Helper()
	crash := filepath.Base(from) == "crashed"
	names := filesBelow(t, from)
	whole, said, err := serveLogs(t, from, filepath.Join(t.TempDir(), "whole"), nil)
	require.NoError(t, err, said)
	for _, kind := range brokerFiles {
		list := slices.DeleteFunc(slices.Clone(names), func(n string) bool { return !kind.is(n) })
		if len(list) == 0 {
			t.Logf("%s: no %s", filepath.Base(from), kind.kind)
			continue
		}
		outcome := map[string]int{}
		flips := sized(0, kind.flips, 5*kind.flips)
		for range flips {
			name := list[r.IntN(len(list))]
			outcome[judgeBrokerFlip(t, r, brokerFlip{from: from, name: name, header: kind.kind == "batch headers", crash: crash, whole: whole})]++
		}
		t.Logf("%s, %d flips in %s: %v", filepath.Base(from), flips, kind.kind, outcome)
	}
}

type brokerFlip struct {
	from, name    string
	header, crash bool
	whole         brokerContents
}

// judgeBrokerFlip flips one byte of a copy and opens it.
func judgeBrokerFlip(t *testing.T, r *rand.Rand, b brokerFlip) string {
	t.Helper()
	var what string
	dir := filepath.Join(t.TempDir(), "flipped")
	got, said, err := serveLogs(t, b.from, dir, func() {
		path := filepath.Join(dir, b.name)
		raw, err := os.ReadFile(path)
		require.NoError(t, err)
		if len(raw) == 0 {
			return
		}
		at := r.IntN(len(raw))
		if b.header { // the bytes that no checksum covers, of any batch
			starts := batchStarts(raw)
			at = starts[r.IntN(len(starts))] + r.IntN(17)
		}
		mask := byte(1 << r.IntN(8))
		what = fmt.Sprintf("%s byte %d of %d: %q became %q", b.name, at, len(raw), raw[at], raw[at]^mask)
		raw[at] ^= mask
		require.NoError(t, os.WriteFile(path, raw, 0o600))
	})
	defer os.RemoveAll(dir)
	if err != nil {
		// If a log and its snapshot contradict each other, nobody can know which of the two is wrong, so the message
		// may name the intact one.
		place := filepath.Base(filepath.Dir(b.name))
		require.True(t, strings.Contains(err.Error(), filepath.Base(b.name)) || place != "." && strings.Contains(err.Error(), place),
			"the refusal does not name the file: %s: %v", what, err)
		return "refused"
	}
	cut := 0
	for part, records := range b.whole {
		// If the list of topics has a wrong name for an empty topic, the engine creates the topic again.
		have := got[part]
		if slices.Equal(records, have) {
			continue
		}
		// The tail after a crash: only the last batch of that partition is cut off, and the broker reports it.
		require.True(t, b.crash && filepath.Dir(b.name) == filepath.Join("partitions", part), "%s\n%s: %d records, and there were %d\n%s", what, part, len(have), len(records), said)
		require.Less(t, len(have), len(records), what)
		require.Equal(t, strings.Join(records[:len(have)], "\n"), strings.Join(have, "\n"), what)
		require.LessOrEqual(t, len(records)-len(have), lastBatch(t, filepath.Join(b.from, b.name)), what)
		require.Contains(t, said, "cut the torn last batch", what)
		cut++
	}
	if cut > 0 {
		return "last batch cut"
	}
	return "equal"
}

// serveLogs copies a log directory, changes the copy, opens the broker on it and reads everything. said is the broker's
// log.
func serveLogs(t *testing.T, from, dir string, change func()) (_ brokerContents, said string, _ error) {
	t.Helper()
	require.NoError(t, os.CopyFS(dir, os.DirFS(from)))
	if change != nil {
		change()
	}
	var log bytes.Buffer
	var network embedded.VirtualNetwork
	b, err := embedded.Open(embedded.Config{Dir: dir, Network: &network, Logger: slog.New(slog.NewTextHandler(&log, nil))})
	if err != nil {
		return nil, log.String(), err
	}
	defer func() { require.NoError(t, b.Close()) }()
	c, err := kafka.Connect(b.ClusterConfig())
	require.NoError(t, err)
	defer c.Close()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	contents := brokerContents{}
	for _, topic := range keptTopics() {
		n, err := c.Partitions(ctx, topic)
		if err != nil {
			continue // its partitions are then missing from the contents
		}
		for p := range n {
			part := fmt.Sprintf("%s-%d", topic, p)
			contents[part] = nil
			from, err := c.StartOffset(ctx, topic, p)
			require.NoError(t, err)
			require.NoError(t, c.ReadRange(ctx, topic, p, from, -1, func(r events.Record) error {
				contents[part] = append(contents[part], fmt.Sprintf("%d %x", r.Offset, sha256.Sum256([]byte(events.HashRecord(&r)+string(r.Key)+string(r.Value)))))
				return nil
			}), part)
		}
	}
	return contents, log.String(), nil
}

// keptTopics are the topics whose records must not be lost.
func keptTopics() []string {
	list := []string{topics.Work("drone"), topics.Work("package"), topics.Work("account")}
	for _, s := range topics.Base(8) {
		if !s.Compacted {
			list = append(list, s.Name)
		}
	}
	return list
}

// lastBatch returns the number of records in the last batch of a segment.
func lastBatch(t *testing.T, path string) int {
	t.Helper()
	raw, err := os.ReadFile(path)
	require.NoError(t, err)
	starts := batchStarts(raw)
	return int(binary.BigEndian.Uint32(raw[starts[len(starts)-1]+57:]))
}

// batchStarts returns the positions at which the batches of a segment begin.
func batchStarts(raw []byte) (list []int) {
	for at := 0; at+12 <= len(raw); {
		list = append(list, at)
		at += 12 + int(binary.BigEndian.Uint32(raw[at+8:]))
	}
	return list
}

func filesBelow(t *testing.T, dir string) (names []string) {
	t.Helper()
	require.NoError(t, filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || d.Name() == "LOCK" {
			return err
		}
		if info, err := d.Info(); err != nil || info.Size() == 0 {
			return err
		}
		rel, err := filepath.Rel(dir, path)
		names = append(names, rel)
		return err
	}))
	return names
}
