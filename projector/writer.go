package projector

import (
	"fmt"
	"maps"
	"slices"

	"github.com/cockroachdb/pebble/v2"

	"github.com/sagalog/sagalog/events"
)

// writer turns deltas into rows. Its buffers are used again by the next commit.
//
// It writes the rows kind by kind, not task by task: neighbours in the memtable are then found from the place of the one
// before, and half of the cost of a row is finding its place.
type writer struct {
	batch *pebble.Batch
	tasks int
	key   []byte
	head  []byte
	value []byte
	// moves says, by the delta's task, which of its index rows change.
	moves    []move
	was, now keySet
	history  histories
}

func newWriter() *writer { return &writer{history: histories{at: map[string]int{}}} }

// writerRows bounds what a writer keeps for the next commit: a sweep or a rebuild would leave the largest for ever.
const writerRows = 16_384

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
	if err := w.histories(d); err != nil {
		return err
	}
	if err := w.dropHistories(d, isForgotten); err != nil {
		return err
	}
	w.moves = w.moves[:0]
	for i := range d.Tasks {
		row := &d.Tasks[i]
		w.moves = append(w.moves, moveOf(row))
		if err := w.task(c, d.Partition, row); err != nil {
			return fmt.Errorf("task %q: %w", row.ID, err)
		}
	}
	for _, kind := range moveKinds {
		if err := w.indexes(c, d, kind); err != nil {
			return err
		}
	}
	w.tasks += len(d.Tasks)
	if cap(w.moves) > writerRows {
		w.moves = nil
	}
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
		w.key = historyKey(w.key[:0], d.Partition, d.Tasks[i].ID)
		if err := w.batch.Delete(w.key, nil); err != nil {
			return err
		}
	}
	return nil
}

// histories adds a piece to the history of each task of which the delta has facts.
func (w *writer) histories(d *events.Delta) error {
	h := &w.history
	h.take(d.History)
	for i := range h.pieces {
		w.key = historyKey(w.key[:0], d.Partition, h.pieces[i].task)
		w.value = h.append(w.value[:0], i)
		if err := w.batch.Merge(w.key, w.value, nil); err != nil {
			return err
		}
	}
	h.reset()
	return nil
}

// task writes or deletes a task's row and counts it.
func (w *writer) task(c *change, partition int32, row *events.TaskRow) error {
	if isForgotten(row) {
		c.meta.count(row.Was, -1)
		return w.forget(c, partition, row)
	}
	if row.Was == nil || !sameCounts(row.Was, &row.Keys) {
		c.meta.count(row.Was, -1)
		c.meta.count(&row.Keys, 1)
	}
	w.key = taskKey(w.key[:0], partition, row.ID)
	w.head = appendTaskHead(w.head[:0], row.Encoding)
	w.value = events.AppendKeys(w.value[:0], &row.Keys)
	op := w.batch.SetDeferred(len(w.key), len(w.head)+len(row.Encoding)+len(w.value))
	copy(op.Key, w.key)
	n := copy(op.Value, w.head)
	n += copy(op.Value[n:], row.Encoding)
	copy(op.Value[n:], w.value)
	return op.Finish()
}

// forget deletes a task's row. Without the keys of what stands there (a task that came and went between two flushes
// has none) its indexes could not be found, so there must be nothing.
func (w *writer) forget(c *change, partition int32, row *events.TaskRow) error {
	w.key = taskKey(w.key[:0], partition, row.ID)
	if row.Was != nil {
		return w.batch.Delete(w.key, nil)
	}
	found, err := lookup(c.p.store.db, w.key, func([]byte) error { return nil })
	if found {
		return fmt.Errorf("%w: it is forgotten without its former keys", ErrDelta)
	}
	return err
}

// move says which kinds of index rows of a task a row of a delta changes.
type move uint8

const (
	moveDue move = 1 << iota
	moveUnplanned
	moveEnded
	moveReady
	moveAll
	moveLabels
	moveState
	moveWorkflow
)

// moveKinds is the order in which rows are written: that of their keys.
var moveKinds = [...]move{moveDue, moveEnded, moveReady, moveUnplanned, moveAll, moveLabels, moveState, moveWorkflow}

// moveOf compares keys before any row is made of them: most of what a commit brings moves the due row alone.
func moveOf(row *events.TaskRow) (m move) {
	var none events.Keys
	was, now := row.Was, &row.Keys
	if was == nil {
		was = &none
	}
	if isForgotten(row) {
		now = &none
	}
	if was.Due != now.Due {
		m |= moveDue
	}
	if was.EndedAt != now.EndedAt {
		m |= moveEnded
	}
	if was.Unplanned != now.Unplanned {
		m |= moveUnplanned
	}
	if !slices.Equal(was.Ready, now.Ready) {
		m |= moveReady
	}
	if isForgotten(row) || row.Was == nil || was.SubmittedAt != now.SubmittedAt {
		return m | moveAll | moveLabels | moveState | moveWorkflow
	}
	if was.State != now.State {
		m |= moveState
	}
	if was.Workflow != now.Workflow {
		m |= moveWorkflow
	}
	if !maps.Equal(was.Labels, now.Labels) {
		m |= moveLabels
	}
	return m
}

// indexes writes the rows of one kind for the tasks of which they change.
func (w *writer) indexes(c *change, d *events.Delta, kind move) error {
	for i := range d.Tasks {
		if w.moves[i]&kind == 0 {
			continue
		}
		row := &d.Tasks[i]
		w.was.reset()
		if row.Was != nil {
			w.was.add(kind, d.Partition, row.ID, row.Was)
		}
		w.now.reset()
		if !isForgotten(row) {
			w.now.add(kind, d.Partition, row.ID, &row.Keys)
		}
		if err := w.difference(c); err != nil {
			return err
		}
	}
	return nil
}

// difference writes the difference between two sets of rows.
//
// Each such row is written once before it is deleted, so SingleDelete does: the two then vanish together when they meet,
// mostly in the flush, where a Delete would be carried down through all levels. Most tasks end before their memtable is
// flushed, and leave no trace of the places where they waited.
func (w *writer) difference(c *change) error {
	for i := range w.was.rows {
		if key := w.was.at(i); !w.now.has(key, i) {
			if err := w.batch.SingleDelete(key, nil); err != nil {
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
		if prefix := w.now.queue(i); prefix != nil {
			c.added.add(prefix, key)
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
	w.key = appendRow(w.key[:0], c.p.number, rowMeta)
	w.value = c.meta.append(w.value[:0])
	c.meta.Runs = nil // only Snapshot needs them, and it reads the row
	return w.batch.Set(w.key, w.value, nil)
}
