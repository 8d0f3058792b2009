package kafka

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/sagalog/sagalog/events"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"golang.org/x/sync/semaphore"
)

const (
	// ProducerMaxBuffered bounds the unanswered records of the shared producer. Above it Produce blocks: that is the back-pressure.
	ProducerMaxBuffered = 20_000
	// unknownTopicRetries gives the metadata of a new topic a few seconds to reach all brokers, and ends the wait for a topic that
	// nobody creates.
	unknownTopicRetries = 10
)

// producerOpts compresses what goes over a network. For the embedded broker it does not pay: see "Bytes of a task" in BENCHMARKS.md.
func producerOpts(c *Cluster) []kgo.Opt {
	compression := kgo.Lz4Compression()
	if c.cfg.Embedded {
		compression = kgo.NoCompression()
	}
	return []kgo.Opt{
		kgo.RequiredAcks(kgo.AllISRAcks()),
		kgo.RecordPartitioner(kgo.BasicConsistentPartitioner(partition)),
		kgo.ProducerLinger(0),
		kgo.ProduceRequestTimeout(produceTimeout),
		kgo.ProducerBatchCompression(compression),
		kgo.ProducerBatchMaxBytesFn(batchMaxBytes),
	}
}

// partition returns the function that chooses the partition of a record of a topic: the one that the record names, or the one of its key.
func partition(topic string) func(*kgo.Record, int) int {
	byKey := kgo.StickyKeyPartitioner(nil).ForTopic(topic)
	return func(r *kgo.Record, partitions int) int {
		if r.Partition == events.ByKey {
			return byKey.Partition(r, partitions)
		}
		return int(r.Partition)
	}
}

// batchMaxBytes is the limit of the topic. A dead letter must hold any input, and the headers that say why it was rejected.
func batchMaxBytes(topic string) int32 {
	if strings.HasPrefix(topic, DeadPrefix) {
		return DeadMaxMessageBytes
	}
	return MaxMessageBytes
}

// Producer appends records to any topic: effects of owners, inputs of the API. Each record names its partition, or events.ByKey. The producer is
// idempotent, so the client's own retries do not duplicate a record. It is safe for concurrent use.
//
// A caller's context bounds how long the caller waits, but not the record. The client checks the context of the first buffered record of
// a partition and fails all records after it, so one caller that gives up would make all others lose their records.
type Producer struct {
	ctx    context.Context
	cancel context.CancelFunc
	// room has a unit for each unanswered record.
	room   *semaphore.Weighted
	shares shares
	open   func() (*kgo.Client, error)
	// settled is the client's callback for each record. It is a field, because creating a method value for each record would allocate.
	settled       func(*kgo.Record, error)
	cancellations cancellations
	// retiring holds replaced clients that finish sending their records.
	retiring sync.WaitGroup

	linger lingering

	mu sync.RWMutex
	// client is guarded by mu. It is replaced if it knows a topic that was deleted and created again.
	client *kgo.Client
	closed bool
}

// NewProducer opens a producer. Close it.
func NewProducer(c *Cluster) (*Producer, error) {
	ctx, cancel := context.WithCancel(context.Background())
	p := &Producer{ctx: ctx, cancel: cancel, room: semaphore.NewWeighted(ProducerMaxBuffered), open: func() (*kgo.Client, error) {
		return c.open(append(producerOpts(c),
			kgo.WithContext(ctx),
			kgo.MaxBufferedRecords(2*ProducerMaxBuffered), // room is the bound, so the client's own is never reached
			kgo.UnknownTopicRetries(unknownTopicRetries),
		)...)
	}}
	p.settled = p.settle
	p.linger.timer = time.AfterFunc(time.Hour, p.flushLinger)
	p.linger.timer.Stop()
	p.cancellations.waiting = make(map[<-chan struct{}]*cancellation)
	var err error
	if p.client, err = p.open(); err != nil {
		cancel()
		return nil, err
	}
	return p, nil
}

// ErrBufferFull is what TryProduce passes to done while ProducerMaxBuffered records wait, or an eighth of that for the same partition of
// the same topic. The record was not sent.
var ErrBufferFull = errors.New("too many records wait to be produced")

// Produce sends one record and calls done exactly once: with the broker's final answer, or with ctx's error if ctx ends first. In that
// case the record may still be written. done must not block. Produce itself blocks while ProducerMaxBuffered records wait, until ctx
// ends. The bytes of key, value and headers must never change; the slice of the headers is not kept.
func (p *Producer) Produce(ctx context.Context, r events.Record, done func(partition int32, offset int64, err error)) {
	p.send(ctx, &r, answer{one: done}, p.reserve(ctx))
}

// TryProduce is Produce for callers that must not block: a full buffer is an error.
func (p *Producer) TryProduce(ctx context.Context, r events.Record, done func(partition int32, offset int64, err error)) {
	n, err := p.tryReserve(&r)
	p.send(ctx, &r, answer{one: done, share: n}, err)
}

// ProduceBatch is Produce for each of records, in order. done is called exactly once for each record, with its index, from any
// goroutine.
func (p *Producer) ProduceBatch(ctx context.Context, records []events.Record, done func(i int, partition int32, offset int64, err error)) {
	for i := range records {
		p.send(ctx, &records[i], answer{i: i, each: done}, p.reserve(ctx))
	}
}

// TryProduceBatch is ProduceBatch for callers that must not block: records that find the buffer full get ErrBufferFull.
func (p *Producer) TryProduceBatch(ctx context.Context, records []events.Record, done func(i int, partition int32, offset int64, err error)) {
	for i := range records {
		n, err := p.tryReserve(&records[i])
		p.send(ctx, &records[i], answer{i: i, each: done, share: n}, err)
	}
}

// reserve waits for room. Closing the producer frees room, since all unanswered records are answered then.
func (p *Producer) reserve(ctx context.Context) error {
	if p.room.Acquire(ctx, 1) != nil {
		return context.Cause(ctx)
	}
	return nil
}

func (p *Producer) tryReserve(r *events.Record) (*share, error) {
	n := p.shares.take(destination{r.Topic, r.Partition})
	if n == nil {
		return nil, ErrBufferFull
	}
	if !p.room.TryAcquire(1) {
		n.Add(-1)
		return nil, ErrBufferFull
	}
	return n, nil
}

// send sends a record for which there is room, or answers with the error of the reservation.
func (p *Producer) send(ctx context.Context, r *events.Record, to answer, reserved error) {
	to.topic, to.partition = r.Topic, r.Partition
	if reserved != nil {
		to.call(-1, reserved)
		return
	}
	s := newSending(r, to)
	if ctx.Done() != nil {
		p.cancellations.watch(ctx, s)
	}
	if !p.linger.keep(s) {
		p.hand(s)
	}
}

// hand gives a record to the client.
func (p *Producer) hand(s *sending) {
	p.mu.RLock()
	s.client = p.client
	p.mu.RUnlock()
	s.client.Produce(context.Background(), &s.record, p.settled)
}

// settle is called by the client with the final answer for a record. The client does not touch the record again.
func (p *Producer) settle(r *kgo.Record, err error) {
	s := r.Context.(*sending)
	p.room.Release(1)
	if s.to.share != nil {
		s.to.share.Add(-1)
	}
	p.linger.unanswered.Add(-1)
	if errors.Is(err, kerr.UnknownTopicID) {
		p.replace(s.client)
	}
	if p.cancellations.forget(s) {
		if err != nil {
			err = fromClient(err)
		}
		s.to.call(r.Offset, err)
	}
	s.free()
}

// replace opens another client for all records that are sent from now on. A client remembers the ID of each topic. After a topic
// was deleted and created again, it refuses every record for it until it is closed. Purging the topic from the client is not
// safe: if the topic is the old one after all, sequence numbers would begin again under the same producer ID, and the broker
// would acknowledge new records as duplicates. The old client finishes its records for other topics.
func (p *Producer) replace(old *kgo.Client) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed || p.client != old {
		return
	}
	client, err := p.open()
	if err != nil {
		return // cannot fail: the same options have already opened a client
	}
	p.client = client
	p.retiring.Go(func() {
		ctx, cancel := context.WithTimeout(p.ctx, retireWait)
		defer cancel()
		_ = old.Flush(ctx) // records that have no answer by then fail with ErrClosed
		closeClient(old, func() {})
	})
}

// retireWait is how long a replaced client may take to finish: as long as a record may wait for its answer.
const retireWait = 10 * time.Second

// ProduceSync sends records and waits for all answers. The offsets are in the order of the records, the error is the first. If ctx ends
// first, the outcome of the unanswered records is unknown.
func (p *Producer) ProduceSync(ctx context.Context, recs ...events.Record) ([]int64, error) {
	type reply struct {
		i      int
		offset int64
		err    error
	}
	answers := make(chan reply, len(recs))
	p.ProduceBatch(ctx, recs, func(i int, _ int32, offset int64, err error) { answers <- reply{i, offset, err} })
	offsets := make([]int64, len(recs))
	var first error
	for range recs {
		select {
		case a := <-answers:
			offsets[a.i] = a.offset
			if a.err != nil && first == nil {
				first = a.err
			}
		case <-ctx.Done():
			return nil, fmt.Errorf("produce: the outcome is unknown: %w", context.Cause(ctx))
		}
	}
	if first != nil {
		return nil, first
	}
	return offsets, nil
}

// Close abandons all unanswered records: their outcome is unknown, and done is called with ErrClosed.
func (p *Producer) Close() {
	p.mu.Lock()
	p.closed = true
	client := p.client
	p.mu.Unlock()
	p.flushLinger()
	closeClient(client, p.cancel)
	p.retiring.Wait()
}
