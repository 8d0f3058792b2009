package events

import (
	"bytes"
	"fmt"
	"unicode/utf8"

	"github.com/sagalog/sagalog/internal/jsontext"
)

// carryWork is what State needs in memory while it writes, compares or loads carried entities. It follows from the state, and from the
// records since the last complete entity.
type carryWork struct {
	// parts are the entities that are not of tasks, in their order.
	parts []part
	// records are those of the task of, or of the entity that is its turn.
	of      string
	records []EntityCarried
	// rows and piece are loaded.
	rows  []PartRow
	piece []byte
}

// carryPart returns the records of the next entity that is not of a task.
func carryPart(s *State) ([]EntityCarried, error) {
	c, parts := s.Partition.Carry, carriedParts(s)
	if c.Parts > len(parts) {
		return nil, fmt.Errorf("%w: %d entities are to be carried, and there are %d", ErrImpossible, c.Parts, len(parts))
	}
	return partRecords(s, parts[len(parts)-c.Parts])
}

// partRecords returns the records of an entity that is not of a task.
func partRecords(s *State, p part) ([]EntityCarried, error) {
	v := s.part(p)
	if d, ok := v.(*Definition); ok && d.Body == nil {
		body, err := s.DefinitionBody(p.id)
		if err != nil {
			return nil, err
		}
		whole := *d
		whole.Body = body
		v = &whole
	}
	var e entityWriter
	from, err := e.write(p.kind, p.id, v)
	if err != nil {
		return nil, err
	}
	return lastOf(appendCarried(nil, p.kind, p.id, e.B[from:])), nil
}

// allParts returns all entities but the partition's own and the tasks, in the order of their kinds and IDs.
func allParts(s *State) []part {
	list := []part{}
	for p := range s.parts {
		if !s.dirtyParts[p] && p.kind != KindPartition {
			list = append(list, p)
		}
	}
	for p := range s.dirtyParts {
		if p.kind != KindPartition && s.part(p) != nil {
			list = append(list, p)
		}
	}
	sortParts(list)
	return list
}

// carryTask returns the records of a task.
func carryTask(s *State, t *Task) ([]EntityCarried, error) {
	all := untouched(t)
	w := newTaskWriter(1)
	if err := w.write(all); err != nil {
		return nil, err
	}
	records := appendCarried(nil, KindTask, "", w.head.B[w.from:])
	for i := range w.changed {
		c := &w.changed[i]
		records = appendCarried(records, c.kind, c.part, w.other.B[c.from:c.to])
	}
	return lastOf(records), nil
}

// untouched returns a copy of the task of which no row is known to any store.
func untouched(t *Task) *Task {
	x := *t
	x.index = nil
	x.rows = &valueRows{}
	for i := range t.Held {
		x.changeRequest(t.Held[i].ID)
	}
	for i := range t.Requests {
		x.changeRequest(t.Requests[i].ID)
	}
	x.Steps = make([]*Step, len(t.Steps))
	for i, s := range t.Steps {
		step := *s
		step.row, step.changed = nil, true
		x.Steps[i] = &step
	}
	return &x
}

// appendCarried appends an entity, in pieces if it is long. The encoding is copied.
func appendCarried(dst []EntityCarried, kind Kind, id string, encoding []byte) []EntityCarried {
	if len(encoding) <= pieceBytes {
		return append(dst, EntityCarried{Kind: kind, ID: id, Encoding: bytes.Clone(encoding)})
	}
	for len(encoding) > 0 {
		n := min(pieceBytes, len(encoding))
		for n < len(encoding) && !utf8.RuneStart(encoding[n]) {
			n--
		}
		dst = append(dst, EntityCarried{Kind: kind, ID: id, Piece: string(encoding[:n]), More: n < len(encoding)})
		encoding = encoding[n:]
	}
	return dst
}

func lastOf(records []EntityCarried) []EntityCarried {
	records[len(records)-1].Last = true
	return records
}

// NextCarried returns the next record of the carry under way: of the entity or the task that is half carried, or, if nothing is half carried, of the
// given task. It returns nil if that task is not to be carried: it is gone, or was accepted after the carry had begun.
func NextCarried(s *State, task string) (of string, next *EntityCarried, err error) {
	c := s.Partition.Carry
	switch {
	case c.Parts > 0:
		task = ""
	case c.Half > 0:
		task = c.Task
	}
	if s.carry.records == nil || s.carry.of != task {
		s.carry.of = task
		if task == "" {
			s.carry.records, err = carryPart(s)
		} else {
			s.carry.records, err = carriedTask(s, task)
		}
		if err != nil || s.carry.records == nil {
			return "", nil, err
		}
	}
	if c.Half >= len(s.carry.records) {
		return "", nil, fmt.Errorf("%w: %d records of %q were carried, and it has %d", ErrImpossible, c.Half, task, len(s.carry.records))
	}
	x := s.carry.records[c.Half]
	return task, &x, nil
}

func carriedTask(s *State, id string) ([]EntityCarried, error) {
	t, err := peek(s, id)
	if t == nil || err != nil {
		return nil, err
	}
	//mutant:later-tasks-are-not-carried
	if accepted, err := ParsePosition(t.Incarnation); err != nil || !accepted.Before(s.Partition.Carry.Begun) {
		return nil, err
	}
	return carryTask(s, t)
}

// carriedParts returns the entities that are carried first, in their order.
func carriedParts(s *State) []part {
	if s.carry.parts == nil {
		s.carry.parts = allParts(s)
	}
	return s.carry.parts
}

// BeginCarry returns the fact that begins a carry now.
func BeginCarry(s *State) (*CarryBegun, error) {
	now, err := partitionEncoding(s)
	return &CarryBegun{State: now, Parts: len(allParts(s))}, err
}

func partitionEncoding(s *State) ([]byte, error) {
	e := entityWriter{jsontext.Writer{B: make([]byte, 0, partBytes)}}
	from, err := e.write(KindPartition, "", &s.Partition)
	return e.B[from:], err
}
