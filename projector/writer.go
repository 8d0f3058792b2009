package projector

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/cockroachdb/pebble/v2"

	"github.com/sagalog/sagalog/events"
)

// writer turns deltas into rows. The next commit reuses its buffers.
//
// It writes the rows kind by kind, not task by task. Half the cost of a row is finding its place in the memtable, and the
// place of a neighbouring key is found quickly from the previous one.
type writer struct {
	batch *pebble.Batch
	tasks int
	key   []byte
	lead  []byte
	value []byte
	// moves holds, for each task of the delta, which of its index rows change.
	moves    []move
	was, now keySet
	history  histories
}

func newWriter() *writer { return &writer{history: histories{at: map[string]int{}}} }

// writerRows bounds the buffers that a writer keeps for the next commit. Otherwise one sweep or rebuild would leave its
// large buffers in memory.
const writerRows = 16_384

func (w *writer) delta(c *change, d *events.Delta) error {
	if d.Next < c.meta.Next {
		return fmt.Errorf("%w: it ends at offset %d, and %d is stored", ErrDelta, d.Next, c.meta.Next)
	}
	c.meta.Next, c.meta.Sum, c.meta.Runs, c.meta.Carries = d.Next, d.Sum, d.Runs, d.Carries
	if err := w.parts(c, d); err != nil {
		return err
	}
	// History comes between the two rounds: the history of an earlier task with the same ID is dropped before the new
	// one's is written; that of a forgotten task is dropped afterwards, including what this commit added.
	if err := w.dropHistories(d, isAnother); err != nil {
		return err
	}
	if err := w.histories(d); err != nil {
		return err
	}
	if err := w.dropHistories(d, isForgotten); err != nil {
		return err
	}
	if err := w.rejections(c, d); err != nil {
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

// isAnother reports whether the row replaces that of a swept task, whose ID was submitted again.
func isAnother(row *events.TaskRow) bool { return row.Encoding != nil && row.Another }

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

// histories appends to the history of each task that the delta has facts about.
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
	if err := w.others(row); err != nil {
		return err
	}
	w.lead = appendTaskLead(w.lead[:0], row.Others, row.Encoding)
	w.value = events.AppendKeys(w.value[:0], &row.Keys)
	op := w.batch.SetDeferred(len(w.key), len(w.lead)+len(row.Encoding)+len(w.value))
	copy(op.Key, w.key)
	n := copy(op.Value, w.lead)
	n += copy(op.Value[n:], row.Encoding)
	copy(op.Value[n:], w.value)
	return op.Finish()
}

// others writes the rows of a task besides the head, whose key is in w.key.
func (w *writer) others(row *events.TaskRow) error {
	head := len(w.key)
	for i := range row.Rows {
		r := &row.Rows[i]
		part := strings.TrimPrefix(strings.TrimPrefix(r.ID, row.ID), "\x00")
		w.key = appendOther(w.key[:head], string(r.Kind), part)
		var err error
		if r.Encoding == nil {
			err = w.batch.Delete(w.key, nil)
		} else {
			err = w.batch.Set(w.key, r.Encoding, nil)
		}
		if err != nil {
			return err
		}
	}
	w.key = w.key[:head]
	return nil
}

// forget deletes a task's rows. A task that came and went between two flushes has no former keys; its index rows could not
// be found without them, so it must have no rows either.
func (w *writer) forget(c *change, partition int32, row *events.TaskRow) error {
	w.key = taskKey(w.key[:0], partition, row.ID)
	if row.Was != nil {
		return errors.Join(w.others(row), w.batch.Delete(w.key, nil))
	}
	found, err := lookup(c.p.store.db, w.key, func([]byte) error { return nil })
	if found {
		return fmt.Errorf("%w: it must be forgotten, but its former keys are missing", ErrDelta)
	}
	return err
}

// move is the set of kinds of a task's index rows that a delta changes.
type move uint16

const (
	moveDue move = 1 << iota
	moveUnplanned
	moveEnded
	moveReady
	moveAll
	moveLabels
	moveState
	moveWorkflow
	moveWake
)

// moveKinds is the order in which rows are written: the order of their keys.
var moveKinds = [...]move{moveDue, moveEnded, moveReady, moveUnplanned, moveWake, moveAll, moveLabels, moveState, moveWorkflow}

// moveOf compares keys before building rows from them: most commits move only the due row.
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
	if was.Wake != now.Wake {
		m |= moveWake
	}
	if was.EndedAt != now.EndedAt || was.Forget != now.Forget {
		m |= moveEnded
	}
	if was.Unplanned != now.Unplanned {
		m |= moveUnplanned
	}
	if !slices.Equal(was.Ready, now.Ready) || was.FairBy != now.FairBy {
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

// indexes writes the rows of one kind for the tasks whose rows of that kind change.
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
// Each row is written once before it is deleted, so SingleDelete is enough: the write and the delete vanish when they meet,
// usually in the flush, whereas a Delete would sink through all levels. Most tasks end before their memtable is flushed
// and leave no trace of the queues in which they waited.
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
	c.meta.Runs, c.meta.Carries = nil, nil // only Snapshot needs them, and it reads the row
	return w.batch.Set(w.key, w.value, nil)
}
