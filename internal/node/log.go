package node

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/sagalog/sagalog/events"
	"github.com/sagalog/sagalog/internal/kafka"
	"github.com/sagalog/sagalog/supervisor"
)

// partitionLog is the cluster as the shell of one partition sees it.
type partitionLog struct {
	cluster   *kafka.Cluster
	topics    kafka.Topics
	partition int32
	effects   *kafka.Producer
	catalog   *catalog
}

func (l *partitionLog) topic(t supervisor.Topic) string {
	switch t {
	case supervisor.Topic(events.Submissions):
		return l.topics.Submissions()
	case supervisor.Topic(events.Reports):
		return l.topics.Reports()
	default:
		return l.topics.Events()
	}
}

// Read implements supervisor.Log.
func (l *partitionLog) Read(ctx context.Context, t supervisor.Topic, from int64, give func([]events.Record, int64) error) error {
	input := t != supervisor.EventsTopic
	r, err := kafka.NewReader(l.cluster, kafka.ReaderConfig{ReadCommitted: input, KeepControl: input})
	if err != nil {
		return err
	}
	defer r.Close()
	r.Add(l.topic(t), l.partition, from, -1)
	for {
		fetches, err := r.Poll(ctx)
		if err != nil {
			return err
		}
		for _, f := range fetches {
			if len(f.Records) > 0 || f.Next > from {
				if err := give(f.Records, f.Next); err != nil {
					return err
				}
				from = f.Next
			}
			if f.Err == nil {
				continue
			}
			skipped, err := l.skip(ctx, f, input, give)
			if err != nil {
				return err
			}
			from = skipped
			r.Add(l.topic(t), l.partition, from, -1)
		}
	}
}

// skip passes a batch of an input that unpacks to too much: each of its records becomes one without bytes, so that
// the owner rejects them by their coordinates. Every other error ends the reading.
func (l *partitionLog) skip(ctx context.Context, f kafka.Fetch, input bool, give func([]events.Record, int64) error) (int64, error) {
	var tooLarge *kafka.TooLargeError
	if !input || !errors.As(f.Err, &tooLarge) {
		return 0, position(f.Err)
	}
	var records []events.Record
	for at := max(tooLarge.Offset, f.Next); at < tooLarge.Next; at++ {
		records = append(records, events.Record{Topic: tooLarge.Topic, Partition: tooLarge.Partition, Offset: at, Headers: []events.Header{{Key: supervisor.HeaderUnpacked}}})
	}
	if err := give(records, tooLarge.Next); err != nil {
		return 0, err
	}
	return tooLarge.Next, ctx.Err()
}

// position marks errors that no retry mends.
func position(err error) error {
	var out *kafka.OutOfRangeError
	var lost *kafka.DataLossError
	if errors.As(err, &out) || errors.As(err, &lost) || errors.Is(err, kafka.ErrNoRecord) {
		return fmt.Errorf("%w: %w", supervisor.ErrPosition, err)
	}
	return err
}

// ReadRange implements supervisor.Log.
func (l *partitionLog) ReadRange(ctx context.Context, from, to int64, give func(events.Record) error) error {
	if from >= to {
		return nil
	}
	return position(l.cluster.ReadRange(ctx, l.topics.Events(), l.partition, from, to, give))
}

// ReadInput implements supervisor.Log.
func (l *partitionLog) ReadInput(ctx context.Context, in events.Input, offset int64) (events.Record, error) {
	r, err := l.cluster.ReadAt(ctx, l.topic(supervisor.Topic(in)), l.partition, offset)
	var tooLarge *kafka.TooLargeError
	if errors.As(err, &tooLarge) {
		return events.Record{Topic: tooLarge.Topic, Partition: tooLarge.Partition, Offset: offset, Headers: []events.Header{{Key: supervisor.HeaderUnpacked}}}, nil
	}
	return r, position(err)
}

// End implements supervisor.Log.
func (l *partitionLog) End(ctx context.Context) (int64, error) {
	return l.cluster.EndOffset(ctx, l.topics.Events(), l.partition)
}

// Ends implements supervisor.Log.
func (l *partitionLog) Ends(ctx context.Context) (map[events.Input]int64, error) {
	ends, err := l.cluster.EndOffsets(ctx, kafka.Partitions{l.topics.Submissions(): {l.partition}, l.topics.Reports(): {l.partition}})
	if err != nil {
		return nil, err
	}
	return map[events.Input]int64{
		events.Submissions: ends[l.topics.Submissions()][l.partition],
		events.Reports:     ends[l.topics.Reports()][l.partition],
	}, nil
}

// Catalog implements supervisor.Log.
func (l *partitionLog) Catalog(ctx context.Context) (supervisor.Catalog, error) {
	if err := l.catalog.upToNow(ctx); err != nil {
		return nil, err
	}
	return view{l.catalog}, nil
}

// NewProducer implements supervisor.Log.
func (l *partitionLog) NewProducer() (supervisor.Producer, error) {
	p, err := kafka.NewOwnerProducer(l.cluster, l.topics.Events(), l.partition)
	if err != nil {
		return nil, err
	}
	return held(p), nil
}

// sendPause is how long an effect waits that failed without being refused for good.
const sendPause = time.Second

// Send implements supervisor.Log. It never blocks: a buffer that one dead topic has filled must not stop the owners.
func (l *partitionLog) Send(ctx context.Context, topic string, r events.Record, done func(error)) {
	r.Topic = l.name(topic)
	l.send(ctx, r, sending{done: done})
}

// sending is a record on its way.
type sending struct {
	done func(error)
	// refused says that the broker refused the record once. Brokers refuse whole batches, so it may have been for a
	// neighbour's fault.
	refused bool
}

func (l *partitionLog) send(ctx context.Context, r events.Record, s sending) {
	l.effects.TryProduce(ctx, r, func(_ int32, _ int64, err error) {
		switch {
		case err == nil:
			s.done(nil)
		case kafka.IsPermanent(err) && s.refused:
			s.done(err)
		case ctx.Err() == nil:
			s.refused = kafka.IsPermanent(err)
			time.AfterFunc(sendPause, func() {
				if ctx.Err() == nil {
					l.send(ctx, r, s)
				}
			})
		}
	})
}

func (l *partitionLog) name(topic string) string {
	if rest, ok := strings.CutPrefix(topic, "dlq."); ok {
		return "dlq." + l.topics.Namespace + "." + rest
	}
	return l.topics.Namespace + "." + topic
}
