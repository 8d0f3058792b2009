package embedded_test

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/sagalog/sagalog/events"
	"github.com/sagalog/sagalog/internal/kafka"
	"github.com/sagalog/sagalog/internal/kafka/embedded"
	"github.com/sagalog/sagalog/internal/kafka/kafkatest"
	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kgo"
)

// inFiles returns the records that the files of a directory show, and requires that nothing but the lock was written.
func inFiles(t *testing.T, dir string) (list []events.Record) {
	t.Helper()
	f, err := embedded.OpenFiles(embedded.Config{Dir: dir})
	require.NoError(t, err)
	before := snapshotOf(t, dir)
	begin, stable, err := f.Bounds(t.Context(), "ns.events", 0)
	require.NoError(t, err)
	require.NoError(t, f.LendRange(t.Context(), "ns.events", 0, begin, stable, func(r events.Record) error {
		one, err := f.ReadAt(t.Context(), "ns.events", 0, r.Offset)
		require.NoError(t, err)
		require.Equal(t, one, r)
		r.Headers = append([]events.Header(nil), r.Headers...)
		list = append(list, r)
		return nil
	}))
	if begin > 0 {
		require.ErrorAs(t, f.ReadRange(t.Context(), "ns.events", 0, begin-1, stable, nil), new(*kafka.OutOfRangeError))
	}
	_, err = f.ReadAt(t.Context(), "ns.events", 0, stable)
	require.ErrorAs(t, err, new(*kafka.OutOfRangeError))
	require.Equal(t, before, snapshotOf(t, dir))
	require.NoError(t, f.Close())
	return list
}

func valuesOf(list []events.Record) (values []string) {
	for _, r := range list {
		values = append(values, string(r.Value))
	}
	return values
}

// Whatever the broker shows of a log, its files show too: several segments, batches that are compressed or larger than what is read at once, headers, and a
// beginning that was deleted; after a clean stop and after a crash.
func TestFilesShowWhatTheBrokerShows(t *testing.T) {
	t.Parallel()
	b, w := reopen(t, nil, t.TempDir())
	topic := w.Create(t)
	w.Write(t, topic, "a", "b", "c", "d")
	for _, codec := range []kgo.CompressionCodec{kgo.NoCompression(), kgo.ZstdCompression()} {
		c := kafkatest.Client(t, w, kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.ProducerBatchCompression(codec), kgo.ProducerBatchMaxBytes(1<<20))
		for range 25 {
			require.NoError(t, c.ProduceSync(kafkatest.Within(t),
				&kgo.Record{Topic: topic, Key: []byte("k"), Value: []byte(strings.Repeat("x", 900_000)), Headers: []kgo.RecordHeader{{Key: "h", Value: []byte("v")}}},
				&kgo.Record{Topic: topic, Value: []byte("y")}).FirstErr())
		}
		for range 25 {
			require.NoError(t, c.ProduceSync(kafkatest.Within(t), &kgo.Record{Topic: topic, Value: []byte(strings.Repeat("z", 700_000))}).FirstErr())
		}
	}
	deleteBelow(t, w, 3)
	var want []events.Record
	require.NoError(t, w.ReadRange(kafkatest.Within(t), topic, 0, 3, -1, func(r events.Record) error { want = append(want, r); return nil }))
	require.Len(t, want, 151)
	dir := embedded.DataDir(b)
	segments, err := filepath.Glob(filepath.Join(dir, "partitions", "ns.events-0", "*.dat"))
	require.NoError(t, err)
	require.Greater(t, len(segments), 1, "the test needs two segments")
	killed := filepath.Join(t.TempDir(), "copy")
	require.NoError(t, os.CopyFS(killed, os.DirFS(dir)))
	_, err = embedded.OpenFiles(embedded.Config{Dir: dir})
	require.ErrorAs(t, err, new(*embedded.LockedError), "the broker runs")
	require.NoError(t, b.Close())
	for _, dir := range []string{dir, killed} {
		got := inFiles(t, dir)
		require.Equal(t, len(want), len(got))
		for i := range want {
			require.Equal(t, want[i], got[i], "record %d", i)
		}
	}
	f, err := embedded.OpenFiles(embedded.Config{Dir: dir})
	require.NoError(t, err)
	_, err = embedded.Open(embedded.Config{Dir: dir})
	require.ErrorAs(t, err, new(*embedded.LockedError), "the files are read")
	_, _, err = f.Bounds(t.Context(), "ns.none", 0)
	require.ErrorIs(t, err, kafka.ErrUnknownTopic)
	require.Zero(t, f.Partitions("ns.none"))
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, _, err = f.Bounds(ctx, topic, 0)
	require.ErrorIs(t, err, context.Canceled, "before the log is examined")
	_, _, err = f.Bounds(t.Context(), topic, 0)
	require.NoError(t, err)
	require.ErrorIs(t, f.LendRange(ctx, topic, 0, 3, 9, nil), context.Canceled)
	require.NoError(t, f.Close())
}

// The broker cuts a torn last batch off when it starts. The files do not show it, and leave it to the broker.
func TestFilesDoNotShowATornEnd(t *testing.T) {
	t.Parallel()
	d := crashed(t)
	require.Equal(t, []string{"a", "b", "c", "d"}, valuesOf(inFiles(t, d.dir)))
	d.cut(t, d.size-1)
	require.Equal(t, []string{"a", "b", "c"}, valuesOf(inFiles(t, d.dir)))
	require.Len(t, d.read(t), int(d.size-1))
	require.Equal(t, []string{"a", "b", "c"}, d.contents(t), "and so does the broker")
}

func TestFilesRefuseWhatTheBrokerRefuses(t *testing.T) {
	t.Parallel()
	d := crashed(t)
	d.flip(t, d.starts[1]+70)
	want := d.refused(t)
	f, err := embedded.OpenFiles(embedded.Config{Dir: d.dir})
	require.NoError(t, err)
	_, _, err = f.Bounds(t.Context(), "ns.events", 0)
	var damage *embedded.DamageError
	require.ErrorAs(t, err, &damage)
	require.Equal(t, want, damage)
	require.NoError(t, f.Close())
}

// compared requires that the files of a stopped broker have the bounds and the records of a partition that the broker has when it runs again, and returns the
// bounds. The broker is the judge.
func compared(t *testing.T, dir, topic string) (begin, stable int64) {
	t.Helper()
	copied := filepath.Join(t.TempDir(), "copy")
	require.NoError(t, os.CopyFS(copied, os.DirFS(dir)))
	b, w := reopen(t, nil, copied)
	wantBegin, err := w.StartOffset(kafkatest.Within(t), topic, 0)
	require.NoError(t, err)
	wantStable, err := w.EndOffset(kafkatest.Within(t), topic, 0)
	require.NoError(t, err)
	var want, got []events.Record
	require.NoError(t, w.ReadRange(kafkatest.Within(t), topic, 0, wantBegin, -1, func(r events.Record) error { want = append(want, r); return nil }))
	require.NoError(t, b.Close())
	f, err := embedded.OpenFiles(embedded.Config{Dir: dir})
	require.NoError(t, err)
	begin, stable, err = f.Bounds(t.Context(), topic, 0)
	require.NoError(t, err)
	require.Equal(t, []int64{wantBegin, wantStable}, []int64{begin, stable})
	end := want[len(want)-1].Offset + 1
	require.NoError(t, f.ReadRange(t.Context(), topic, 0, begin, end, func(r events.Record) error { got = append(got, r); return nil }))
	require.Equal(t, want, got)
	require.ErrorAs(t, f.ReadRange(t.Context(), topic, 0, begin, end+1, func(events.Record) error { return nil }), new(*kafka.OutOfRangeError))
	require.NoError(t, f.Close())
	return begin, stable
}

// A transaction that was open at a clean stop holds the end back, until a crash ends it. Those that have ended do not, and the files show their markers.
func TestFilesEndBeforeAnOpenTransaction(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	b, w := reopen(t, nil, dir)
	topic := w.Create(t)
	w.Write(t, topic, "a")
	kafkatest.OpenTransaction(t, w, topic)()
	kafkatest.BeginTransaction(t, w).Produce(events.Record{Topic: topic, Value: []byte("never ended")})
	w.Write(t, topic, "b")
	killed := filepath.Join(t.TempDir(), "copy")
	require.NoError(t, os.CopyFS(killed, os.DirFS(dir)))
	require.NoError(t, b.Close())
	_, stable := compared(t, dir, topic)
	require.EqualValues(t, 3, stable, "a, the aborted record and its marker")
	_, stable = compared(t, killed, topic)
	require.EqualValues(t, 5, stable)
	// Killed after a start, the directory still has the snapshot of the stop. It fits the log, and is stale once something was appended.
	b, w = reopen(t, nil, dir)
	fits := filepath.Join(t.TempDir(), "copy")
	require.NoError(t, os.CopyFS(fits, os.DirFS(dir)))
	w.Write(t, topic, "c")
	stale := filepath.Join(t.TempDir(), "copy")
	require.NoError(t, os.CopyFS(stale, os.DirFS(dir)))
	require.NoError(t, b.Close())
	_, stable = compared(t, fits, topic)
	require.EqualValues(t, 5, stable)
	_, stable = compared(t, stale, topic)
	require.EqualValues(t, 6, stable)
}

func TestFilesShowACompactedTopic(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	b, w := reopen(t, nil, dir)
	spec := kafka.TopicSpec{Name: "ns.presence", Partitions: 1, MaxMessageBytes: kafka.MaxMessageBytes, Compacted: true}
	kafkatest.Create(t, w.Cluster, spec)
	for range 5 {
		w.Write(t, spec.Name, "x", "y")
	}
	embedded.CompactNow(b)
	w.Write(t, spec.Name, "z")
	require.NoError(t, b.Close())
	_, stable := compared(t, dir, spec.Name)
	require.EqualValues(t, 11, stable)
}

// Before a batch that cannot be unpacked is one that the client has to decode, because of its time. The client shows what is before the bad batch, and no error.
func TestFilesReportABatchThatCannotBeUnpacked(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	b, w := reopen(t, nil, dir)
	topic := w.Create(t)
	w.Write(t, topic, "a", "b")
	c := kafkatest.Client(t, w, kgo.RecordPartitioner(kgo.ManualPartitioner()))
	require.NoError(t, c.ProduceSync(kafkatest.Within(t), &kgo.Record{Topic: topic, Value: []byte("odd"), Timestamp: time.Date(2249, 1, 1, 0, 0, 0, 0, time.UTC)}).FirstErr())
	require.Equal(t, []int64{3}, kafkatest.Bomb(t, w, topic, 17<<20))
	w.Write(t, topic, "c", "d", "e")
	shown := func(read func(context.Context, string, int32, int64, int64, func(events.Record) error) error) (offsets []int64, err error) {
		err = read(kafkatest.Within(t), topic, 0, 0, 7, func(r events.Record) error { offsets = append(offsets, r.Offset); return nil })
		return offsets, err
	}
	offsets, want := shown(w.ReadRange)
	require.Equal(t, []int64{0, 1, 2}, offsets)
	require.ErrorAs(t, want, new(*kafka.TooLargeError))
	require.NoError(t, b.Close())
	f, err := embedded.OpenFiles(embedded.Config{Dir: dir})
	require.NoError(t, err)
	offsets, err = shown(f.ReadRange)
	require.Equal(t, []int64{0, 1, 2}, offsets)
	require.Equal(t, want, err, "the error of the broker")
	require.NoError(t, f.Close())
}
