package projector

import (
	"bytes"
	"fmt"
	"slices"
	"time"

	"github.com/cockroachdb/pebble/v2"

	"github.com/sagalog/sagalog/events"
)

// Batch is what one commit changes: deltas of one or several partitions, those of one partition in their order.
type Batch struct {
	Deltas []*events.Delta
	// Anchors holds, by partition, the anchor of the last folded record. A partition of Deltas without one keeps its
	// earlier anchor.
	Anchors map[int32]Anchor
}

// Commit writes state, indexes, offset and anchor in one Pebble batch (INV3). When it returns nil, every later read
// sees it, and kill -9 or a power cut leaves all of it or nothing, and nothing without all that was committed before.
// What they take the log refills; only Sync and Close make it survive them. When it returns an error, nothing has changed.
// It keeps no slice of the deltas.
//
// Each partition has one committer at a time: its owner or its follower. Deltas that do not follow the stored state
// are refused with ErrDelta.
func (s *Store) Commit(b Batch) error {
	if len(b.Deltas) == 0 {
		return nil
	}
	started := time.Now()
	changes, err := s.begin(b)
	if err != nil {
		return err
	}
	defer func() {
		for i := range changes {
			changes[i].p.commit.Unlock()
		}
	}()
	w := s.writers.Get().(*writer)
	defer s.release(w)
	w.batch = s.db.NewBatch()
	for _, d := range b.Deltas {
		if err := w.delta(find(changes, d.Partition), d); err != nil {
			return fmt.Errorf("commit partition %d at offset %d: %w", d.Partition, d.Next, err)
		}
	}
	for i := range changes {
		if err := w.finish(&changes[i], b.Anchors); err != nil {
			return fmt.Errorf("commit partition %d: %w", changes[i].p.number, err)
		}
	}
	size := w.batch.Len()
	if err := s.apply(w, changes); err != nil {
		return err
	}
	s.metrics.commits.Inc()
	s.metrics.tasks.Add(float64(w.tasks))
	s.metrics.commitBytes.Add(float64(size))
	s.metrics.commitSeconds.Observe(time.Since(started).Seconds())
	s.flushSometimes(started)
	return nil
}

// flushEvery bounds what a killed process folds again by time, where the memtable's size does not: a partition that
// commits little would fold weeks of the log. A flush costs a file and two syncs, so one a minute is not felt.
const flushEvery = time.Minute

// flushSometimes begins a flush if the last one is long ago.
func (s *Store) flushSometimes(now time.Time) {
	last := s.flushed.Load()
	if now.UnixNano()-last >= int64(flushEvery) && s.flushed.CompareAndSwap(last, now.UnixNano()) {
		_, _ = s.db.AsyncFlush() // it errors where nothing may be written, and something was
	}
}

// change is a partition in a commit.
type change struct {
	p    *Partition
	meta meta
	// entity is the encoding of the partition's own entity, nil if no delta brought one.
	entity []byte
	// added are the fronts of what is added to the indexes that are worked off from there.
	added fronts
}

func find(changes []change, partition int32) *change {
	i := slices.IndexFunc(changes, func(c change) bool { return c.p.number == partition })
	return &changes[i]
}

// begin locks the partitions of a batch, in their order so that two commits never wait for each other.
func (s *Store) begin(b Batch) ([]change, error) {
	numbers := make([]int32, 0, len(b.Deltas))
	for _, d := range b.Deltas {
		if d.Partition < 0 {
			return nil, fmt.Errorf("%w: partition %d", ErrDelta, d.Partition)
		}
		numbers = append(numbers, d.Partition)
	}
	slices.Sort(numbers)
	numbers = slices.Compact(numbers)
	for partition := range b.Anchors {
		if _, ok := slices.BinarySearch(numbers, partition); !ok {
			return nil, fmt.Errorf("%w: an anchor of partition %d, which has no delta", ErrDelta, partition)
		}
	}
	changes := make([]change, len(numbers))
	for i, n := range numbers { // all of them before the first lock, see Store.mu
		changes[i].p = s.Partition(n)
	}
	for i := range changes {
		c := &changes[i]
		c.p.commit.Lock()
		c.meta = c.p.view.Load().meta.clone()
	}
	return changes, nil
}

// apply makes the batch visible and tells who waits.
func (s *Store) apply(w *writer, changes []change) error {
	for i := range changes {
		changes[i].p.floors.lower(&changes[i].added)
	}
	if err := w.batch.Commit(pebble.NoSync); err != nil {
		return fmt.Errorf("write the state store: %w", err)
	}
	for i := range changes {
		c := &changes[i]
		c.p.floors.lower(&c.added)
		v := newView(c.meta, bytes.Clone(c.entity))
		if c.entity == nil {
			v.entity = c.p.view.Load().entity
		}
		c.p.endLookups()
		c.p.view.Store(v)
		c.p.broadcast()
	}
	return nil
}

func (s *Store) release(w *writer) {
	_ = w.batch.Close() // committed or given up; it only goes back to Pebble's pool
	w.batch, w.tasks = nil, 0
	s.writers.Put(w)
}
