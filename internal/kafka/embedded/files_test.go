package embedded_test

import (
	"context"
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

// inFiles returns the records that the files of a directory show, and requires that nothing but the lock was written.
func inFiles(t *testing.T, dir string) (list []events.Record) {
	t.Helper()
	f, err := embedded.OpenFiles(embedded.Config{Dir: dir})
	require.NoError(t, err)
	before := snapshotOf(t, dir)
	begin, stable, err := f.Bounds("ns.events", 0)
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
			want[i].LeaderEpoch = got[i].LeaderEpoch // the broker fills it in when it answers
			require.Equal(t, want[i], got[i], "record %d", i)
		}
	}
	f, err := embedded.OpenFiles(embedded.Config{Dir: dir})
	require.NoError(t, err)
	_, err = embedded.Open(embedded.Config{Dir: dir})
	require.ErrorAs(t, err, new(*embedded.LockedError), "the files are read")
	_, _, err = f.Bounds("ns.none", 0)
	require.ErrorIs(t, err, kafka.ErrUnknownTopic)
	require.Zero(t, f.Partitions("ns.none"))
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
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
	_, _, err = f.Bounds("ns.events", 0)
	var damage *embedded.DamageError
	require.ErrorAs(t, err, &damage)
	require.Equal(t, want, damage)
	require.NoError(t, f.Close())
}
