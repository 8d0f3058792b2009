package kafka_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/sagalog/sagalog/events"
	"github.com/sagalog/sagalog/internal/kafka"
	"github.com/sagalog/sagalog/internal/kafka/batch"
	"github.com/sagalog/sagalog/internal/kafka/kafkatest"
	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kgo"
)

func readerReadsOn(t *testing.T, w world) {
	topic := w.Create(t)
	w.Write(t, topic, "a", "b", "c")
	r := w.Reader(t, kafka.ReaderConfig{})
	r.Add(topic, 0, 1, -1)
	require.Equal(t, []string{"b", "c"}, kafkatest.Values(kafkatest.Read(t, r, 2)))
	w.Write(t, topic, "d")
	fetches, err := r.Poll(kafkatest.Within(t))
	require.NoError(t, err)
	require.Len(t, fetches, 1)
	require.Equal(t, []string{"d"}, kafkatest.Values(fetches[0].Records))
	require.EqualValues(t, 4, fetches[0].Next)
	require.EqualValues(t, 4, fetches[0].HighWatermark)
	require.EqualValues(t, 3, fetches[0].Records[0].Offset)
	require.Equal(t, topic, fetches[0].Records[0].Topic)
}

func readerOutOfRange(t *testing.T, w world) {
	topic := w.Create(t)
	w.Write(t, topic, "a", "b")
	r := w.Reader(t, kafka.ReaderConfig{})
	r.Add(topic, 0, 7, -1)
	recs, f := readErr(t, r)
	require.Empty(t, recs)
	out, ok := errors.AsType[*kafka.OutOfRangeError](f.Err)
	require.True(t, ok, "%v", f.Err)
	require.Equal(t, kafka.OutOfRangeError{Topic: topic, Offset: 7}, *out)
	// The partition stays stopped. It can be added again at an offset that the caller chooses.
	w.Write(t, topic, "c")
	r.Add(topic, 0, 2, -1)
	require.Equal(t, []string{"c"}, kafkatest.Values(kafkatest.Read(t, r, 1)))
}

func readerBelowStart(t *testing.T, w world) {
	topic := w.Create(t)
	w.Write(t, topic, "a")
	w.Write(t, topic, "b")
	w.Write(t, topic, "c")
	kafkatest.DeleteRecords(t, w, topic, 0, 2)
	r := w.Reader(t, kafka.ReaderConfig{})
	r.Add(topic, 0, 0, -1)
	_, f := readErr(t, r)
	require.ErrorAs(t, f.Err, new(*kafka.OutOfRangeError))
	_, err := w.ReadAt(kafkatest.Within(t), topic, 0, 0)
	require.ErrorAs(t, err, new(*kafka.OutOfRangeError))
	err = w.ReadRange(kafkatest.Within(t), topic, 0, 0, -1, func(events.Record) error { return nil })
	require.ErrorAs(t, err, new(*kafka.OutOfRangeError))
	r.Add(topic, 0, -2, -1)
	require.Equal(t, []string{"c"}, kafkatest.Values(kafkatest.Read(t, r, 1)))
}

func readerChanges(t *testing.T, w world) {
	topic := w.Create(t)
	w.Write(t, topic, "a")
	p, err := kafka.NewProducer(w.Cluster)
	require.NoError(t, err)
	defer p.Close()
	_, err = p.ProduceSync(kafkatest.Within(t), events.Record{Topic: topic, Partition: 1, Value: []byte("other")})
	require.NoError(t, err)
	r := w.Reader(t, kafka.ReaderConfig{MaxWait: 2 * kafkatest.StepWait})
	r.Add(topic, 0, 0, -1)
	require.Equal(t, []string{"a"}, kafkatest.Values(kafkatest.Read(t, r, 1)))
	// A fetch of partition 0 waits at the broker, longer than the test does. It must not delay the second partition.
	r.Add(topic, 1, 0, -1)
	require.Equal(t, []string{"other"}, kafkatest.Values(kafkatest.Read(t, r, 1)))

	r.Pause(topic, 0)
	w.Write(t, topic, "b")
	ctx, cancel := context.WithTimeout(kafkatest.Within(t), 200*time.Millisecond)
	defer cancel()
	_, err = r.Poll(ctx)
	require.ErrorIs(t, err, context.DeadlineExceeded)
	r.Resume(topic, 0)
	require.Equal(t, []string{"b"}, kafkatest.Values(kafkatest.Read(t, r, 1)))

	// A paused partition that is removed and added again is read.
	r.Pause(topic, 0)
	r.Remove(topic, 0)
	r.Add(topic, 0, 0, -1)
	require.Equal(t, []string{"a", "b"}, kafkatest.Values(kafkatest.Read(t, r, 2)))

	r.Remove(topic, 0)
	w.Write(t, topic, "c")
	_, err = p.ProduceSync(kafkatest.Within(t), events.Record{Topic: topic, Partition: 1, Value: []byte("other 2")})
	require.NoError(t, err)
	require.Equal(t, []string{"other 2"}, kafkatest.Values(kafkatest.Read(t, r, 1)))

	// Adding a partition again moves it, and its fetches carry the new number.
	number := r.Add(topic, 1, 0, -1)
	fetches, err := r.Poll(kafkatest.Within(t))
	require.NoError(t, err)
	require.Equal(t, number, fetches[0].Added)
	require.Equal(t, "other", string(fetches[0].Records[0].Value))
	require.Greater(t, r.Add(topic, 1, 1, -1), number)
	require.Equal(t, []string{"other 2"}, kafkatest.Values(kafkatest.Read(t, r, 1)))
}

func (w world) transaction(t *testing.T) *kgo.Client {
	return kafkatest.Client(t, w, kgo.TransactionalID("tx-"+w.Topics.Namespace), kgo.RecordPartitioner(kgo.ManualPartitioner()),
		kgo.RequiredAcks(kgo.AllISRAcks()))
}

func send(t *testing.T, c *kgo.Client, topic string, values ...string) {
	t.Helper()
	require.NoError(t, c.BeginTransaction())
	for _, v := range values {
		require.NoError(t, c.ProduceSync(kafkatest.Within(t), &kgo.Record{Topic: topic, Value: []byte(v)}).FirstErr())
	}
}

func readerCommitted(t *testing.T, w world) {
	topic := w.Create(t)
	tx := w.transaction(t)
	send(t, tx, topic, "in a transaction")
	w.Write(t, topic, "behind it")
	ends, err := w.EndOffsets(kafkatest.Within(t), kafka.Partitions{topic: {0, 1}})
	require.NoError(t, err)
	require.Equal(t, kafka.Offsets{topic: {0: 0, 1: 0}}, ends, "the end is the last stable offset")
	marks, err := w.HighWatermarks(kafkatest.Within(t), kafka.Partitions{topic: {0}})
	require.NoError(t, err)
	require.EqualValues(t, 2, marks[topic][0])

	kept := w.Reader(t, kafka.ReaderConfig{ReadCommitted: true, KeepControl: true})
	kept.Add(topic, 0, 0, -1)
	plain := w.Reader(t, kafka.ReaderConfig{ReadCommitted: true})
	plain.Add(topic, 0, 0, -1)
	dirty := w.Reader(t, kafka.ReaderConfig{})
	dirty.Add(topic, 0, 0, -1)
	require.Len(t, kafkatest.Read(t, dirty, 2), 2)

	require.NoError(t, tx.EndTransaction(kafkatest.Within(t), kgo.TryCommit))
	recs := kafkatest.Read(t, kept, 3)
	require.Equal(t, []string{"in a transaction", "behind it"}, kafkatest.Values(recs))
	require.True(t, recs[2].Control)
	require.EqualValues(t, 2, recs[2].Offset)
	require.EqualValues(t, 3, kafkatest.ReadTo(t, plain, 3))
	end, err := w.EndOffset(kafkatest.Within(t), topic, 0)
	require.NoError(t, err)
	require.EqualValues(t, 3, end)
}

func readerAborted(t *testing.T, w world) {
	topic := w.Create(t)
	tx := w.transaction(t)
	send(t, tx, topic, "never", "ever")
	require.NoError(t, tx.EndTransaction(kafkatest.Within(t), kgo.TryAbort))
	r := w.Reader(t, kafka.ReaderConfig{ReadCommitted: true})
	r.Add(topic, 0, 0, -1)
	require.EqualValues(t, 3, kafkatest.ReadTo(t, r, 3), "the position has passed the marker although no record came")
	w.Write(t, topic, "but this")
	require.Equal(t, []string{"but this"}, kafkatest.Values(kafkatest.Read(t, r, 1)))
}

// The marker of the aborted records is held back by another transaction that is still open.
func readerAbortedBeforeOpen(t *testing.T, w world) {
	topic := w.Create(t)
	w.Write(t, topic, "before")
	r := w.Reader(t, kafka.ReaderConfig{ReadCommitted: true, KeepControl: true})
	r.Add(topic, 0, 0, -1)
	require.Equal(t, []string{"before"}, kafkatest.Values(kafkatest.Read(t, r, 1)))
	aborted := w.transaction(t)
	send(t, aborted, topic, "never", "ever")
	open := kafkatest.Client(t, w, kgo.TransactionalID("open-"+w.Topics.Namespace), kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.RequiredAcks(kgo.AllISRAcks()))
	send(t, open, topic, "later")
	require.NoError(t, aborted.EndTransaction(kafkatest.Within(t), kgo.TryAbort))
	// Apache Kafka answers before it has written the marker.
	require.Eventually(t, func() bool {
		end, err := w.EndOffset(kafkatest.Within(t), topic, 0)
		return err == nil && end == 3
	}, kafkatest.StepWait, 20*time.Millisecond, "the last stable offset is that of the open transaction")
	require.EqualValues(t, 3, kafkatest.ReadTo(t, r, 3), "a reader reaches the end that was returned")

	require.NoError(t, open.EndTransaction(kafkatest.Within(t), kgo.TryCommit))
	var got []string
	for _, rec := range kafkatest.Read(t, r, 3) {
		if !rec.Control {
			got = append(got, fmt.Sprintf("%d %s", rec.Offset, rec.Value))
		}
	}
	require.Equal(t, []string{"3 later"}, got)
}

func readerTooLarge(t *testing.T, w world) {
	topic := w.Create(t)
	w.Write(t, topic, "before")
	kafkatest.Bomb(t, w, topic, 17<<20) // a foreign client's batch: small, but larger than 16 MiB when decompressed
	w.Write(t, topic, "after")
	r := w.Reader(t, kafka.ReaderConfig{})
	r.Add(topic, 0, 0, -1)
	recs, f := readErr(t, r)
	require.Equal(t, []string{"before"}, kafkatest.Values(recs))
	large, ok := errors.AsType[*kafka.TooLargeError](f.Err)
	require.True(t, ok, "%v", f.Err)
	require.EqualValues(t, 1, large.Offset)
	require.EqualValues(t, 2, large.Next)
	r.Add(topic, 0, large.Next, -1)
	require.Equal(t, []string{"after"}, kafkatest.Values(kafkatest.Read(t, r, 1)))
}

// Decoded, each record of the batch would take much more memory than on the wire.
func readerTooMany(t *testing.T, w world) {
	topic := w.Create(t)
	w.Write(t, topic, "before")
	kafkatest.Bomb(t, w, topic, make([]int, batch.MaxRecords+1)...)
	w.Write(t, topic, "after")
	for _, from := range []int64{0, 1000} { // also from within the batch
		r := w.Reader(t, kafka.ReaderConfig{})
		r.Add(topic, 0, from, -1)
		_, f := readErr(t, r)
		large, ok := errors.AsType[*kafka.TooLargeError](f.Err)
		require.True(t, ok, "%v", f.Err)
		require.EqualValues(t, 1, large.Offset)
		require.EqualValues(t, 2+batch.MaxRecords, large.Next)
		r.Add(topic, 0, large.Next, -1)
		require.Equal(t, []string{"after"}, kafkatest.Values(kafkatest.Read(t, r, 1)))
	}
	_, err := w.ReadAt(kafkatest.Within(t), topic, 0, 5)
	require.ErrorAs(t, err, new(*kafka.TooLargeError))
	err = w.ReadRange(kafkatest.Within(t), topic, 0, 1, -1, func(events.Record) error { return nil })
	require.ErrorAs(t, err, new(*kafka.TooLargeError))
}

func readAt(t *testing.T, w world) {
	topic := w.Create(t)
	recs := make([]string, 100)
	for i := range recs {
		recs[i] = fmt.Sprint("v", i)
	}
	w.Write(t, topic, recs...)
	for _, at := range []int64{0, 50, 99} {
		got, err := w.ReadAt(kafkatest.Within(t), topic, 0, at)
		require.NoError(t, err)
		require.Equal(t, recs[at], string(got.Value))
		require.Equal(t, at, got.Offset)
		require.GreaterOrEqual(t, got.LeaderEpoch, int32(0))
	}
	for _, at := range []int64{100, 101, 1000} {
		_, err := w.ReadAt(kafkatest.Within(t), topic, 0, at)
		require.ErrorAs(t, err, new(*kafka.OutOfRangeError))
	}
	_, err := w.ReadAt(kafkatest.Within(t), topic, 99, 0)
	require.ErrorIs(t, err, kafka.ErrUnknownTopic)
}

func readRange(t *testing.T, w world) {
	topic := w.Create(t)
	w.Write(t, topic, "a", "b", "c")
	var got []string
	collect := func(r events.Record) error {
		got = append(got, string(r.Value))
		// Records written in the meantime are not part of the range.
		w.Write(t, topic, "later")
		return nil
	}
	require.NoError(t, w.ReadRange(kafkatest.Within(t), topic, 0, 0, -1, collect))
	require.Equal(t, []string{"a", "b", "c"}, got)
	got = nil
	require.NoError(t, w.ReadRange(kafkatest.Within(t), topic, 0, 1, 2, collect))
	require.Equal(t, []string{"b"}, got)
	got = nil
	require.NoError(t, w.ReadRange(kafkatest.Within(t), topic, 1, 0, -1, collect), "an empty partition is an empty range")
	require.NoError(t, w.ReadRange(kafkatest.Within(t), topic, 0, 3, 3, collect))
	require.Empty(t, got)
	stop := errors.New("enough")
	require.Equal(t, stop, w.ReadRange(kafkatest.Within(t), topic, 0, 0, -1, func(events.Record) error { return stop }))
}

func readRangePassesMarkers(t *testing.T, w world) {
	topic := w.Create(t)
	tx := w.transaction(t)
	send(t, tx, topic, "a")
	require.NoError(t, tx.EndTransaction(kafkatest.Within(t), kgo.TryCommit))
	send(t, tx, topic, "b")
	require.NoError(t, tx.EndTransaction(kafkatest.Within(t), kgo.TryAbort))
	// Apache Kafka answers before it has written the markers.
	r := w.Reader(t, kafka.ReaderConfig{ReadCommitted: true})
	r.Add(topic, 0, 0, -1)
	require.EqualValues(t, 4, kafkatest.ReadTo(t, r, 4))
	var offsets []int64
	var controls int
	require.NoError(t, w.ReadRange(kafkatest.Within(t), topic, 0, 0, -1, func(r events.Record) error {
		offsets = append(offsets, r.Offset)
		if r.Control {
			controls++
		}
		return nil
	}))
	require.Equal(t, []int64{0, 1, 2, 3}, offsets)
	require.Equal(t, 2, controls)
	marker, err := w.ReadAt(kafkatest.Within(t), topic, 0, 1)
	require.NoError(t, err)
	require.True(t, marker.Control)
}

func endOffsets(t *testing.T, w world) {
	specs := w.Topics.Base(4)
	kafkatest.Create(t, w.Cluster, specs...)
	w.Write(t, w.Topics.Reports(), "a", "b")
	w.Write(t, w.Topics.Submissions(), "a")
	all := kafka.Partitions{w.Topics.Reports(): {0, 1, 2, 3}, w.Topics.Submissions(): {0, 3}}
	ends, err := w.EndOffsets(kafkatest.Within(t), all)
	require.NoError(t, err)
	require.Equal(t, kafka.Offsets{
		w.Topics.Reports(): {0: 2, 1: 0, 2: 0, 3: 0}, w.Topics.Submissions(): {0: 1, 3: 0},
	}, ends)
	starts, err := w.StartOffsets(kafkatest.Within(t), all)
	require.NoError(t, err)
	require.EqualValues(t, 0, starts[w.Topics.Reports()][0])
	_, err = w.EndOffsets(kafkatest.Within(t), kafka.Partitions{w.Topics.Reports(): {0, 9}})
	require.ErrorIs(t, err, kafka.ErrUnknownTopic)
	none, err := w.EndOffsets(kafkatest.Within(t), nil)
	require.NoError(t, err)
	require.Empty(t, none)
}

func closedAnswers(t *testing.T, w world) {
	topic := w.Create(t)
	r := w.Reader(t, kafka.ReaderConfig{})
	r.Close()
	_, err := r.Poll(kafkatest.Within(t))
	require.ErrorIs(t, err, kafka.ErrClosed)
	p, err := kafka.NewOwnerProducer(w.Cluster, topic, 0)
	require.NoError(t, err)
	p.Close()
	ch, done := answers()
	p.Append(records("a"), done)
	require.ErrorIs(t, await(t, ch).err, kafka.ErrClosed)
	s, err := kafka.NewProducer(w.Cluster)
	require.NoError(t, err)
	s.Close()
	_, err = s.ProduceSync(kafkatest.Within(t), events.Record{Topic: topic})
	require.ErrorIs(t, err, kafka.ErrClosed)
}

func recordsRoundTrip(t *testing.T, w world) {
	topic := w.Create(t)
	sent := []events.Record{
		{Topic: topic, Key: []byte("k"), Timestamp: 1_700_000_000_123, Value: []byte("v"), Headers: []events.Header{
			{Key: "a", Value: []byte("1")}, {Key: "a", Value: []byte("2")}, {Key: "b"},
		}},
		{Topic: topic, Key: []byte("tombstone")},
		{Topic: topic, Key: []byte("empty"), Value: []byte{}},
		{Topic: topic, Value: []byte("no key"), Headers: []events.Header{{Key: "c", Value: []byte("3")}}},
	}
	p, err := kafka.NewProducer(w.Cluster)
	require.NoError(t, err)
	defer p.Close()
	_, err = p.ProduceSync(kafkatest.Within(t), sent...)
	require.NoError(t, err)
	r := w.Reader(t, kafka.ReaderConfig{})
	r.Add(topic, 0, 0, -1)
	got := kafkatest.Read(t, r, len(sent))
	require.EqualValues(t, 1_700_000_000_123, got[0].Timestamp)
	require.Equal(t, "2", got[0].Header("a"))
	require.Len(t, got[0].Headers, 3)
	require.Nil(t, got[1].Value, "a tombstone stays a tombstone")
	require.NotNil(t, got[2].Value)
	require.Empty(t, got[2].Value)
	require.Nil(t, got[3].Key)
	require.Equal(t, "3", got[3].Header("c"))
}

// The embedded broker does not know the setting, and keeps the sender's time.
func recordsStamped(t *testing.T, w world) {
	spec := w.Spec()
	spec.Name, spec.BrokerTime = w.Topics.Presence(), true
	kafkatest.Create(t, w.Cluster, spec)
	p, err := kafka.NewProducer(w.Cluster)
	require.NoError(t, err)
	defer p.Close()
	at := events.At(time.Now().Add(-8 * 24 * time.Hour))
	_, err = p.ProduceSync(kafkatest.Within(t), events.Record{Topic: spec.Name, Timestamp: at, Key: []byte("k"), Value: []byte("v")})
	require.NoError(t, err)
	r := w.Reader(t, kafka.ReaderConfig{})
	r.Add(spec.Name, 0, 0, -1)
	got := kafkatest.Read(t, r, 1)[0].Timestamp
	if w.Embedded() {
		require.Equal(t, at, got)
		return
	}
	require.Less(t, events.At(time.Now()).Sub(got).Abs(), time.Hour)
}
