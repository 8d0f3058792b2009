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
	// shrunk is set once the topic has ended before what was read of it. lost are the keys of the records that were read then, and that it does
	// not hold now. The ring keeps what they say.
	shrunk bool
	lost   map[string]bool
}

// NewTopic returns the topic of keys of a namespace. It reads nothing.
func NewTopic(c *kafka.Cluster, namespace string, log *slog.Logger) *Topic {
	return &Topic{cluster: c, namespace: namespace, name: kafka.Topics{Namespace: namespace}.Keys(), log: log, turn: make(chan struct{}, 1), ring: newRing("")}
}

// Create makes the topic if it is missing.
func (t *Topic) Create(ctx context.Context) error {
	if err := kafka.EnsureTopics(ctx, t.cluster, kafka.Topics{Namespace: t.namespace}.KeysSpec()); err != nil {
		return fmt.Errorf("make the topic of keys: %w", err)
	}
	return nil
}

// Bind says to which namespace the keys belong, by the ID, which a copy of the namespace keeps. Without Bind the ID is that of the first key.
func (t *Topic) Bind(ctx context.Context, id string) error {
	if err := t.takeTurn(ctx); err != nil {
		return err
	}
	t.mu.Lock()
	if known := t.ring.namespace; known == "" {
		t.ring.namespace = id
	} else if known != id {
		t.ring, t.next, t.lost = newRing(id), 0, nil
	}
	t.mu.Unlock()
	<-t.turn
	return t.Read(ctx)
}

func (t *Topic) takeTurn(ctx context.Context) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case t.turn <- struct{}{}:
		return nil
	}
}

// Read reads the topic to its end, as of a moment after the call. A topic that never existed is empty. A topic that ends before the position that was
// read was restored or created again, and is read from its beginning. What was read of the old one stays: a key that is forgotten would make all that it
// sealed count as damaged.
func (t *Topic) Read(ctx context.Context) error {
	if err := t.takeTurn(ctx); err != nil {
		return err
	}
	defer func() { <-t.turn }()
	t.mu.Lock()
	next, shrunk := t.next, t.shrunk
	t.mu.Unlock()
	ends, err := t.cluster.HighWatermarks(ctx, kafka.Partitions{t.name: {0}})
	if errors.Is(err, kafka.ErrUnknownTopic) {
		if next == 0 && !shrunk {
			return nil
		}
		return fmt.Errorf("the topic of keys %s is gone: restore it", t.name)
	}
	if err != nil {
		return fmt.Errorf("read the topic of keys: %w", err)
	}
	end := ends[t.name][0]
	if end < next {
		t.log.Error("the topic of keys ends before what was read of it, so it is read from its beginning: it was restored, or deleted and made again", "topic", t.name, "end", end, "read", next)
		t.mu.Lock()
		t.loseAll()
		t.mu.Unlock()
		next = 0
	}
	if next >= end {
		return nil
	}
	err = t.cluster.ReadRange(ctx, t.name, 0, next, end, func(r events.Record) error {
		t.mu.Lock()
		defer t.mu.Unlock()
		t.next = r.Offset + 1
		if r.Control {
			return nil
		}
		if err := t.ring.apply(&r); err != nil {
			t.log.Warn("a record in the topic of keys is skipped", "topic", t.name, "error", err)
			return nil
		}
		delete(t.lost, string(r.Key))
		return nil
	})
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

// Close closes the producer. A later write opens another one.
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
