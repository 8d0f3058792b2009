package kafka

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"

	"github.com/sagalog/sagalog/events"
	"github.com/twmb/franz-go/pkg/kgo"
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
	client *kgo.Client
	ctx    context.Context
	cancel context.CancelFunc
	// room holds a place for each record that waits.
	room chan struct{}
}

// NewProducer opens a producer. Close it.
func NewProducer(c *Cluster) (*Producer, error) {
	ctx, cancel := context.WithCancel(context.Background())
	client, err := c.open(append(producerOpts(c),
		kgo.WithContext(ctx),
		kgo.MaxBufferedRecords(2*ProducerMaxBuffered), // room is the bound, so the client's own is never met
		kgo.UnknownTopicRetries(unknownTopicRetries),
	)...)
	if err != nil {
		cancel()
		return nil, err
	}
	return &Producer{client: client, ctx: ctx, cancel: cancel, room: make(chan struct{}, ProducerMaxBuffered)}, nil
}

// ErrBufferFull is what TryProduce gives done while ProducerMaxBuffered records wait. The record was not sent.
var ErrBufferFull = errors.New("too many records wait to be produced")

// Produce sends one record and calls done exactly once: when the broker has answered for good, or with ctx's error when
// ctx ends first; the record is on its way then all the same, and its outcome unknown. done must not block. Produce
// itself blocks while ProducerMaxBuffered records wait, until ctx ends.
func (p *Producer) Produce(ctx context.Context, r events.Record, done func(partition int32, offset int64, err error)) {
	select {
	case p.room <- struct{}{}:
		p.send(ctx, r, done)
	case <-ctx.Done():
		done(r.Partition, -1, produceFailed(&r, context.Cause(ctx)))
	case <-p.ctx.Done():
		done(r.Partition, -1, produceFailed(&r, ErrClosed))
	}
}

// TryProduce is Produce for callers that must not block: a full buffer is an error.
func (p *Producer) TryProduce(ctx context.Context, r events.Record, done func(partition int32, offset int64, err error)) {
	select {
	case p.room <- struct{}{}:
		p.send(ctx, r, done)
	default:
		done(r.Partition, -1, ErrBufferFull)
	}
}

func (p *Producer) send(ctx context.Context, r events.Record, done func(partition int32, offset int64, err error)) {
	var once sync.Once
	answer := func(offset int64, err error) { once.Do(func() { done(r.Partition, offset, err) }) }
	giveUp := context.AfterFunc(ctx, func() { answer(-1, produceFailed(&r, context.Cause(ctx))) })
	p.client.Produce(context.Background(), &toKgo([]events.Record{r})[0], func(k *kgo.Record, err error) {
		giveUp()
		<-p.room
		if err != nil {
			answer(-1, produceFailed(&r, fromClient(err)))
			return
		}
		answer(k.Offset, nil)
	})
}

func produceFailed(r *events.Record, err error) error {
	return fmt.Errorf("produce to %s/%d: %w", r.Topic, r.Partition, err)
}

// ProduceSync sends records and waits for all answers; the offsets are in the order of the records. It returns the
// first error. When ctx ends first, the outcome of those without an answer is unknown.
func (p *Producer) ProduceSync(ctx context.Context, recs ...events.Record) ([]int64, error) {
	type answer struct {
		i      int
		offset int64
		err    error
	}
	answers := make(chan answer, len(recs))
	for i, r := range recs {
		p.Produce(ctx, r, func(_ int32, offset int64, err error) { answers <- answer{i, offset, err} })
	}
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
func (p *Producer) Close() { closeClient(p.client, p.cancel) }

// OwnerMaxInFlight bounds the records of one epoch that wait for their answer.
const OwnerMaxInFlight = 16_384

// OwnerProducer appends facts to one partition, for one epoch. After the first error it appends nothing more, because
// what came behind would leave a hole; the owner closes it and claims anew.
type OwnerProducer struct {
	client    *kgo.Client
	cancel    context.CancelFunc
	topic     string
	partition int32
	// refusals are the calls of done that the client does not make.
	refusals sync.WaitGroup

	mu sync.Mutex
	// mu guards the fields below.
	inFlight int
	broken   error
}

// NewOwnerProducer opens the producer of one epoch of a partition of <ns>.events.
func NewOwnerProducer(c *Cluster, topic string, partition int32) (*OwnerProducer, error) {
	ctx, cancel := context.WithCancel(context.Background())
	client, err := c.open(append(producerOpts(c),
		kgo.WithContext(ctx),
		kgo.MaxBufferedRecords(OwnerMaxInFlight),
		// A lost sequence would else be met by sending the same batch again under a new producer ID, perhaps twice.
		kgo.StopProducerOnDataLossDetected(),
		// The topic was audited; that metadata lags must not end an epoch.
		kgo.UnknownTopicRetries(-1),
	)...)
	if err != nil {
		cancel()
		return nil, err
	}
	return &OwnerProducer{client: client, cancel: cancel, topic: topic, partition: partition}, nil
}

// Append sends records to the partition, in order, and never blocks. done is called exactly once, from another
// goroutine, when all are answered: with their offsets in order, or with an error, after which some of them may be in
// the log. done must not block nor call Close. The topic and partition of the records are ignored; their slices must
// not change before done. Append must not run at the same time as another Append or Close.
func (p *OwnerProducer) Append(records []events.Record, done func(offsets []int64, err error)) {
	if err := p.admit(len(records)); err != nil || len(records) == 0 {
		p.refusals.Go(func() { done(nil, err) })
		return
	}
	a := &appending{p: p, left: len(records), offsets: make([]int64, 0, len(records)), done: done}
	recs := toKgo(records)
	for i := range recs {
		recs[i].Topic, recs[i].Partition = p.topic, p.partition
		p.client.TryProduce(context.Background(), &recs[i], a.answered)
	}
}

// admit counts records in before any of them is sent, so that the client refuses none in the middle of a batch.
func (p *OwnerProducer) admit(n int) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.broken != nil {
		return fmt.Errorf("append to %s/%d: %w: %w", p.topic, p.partition, ErrEpochEnded, p.broken)
	}
	if p.inFlight+n > OwnerMaxInFlight {
		return fmt.Errorf("append to %s/%d: %w", p.topic, p.partition, ErrTooManyInFlight)
	}
	p.inFlight += n
	return nil
}

// InFlight returns how many records wait for their answer.
func (p *OwnerProducer) InFlight() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.inFlight
}

func (p *OwnerProducer) settle(err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.inFlight--
	if err != nil && p.broken == nil {
		p.broken = err
	}
}

// Close abandons what is in flight and returns without waiting for a broker. What it abandons may still land; then it
// is void, because the next epoch has another name.
func (p *OwnerProducer) Close() {
	p.mu.Lock()
	if p.broken == nil {
		p.broken = ErrClosed
	}
	p.mu.Unlock()
	closeClient(p.client, p.cancel)
	p.refusals.Wait()
}

// appending is one batch on its way. The client answers in order and from one goroutine, so no lock is needed.
type appending struct {
	p       *OwnerProducer
	left    int
	offsets []int64
	err     error
	done    func([]int64, error)
}

func (a *appending) answered(r *kgo.Record, err error) {
	a.p.settle(err)
	if err != nil && a.err == nil {
		a.err = err
	}
	a.offsets = append(a.offsets, r.Offset)
	if a.left--; a.left > 0 {
		return
	}
	if a.err != nil {
		a.done(nil, fmt.Errorf("append to %s/%d: %w", a.p.topic, a.p.partition, fromClient(a.err)))
		return
	}
	a.done(a.offsets, nil)
}
