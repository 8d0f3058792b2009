package sealing

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"

	"github.com/sagalog/sagalog/events"
	"github.com/sagalog/sagalog/internal/kafka"
)

// Topic is the topic of keys of a namespace, and what was read of it. It is safe for concurrent use.
type Topic struct {
	cluster   *kafka.Cluster
	namespace string
	name      string
	log       *slog.Logger

	// writer is nil until something is written. writing guards it.
	writing sync.Mutex
	writer  *kafka.Producer
	// turn is held by the one who reads.
	turn chan struct{}
	// mu guards the fields below.
	mu   sync.Mutex
	ring *ring
	next int64
}

// NewTopic returns the topic of keys of a namespace. It reads nothing.
func NewTopic(c *kafka.Cluster, namespace string, log *slog.Logger) *Topic {
	return &Topic{cluster: c, namespace: namespace, name: kafka.Topics{Namespace: namespace}.Keys(), log: log, turn: make(chan struct{}, 1), ring: newRing()}
}

// Create makes the topic if it is missing.
func (t *Topic) Create(ctx context.Context) error {
	if err := kafka.EnsureTopics(ctx, t.cluster, kafka.Topics{Namespace: t.namespace}.KeysSpec()); err != nil {
		return fmt.Errorf("make the topic of keys: %w", err)
	}
	return nil
}

// Read reads the topic to its end, as of a moment after the call. A topic that does not exist is empty.
func (t *Topic) Read(ctx context.Context) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case t.turn <- struct{}{}:
	}
	defer func() { <-t.turn }()
	t.mu.Lock()
	from := t.next
	t.mu.Unlock()
	err := t.cluster.ReadRange(ctx, t.name, 0, from, -1, func(r events.Record) error {
		t.mu.Lock()
		defer t.mu.Unlock()
		t.next = r.Offset + 1
		if r.Control {
			return nil
		}
		if err := t.ring.apply(&r); err != nil {
			t.log.Warn("a record of the keys is passed over", "topic", t.name, "error", err)
		}
		return nil
	})
	if errors.Is(err, kafka.ErrUnknownTopic) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("read the topic of keys: %w", err)
	}
	return nil
}

// Empty says whether no key was ever made, as far as the topic was read.
func (t *Topic) Empty() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return len(t.ring.all)+len(t.ring.erased) == 0
}

// producer returns the producer, which is opened once.
func (t *Topic) producer() (*kafka.Producer, error) {
	t.writing.Lock()
	defer t.writing.Unlock()
	if t.writer == nil {
		p, err := kafka.NewProducer(t.cluster)
		if err != nil {
			return nil, err
		}
		t.writer = p
	}
	return t.writer, nil
}

// Close closes what was opened to write. Who writes again opens it again.
func (t *Topic) Close() {
	t.writing.Lock()
	defer t.writing.Unlock()
	if t.writer != nil {
		t.writer.Close()
		t.writer = nil
	}
}

// write appends records, and reads them.
func (t *Topic) write(ctx context.Context, list ...events.Record) error {
	p, err := t.producer()
	if err != nil {
		return err
	}
	for i := range list {
		list[i].Topic, list[i].Partition = t.name, 0
	}
	if _, err := p.ProduceSync(ctx, list...); err != nil {
		return fmt.Errorf("write to the topic of keys: %w", err)
	}
	return t.Read(ctx)
}
