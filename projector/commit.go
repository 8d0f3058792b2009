package projector

import (
	"bytes"
	"fmt"
	"slices"
	"time"

	"github.com/cockroachdb/pebble/v2"

	"github.com/sagalog/sagalog/events"
)

// Batch is the content of one commit: deltas of one or more partitions, those of one partition in order.
type Batch struct {
	Deltas []*events.Delta
	// Anchors holds the anchor of the last folded record by partition. A partition without one here keeps its earlier anchor.
	Anchors map[int32]Anchor
}

// Commit writes state, indexes, offset and anchor in one Pebble batch (INV3). When it returns nil, every later read sees
// the batch. A kill -9 or a power cut may take the latest batches away, always whole batches and from the end; they are folded
// again from the log. Only Sync and Close make a batch durable. When Commit returns an error, nothing has changed. It does
// not retain the deltas' slices.
//
// Each partition has one committer at a time: its owner or its follower. Commit refuses deltas that do not continue the
// stored state, with ErrDelta.
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
	for _, d := range b.Deltas {
		find(changes, d.Partition).p.watched.wake(d)
	}
	s.metrics.commits.Inc()
	s.metrics.tasks.Add(float64(w.tasks))
	s.metrics.commitBytes.Add(float64(size))
	s.metrics.commitSeconds.Observe(time.Since(started).Seconds())
	s.flushSometimes(started)
	return nil
}

// flushEvery bounds by time what a killed process must fold again. The memtable's size alone does not: a partition that
// commits little would fold weeks of the log. A flush costs a file and two syncs, so one a minute is cheap.
const flushEvery = time.Minute

// flushSometimes starts a flush if the last one is older than flushEvery.
func (s *Store) flushSometimes(now time.Time) {
	last := s.flushed.Load()
	if now.UnixNano()-last >= int64(flushEvery) && s.flushed.CompareAndSwap(last, now.UnixNano()) {
		_, _ = s.db.AsyncFlush() // it fails only on a read-only database, where Commit failed before
	}
}

// change is a partition in a commit.
type change struct {
	p    *Partition
	meta meta
	// entity is the encoding of the partition's own entity, nil if no delta brought one.
	entity []byte
	// added are the first new rows in each index that is consumed from its front.
	added fronts
	// rejections is what the partition knows about its rejection rows after the commit.
	rejections rejectionRows
	// freshRejection is the instant of the first rejection in this batch, or zero.
	freshRejection events.Instant
}

func find(changes []change, partition int32) *change {
	i := slices.IndexFunc(changes, func(c change) bool { return c.p.number == partition })
	return &changes[i]
}

// begin locks the partitions of a batch in order of their numbers, so that two commits never deadlock.
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
	for i, n := range numbers {
		c := &changes[i]
		c.p = s.Partition(n)
		c.p.commit.Lock()
		c.meta = c.p.view.Load().meta.clone()
		c.rejections = c.p.rejections
	}
	return changes, nil
}

// apply makes the batch visible and wakes those who wait.
func (s *Store) apply(w *writer, changes []change) error {
	for i := range changes {
		changes[i].p.lowerBounds.lower(&changes[i].added)
	}
	if err := w.batch.Commit(pebble.NoSync); err != nil {
		return fmt.Errorf("write the state store: %w", err)
	}
	for i := range changes {
		c := &changes[i]
		c.p.lowerBounds.lower(&c.added)
		v := newView(c.meta, bytes.Clone(c.entity))
		if c.entity == nil {
			v.entity = c.p.view.Load().entity
		}
		c.p.loads.end()
		c.p.rejections = c.rejections
		c.p.committed.Store(time.Now().UnixNano())
		c.p.view.Store(v)
		c.p.watched.broadcast()
	}
	return nil
}

func (s *Store) release(w *writer) {
	_ = w.batch.Close() // committed or abandoned; this only returns it to Pebble's pool
	w.batch, w.tasks = nil, 0
	s.writers.Put(w)
}
