package projector

import (
	"bytes"
	"encoding/json"
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
// sees it and kill -9 leaves all of it or nothing, and nothing without all that was committed before; only Sync makes
// it survive a power cut. When it returns an error, nothing has changed. It keeps no slice of the deltas.
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
	return nil
}

// change is a partition in a commit.
type change struct {
	p    *Partition
	meta meta
	// entity is the encoding of the partition's own entity, nil if no delta brought one.
	entity []byte
	// added are rows of the indexes that are worked off from the front.
	added keySet
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

// writer turns deltas into rows. Its buffers are used again by the next commit.
type writer struct {
	batch    *pebble.Batch
	tasks    int
	key      []byte
	head     []byte
	json     bytes.Buffer
	encoder  *json.Encoder
	was, now keySet
}

func newWriter() *writer {
	w := &writer{}
	w.encoder = json.NewEncoder(&w.json)
	w.encoder.SetEscapeHTML(false)
	return w
}

func (w *writer) delta(c *change, d *events.Delta) error {
	if d.Next < c.meta.Next {
		return fmt.Errorf("%w: it ends at offset %d, and %d is stored", ErrDelta, d.Next, c.meta.Next)
	}
	c.meta.Next, c.meta.Sum, c.meta.Runs = d.Next, d.Sum, d.Runs
	if err := w.parts(c, d); err != nil {
		return err
	}
	// History lies between the two rounds: what a task of the same ID left is dropped before the new one's is written,
	// and what a forgotten one left, these rows included, after.
	if err := w.dropHistories(d, isAnother); err != nil {
		return err
	}
	for i := range d.History {
		h := &d.History[i]
		w.key = appendInt(historyPrefix(w.key[:0], d.Partition, h.Task), h.Offset)
		if err := w.batch.Set(w.key, nil, nil); err != nil {
			return err
		}
	}
	if err := w.dropHistories(d, isForgotten); err != nil {
		return err
	}
	for i := range d.Tasks {
		if err := w.task(c, d.Partition, &d.Tasks[i]); err != nil {
			return fmt.Errorf("task %q: %w", d.Tasks[i].ID, err)
		}
	}
	w.tasks += len(d.Tasks)
	return nil
}

func (w *writer) parts(c *change, d *events.Delta) error {
	for i := range d.Parts {
		row := &d.Parts[i]
		w.key = partKey(w.key[:0], d.Partition, string(row.Kind), row.ID)
		if row.Kind == events.KindPartition {
			c.entity = row.Encoding
		}
		var err error
		if row.Encoding == nil {
			err = w.batch.Delete(w.key, nil)
		} else {
			err = w.batch.Set(w.key, row.Encoding, nil)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func isForgotten(row *events.TaskRow) bool { return row.Encoding == nil }

// isAnother says that the row replaces that of a task which was swept: an ended task never changes (INV9), so a live
// one in its place, or one accepted at another time, was submitted anew.
func isAnother(row *events.TaskRow) bool {
	return row.Encoding != nil && row.Was != nil && row.Was.State.Ended() &&
		(row.Keys.SubmittedAt != row.Was.SubmittedAt || !row.Keys.State.Ended())
}

func (w *writer) dropHistories(d *events.Delta, which func(*events.TaskRow) bool) error {
	for i := range d.Tasks {
		if !which(&d.Tasks[i]) {
			continue
		}
		w.key = historyPrefix(w.key[:0], d.Partition, d.Tasks[i].ID)
		if err := w.batch.DeleteRange(w.key, prefixEnd(w.key), nil); err != nil {
			return err
		}
	}
	return nil
}

func (w *writer) task(c *change, partition int32, row *events.TaskRow) error {
	c.meta.count(row.Was, -1)
	if isForgotten(row) {
		return w.forget(c, partition, row)
	}
	c.meta.count(&row.Keys, 1)
	if err := w.taskRow(partition, row); err != nil {
		return err
	}
	return w.indexes(c, partition, row.ID, row.Was, &row.Keys)
}

// forget deletes a task's row. Without the keys of what stands there (a task that came and went between two flushes
// has none) its indexes could not be found, so there must be nothing.
func (w *writer) forget(c *change, partition int32, row *events.TaskRow) error {
	w.key = taskKey(w.key[:0], partition, row.ID)
	if row.Was == nil {
		found, err := lookup(c.p.store.db, w.key, func([]byte) error { return nil })
		if found {
			return fmt.Errorf("%w: it is forgotten without its former keys", ErrDelta)
		}
		return err
	}
	if err := w.batch.Delete(w.key, nil); err != nil {
		return err
	}
	return w.indexes(c, partition, row.ID, row.Was, nil)
}

func (w *writer) taskRow(partition int32, row *events.TaskRow) error {
	w.json.Reset()
	if err := w.encoder.Encode(&row.Keys); err != nil {
		return err
	}
	keys := bytes.TrimSuffix(w.json.Bytes(), []byte("\n"))
	w.key = taskKey(w.key[:0], partition, row.ID)
	w.head = appendTaskHead(w.head[:0], row.Encoding)
	op := w.batch.SetDeferred(len(w.key), len(w.head)+len(row.Encoding)+len(keys))
	copy(op.Key, w.key)
	n := copy(op.Value, w.head)
	n += copy(op.Value[n:], row.Encoding)
	copy(op.Value[n:], keys)
	return op.Finish()
}

// indexes writes the difference between two keys' rows.
func (w *writer) indexes(c *change, partition int32, id string, was, now *events.Keys) error {
	w.was.fill(partition, id, was)
	w.now.fill(partition, id, now)
	for i := range w.was.rows {
		if key := w.was.at(i); !w.now.has(key, i) {
			if err := w.batch.Delete(key, nil); err != nil {
				return err
			}
		}
	}
	for i := range w.now.rows {
		key := w.now.at(i)
		if w.was.has(key, i) {
			continue
		}
		if err := w.batch.Set(key, nil, nil); err != nil {
			return err
		}
		if w.now.rows[i].queue > 0 {
			c.added.buf = append(c.added.buf, key...)
			c.added.finish(w.now.rows[i].queue)
		}
	}
	return nil
}

// finish writes a partition's meta row.
func (w *writer) finish(c *change, anchors map[int32]Anchor) error {
	if a, ok := anchors[c.p.number]; ok {
		if a.Offset >= c.meta.Next {
			return fmt.Errorf("%w: the anchor is at offset %d and the state ends at %d", ErrDelta, a.Offset, c.meta.Next)
		}
		c.meta.Anchor = a
	}
	w.json.Reset()
	if err := w.encoder.Encode(&c.meta); err != nil {
		return err
	}
	c.meta.Runs = nil // only Snapshot needs them, and it reads the row
	return w.batch.Set(appendRow(nil, c.p.number, rowMeta), w.json.Bytes(), nil)
}
