package node

import (
	"context"
	"fmt"
	"runtime"
	"sync"

	"github.com/sagalog/sagalog/events"
	"github.com/sagalog/sagalog/internal/kafka"
	"github.com/sagalog/sagalog/projector"
	"github.com/sagalog/sagalog/scheduler"
	"golang.org/x/sync/errgroup"
)

// ReadNamespace returns the NamespaceCreated of a namespace that exists. It is the first record, or the last one of a copy. c is a kafka.Cluster or
// embedded.Files.
func ReadNamespace(ctx context.Context, c interface {
	ReadAt(ctx context.Context, topic string, partition int32, offset int64) (events.Record, error)
}, namespace string) (scheduler.Namespace, error) {
	topic := kafka.Topics{Namespace: namespace}.Definitions()
	r, err := c.ReadAt(ctx, topic, 0, 0)
	if err != nil {
		return scheduler.Namespace{}, fmt.Errorf("read the first record of %s: %w", topic, err)
	}
	catalog := scheduler.NewCatalog(nil)
	if err := catalog.Apply(&r); err != nil {
		return scheduler.Namespace{}, err
	}
	if x := scheduler.CopyingOf(catalog); x != nil {
		if r, err = c.ReadAt(ctx, topic, 0, x.Created); err != nil {
			return scheduler.Namespace{}, fmt.Errorf("namespace %s is a copy of %s that is not complete: %w", namespace, x.From, err)
		}
		if err := catalog.Apply(&r); err != nil {
			return scheduler.Namespace{}, err
		}
	}
	ns, ok := catalog.Namespace()
	if !ok {
		return ns, fmt.Errorf("%s does not begin with the namespace's first record", topic)
	}
	return ns, nil
}

// FoldRange is a partition of events up to To.
type FoldRange struct {
	Topic     string
	Partition int32
	To        int64
	// TopicID goes into the anchor; a store that no node opens needs none.
	TopicID projector.TopicID
	// Short folds a log that ends before To as far as it goes, for a caller that compares the hash; otherwise such a log has lost records, which is an error.
	Short bool
}

// FoldAll folds partitions like Fold, as many at once as there are processors, and calls the index in ranges and the state hash of each,
// from one goroutine at a time.
func FoldAll(ctx context.Context, c *kafka.Cluster, store *projector.Store, ranges []FoldRange, done func(i int, sum events.Hash)) error {
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(runtime.GOMAXPROCS(0))
	var mu sync.Mutex
	for i, r := range ranges {
		g.Go(func() error {
			sum, err := Fold(ctx, c, store, r)
			if err != nil {
				return fmt.Errorf("fold partition %d: %w", r.Partition, err)
			}
			mu.Lock()
			defer mu.Unlock()
			done(i, sum)
			return nil
		})
	}
	return g.Wait()
}

// Fold folds a partition into a store, with the same fold as everywhere, and returns the state hash. It begins where the state in the store ends; without one, at the
// beginning of the log.
func Fold(ctx context.Context, c *kafka.Cluster, store *projector.Store, r FoldRange) (events.Hash, error) {
	part := store.Partition(r.Partition)
	state := events.NewState(r.Partition, part.Loader())
	snap, _, exists, err := part.Snapshot()
	if err == nil && exists {
		state, err = events.OpenState(r.Partition, snap, part.Loader())
	}
	if err != nil {
		return events.Hash{}, err
	}
	err = projector.Fold(ctx, projector.Folding{
		State: state, Evict: true, TopicID: r.TopicID,
		Read: func(yield func(events.Record) error) error { // what is lent is valid long enough: the folder keeps only the last record, until the next one
			begin := state.Next
			if r.To <= begin {
				return nil
			}
			if !exists {
				var err error
				if begin, err = c.StartOffset(ctx, r.Topic, r.Partition); err != nil { // not 0 if the log was cut
					return err
				}
			}
			if r.Short {
				return c.LendRange(ctx, r.Topic, r.Partition, begin, r.To, yield)
			}
			return kafka.LendWhole(ctx, c, r.Topic, r.Partition, begin, r.To, yield)
		},
		Commit: func(d *events.Delta, a projector.Anchor) error {
			return store.Commit(projector.Batch{Deltas: []*events.Delta{d}, Anchors: map[int32]projector.Anchor{r.Partition: a}})
		},
	})
	if err != nil {
		return events.Hash{}, err
	}
	info, err := store.PartitionInfo(r.Partition)
	if err == nil && !info.Exists { // nothing was folded
		return state.Hash()
	}
	return info.StateHash, err
}
