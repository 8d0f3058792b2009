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
	// ProducerMaxBuffered bounds what the shared producer holds; above it Produce blocks, and so back-pressure is felt.
	ProducerMaxBuffered = 20_000
	// unknownTopicRetries gives the metadata of a topic that was just created a few seconds to reach all brokers,
	// and ends the wait for a topic that nobody will create.
	unknownTopicRetries = 10
)

func producerOpts(c *Cluster) []kgo.Opt {
	compression := kgo.Lz4Compression()
	if c.cfg.Embedded {
		compression = kgo.NoCompression()
	}
	return []kgo.Opt{
		kgo.RequiredAcks(kgo.AllISRAcks()),
		kgo.RecordPartitioner(kgo.ManualPartitioner()),
		kgo.ProducerLinger(0),
		kgo.ProduceRequestTimeout(produceTimeout),
		kgo.ProducerBatchCompression(compression),
		kgo.ProducerBatchMaxBytesFn(batchMaxBytes),
	}
}

// batchMaxBytes is the limit of the topic: dead letters must hold whatever an input could hold, and the headers that
// say why it was rejected.
func batchMaxBytes(topic string) int32 {
	if strings.HasPrefix(topic, deadPrefix) {
		return DeadMaxMessageBytes
	}
	return MaxMessageBytes
}

// Producer appends records to any topic: effects of owners, inputs of the API. Each record says its partition.
// It is idempotent, so the client's own retries do not double a record. It is safe for concurrent use.
//
// A caller's context bounds how long the caller waits, and never the record: the client checks the context of the first
// buffered record of a partition and fails all that lie behind it, so one caller that hung up would have the records of
// all others thrown away.
type Producer struct {
	ctx    context.Context
	cancel context.CancelFunc
	// room has a place for each record that waits.
	room *semaphore.Weighted
	open func() (*kgo.Client, error)
	// settled is what the client calls for each record; here, since a method value made for each would be allocated.
	settled func(*kgo.Record, error)
	hangUps hangUps
	// retiring are clients that end what they have.
	retiring sync.WaitGroup

	gathered gathering

	mu sync.RWMutex
	// client is guarded by mu; it is replaced when it knows a topic that was deleted and made again.
	client *kgo.Client
	closed bool
}

// NewProducer opens a producer. Close it.
func NewProducer(c *Cluster) (*Producer, error) {
	ctx, cancel := context.WithCancel(context.Background())
	p := &Producer{ctx: ctx, cancel: cancel, room: semaphore.NewWeighted(ProducerMaxBuffered), open: func() (*kgo.Client, error) {
		return c.open(append(producerOpts(c),
			kgo.WithContext(ctx),
			kgo.MaxBufferedRecords(2*ProducerMaxBuffered), // room is the bound, so the client's own is never met
			kgo.UnknownTopicRetries(unknownTopicRetries),
		)...)
	}}
	p.settled = p.settle
	p.gathered.timer = time.AfterFunc(time.Hour, p.flushGathered)
	p.gathered.timer.Stop()
	p.hangUps.waiting = make(map[<-chan struct{}]*hangUp)
	var err error
	if p.client, err = p.open(); err != nil {
		cancel()
		return nil, err
	}
	return p, nil
}

// ErrBufferFull is what TryProduce gives done while ProducerMaxBuffered records wait. The record was not sent.
var ErrBufferFull = errors.New("too many records wait to be produced")

// Produce sends one record and calls done exactly once: when the broker has answered for good, or with ctx's error when
// ctx ends first; the record is on its way then all the same, and its outcome unknown. done must not block. Produce
// itself blocks while ProducerMaxBuffered records wait, until ctx ends. The bytes of key, value and headers must never
// change; the slice of the headers is not kept.
func (p *Producer) Produce(ctx context.Context, r events.Record, done func(partition int32, offset int64, err error)) {
	if err := p.take(ctx); err != nil {
		done(r.Partition, -1, produceFailed(r.Topic, r.Partition, err))
		return
	}
	p.send(ctx, &r, answer{one: done})
}

// TryProduce is Produce for callers that must not block: a full buffer is an error.
func (p *Producer) TryProduce(ctx context.Context, r events.Record, done func(partition int32, offset int64, err error)) {
	if !p.room.TryAcquire(1) {
		done(r.Partition, -1, ErrBufferFull)
		return
	}
	p.send(ctx, &r, answer{one: done})
}

// ProduceBatch is Produce for each of records, in their order, with one done for all of them: it is called exactly once
// for each, with its index, from any goroutine.
func (p *Producer) ProduceBatch(ctx context.Context, records []events.Record, done func(i int, partition int32, offset int64, err error)) {
	for i := range records {
		r := &records[i]
		if err := p.take(ctx); err != nil {
			done(i, r.Partition, -1, produceFailed(r.Topic, r.Partition, err))
			continue
		}
		p.send(ctx, r, answer{i: i, each: done})
	}
}

// TryProduceBatch is ProduceBatch for callers that must not block: what finds the buffer full gets ErrBufferFull.
func (p *Producer) TryProduceBatch(ctx context.Context, records []events.Record, done func(i int, partition int32, offset int64, err error)) {
	for i := range records {
		if !p.room.TryAcquire(1) {
			done(i, records[i].Partition, -1, ErrBufferFull)
			continue
		}
		p.send(ctx, &records[i], answer{i: i, each: done})
	}
}

// take waits for room. When the producer is closed there soon is, since all that wait are answered.
func (p *Producer) take(ctx context.Context) error {
	if p.room.Acquire(ctx, 1) != nil {
		return context.Cause(ctx)
	}
	return nil
}

func (p *Producer) send(ctx context.Context, r *events.Record, to answer) {
	s := newSending(r, to)
	if ctx.Done() != nil {
		p.hangUps.watch(ctx, s)
	}
	if !p.gathered.keep(s) {
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

// settle is called by the client when a record has its answer for good. The client does not touch the record again.
func (p *Producer) settle(r *kgo.Record, err error) {
	s := r.Context.(*sending)
	p.room.Release(1)
	p.gathered.unanswered.Add(-1)
	if errors.Is(err, kerr.UnknownTopicID) {
		p.replace(s.client)
	}
	if p.hangUps.forget(s) {
		if err != nil {
			err = fromClient(err)
		}
		s.to.give(r.Offset, err)
	}
	s.free()
}

// replace takes another client for what is sent from now on. A client keeps to the ID of a topic that it knows, so once the
// topic was deleted and made again it would refuse every record for it until it is closed. The topic is not purged from
// the client instead: if it is the old one after all, sequences that begin anew under the same producer ID would have the
// broker acknowledge records that it takes for repeats. The old client ends what it has for the other topics.
func (p *Producer) replace(old *kgo.Client) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed || p.client != old {
		return
	}
	client, err := p.open()
	if err != nil {
		return // the options have opened a client before
	}
	p.client = client
	p.retiring.Go(func() {
		ctx, cancel := context.WithTimeout(p.ctx, retireWait)
		defer cancel()
		_ = old.Flush(ctx) // what has no answer by then is told so
		closeClient(old, func() {})
	})
}

// retireWait is how long a replaced client may take for what it has: as long as a record may go without an answer.
const retireWait = 10 * time.Second

func produceFailed(topic string, partition int32, err error) error {
	return fmt.Errorf("produce to %s/%d: %w", topic, partition, err)
}

// ProduceSync sends records and waits for all answers; the offsets are in the order of the records. It returns the
// first error. When ctx ends first, the outcome of those without an answer is unknown.
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

// Close abandons what is in flight: its outcome is unknown, and done is called with ErrClosed.
func (p *Producer) Close() {
	p.mu.Lock()
	p.closed = true
	client := p.client
	p.mu.Unlock()
	p.flushGathered()
	closeClient(client, p.cancel)
	p.retiring.Wait()
}
