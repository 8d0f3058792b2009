package node

import (
	"context"
	"fmt"

	"github.com/sagalog/sagalog/events"
	"github.com/sagalog/sagalog/internal/kafka"
	"github.com/sagalog/sagalog/projector"
	"github.com/sagalog/sagalog/scheduler"
)

// ReadNamespace returns the first record of a namespace that exists.
func ReadNamespace(ctx context.Context, c *kafka.Cluster, namespace string) (scheduler.Namespace, error) {
	topic := kafka.Topics{Namespace: namespace}.Definitions()
	r, err := c.ReadAt(ctx, topic, 0, 0)
	if err != nil {
		return scheduler.Namespace{}, fmt.Errorf("read the first record of %s: %w", topic, err)
	}
	catalog := scheduler.NewCatalog()
	if err := catalog.Apply(&r); err != nil {
		return scheduler.Namespace{}, err
	}
	ns, ok := catalog.Namespace()
	if !ok {
		return ns, fmt.Errorf("%s does not begin with the namespace's first record", topic)
	}
	return ns, nil
}

// FoldRange is a partition of events from its beginning to To.
type FoldRange struct {
	Topic     string
	Partition int32
	To        int64
}

// Fold folds a partition from nothing into an empty store, by the one fold, and returns the state hash.
func Fold(ctx context.Context, c *kafka.Cluster, store *projector.Store, r FoldRange) (events.Hash, error) {
	state := events.NewState(r.Partition, store.Partition(r.Partition).Loader())
	err := projector.Fold(ctx, projector.Folding{
		State: state, Evict: true,
		Read: func(yield func(events.Record) error) error {
			if r.To == 0 {
				return nil
			}
			return c.ReadRange(ctx, r.Topic, r.Partition, 0, r.To, yield)
		},
		Commit: func(d *events.Delta, a projector.Anchor) error {
			return store.Commit(projector.Batch{Deltas: []*events.Delta{d}, Anchors: map[int32]projector.Anchor{r.Partition: a}})
		},
	})
	if err != nil {
		return events.Hash{}, err
	}
	info, err := store.PartitionInfo(r.Partition)
	return info.StateHash, err
}
