package projector

import (
	"errors"
	"fmt"

	"github.com/cockroachdb/pebble/v2"
)

// resetChunk is how many list rows one batch of a Reset deletes: it bounds memory.
const resetChunk = 10_000

// Reset drops everything of a partition, so that it can be folded from the beginning of the log. Meanwhile the partition may
// only be read; reads see less and less of it.
//
// The lists are shared with other partitions, so Reset walks them, in several batches. A marker is written with the first
// batch and deleted with the last; Open finishes a Reset that a crash interrupted.
func (s *Store) Reset(partition int32) error {
	p := s.Partition(partition)
	p.commit.Lock()
	defer p.commit.Unlock()
	if err := s.beginReset(partition); err != nil {
		return err
	}
	p.forget()
	s.metrics.resets.Inc()
	return s.finishReset(partition)
}

func (s *Store) beginReset(partition int32) error {
	b := s.db.NewBatch()
	defer b.Close()
	from := appendPartition([]byte{spacePartition}, partition)
	err := errors.Join(
		b.Set(resetKey(partition), nil, nil),
		b.DeleteRange(from, prefixEnd(from), nil),
		b.Commit(pebble.NoSync),
	)
	if err != nil {
		return fmt.Errorf("reset partition %d: %w", partition, err)
	}
	return nil
}

// forget is called with the partition's commit lock held.
func (p *Partition) forget() {
	p.lowerBounds.clear()
	p.rejections = rejectionRows{}
	p.loads.end()
	p.view.Store(emptyView())
	p.watched.reset()
}

func (s *Store) finishResets() error {
	prefix := []byte{spaceStore, storeReset}
	var list []int32
	if err := eachOf(s.db, prefix, func(key, _ []byte) error {
		partition, err := partitionOf(key[len(prefix):])
		list = append(list, partition)
		return err
	}); err != nil {
		return err
	}
	for _, partition := range list {
		if err := s.finishReset(partition); err != nil {
			return err
		}
	}
	return nil
}

// finishReset deletes the partition's rows from the lists, and then the marker.
func (s *Store) finishReset(partition int32) error {
	it, err := s.iterate([]byte{spaceList}, []byte{spaceList + 1})
	if err != nil {
		return err
	}
	b := s.db.NewBatch()
	defer func() { _ = b.Close() }()
	for ok := it.First(); ok && err == nil; ok = it.Next() {
		key := it.Key()
		if len(key) < partitionSize || readPartition(key[len(key)-partitionSize:]) != partition {
			continue
		}
		if err = b.Delete(key, nil); err == nil && b.Count() >= resetChunk {
			err = b.Commit(pebble.NoSync)
			_ = b.Close()
			b = s.db.NewBatch()
		}
	}
	err = errors.Join(err, it.Close())
	if err == nil {
		err = errors.Join(b.Delete(resetKey(partition), nil), b.Commit(pebble.NoSync))
	}
	if err != nil {
		return fmt.Errorf("reset partition %d: %w", partition, err)
	}
	return nil
}
