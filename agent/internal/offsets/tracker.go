package offsets

import (
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/sagalog/sagalog/agent/transport"
)

// Tracker keeps the offsets of the requests that were read.
//
// Unfinished offsets are kept individually. Their number is bounded by the read-ahead, and every offset between them is
// finished. A finished offset is kept individually only if every commit must keep covering it.
//
// Due, Acknowledge, FinishDurably and SettleDurable are called by the one goroutine that commits.
type Tracker struct {
	// mu guards partitions and all they hold.
	mu         sync.Mutex
	partitions map[int32]*partition
	// retained holds the assignments at the last Retain. It is nil if a partition has been assigned since.
	retained []int32
}

// partition is the state of a partition under one assignment.
type partition struct {
	assignment int64
	// shared is Assigned.Shared.
	shared int64
	// next is one past the highest offset that was read.
	next int64
	// open are the unfinished offsets with their complete-by times.
	open map[int64]time.Time
	// before holds the runs that others or we finished before this assignment.
	before []span
	// durable are the finished offsets that every commit must cover from now on.
	durable map[int64]struct{}
	// committed is the last commit, and runs are the finished runs in it. Its Next is -1 before the first commit.
	committed transport.Position
	runs      []span
	// due says that an offset in durable is not committed yet.
	due bool
}

// Place is the position of a request, with the assignment of its partition under which it was read.
type Place struct {
	Partition  int32
	Assignment int64
	Offset     int64
}

// NewTracker returns a Tracker without partitions.
func NewTracker() *Tracker { return &Tracker{partitions: map[int32]*partition{}} }

// Assign starts tracking a partition that was assigned, and returns false if this assignment is tracked already. From an
// earlier assignment only the finished offsets still count, because others may have had the partition since. If records were
// lost, those do not count either from the loss on: the broker reuses their offsets for new requests that nobody has read, and
// skipping those would stop their tasks.
func (t *Tracker) Assign(id int32, from transport.Assigned) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	p := t.partitions[id]
	if p != nil && p.assignment == from.Position.Assignment {
		return false
	}
	before := decodeMetadata(from.Position.Next, from.Position.Metadata)
	if p != nil {
		before = union(before, p.finishedFrom(from.Position.Next))
	}
	if from.Lost {
		before = below(before, from.LostFrom)
	}
	t.retained = nil
	t.partitions[id] = &partition{
		assignment: from.Position.Assignment, shared: from.Shared, next: from.Position.Next, before: before,
		open: map[int64]time.Time{}, durable: map[int64]struct{}{}, committed: transport.Position{Next: -1},
	}
	return true
}

// Retain forgets the partitions that are not assigned any more: another instance tracks them now. assigned is called with the
// lock held, because an older answer would miss a partition that was assigned in between.
func (t *Tracker) Retain(assigned func() []int32) {
	t.mu.Lock()
	defer t.mu.Unlock()
	mine := assigned()
	if t.retained != nil && slices.Equal(t.retained, mine) {
		return
	}
	maps.DeleteFunc(t.partitions, func(id int32, _ *partition) bool { return !slices.Contains(mine, id) })
	t.retained = append(make([]int32, 0, len(mine)), mine...)
}

// Owns reports whether one of the places is in a partition that is still tracked.
func (t *Tracker) Owns(places []Place) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return slices.ContainsFunc(places, func(at Place) bool { return t.find(at) != nil })
}

// Exclusive reports whether no other instance has read any of the places, or will before it is committed.
func (t *Tracker) Exclusive(places []Place) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return !slices.ContainsFunc(places, func(at Place) bool {
		p := t.find(at)
		return p == nil || at.Offset < p.shared
	})
}

// Begin records that a request was read, and reports whether there is work to do. It returns false if the request was already
// finished. The requests of a partition must come in order.
func (t *Tracker) Begin(at Place, by time.Time) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	p := t.find(at)
	if p == nil {
		return false
	}
	_, open := p.open[at.Offset]
	if at.Offset < p.next {
		return open
	}
	p.next = at.Offset + 1
	if covers(p.before, at.Offset) {
		return false
	}
	p.open[at.Offset] = by
	return true
}

// find returns the partition of a place, nil if that assignment has ended. mu is held.
func (t *Tracker) find(at Place) *partition {
	if p := t.partitions[at.Partition]; p != nil && p.assignment == at.Assignment {
		return p
	}
	return nil
}

// Finish marks requests as finished. Requests of a partition that has been given up meanwhile are ignored.
func (t *Tracker) Finish(places ...Place) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, at := range places {
		if p := t.find(at); p != nil {
			delete(p.open, at.Offset)
		}
	}
}

// FinishDurably is Finish, and makes the next commit cover the requests. SettleDurable reports whether it did.
func (t *Tracker) FinishDurably(places []Place) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, at := range places {
		if p := t.find(at); p != nil {
			delete(p.open, at.Offset)
			p.durable[at.Offset] = struct{}{}
			p.due = true
		}
	}
}

// SettleDurable reports whether the committed positions cover all the places. If not, the uncovered places become unfinished
// again, until by.
func (t *Tracker) SettleDurable(places []Place, by time.Time) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	all := true
	for _, at := range places {
		p := t.find(at)
		all = all && p != nil && p.covers(at.Offset)
	}
	for _, at := range places {
		if p := t.find(at); p != nil && !all && !p.covers(at.Offset) {
			delete(p.durable, at.Offset)
			p.open[at.Offset] = by
		}
	}
	return all
}

// Due returns the positions to commit: one for each partition whose low-water mark rose, or in which a request was finished
// durably.
func (t *Tracker) Due(now time.Time) map[int32]transport.Position {
	t.mu.Lock()
	defer t.mu.Unlock()
	out := map[int32]transport.Position{}
	for id, p := range t.partitions {
		low := p.next
		for offset, by := range p.open {
			if offset < low && now.Before(by) {
				low = offset
			}
		}
		low = max(low, p.committed.Next)
		if !p.due && (low <= 0 || low == p.committed.Next) {
			continue
		}
		if text, fits := p.metadata(low); fits {
			out[id] = transport.Position{Assignment: p.assignment, Next: low, Metadata: text}
		}
	}
	return out
}

// Acknowledge records that these positions are durable.
func (t *Tracker) Acknowledge(stored map[int32]transport.Position) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for id, s := range stored {
		p := t.partitions[id]
		if p == nil || p.assignment != s.Assignment {
			continue
		}
		p.committed, p.runs, p.due = s, decodeMetadata(s.Next, s.Metadata), false
		maps.DeleteFunc(p.durable, func(o int64, _ struct{}) bool { return o < s.Next })
	}
}

// covers reports whether the last commit covers an offset.
func (p *partition) covers(offset int64) bool {
	return offset < p.committed.Next || covers(p.runs, offset)
}

// metadata returns the finished runs above low as text. If they do not all fit, it returns the runs that hold a durable offset,
// or at least the runs that the last commit covers. If even those do not fit, the last commit must stand.
func (p *partition) metadata(low int64) (string, bool) {
	all := p.finishedFrom(low)
	text := encodeMetadata(low, all)
	if len(text) <= metadataLimit {
		return text, true
	}
	durable := slices.Sorted(maps.Keys(p.durable))
	covered := slices.DeleteFunc(slices.Clone(durable), func(o int64) bool { return !p.covers(o) })
	for _, must := range [][]int64{durable, covered} {
		text = encodeMetadata(low, slices.DeleteFunc(slices.Clone(all), func(s span) bool { return !p.needs(s, must) }))
		if len(text) <= metadataLimit {
			return text, true
		}
	}
	return "", false
}

// needs reports whether a run holds one of the sorted offsets, or an offset that was finished before the assignment.
func (p *partition) needs(s span, must []int64) bool {
	i, _ := slices.BinarySearch(must, s.first)
	return i < len(must) && must[i] < s.end ||
		slices.ContainsFunc(p.before, func(b span) bool { return b.first < s.end && s.first < b.end })
}

// finishedFrom returns the runs of finished offsets from low on. These are the offsets that were read and are not open, and the
// offsets that were finished before the assignment and will be read again.
func (p *partition) finishedFrom(low int64) []span {
	var out []span
	first := low
	for _, o := range slices.Sorted(maps.Keys(p.open)) {
		if o < first {
			continue
		}
		if o > first {
			out = append(out, span{first, o})
		}
		first = o + 1
	}
	if p.next > first {
		out = append(out, span{first, p.next})
	}
	for _, b := range p.before {
		if b.first = max(b.first, p.next, low); b.first < b.end {
			out = append(out, b)
		}
	}
	return out
}
