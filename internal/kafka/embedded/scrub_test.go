package embedded_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sagalog/sagalog/events"
	"github.com/sagalog/sagalog/internal/kafka"
	"github.com/sagalog/sagalog/internal/kafka/embedded"
	"github.com/sagalog/sagalog/internal/kafka/kafkatest"
	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kgo"
)

// disk is a data directory with three batches in partition 0 of ns.events: offsets 0; 1 and 2; 3.
type disk struct {
	dir    string
	starts []int64 // offsets of the batches in the file
	size   int64
}

// crashed copies the directory while the broker runs, as kill -9 would leave it.
func crashed(t *testing.T) disk {
	t.Helper()
	dir := t.TempDir()
	b, w := reopen(t, nil, dir)
	fill(t, w)
	d := copied(t, dir)
	require.NoError(t, b.Close())
	return d
}

// stopped returns the directory after a clean stop.
func stopped(t *testing.T) disk {
	t.Helper()
	dir := t.TempDir()
	b, w := reopen(t, nil, dir)
	fill(t, w)
	require.NoError(t, b.Close())
	return copied(t, dir)
}

func fill(t *testing.T, w kafkatest.World) {
	t.Helper()
	topic := w.Create(t)
	w.Write(t, topic, "a")
	c := kafkatest.Client(t, w, kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.ProducerLinger(50_000_000))
	require.NoError(t, c.ProduceSync(kafkatest.Within(t),
		&kgo.Record{Topic: topic, Value: []byte("b")}, &kgo.Record{Topic: topic, Value: []byte("c")}).FirstErr())
	w.Write(t, topic, "d")
}

func copied(t *testing.T, dir string) disk {
	t.Helper()
	d := disk{dir: filepath.Join(t.TempDir(), "copy")}
	require.NoError(t, os.CopyFS(d.dir, os.DirFS(dir)))
	raw := d.read(t)
	for pos := int64(0); pos < int64(len(raw)); {
		d.starts = append(d.starts, pos)
		pos += 12 + int64(binary.BigEndian.Uint32(raw[pos+8:]))
	}
	d.size = int64(len(raw))
	require.Len(t, d.starts, 3, "the test needs three batches")
	return d
}

func (d disk) folder() string  { return filepath.Join(d.dir, "partitions", "ns.events-0") }
func (d disk) segment() string { return filepath.Join(d.folder(), "0.dat") }

func (d disk) read(t *testing.T) []byte {
	t.Helper()
	raw, err := os.ReadFile(d.segment())
	require.NoError(t, err)
	return raw
}

// flip inverts one byte of the segment.
func (d disk) flip(t *testing.T, at int64) {
	t.Helper()
	raw := d.read(t)
	raw[at] ^= 0xff
	require.NoError(t, os.WriteFile(d.segment(), raw, 0o600))
}

func (d disk) cut(t *testing.T, at int64) {
	t.Helper()
	require.NoError(t, os.Truncate(d.segment(), at))
}

// contents opens the directory and returns the values of the partition.
func (d disk) contents(t *testing.T) []string {
	t.Helper()
	b, w := reopen(t, nil, d.dir)
	r := w.Reader(t, kafka.ReaderConfig{})
	end, err := w.EndOffset(kafkatest.Within(t), "ns.events", 0)
	require.NoError(t, err)
	r.Add("ns.events", 0, -2, -1)
	got := kafkatest.Values(kafkatest.Read(t, r, int(end)))
	r.Close()
	require.NoError(t, b.Close())
	return got
}

func (d disk) refused(t *testing.T) *embedded.DamageError {
	t.Helper()
	before := snapshotOf(t, d.dir)
	_, err := embedded.Open(embedded.Config{Dir: d.dir})
	damage, ok := errors.AsType[*embedded.DamageError](err)
	require.True(t, ok, "%v", err)
	require.Equal(t, before, snapshotOf(t, d.dir), "a refused start changes nothing")
	return damage
}

func snapshotOf(t *testing.T, dir string) map[string]string {
	t.Helper()
	out := make(map[string]string)
	require.NoError(t, filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() || e.Name() == "LOCK" {
			return err
		}
		b, err := os.ReadFile(path)
		out[path] = string(b)
		return err
	}))
	return out
}

func TestAnIntactLogIsServed(t *testing.T) {
	t.Parallel()
	require.Equal(t, []string{"a", "b", "c", "d"}, crashed(t).contents(t))
	require.Equal(t, []string{"a", "b", "c", "d"}, stopped(t).contents(t))
}

func TestEveryFlippedByteBeforeTheLastBatchIsRefused(t *testing.T) {
	t.Parallel()
	whole := crashed(t)
	raw := whole.read(t)
	for at := range whole.starts[2] {
		d := disk{dir: filepath.Join(t.TempDir(), "copy"), starts: whole.starts}
		require.NoError(t, os.CopyFS(d.dir, os.DirFS(whole.dir)))
		require.NoError(t, os.WriteFile(d.segment(), raw, 0o600))
		d.flip(t, at)
		damage := d.refused(t)
		require.Equal(t, "ns.events", damage.Topic)
		require.EqualValues(t, 0, damage.Partition)
		require.Equal(t, d.segment(), damage.File)
		require.LessOrEqual(t, damage.Position, at, "byte %d", at)
		require.NotEmpty(t, damage.Remedy)
	}
}

func TestAFlippedByteOfTheLastBatchIsCutAfterACrash(t *testing.T) {
	t.Parallel()
	whole := crashed(t)
	raw := whole.read(t)
	for at := whole.starts[2]; at < whole.size; at++ {
		d := disk{dir: filepath.Join(t.TempDir(), "copy"), starts: whole.starts}
		require.NoError(t, os.CopyFS(d.dir, os.DirFS(whole.dir)))
		require.NoError(t, os.WriteFile(d.segment(), raw, 0o600))
		d.flip(t, at)
		b, err := embedded.Open(embedded.Config{Dir: d.dir})
		if err != nil {
			// No CRC covers offset and leader epoch: a whole batch with a wrong one is not a torn write.
			require.ErrorAs(t, err, new(*embedded.DamageError))
			require.Less(t, at-whole.starts[2], int64(17), "byte %d: %v", at-whole.starts[2], err)
			continue
		}
		require.NoError(t, b.Close())
		require.Len(t, d.read(t), int(whole.starts[2]))
	}
}

func TestATornLastBatchIsCutAndLogged(t *testing.T) {
	t.Parallel()
	for _, lost := range []int64{1, 30, 60} {
		d := crashed(t)
		d.cut(t, d.size-lost)
		var log bytes.Buffer
		b, err := embedded.Open(embedded.Config{Dir: d.dir, Logger: slog.New(slog.NewTextHandler(&log, nil))})
		require.NoError(t, err)
		require.NoError(t, b.Close())
		require.Contains(t, log.String(), "cut the torn last batch")
		require.Contains(t, log.String(), "topic=ns.events")
		require.Contains(t, log.String(), "offset=3")
		require.Equal(t, []string{"a", "b", "c"}, d.contents(t))
	}
	d := crashed(t)
	d.cut(t, d.starts[1]-1)
	require.Empty(t, d.contents(t), "the first batch may also be the last one")
}

func TestZerosAfterAPowerCutAreCut(t *testing.T) {
	t.Parallel()
	d := crashed(t)
	raw := d.read(t)
	raw = append(raw[:d.starts[2]], make([]byte, 4096)...)
	require.NoError(t, os.WriteFile(d.segment(), raw, 0o600))
	require.Equal(t, []string{"a", "b", "c"}, d.contents(t))
}

func TestATailLostSinceTheLastCleanStopIsRefused(t *testing.T) {
	t.Parallel()
	d := stopped(t)
	d.cut(t, d.starts[2])
	require.Contains(t, d.refused(t).Error(), "at the last clean stop it ended at 4")
	d = stopped(t)
	d.cut(t, d.size-1)
	require.Contains(t, d.refused(t).Error(), "at the last clean stop")
	d = stopped(t)
	d.flip(t, d.size-1)
	damage := d.refused(t)
	require.EqualValues(t, 3, damage.Offset)
	d = stopped(t)
	require.NoError(t, os.Remove(d.segment()))
	damage = d.refused(t)
	require.Contains(t, damage.Remedy, "snapshot.json")
	// The suggested remedy works.
	require.NoError(t, os.Remove(filepath.Join(d.folder(), "snapshot.json")))
	require.Empty(t, d.contents(t))
}

func TestAMissingSegmentIsRefused(t *testing.T) {
	t.Parallel()
	d := crashed(t)
	raw := d.read(t)
	require.NoError(t, os.WriteFile(filepath.Join(d.folder(), "3.dat"), raw[d.starts[2]:], 0o600))
	d.cut(t, d.starts[1])
	require.Contains(t, d.refused(t).Error(), "records are missing between offset 1 and 3")
	require.NoError(t, os.WriteFile(d.segment(), raw[:d.starts[2]], 0o600))
	require.Equal(t, []string{"a", "b", "c", "d"}, d.contents(t), "two intact segments form one log")
}

func TestADirectoryWithoutItsListOfTopicsIsRefused(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"meta.json", "topics.json"} {
		d := crashed(t)
		require.NoError(t, os.Remove(filepath.Join(d.dir, name)))
		_, err := embedded.Open(embedded.Config{Dir: d.dir})
		require.ErrorContains(t, err, name)
		d = crashed(t)
		require.NoError(t, os.WriteFile(filepath.Join(d.dir, name), []byte("{"), 0o600))
		_, err = embedded.Open(embedded.Config{Dir: d.dir})
		require.Error(t, err)
	}
}

// kfake panics at the ID of a topic that is longer than an ID.
func TestAListOfTopicsThatCannotBeReadIsRefused(t *testing.T) {
	t.Parallel()
	d := crashed(t)
	list := filepath.Join(d.dir, "topics.json")
	raw, err := os.ReadFile(list)
	require.NoError(t, err)
	require.Contains(t, string(raw), `=="`)
	require.NoError(t, os.WriteFile(list, bytes.ReplaceAll(raw, []byte(`=="`), []byte(`A="`)), 0o600))
	_, err = embedded.Open(embedded.Config{Dir: d.dir})
	require.ErrorContains(t, err, list+" is damaged (the ID of topic ns.events has 17 bytes, must have 16): restore it from a copy")
}

func TestAStaleSnapshotIsReplacedAfterACrash(t *testing.T) {
	t.Parallel()
	d := crashed(t)
	path := filepath.Join(d.folder(), "snapshot.json")
	require.NoFileExists(t, path)
	require.Equal(t, []string{"a", "b", "c", "d"}, d.contents(t))
	require.FileExists(t, path)
}

func TestAnIndexOutOfStepIsRepaired(t *testing.T) {
	t.Parallel()
	d := crashed(t)
	path := filepath.Join(d.folder(), "0.idx")
	want, err := os.ReadFile(path)
	require.NoError(t, err)
	for _, bad := range [][]byte{nil, want[:20], append([]byte{1, 2, 3}, want...), append(bytes.Clone(want), want...)} {
		require.NoError(t, os.WriteFile(path, bad, 0o600))
		b, err := embedded.Open(embedded.Config{Dir: d.dir})
		require.NoError(t, err)
		require.NoError(t, b.Close())
		got, err := os.ReadFile(path)
		require.NoError(t, err)
		require.Len(t, got, len(want))
		for i := 0; i < len(want); i += 15 {
			require.Equal(t, want[i+2:i+6], got[i+2:i+6])
			require.Equal(t, want[i+14], got[i+14])
		}
	}
}

func TestADamagedIndexDoesNotCommitAnOpenTransaction(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	b, w := reopen(t, nil, dir)
	topic := w.Create(t)
	w.Write(t, topic, "a")
	kafkatest.BeginTransaction(t, w).Produce(events.Record{Topic: topic, Value: []byte("never ended")})
	killed := filepath.Join(t.TempDir(), "copy")
	require.NoError(t, os.CopyFS(killed, os.DirFS(dir)))
	require.NoError(t, b.Close())
	// Half of the second entry, as a full disk leaves it.
	require.NoError(t, os.Truncate(filepath.Join(killed, "partitions", "ns.events-0", "0.idx"), 20))
	_, w = reopen(t, nil, killed)
	w.Write(t, topic, "b")
	r := w.Reader(t, kafka.ReaderConfig{ReadCommitted: true})
	r.Add(topic, 0, 0, -1)
	require.Equal(t, []string{"a", "b"}, kafkatest.Values(kafkatest.Read(t, r, 2)))
}

func TestAnOpenTransactionEndsAfterACrash(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	b, w := reopen(t, nil, dir)
	topic := w.Create(t)
	w.Write(t, topic, "a")
	kafkatest.BeginTransaction(t, w).Produce(events.Record{Topic: topic, Value: []byte("never ended")})
	require.NoError(t, b.Close())

	b, w = reopen(t, nil, dir)
	end, err := w.EndOffset(kafkatest.Within(t), topic, 0)
	require.NoError(t, err)
	require.EqualValues(t, 1, end, "after a clean stop the transaction is still open")
	killed := filepath.Join(t.TempDir(), "copy")
	require.NoError(t, os.CopyFS(killed, os.DirFS(dir)))
	require.NoError(t, b.Close())

	b, w = reopen(t, nil, killed)
	end, err = w.EndOffset(kafkatest.Within(t), topic, 0)
	require.NoError(t, err)
	require.EqualValues(t, 2, end, "after a crash it is aborted")
	r := w.Reader(t, kafka.ReaderConfig{ReadCommitted: true})
	r.Add(topic, 0, 0, -1)
	require.EqualValues(t, 2, kafkatest.ReadTo(t, r, 2), "no marker follows it, but the position still reaches the end")
	w.Write(t, topic, "b")
	require.Equal(t, []string{"b"}, kafkatest.Values(kafkatest.Read(t, r, 1)))
	r.Close()
	require.NoError(t, b.Close())
}

func TestACompactedTopicMayHaveGaps(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	b, w := reopen(t, nil, dir)
	spec := kafka.TopicSpec{Name: "ns.presence", Partitions: 1, MaxMessageBytes: kafka.MaxMessageBytes, Compacted: true}
	kafkatest.Create(t, w.Cluster, spec)
	for range 5 {
		w.Write(t, spec.Name, strings.Repeat("x", 10))
	}
	embedded.CompactNow(b)
	_, w = reopen(t, b, dir)
	require.Equal(t, []int64{5}, w.Write(t, spec.Name, "y"))
	r := w.Reader(t, kafka.ReaderConfig{})
	r.Add(spec.Name, 0, -2, -1)
	got := kafkatest.Read(t, r, 2)
	require.Equal(t, "y", string(got[len(got)-1].Value))
	var seen int
	start, err := w.StartOffset(kafkatest.Within(t), spec.Name, 0)
	require.NoError(t, err)
	require.NoError(t, w.ReadRange(kafkatest.Within(t), spec.Name, 0, start, -1, countInto(&seen)))
	require.Positive(t, seen)
}

func countInto(n *int) func(events.Record) error {
	return func(events.Record) error {
		*n++
		return nil
	}
}
