package namespacecopy

import (
	"context"
	"errors"
	"fmt"

	"github.com/sagalog/sagalog/events"
	"github.com/sagalog/sagalog/internal/kafka"
)

// Logs are the topics that a copy reads in the old namespace and writes in the new one. It closes the old namespace before, and creates the new one
// behind it.
type Logs interface {
	// Append writes records to their topics and partitions, and returns their offsets.
	Append(ctx context.Context, records ...events.Record) ([]int64, error)
	// EnsureWork makes the topic of an agent in the new namespace.
	EnsureWork(ctx context.Context, agent string) error
	// Facts reads the log of an old partition.
	Facts(ctx context.Context, partition int32, from, to int64, use func(events.Record) error) error
	// Unjudged reads an input of an old partition to its end.
	Unjudged(ctx context.Context, in events.Input, partition int32, from int64, use func([]events.Record) error) error
	// Input reads one record of an input of an old partition.
	Input(ctx context.Context, in events.Input, partition int32, offset int64) (events.Record, error)
}

// clusterLogs are the topics on their clusters.
type clusterLogs struct {
	c        *copying
	producer *kafka.Producer
}

func (l *clusterLogs) Append(ctx context.Context, records ...events.Record) ([]int64, error) {
	return l.producer.ProduceSync(ctx, records...)
}

func (l *clusterLogs) EnsureWork(ctx context.Context, agent string) error {
	to := l.c.To
	if err := kafka.EnsureTopics(ctx, to.Cluster, to.topics().WorkSpec(agent, l.c.Partitions)); err != nil {
		return fmt.Errorf("make the topic of agent %s: %w", agent, err)
	}
	return nil
}

func (l *clusterLogs) Facts(ctx context.Context, partition int32, from, to int64, use func(events.Record) error) error {
	old := l.c.From
	return old.Cluster.ReadRange(ctx, old.topics().Events(), partition, from, to, use)
}

func (l *clusterLogs) Input(ctx context.Context, in events.Input, partition int32, offset int64) (events.Record, error) {
	old := l.c.From
	return old.Cluster.ReadAt(ctx, old.topics().Input(in), partition, offset)
}

func (l *clusterLogs) Unjudged(ctx context.Context, in events.Input, partition int32, from int64, use func([]events.Record) error) error {
	cluster, topic := l.c.From.Cluster, l.c.From.topics().Input(in)
	to, err := cluster.EndOffset(ctx, topic, partition)
	if err != nil {
		return err
	}
	ends, err := cluster.HighWatermarks(ctx, kafka.Partitions{topic: {partition}})
	if err != nil {
		return err
	}
	if end := ends[topic][partition]; end > to {
		return fmt.Errorf("a transaction was opened at offset %d after the namespace was closed: stop its producer", to)
	}
	if from >= to {
		return nil
	}
	r, err := kafka.NewReader(cluster, kafka.ReaderConfig{ReadCommitted: true})
	if err != nil {
		return err
	}
	defer r.Close()
	r.Add(topic, partition, from, -1)
	for from < to {
		fetches, err := r.Poll(ctx)
		if err != nil {
			return err
		}
		for i := range fetches {
			f := &fetches[i]
			if err := use(f.Records); err != nil {
				return err
			}
			var large *kafka.TooLargeError
			if errors.As(f.Err, &large) {
				return fmt.Errorf("the batch at offset %d is too large to be read: start a node of the old namespace for a minute, which puts it aside, then copy: %w", large.Offset, f.Err)
			}
			if f.Err != nil {
				return f.Err
			}
			from = max(from, f.Next)
		}
	}
	return nil
}
