package projector

import (
	"bytes"
	"errors"
	"fmt"

	"github.com/cockroachdb/pebble/v2"
	"github.com/sagalog/sagalog/events"
)

// MaxRows bounds the result of each read below, whatever limit it is given: an owner handles fewer in one round, and a
// mistake must not load a whole backlog into memory.
const MaxRows = 10_000

// ReadyRow is a step in its queue.
type ReadyRow struct {
	Key  events.ReadyKey
	Task string
}

// Ready returns up to limit steps that wait in a line, in order: higher priority first, then the older task.
func (p *Partition) Ready(line events.Line, limit int) ([]ReadyRow, error) {
	prefix := readyPrefix(nil, p.number, line)
	var rows []ReadyRow
	err := p.scan(scan{prefix: prefix, until: prefixEnd(prefix), limit: limit}, func(rest []byte) error {
		row, ok := readReady(rest, line)
		if !ok {
			return fmt.Errorf("%w: row %x of the queue %q", ErrDamaged, rest, line.Queue)
		}
		rows = append(rows, row)
		return nil
	})
	return rows, err
}

// FairKeys returns up to limit keys behind that of the line with which steps wait in its queue, in the order of their bytes. It seeks once
// for each.
func (p *Partition) FairKeys(line events.Line, limit int) (keys []string, err error) {
	queue := queuePrefix(nil, p.number, line)
	next := prefixEnd(readyPrefix(nil, p.number, line))
	it, err := p.store.iterate(next, prefixEnd(queue))
	if err != nil {
		return nil, err
	}
	for left := bounded(limit); left > 0 && it.SeekGE(next); left-- {
		key, _, ok := cutText(it.Key()[len(queue):])
		if !ok {
			_ = it.Close() // the damage says more
			return nil, fmt.Errorf("%w: row %x of the queue %q", ErrDamaged, next, line.Queue)
		}
		keys = append(keys, key)
		next = prefixEnd(readyPrefix(next[:0], p.number, events.Line{Queue: line.Queue, Operation: line.Operation, FairBy: key}))
	}
	return keys, closeIter(it)
}

// Keys returns the keys of a task's row: what the queues hold of it, when its owner looks at it next, and what else it waits for. They are
// empty for an unknown task.
func (p *Partition) Keys(id string) (k events.Keys, err error) {
	err = p.lookup(taskKey(nil, p.number, id), func(it *pebble.Iterator) error {
		value, err := it.ValueAndErr()
		if err != nil {
			return readError(err)
		}
		row, err := readTaskRow(bytes.Clone(value))
		if err != nil {
			return err
		}
		found, err := decodeKeys(row.keys)
		if err == nil {
			k = *found
		}
		return err
	})
	return k, err
}

// Queues returns the number of steps in each queue, except empty ones. The caller must not change the map.
func (p *Partition) Queues() map[string]int64 { return p.view.Load().ready() }

// QueueLength is the number of steps in the queue of an agent's operation.
type QueueLength struct {
	Call  events.Call
	Steps int64
}

// QueueLengths returns the queues with steps in them, from memory.
func (p *Partition) QueueLengths() []QueueLength {
	ready := p.view.Load().meta.Ready
	list := make([]QueueLength, len(ready))
	for i, c := range ready {
		agent, function := events.SplitQueue(c.name)
		list[i] = QueueLength{Call: events.Call{Agent: agent, Function: function, Operation: events.Operation(c.of)}, Steps: c.n}
	}
	return list
}

// Waits returns how many steps that are not in a queue wait, by what they wait for, from memory. It knows nothing of tasks that no owner
// has planned.
func (p *Partition) Waits() map[events.Waiting]int64 {
	return countsOf[events.Waiting](p.view.Load().meta.Waits)
}

// UnplannedCount returns how many live tasks of a partition no owner has planned since the partition was folded here, from memory.
func UnplannedCount(p *Partition) int64 { return p.view.Load().meta.Unplanned }

// DueRow is an instant at which the owner must look at a task.
type DueRow struct {
	Due  events.Instant
	Task string
}

// Due returns the tasks that are due at or before an instant, earliest first.
func (p *Partition) Due(by events.Instant, limit int) ([]DueRow, error) {
	return p.timed(timedScan{row: rowDue, by: by, limit: limit})
}

// Waking returns the tasks with a timer that does not wait for reports and is due at or before an instant, earliest first.
func (p *Partition) Waking(by events.Instant, limit int) ([]DueRow, error) {
	if p.view.Load().meta.Wake == 0 { // true in most rounds
		return nil, nil
	}
	return p.timed(timedScan{row: rowWake, by: by, limit: limit})
}

// Running returns the tasks that have a due row, in the order of Due and after the row after (the zero DueRow comes before
// all). A new owner walks all of them once. A task whose instant moves during the walk may be seen twice or not at all, so
// the walk ends before the first commit of the epoch.
func (p *Partition) Running(after DueRow, limit int) ([]DueRow, error) {
	return p.timed(timedScan{row: rowDue, by: maxInstant, after: after, limit: limit})
}

// NextDue returns the earliest instant at which a task is due; ok is false if no task is due.
func (p *Partition) NextDue() (due events.Instant, ok bool, err error) {
	if p.view.Load().meta.Due == 0 {
		return 0, false, nil
	}
	rows, err := p.Running(DueRow{}, 1)
	if len(rows) == 0 || err != nil {
		return 0, false, err
	}
	return rows[0].Due, true, nil
}

// EndedBefore returns tasks that ended before an instant, earliest first, except those whose workflow says how long they are
// remembered. They are the candidates of a sweep, with those of ForgetBefore.
func (p *Partition) EndedBefore(before events.Instant, limit int) ([]string, error) {
	return tasksBefore(p, rowEnded, before, limit)
}

// ForgetBefore returns tasks that may be forgotten before an instant, earliest first, because their workflow says so.
func (p *Partition) ForgetBefore(before events.Instant, limit int) ([]string, error) {
	return tasksBefore(p, rowForget, before, limit)
}

func tasksBefore(p *Partition, row byte, before events.Instant, limit int) ([]string, error) {
	rows, err := p.timed(timedScan{row: row, by: before - 1, limit: limit})
	ids := make([]string, len(rows))
	for i, r := range rows {
		ids[i] = r.Task
	}
	return ids, err
}

// Unplanned returns up to limit live tasks that no owner has planned, in the order of their IDs.
func (p *Partition) Unplanned(limit int) ([]string, error) {
	if p.view.Load().meta.Unplanned == 0 {
		return nil, nil
	}
	prefix := p.row(rowUnplanned)
	var ids []string
	err := p.scan(scan{prefix: prefix, until: prefixEnd(prefix), limit: limit}, func(rest []byte) error {
		ids = append(ids, string(rest))
		return nil
	})
	return ids, err
}

// Unended returns up to limit live tasks behind the given one, in the order of their IDs. It reads the rows of ended tasks too.
func (p *Partition) Unended(after string, limit int) ([]string, error) {
	return tasksAfter(p, after, limit, isLive)
}

// Tasks returns up to limit tasks behind the given one, in the order of the bytes of their IDs.
func (p *Partition) Tasks(after string, limit int) ([]string, error) {
	return tasksAfter(p, after, limit, func(*pebble.Iterator) (bool, error) { return true, nil })
}

func tasksAfter(p *Partition, after string, limit int, is func(it *pebble.Iterator) (bool, error)) (ids []string, err error) {
	prefix := p.row(rowTask)
	start := append(bytes.Clone(prefix), after...)
	if after != "" {
		start = append(start, taskEnd+1) // behind the other rows of that task
	}
	it, err := p.store.iterate(start, prefixEnd(prefix))
	if err != nil {
		return nil, err
	}
	for ok := it.First(); ok && err == nil && len(ids) < limit; ok = it.Next() {
		if id := it.Key()[len(prefix):]; bytes.IndexByte(id, taskEnd) < 0 {
			var yes bool
			if yes, err = is(it); yes {
				ids = append(ids, string(id))
			}
		}
	}
	return ids, errors.Join(err, closeIter(it))
}

// isLive says whether the head of a task at which the iterator is says that the task has not ended.
func isLive(it *pebble.Iterator) (bool, error) {
	value, err := it.ValueAndErr()
	if err != nil {
		return false, readError(err)
	}
	row, err := readTaskRow(value)
	if err != nil {
		return false, err
	}
	k, err := decodeKeys(row.keys)
	return err == nil && !k.State.Ended(), err
}

const maxInstant = events.Instant(1<<63 - 1)

// timedScan asks for rows of an index that begins with an instant.
type timedScan struct {
	row   byte
	by    events.Instant
	after DueRow
	limit int
}

func (p *Partition) timed(q timedScan) ([]DueRow, error) {
	prefix := p.row(q.row)
	s := scan{prefix: prefix, until: prefixEnd(appendInt(bytes.Clone(prefix), int64(q.by))), limit: q.limit}
	if q.after != (DueRow{}) {
		s.after = append(appendInt(bytes.Clone(prefix), int64(q.after.Due)), q.after.Task...)
	}
	var rows []DueRow
	err := p.scan(s, func(rest []byte) error {
		if len(rest) < intSize {
			return fmt.Errorf("%w: row %x", ErrDamaged, append(prefix, rest...))
		}
		rows = append(rows, DueRow{events.Instant(readInt(rest)), string(rest[intSize:])})
		return nil
	})
	return rows, err
}

func bounded(limit int) int { return min(max(limit, 0), MaxRows) }

// scan asks for rows of one index, from its front or from after a row.
type scan struct {
	prefix []byte
	after  []byte
	until  []byte
	limit  int
}

// scan calls yield with each key, without the prefix; it is valid only during the call.
func (p *Partition) scan(s scan, yield func(rest []byte) error) error {
	start, version := p.lowerBounds.from(s.prefix) // before the iterator, see lowerBounds
	if s.after != nil {
		if behind := append(s.after, 0); bytes.Compare(behind, start) > 0 {
			start = behind
		}
	}
	if bytes.Compare(start, s.until) >= 0 {
		return nil
	}
	it, err := p.store.iterate(start, s.until)
	if err != nil {
		return err
	}
	ok := it.First()
	if s.after == nil && it.Error() == nil {
		front := s.until
		if ok {
			front = it.Key()
		}
		p.lowerBounds.raise(s.prefix, front, version)
	}
	for left := bounded(s.limit); ok && left > 0; left-- {
		if err := yield(it.Key()[len(s.prefix):]); err != nil {
			_ = it.Close() // the error of the row says more
			return err
		}
		ok = left > 1 && it.Next()
	}
	return closeIter(it)
}
