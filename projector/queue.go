package projector

import (
	"bytes"
	"fmt"

	"github.com/sagalog/sagalog/events"
)

// MaxRows bounds what one call of the reads below returns, whatever limit it is given: a round of an owner handles
// fewer, and a slip must not load a backlog into memory.
const MaxRows = 10_000

// ReadyRow is a step in the queue of its agent.
type ReadyRow struct {
	Key  events.ReadyKey
	Task string
}

// ReadyQuery asks for steps of one agent.
type ReadyQuery struct {
	Agent string
	// After is the row behind which to begin; nil begins at the front.
	After *ReadyRow
	// Skip says which rows not to return nor to count, such as those that the owner started and has not committed.
	// They are bounded by what is in flight. nil skips none.
	Skip  func(ReadyRow) bool
	Limit int
}

// Ready returns steps that wait, in the order of the queue: higher priority first, then the older task.
func (p *Partition) Ready(q ReadyQuery) ([]ReadyRow, error) {
	prefix := readyPrefix(nil, p.number, q.Agent)
	s := scan{prefix: prefix, until: prefixEnd(prefix)}
	if q.After != nil {
		s.after = appendReady(bytes.Clone(prefix), q.After.Task, &q.After.Key)
	}
	limit := bounded(q.Limit)
	var rows []ReadyRow
	err := p.scan(s, func(key []byte) (bool, error) {
		if len(rows) >= limit {
			return false, nil
		}
		row, ok := readReady(key[len(prefix):], q.Agent)
		if !ok {
			return false, fmt.Errorf("%w: queue row %x", ErrDamaged, key)
		}
		if q.Skip == nil || !q.Skip(row) {
			rows = append(rows, row)
		}
		return len(rows) < limit, nil
	})
	return rows, err
}

// Agents returns how many steps wait in the queue of each agent; one without any is left out. The caller must not
// change the map.
func (p *Partition) Agents() map[string]int64 { return p.view.Load().ready() }

// DueRow says that the owner must look at a task at an instant.
type DueRow struct {
	Due  events.Instant
	Task string
}

// Due returns the tasks that are due at or before an instant, the earliest first.
func (p *Partition) Due(by events.Instant, limit int) ([]DueRow, error) {
	return p.timed(timedScan{row: rowDue, by: by, limit: limit})
}

// Running returns tasks that have a due row, however late, in the order of Due and behind after (the zero DueRow is
// before all): a new owner walks all of them once. A task whose instant moves meanwhile may be met twice or not at
// all, so the walk ends before the first commit of the epoch.
func (p *Partition) Running(after DueRow, limit int) ([]DueRow, error) {
	return p.timed(timedScan{row: rowDue, by: maxInstant, after: after, limit: limit})
}

// NextDue returns the earliest instant at which a task is due; ok is false if there is none.
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

// EndedBefore returns tasks that ended before an instant, the earliest first: what a sweep may forget.
func (p *Partition) EndedBefore(before events.Instant, limit int) ([]string, error) {
	rows, err := p.timed(timedScan{row: rowEnded, by: before - 1, limit: limit})
	ids := make([]string, len(rows))
	for i, r := range rows {
		ids[i] = r.Task
	}
	return ids, err
}

// Unplanned returns live tasks that no owner has planned, in the order of their IDs and behind after ("" is before
// all).
func (p *Partition) Unplanned(after string, limit int) ([]string, error) {
	if p.view.Load().meta.Unplanned == 0 {
		return nil, nil
	}
	prefix := p.row(rowUnplanned)
	s := scan{prefix: prefix, until: prefixEnd(prefix)}
	if after != "" {
		s.after = append(bytes.Clone(prefix), after...)
	}
	limit = bounded(limit)
	var ids []string
	err := p.scan(s, func(key []byte) (bool, error) {
		if len(ids) < limit {
			ids = append(ids, string(key[len(prefix):]))
		}
		return len(ids) < limit, nil
	})
	return ids, err
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
	s := scan{prefix: prefix, until: prefixEnd(appendInt(bytes.Clone(prefix), int64(q.by)))}
	if q.after != (DueRow{}) {
		s.after = append(appendInt(bytes.Clone(prefix), int64(q.after.Due)), q.after.Task...)
	}
	limit := bounded(q.limit)
	var rows []DueRow
	err := p.scan(s, func(key []byte) (bool, error) {
		if len(key) < len(prefix)+intSize {
			return false, fmt.Errorf("%w: row %x", ErrDamaged, key)
		}
		if len(rows) < limit {
			rest := key[len(prefix):]
			rows = append(rows, DueRow{events.Instant(readInt(rest)), string(rest[intSize:])})
		}
		return len(rows) < limit, nil
	})
	return rows, err
}

func bounded(limit int) int { return min(max(limit, 0), MaxRows) }

// scan is a walk over the rows of one index from its front, or behind a row.
type scan struct {
	prefix []byte
	after  []byte
	until  []byte
}

// scan calls yield with each key until it returns false. A key is valid only during the call.
func (p *Partition) scan(s scan, yield func(key []byte) (more bool, err error)) error {
	from, version := p.floors.from(s.prefix) // before the iterator, see floors
	start := from
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
	more := it.First()
	if s.after == nil && it.Error() == nil {
		front := s.until
		if more {
			front = it.Key()
		}
		p.floors.raise(s.prefix, front, version)
	}
	for more && err == nil {
		if more, err = yield(it.Key()); more {
			more = it.Next()
		}
	}
	if err != nil {
		_ = it.Close() // the error of the row says more
		return err
	}
	return closeIter(it)
}
