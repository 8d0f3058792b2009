package kafka

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/sagalog/sagalog/events"
	"github.com/twmb/franz-go/pkg/kgo"
)

// OwnerMaxInFlight bounds the unanswered records of one epoch.
const OwnerMaxInFlight = 16_384

// OwnerProducer appends facts to one partition, for one epoch. After the first error it appends nothing more, because there would be a
// hole before any later record. The owner closes it and claims a new epoch.
type OwnerProducer struct {
	cluster   *Cluster
	client    *kgo.Client
	cancel    context.CancelFunc
	topic     string
	partition int32
	// refusals counts calls of done for records that were never passed to the client.
	refusals sync.WaitGroup

	mu sync.Mutex
	// mu guards the fields below.
	inFlight int
	broken   error
	// idle are answered batches, for reuse.
	idle []*appending
}

// NewOwnerProducer opens the producer of one epoch of a partition of <ns>.events.
func NewOwnerProducer(c *Cluster, topic string, partition int32) (*OwnerProducer, error) {
	ctx, cancel := context.WithCancel(context.Background())
	client, err := c.open(append(producerOpts(c),
		kgo.WithContext(ctx),
		kgo.MaxBufferedRecords(2*OwnerMaxInFlight), // admit is the bound, so the client's own is never reached
		// Otherwise the client would react to lost sequence numbers by sending the batch again under a new producer ID, perhaps
		// twice.
		kgo.StopProducerOnDataLossDetected(),
		// The topic was audited. Stale metadata must not end an epoch.
		kgo.UnknownTopicRetries(-1),
	)...)
	if err != nil {
		cancel()
		return nil, err
	}
	return &OwnerProducer{cluster: c, client: client, cancel: cancel, topic: topic, partition: partition}, nil
}

// Append sends records to the partition, in order, and never blocks. done is called exactly once, from another goroutine, when all
// records are answered: with their offsets in order, or with an error, after which some of them may be in the log. done must not block
// or call Close. The topic and partition of the records are ignored. Their slices must not change before done. Append must not run
// concurrently with another Append or Close.
func (p *OwnerProducer) Append(records []events.Record, done func(offsets []int64, err error)) {
	if err := p.admit(len(records)); err != nil || len(records) == 0 {
		p.refusals.Go(func() { done(nil, err) })
		return
	}
	a := p.appending(records)
	a.done = done
	for i := range a.records {
		p.client.TryProduce(context.Background(), &a.records[i], a.answered)
	}
}

// admit counts the records before any is sent, so that the client refuses none in the middle of a batch.
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

// fail records the first error at once, so that nothing is sent after it.
func (p *OwnerProducer) fail(err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.broken == nil {
		p.broken = err
	}
}

// Close abandons all unanswered records and waits for no broker. Abandoned records may still be written; they are void then,
// because the next epoch has another identifier.
func (p *OwnerProducer) Close() {
	p.mu.Lock()
	if p.broken == nil {
		p.broken = ErrClosed
	}
	p.mu.Unlock()
	closeClient(p.client, p.cancel)
	p.refusals.Wait()
}

// maxIdle and maxIdleRecords bound how many answered batches are kept for reuse, and their size. An owner has few in flight.
const (
	maxIdle        = 8
	maxIdleRecords = 4_096
)

// appending is one batch on its way. The client answers in order and from one goroutine, so no lock is needed.
type appending struct {
	p       *OwnerProducer
	records []kgo.Record
	headers []kgo.RecordHeader
	offsets []int64
	err     error
	done    func([]int64, error)
	// answered is onAnswer, allocated once.
	answered func(*kgo.Record, error)
}

func (p *OwnerProducer) appending(records []events.Record) *appending {
	var a *appending
	p.mu.Lock()
	if n := len(p.idle); n > 0 {
		a, p.idle = p.idle[n-1], p.idle[:n-1]
	}
	p.mu.Unlock()
	if a == nil {
		a = &appending{p: p}
		a.answered = a.onAnswer
	}
	a.records, a.headers = toKgo(records, a.records, a.headers)
	now := time.Now() // the client would read the clock for each
	for i := range a.records {
		r := &a.records[i]
		r.Topic, r.Partition = p.topic, p.partition
		if r.Timestamp.IsZero() {
			r.Timestamp = now
		}
	}
	a.offsets = make([]int64, 0, len(records))
	return a
}

func (a *appending) onAnswer(r *kgo.Record, err error) {
	if err != nil {
		a.p.fail(err)
		if a.err == nil {
			a.err = err
		}
	}
	a.offsets = append(a.offsets, r.Offset)
	if len(a.offsets) < len(a.records) {
		return
	}
	offsets, failed, done := a.offsets, a.err, a.done
	a.p.answered(a)
	if failed != nil {
		done(nil, fmt.Errorf("append to %s/%d: %w", a.p.topic, a.p.partition, denied(a.p.cluster, fromClient(failed), opWrite, a.p.topic, "")))
		return
	}
	done(offsets, nil)
}

// answered keeps a batch for reuse. The client does not touch a record again after its answer.
func (p *OwnerProducer) answered(a *appending) {
	n := len(a.records)
	clear(a.records)
	clear(a.headers)
	a.offsets, a.err, a.done = nil, nil, nil
	p.mu.Lock()
	defer p.mu.Unlock()
	p.inFlight -= n
	if len(p.idle) < maxIdle && cap(a.records) <= maxIdleRecords {
		p.idle = append(p.idle, a)
	}
}
