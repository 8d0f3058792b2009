package kafka_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/sagalog/sagalog/events"
	"github.com/sagalog/sagalog/internal/kafka"
	"github.com/sagalog/sagalog/internal/kafka/kafkatest"
	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kgo"
)

func readerReadsOn(t *testing.T, w world) {
	topic := w.create(t)
	w.write(t, topic, "a", "b", "c")
	r := w.reader(t, kafka.ReaderConfig{})
	r.Add(topic, 0, 1, -1)
	require.Equal(t, []string{"b", "c"}, values(read(t, r, 2)))
	w.write(t, topic, "d")
	fetches, err := r.Poll(within(t))
	require.NoError(t, err)
	require.Len(t, fetches, 1)
	require.Equal(t, []string{"d"}, values(fetches[0].Records))
	require.EqualValues(t, 4, fetches[0].Next)
	require.EqualValues(t, 4, fetches[0].HighWatermark)
	require.EqualValues(t, 3, fetches[0].Records[0].Offset)
	require.Equal(t, topic, fetches[0].Records[0].Topic)
}

func readerOutOfRange(t *testing.T, w world) {
	topic := w.create(t)
	w.write(t, topic, "a", "b")
	r := w.reader(t, kafka.ReaderConfig{})
	r.Add(topic, 0, 7, -1)
	recs, f := readErr(t, r)
	require.Empty(t, recs)
	out, ok := errors.AsType[*kafka.OutOfRangeError](f.Err)
	require.True(t, ok, "%v", f.Err)
	require.Equal(t, kafka.OutOfRangeError{Topic: topic, Offset: 7}, *out)
	// It stays stopped, and can be added where the caller decides.
	w.write(t, topic, "c")
	r.Add(topic, 0, 2, -1)
	require.Equal(t, []string{"c"}, values(read(t, r, 1)))
}

func readerBelowStart(t *testing.T, w world) {
	topic := w.create(t)
	w.write(t, topic, "a")
	w.write(t, topic, "b")
	w.write(t, topic, "c")
	require.NoError(t, kafka.TrimBefore(within(t), w.Cluster, topic, 0, 2))
	r := w.reader(t, kafka.ReaderConfig{})
	r.Add(topic, 0, 0, -1)
	_, f := readErr(t, r)
	require.ErrorAs(t, f.Err, new(*kafka.OutOfRangeError))
	_, err := w.ReadAt(within(t), topic, 0, 0)
	require.ErrorAs(t, err, new(*kafka.OutOfRangeError))
	err = w.ReadRange(within(t), topic, 0, 0, -1, func(events.Record) error { return nil })
	require.ErrorAs(t, err, new(*kafka.OutOfRangeError))
	r.Add(topic, 0, -2, -1)
	require.Equal(t, []string{"c"}, values(read(t, r, 1)))
}

func readerChanges(t *testing.T, w world) {
	topic := w.create(t)
	w.write(t, topic, "a")
	p, err := kafka.NewProducer(w.Cluster)
	require.NoError(t, err)
	defer p.Close()
	_, err = p.ProduceSync(within(t), events.Record{Topic: topic, Partition: 1, Value: []byte("other")})
	require.NoError(t, err)
	r := w.reader(t, kafka.ReaderConfig{})
	r.Add(topic, 0, 0, -1)
	require.Equal(t, []string{"a"}, values(read(t, r, 1)))
	began := time.Now()
	// A fetch of partition 0 waits at the broker; that must not hold up the second partition.
	r.Add(topic, 1, 0, -1)
	require.Equal(t, []string{"other"}, values(read(t, r, 1)))
	require.Less(t, time.Since(began), 3*time.Second)

	r.Pause(topic, 0)
	w.write(t, topic, "b")
	ctx, cancel := context.WithTimeout(within(t), 200*time.Millisecond)
	defer cancel()
	_, err = r.Poll(ctx)
	require.ErrorIs(t, err, context.DeadlineExceeded)
	r.Resume(topic, 0)
	require.Equal(t, []string{"b"}, values(read(t, r, 1)))

	// Whoever adds again what was paused reads it.
	r.Pause(topic, 0)
	r.Remove(topic, 0)
	r.Add(topic, 0, 0, -1)
	require.Equal(t, []string{"a", "b"}, values(read(t, r, 2)))

	r.Remove(topic, 0)
	w.write(t, topic, "c")
	_, err = p.ProduceSync(within(t), events.Record{Topic: topic, Partition: 1, Value: []byte("other 2")})
	require.NoError(t, err)
	require.Equal(t, []string{"other 2"}, values(read(t, r, 1)))

	// Adding what is read already moves it, and tells what is read from there.
	number := r.Add(topic, 1, 0, -1)
	fetches, err := r.Poll(within(t))
	require.NoError(t, err)
	require.Equal(t, number, fetches[0].Added)
	require.Equal(t, "other", string(fetches[0].Records[0].Value))
	require.Greater(t, r.Add(topic, 1, 1, -1), number)
	require.Equal(t, []string{"other 2"}, values(read(t, r, 1)))
}

func (w world) transaction(t *testing.T) *kgo.Client {
	return w.client(t, kgo.TransactionalID("tx-"+w.topics.Namespace), kgo.RecordPartitioner(kgo.ManualPartitioner()),
		kgo.RequiredAcks(kgo.AllISRAcks()))
}

func send(t *testing.T, c *kgo.Client, topic string, values ...string) {
	t.Helper()
	require.NoError(t, c.BeginTransaction())
	for _, v := range values {
		require.NoError(t, c.ProduceSync(within(t), &kgo.Record{Topic: topic, Value: []byte(v)}).FirstErr())
	}
}

func readerCommitted(t *testing.T, w world) {
	topic := w.create(t)
	tx := w.transaction(t)
	send(t, tx, topic, "in a transaction")
	w.write(t, topic, "behind it")
	ends, err := w.EndOffsets(within(t), kafka.Partitions{topic: {0, 1}})
	require.NoError(t, err)
	require.Equal(t, kafka.Offsets{topic: {0: 0, 1: 0}}, ends, "the end is the last stable offset")
	marks, err := w.HighWatermarks(within(t), kafka.Partitions{topic: {0}})
	require.NoError(t, err)
	require.EqualValues(t, 2, marks[topic][0])

	kept := w.reader(t, kafka.ReaderConfig{ReadCommitted: true, KeepControl: true})
	kept.Add(topic, 0, 0, -1)
	plain := w.reader(t, kafka.ReaderConfig{ReadCommitted: true})
	plain.Add(topic, 0, 0, -1)
	dirty := w.reader(t, kafka.ReaderConfig{})
	dirty.Add(topic, 0, 0, -1)
	require.Len(t, read(t, dirty, 2), 2)

	require.NoError(t, tx.EndTransaction(within(t), kgo.TryCommit))
	recs := read(t, kept, 3)
	require.Equal(t, []string{"in a transaction", "behind it"}, values(recs))
	require.True(t, recs[2].Control)
	require.EqualValues(t, 2, recs[2].Offset)
	require.EqualValues(t, 3, readTo(t, plain, 3))
	end, err := w.EndOffset(within(t), topic, 0)
	require.NoError(t, err)
	require.EqualValues(t, 3, end)
}

// readTo polls until the position has reached next, and returns it.
func readTo(t *testing.T, r *kafka.Reader, next int64) int64 {
	t.Helper()
	for {
		fetches, err := r.Poll(within(t))
		require.NoError(t, err)
		for _, f := range fetches {
			require.NoError(t, f.Err)
			if f.Next >= next {
				return f.Next
			}
		}
	}
}

func readerAborted(t *testing.T, w world) {
	topic := w.create(t)
	tx := w.transaction(t)
	send(t, tx, topic, "never", "ever")
	require.NoError(t, tx.EndTransaction(within(t), kgo.TryAbort))
	r := w.reader(t, kafka.ReaderConfig{ReadCommitted: true})
	r.Add(topic, 0, 0, -1)
	require.EqualValues(t, 3, readTo(t, r, 3), "the position is behind the marker although no record came")
	w.write(t, topic, "but this")
	require.Equal(t, []string{"but this"}, values(read(t, r, 1)))
}

// The marker of what was aborted lies behind another transaction that is still open.
func readerAbortedBeforeOpen(t *testing.T, w world) {
	topic := w.create(t)
	w.write(t, topic, "before")
	r := w.reader(t, kafka.ReaderConfig{ReadCommitted: true, KeepControl: true})
	r.Add(topic, 0, 0, -1)
	require.Equal(t, []string{"before"}, values(read(t, r, 1)))
	aborted := w.transaction(t)
	send(t, aborted, topic, "never", "ever")
	open := w.client(t, kgo.TransactionalID("open-"+w.topics.Namespace), kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.RequiredAcks(kgo.AllISRAcks()))
	send(t, open, topic, "later")
	require.NoError(t, aborted.EndTransaction(within(t), kgo.TryAbort))
	// Apache Kafka answers before it has written the marker.
	require.Eventually(t, func() bool {
		end, err := w.EndOffset(within(t), topic, 0)
		return err == nil && end == 3
	}, stepWait, 20*time.Millisecond, "the last stable offset is that of the open one")
	require.EqualValues(t, 3, readTo(t, r, 3), "a reader gets to the end that is asked for")

	require.NoError(t, open.EndTransaction(within(t), kgo.TryCommit))
	var got []string
	for _, rec := range read(t, r, 3) {
		if !rec.Control {
			got = append(got, fmt.Sprintf("%d %s", rec.Offset, rec.Value))
		}
	}
	require.Equal(t, []string{"3 later"}, got)
}

func readerTooLarge(t *testing.T, w world) {
	topic := w.create(t)
	w.write(t, topic, "before")
	// Several batches of a foreign client: a small one that unpacks to a megabyte.
	c := w.client(t, kgo.ProducerBatchCompression(kgo.ZstdCompression()), kgo.RecordPartitioner(kgo.ManualPartitioner()))
	bomb := &kgo.Record{Topic: topic, Value: []byte(strings.Repeat("0", 900_000))}
	require.NoError(t, c.ProduceSync(within(t), bomb).FirstErr())
	w.write(t, topic, "after")
	r := w.reader(t, kafka.ReaderConfig{MaxDecompress: 100_000})
	r.Add(topic, 0, 0, -1)
	recs, f := readErr(t, r)
	require.Equal(t, []string{"before"}, values(recs))
	large, ok := errors.AsType[*kafka.TooLargeError](f.Err)
	require.True(t, ok, "%v", f.Err)
	require.EqualValues(t, 1, large.Offset)
	require.EqualValues(t, 2, large.Next)
	r.Add(topic, 0, large.Next, -1)
	require.Equal(t, []string{"after"}, values(read(t, r, 1)))
}

func readAt(t *testing.T, w world) {
	topic := w.create(t)
	recs := make([]string, 100)
	for i := range recs {
		recs[i] = fmt.Sprint("v", i)
	}
	w.write(t, topic, recs...)
	for _, at := range []int64{0, 50, 99} {
		got, err := w.ReadAt(within(t), topic, 0, at)
		require.NoError(t, err)
		require.Equal(t, recs[at], string(got.Value))
		require.Equal(t, at, got.Offset)
		require.GreaterOrEqual(t, got.LeaderEpoch, int32(0))
	}
	for _, at := range []int64{100, 101, 1000} {
		_, err := w.ReadAt(within(t), topic, 0, at)
		require.ErrorAs(t, err, new(*kafka.OutOfRangeError))
	}
	_, err := w.ReadAt(within(t), topic, 99, 0)
	require.ErrorIs(t, err, kafka.ErrUnknownTopic)
}

func readRange(t *testing.T, w world) {
	topic := w.create(t)
	w.write(t, topic, "a", "b", "c")
	var got []string
	collect := func(r events.Record) error {
		got = append(got, string(r.Value))
		// What is written meanwhile is not part of the range.
		w.write(t, topic, "later")
		return nil
	}
	require.NoError(t, w.ReadRange(within(t), topic, 0, 0, -1, collect))
	require.Equal(t, []string{"a", "b", "c"}, got)
	got = nil
	require.NoError(t, w.ReadRange(within(t), topic, 0, 1, 2, collect))
	require.Equal(t, []string{"b"}, got)
	got = nil
	require.NoError(t, w.ReadRange(within(t), topic, 1, 0, -1, collect), "an empty partition is an empty range")
	require.NoError(t, w.ReadRange(within(t), topic, 0, 3, 3, collect))
	require.Empty(t, got)
	stop := errors.New("enough")
	require.Equal(t, stop, w.ReadRange(within(t), topic, 0, 0, -1, func(events.Record) error { return stop }))
}

func readRangePassesMarkers(t *testing.T, w world) {
	topic := w.create(t)
	tx := w.transaction(t)
	send(t, tx, topic, "a")
	require.NoError(t, tx.EndTransaction(within(t), kgo.TryCommit))
	send(t, tx, topic, "b")
	require.NoError(t, tx.EndTransaction(within(t), kgo.TryAbort))
	// Apache Kafka answers before it has written the markers.
	r := w.reader(t, kafka.ReaderConfig{ReadCommitted: true})
	r.Add(topic, 0, 0, -1)
	require.EqualValues(t, 4, readTo(t, r, 4))
	var offsets []int64
	var controls int
	require.NoError(t, w.ReadRange(within(t), topic, 0, 0, -1, func(r events.Record) error {
		offsets = append(offsets, r.Offset)
		if r.Control {
			controls++
		}
		return nil
	}))
	require.Equal(t, []int64{0, 1, 2, 3}, offsets)
	require.Equal(t, 2, controls)
	marker, err := w.ReadAt(within(t), topic, 0, 1)
	require.NoError(t, err)
	require.True(t, marker.Control)
}

func endOffsets(t *testing.T, w world) {
	specs := w.topics.Base(4)
	kafkatest.Create(t, w.Cluster, specs...)
	w.write(t, w.topics.Reports(), "a", "b")
	w.write(t, w.topics.Submissions(), "a")
	all := kafka.Partitions{w.topics.Reports(): {0, 1, 2, 3}, w.topics.Submissions(): {0, 3}}
	ends, err := w.EndOffsets(within(t), all)
	require.NoError(t, err)
	require.Equal(t, kafka.Offsets{
		w.topics.Reports(): {0: 2, 1: 0, 2: 0, 3: 0}, w.topics.Submissions(): {0: 1, 3: 0},
	}, ends)
	starts, err := w.StartOffsets(within(t), all)
	require.NoError(t, err)
	require.EqualValues(t, 0, starts[w.topics.Reports()][0])
	_, err = w.EndOffsets(within(t), kafka.Partitions{w.topics.Reports(): {0, 9}})
	require.ErrorIs(t, err, kafka.ErrUnknownTopic)
	none, err := w.EndOffsets(within(t), nil)
	require.NoError(t, err)
	require.Empty(t, none)
}

func trimKeepsLast(t *testing.T, w world) {
	topic := w.create(t)
	require.NoError(t, kafka.TrimBefore(within(t), w.Cluster, topic, 0, 0), "an empty partition has nothing to trim")
	for _, v := range []string{"a", "b", "c"} {
		w.write(t, topic, v)
	}
	require.NoError(t, kafka.TrimBefore(within(t), w.Cluster, topic, 0, 1))
	start, err := w.StartOffset(within(t), topic, 0)
	require.NoError(t, err)
	require.EqualValues(t, 1, start)
	require.NoError(t, kafka.TrimBefore(within(t), w.Cluster, topic, 0, 0), "trimmed further already")
	require.NoError(t, kafka.TrimBefore(within(t), w.Cluster, topic, 0, 3))
	start, err = w.StartOffset(within(t), topic, 0)
	require.NoError(t, err)
	require.EqualValues(t, 2, start)
	require.ErrorAs(t, kafka.TrimBefore(within(t), w.Cluster, topic, 0, 9), new(*kafka.OutOfRangeError))
}

func closedAnswers(t *testing.T, w world) {
	topic := w.create(t)
	r := w.reader(t, kafka.ReaderConfig{})
	r.Close()
	_, err := r.Poll(within(t))
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
	_, err = s.ProduceSync(within(t), events.Record{Topic: topic})
	require.ErrorIs(t, err, kafka.ErrClosed)
}

func recordsRoundTrip(t *testing.T, w world) {
	topic := w.create(t)
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
	_, err = p.ProduceSync(within(t), sent...)
	require.NoError(t, err)
	r := w.reader(t, kafka.ReaderConfig{})
	r.Add(topic, 0, 0, -1)
	got := read(t, r, len(sent))
	require.EqualValues(t, 1_700_000_000_123, got[0].Timestamp)
	require.Equal(t, "2", got[0].Header("a"))
	require.Len(t, got[0].Headers, 3)
	require.Nil(t, got[1].Value, "a tombstone stays one")
	require.NotNil(t, got[2].Value)
	require.Empty(t, got[2].Value)
	require.Nil(t, got[3].Key)
	require.Equal(t, "3", got[3].Header("c"))
}

func countInto(n *int) func(events.Record) error {
	return func(events.Record) error {
		*n++
		return nil
	}
}
