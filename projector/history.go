package projector

import (
	"encoding/binary"
	"fmt"

	"github.com/sagalog/sagalog/events"
)

// The history of a task is one row. Its value is a sequence of pieces, one for each commit with facts about the task: the first
// offset, how many more follow, and the gaps between them, as uvarints. A commit merges its piece into the row without reading
// it; Pebble's default merge appends.

// histories groups the facts of a delta by task. The next commit reuses its memory.
type histories struct {
	pieces []piece
	at     map[string]int
	// The entries of a task are linked by next, which is -1 at the end.
	entries []entry
}

type piece struct {
	task        string
	first, last int
	count       int
}

type entry struct {
	offset int64
	next   int
}

func (h *histories) take(list []events.History) {
	p := -1
	for i := range list {
		task := list[i].Task
		if p < 0 || h.pieces[p].task != task { // consecutive facts are often about the same task
			var known bool
			if p, known = h.at[task]; !known {
				p = len(h.pieces)
				h.at[task] = p
				h.pieces = append(h.pieces, piece{task: task, first: -1})
			}
		}
		e := len(h.entries)
		h.entries = append(h.entries, entry{list[i].Offset, -1})
		at := &h.pieces[p]
		if at.first < 0 {
			at.first = e
		} else {
			h.entries[at.last].next = e
		}
		at.last = e
		at.count++
	}
}

// append appends piece i.
func (h *histories) append(dst []byte, i int) []byte {
	p := &h.pieces[i]
	e := &h.entries[p.first]
	dst = binary.AppendUvarint(dst, uint64(e.offset))
	dst = binary.AppendUvarint(dst, uint64(p.count-1))
	for e.next >= 0 {
		next := &h.entries[e.next]
		dst = binary.AppendUvarint(dst, uint64(next.offset-e.offset))
		e = next
	}
	return dst
}

func (h *histories) reset() {
	if len(h.entries) > writerRows {
		*h = histories{at: map[string]int{}}
		return
	}
	clear(h.pieces) // so that it does not retain strings
	clear(h.at)
	h.pieces, h.entries = h.pieces[:0], h.entries[:0]
}

// eachOffset calls yield with the offsets of a history's row, in order, until it returns false.
func eachOffset(value []byte, yield func(offset int64) bool) error {
	last := int64(-1)
	for rest := value; len(rest) > 0; {
		first, n := binary.Uvarint(rest)
		more, m := binary.Uvarint(rest[max(n, 0):])
		if n <= 0 || m <= 0 || more > uint64(len(rest)) {
			return fmt.Errorf("%w: the history row of %d bytes cannot be decoded", ErrDamaged, len(value))
		}
		rest = rest[n+m:]
		offset := int64(first)
		for i := uint64(0); ; i++ {
			if offset <= last {
				return fmt.Errorf("%w: offset %d follows %d in a history row", ErrDamaged, offset, last)
			}
			if !yield(offset) {
				return nil
			}
			last = offset
			if i == more {
				break
			}
			gap, n := binary.Uvarint(rest)
			if n <= 0 {
				return fmt.Errorf("%w: the history row of %d bytes cannot be decoded", ErrDamaged, len(value))
			}
			rest = rest[n:]
			offset += int64(gap)
		}
	}
	return nil
}
