package embedded_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sagalog/sagalog/events"
	"github.com/sagalog/sagalog/internal/kafka"
	"github.com/sagalog/sagalog/internal/kafka/embedded"
	"github.com/sagalog/sagalog/internal/kafka/kafkatest"
	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kgo"
)

// slowDisk is a disk whose syncs a test completes by hand.
type slowDisk struct {
	// began receives a value for each sync that begins. The test ends the sync by sending its error to end.
	began chan struct{}
	end   chan error
	free  atomic.Bool
	syncs atomic.Int64
}

func (d *slowDisk) sync() error {
	d.syncs.Add(1)
	if d.free.Load() {
		return nil
	}
	d.began <- struct{}{}
	return <-d.end
}

// let completes all syncs that happen during run.
func (d *slowDisk) let(run func()) {
	d.free.Store(true)
	run()
	d.free.Store(false)
}

type heldWorld struct {
	*kafka.Cluster
	broker *embedded.Broker
	disk   *slowDisk
	topics kafka.Topics
}

func held(t *testing.T) heldWorld {
	t.Helper()
	broker := kafkatest.StartBroker(t, embedded.Config{Dir: t.TempDir(), Fsync: true})
	w := heldWorld{broker: broker, disk: &slowDisk{began: make(chan struct{}), end: make(chan error)}, topics: kafka.Topics{Namespace: "held"}}
	embedded.SyncBy(broker, w.disk.sync)
	w.disk.let(func() {
		w.Cluster = kafkatest.Connect(t, broker)
		kafkatest.Create(t, w.Cluster, w.topics.Base(2)...)
	})
	t.Cleanup(func() { w.disk.free.Store(true) })
	return w
}

func (w heldWorld) record(p int32) events.Record {
	return events.Record{Topic: w.topics.Submissions(), Partition: p, Value: []byte("x")}
}

// Neither the producer nor a reader learns of a record before it is on the disk.
func TestARecordIsSeenOnlyOnceTheDiskHasIt(t *testing.T) {
	t.Parallel()
	w := held(t)
	r, err := kafka.NewReader(w.Cluster, kafka.ReaderConfig{})
	require.NoError(t, err)
	defer r.Close()
	r.Add(w.topics.Submissions(), 0, 0, -1)
	p, err := kafka.NewProducer(w.Cluster)
	require.NoError(t, err)
	defer p.Close()
	w.disk.let(func() { // this gives the producer its ID and the reader its session
		_, err := p.ProduceSync(t.Context(), w.record(1))
		require.NoError(t, err)
	})

	acks := make(chan error, 1)
	p.Produce(t.Context(), w.record(0), func(_ int32, _ int64, err error) { acks <- err })
	<-w.disk.began
	// The record is written. A reader would find it now if reads did not wait for the disk.
	waiting, stop := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer stop()
	got, err := r.Poll(waiting)
	require.ErrorIs(t, err, context.DeadlineExceeded, "%v", got)
	select {
	case <-acks:
		t.Fatal("acknowledged before the disk had it")
	default:
	}
	w.disk.free.Store(true)
	w.disk.end <- nil
	require.NoError(t, <-acks)
	got, err = r.Poll(t.Context())
	require.NoError(t, err)
	require.Len(t, got[0].Records, 1)
}

// Records written while the disk is busy share the next sync. An answer that came after a sync began does not count as synced.
func TestRecordsWrittenDuringASyncShareTheNext(t *testing.T) {
	t.Parallel()
	w := held(t)
	var producers []*kafka.Producer
	for range 20 {
		p, err := kafka.NewProducer(w.Cluster)
		require.NoError(t, err)
		defer p.Close()
		w.disk.let(func() {
			_, err := p.ProduceSync(t.Context(), w.record(0))
			require.NoError(t, err)
		})
		producers = append(producers, p)
	}
	end, err := w.EndOffset(t.Context(), w.topics.Submissions(), 0)
	require.NoError(t, err)
	before := w.disk.syncs.Load()
	acks := make(chan error, len(producers))
	produce := func(p *kafka.Producer) {
		p.Produce(t.Context(), w.record(0), func(_ int32, _ int64, err error) { acks <- err })
	}
	produce(producers[0])
	<-w.disk.began
	for _, p := range producers[1:] {
		produce(p)
	}
	// The broker has stored all of them; its answers wait.
	require.Eventually(t, func() bool {
		return embedded.Stored(w.broker, w.topics.Submissions(), 0) == end+int64(len(producers))
	}, kafkatest.StepWait, 5*time.Millisecond)
	w.disk.end <- nil
	require.NoError(t, <-acks)
	require.Empty(t, acks, "only records written before the first sync began are on the disk")
	<-w.disk.began
	w.disk.free.Store(true)
	w.disk.end <- nil
	for range producers[1:] {
		require.NoError(t, <-acks)
	}
	require.LessOrEqual(t, w.disk.syncs.Load()-before, int64(len(producers)/2), "some answers may come too late for the second sync and share the next")
}

// If nothing was written, a read does not wait for the disk.
func TestAQuietBrokerWaitsForNoDisk(t *testing.T) {
	t.Parallel()
	w := held(t)
	p, err := kafka.NewProducer(w.Cluster)
	require.NoError(t, err)
	defer p.Close()
	w.disk.let(func() {
		_, err := p.ProduceSync(t.Context(), w.record(0))
		require.NoError(t, err)
	})
	before := w.disk.syncs.Load()
	r, err := w.ReadAt(t.Context(), w.topics.Submissions(), 0, 0)
	require.NoError(t, err)
	require.Equal(t, "x", string(r.Value))
	require.Equal(t, before, w.disk.syncs.Load())
}

// A change whose connection ends before its answer delays other answers only until the broker has certainly carried it out.
func TestAnAbandonedChangeIsCarriedOut(t *testing.T) {
	t.Parallel()
	w := held(t)
	p, err := kafka.NewProducer(w.Cluster)
	require.NoError(t, err)
	p.Produce(t.Context(), w.record(0), func(int32, int64, error) {})
	select {
	case <-w.disk.began: // for the producer's ID, or for the record
	case <-time.After(kafkatest.StepWait):
		t.Fatal("nothing was written")
	}
	p.Close()
	w.disk.free.Store(true)
	w.disk.end <- nil
	require.Eventually(t, func() bool {
		before := w.disk.syncs.Load()
		_, err := w.EndOffset(t.Context(), w.topics.Submissions(), 0)
		require.NoError(t, err)
		return w.disk.syncs.Load() == before
	}, kafkatest.StepWait, 5*time.Millisecond, "no answer waits for the disk any more")
}

// After a failed sync nothing more is acknowledged, not even later records: the kernel drops the pages that it could not write.
func TestAFailedSyncEndsAllAnswers(t *testing.T) {
	t.Parallel()
	w := held(t)
	p, err := kafka.NewProducer(w.Cluster)
	require.NoError(t, err)
	defer p.Close()
	acks := make(chan error, 1)
	p.Produce(t.Context(), w.record(0), func(_ int32, _ int64, err error) { acks <- err })
	<-w.disk.began
	w.disk.free.Store(true) // a second sync would succeed
	w.disk.end <- errors.New("input/output error")
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	_, err = w.ReadAt(ctx, w.topics.Submissions(), 0, 0)
	require.Error(t, err)
	select {
	case err := <-acks:
		require.Error(t, err, "a record that is not on the disk is not acknowledged")
	default:
	}
}

// Producers that want no acknowledgements and producers with transactions work through the same connection.
func TestForeignProducersOfABrokerThatSyncs(t *testing.T) {
	t.Parallel()
	w := held(t)
	w.disk.free.Store(true)
	careless := kafkatest.Client(t, w.broker, kgo.RequiredAcks(kgo.NoAck()), kgo.DisableIdempotentWrite(), kgo.RecordPartitioner(kgo.ManualPartitioner()))
	for range 50 {
		require.NoError(t, careless.ProduceSync(t.Context(), &kgo.Record{Topic: w.topics.Submissions(), Value: []byte("x")}).FirstErr())
	}
	require.Eventually(t, func() bool {
		end, err := w.EndOffset(t.Context(), w.topics.Submissions(), 0)
		return err == nil && end == 50
	}, kafkatest.StepWait, 5*time.Millisecond)

	before := w.disk.syncs.Load()
	careful := kafkatest.Client(t, w.broker, kgo.TransactionalID("t"), kgo.RecordPartitioner(kgo.ManualPartitioner()))
	require.NoError(t, careful.BeginTransaction())
	require.NoError(t, careful.ProduceSync(t.Context(), &kgo.Record{Topic: w.topics.Submissions(), Value: []byte("y")}).FirstErr())
	require.NoError(t, careful.EndTransaction(t.Context(), kgo.TryCommit))
	require.Greater(t, w.disk.syncs.Load(), before)
	before = w.disk.syncs.Load()
	_, err := w.EndOffset(t.Context(), w.topics.Submissions(), 0)
	require.NoError(t, err)
	require.Greater(t, w.disk.syncs.Load(), before, "the broker may end a transaction without a request")
}

// Acknowledged records are still present when the broker is opened again.
func TestABrokerThatSyncsOpensAgain(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for round := range int64(3) {
		broker, err := embedded.Open(embedded.Config{Dir: dir, Fsync: true})
		require.NoError(t, err)
		c, err := kafka.Connect(broker.ClusterConfig())
		require.NoError(t, err)
		topics := kafka.Topics{Namespace: "again"}
		kafkatest.Create(t, c, topics.Base(1)...)
		p, err := kafka.NewProducer(c)
		require.NoError(t, err)
		offsets, err := p.ProduceSync(t.Context(), events.Record{Topic: topics.Submissions(), Value: []byte("x")})
		require.NoError(t, err)
		require.Equal(t, round, offsets[0])
		p.Close()
		c.Close()
		require.NoError(t, broker.Close())
	}
}

// A transaction that the last run left open ends without a request. Its end, too, is visible only once it is on the disk.
func TestABrokerWithTransactionsAlwaysWaitsForTheDisk(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	b, w := reopen(t, nil, dir)
	topic := w.Create(t)
	kafkatest.BeginTransaction(t, w).Produce(events.Record{Topic: topic, Value: []byte("never ended")})
	killed := filepath.Join(t.TempDir(), "copy")
	require.NoError(t, os.CopyFS(killed, os.DirFS(dir)))
	require.NoError(t, b.Close())

	b = kafkatest.StartBroker(t, embedded.Config{Dir: killed, Fsync: true})
	disk := &slowDisk{}
	disk.free.Store(true)
	embedded.SyncBy(b, disk.sync)
	c := kafkatest.Connect(t, b)
	before := disk.syncs.Load()
	_, err := c.EndOffset(t.Context(), topic, 0)
	require.NoError(t, err)
	require.Greater(t, disk.syncs.Load(), before)
}
