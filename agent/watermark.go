package agent

import (
	"maps"
	"slices"
	"sync"
	"time"
)

// marks keeps, for each partition, which requests that were read are not finished, and so what may be committed: the
// low-water mark, and with it the runs of requests above it that are finished.
//
// The number of the unfinished is bounded by what is read ahead; the rest between them is finished. Of the finished ones
// only those are kept one by one whose end was promised to be recorded: the refusals behind one long attempt.
//
// Invariant: an offset that low returns never passes a request that is unfinished and whose complete-by time is still
// to come. (One whose time has passed would be dropped if it were read again. Waiting for a function that ignores its
// context would only have everything behind it done twice after a restart.)
//
// Invariant: a promised request that a commit covered is covered by each later one.
//
// promise, low, commit and kept are called by the one goroutine that commits.
type marks struct {
	// mu guards partitions and all they hold.
	mu         sync.Mutex
	partitions map[int32]*mark
	// seen is what was assigned when forget looked last, nil if a partition was adopted since.
	seen []int32
}

type mark struct {
	assignment int64
	// shared is Assigned.Shared.
	shared int64
	// next is one past the highest offset that was read.
	next int64
	// open are the unfinished offsets with their complete-by times.
	open map[int64]time.Time
	// before are the runs that were finished before the partition was assigned, by others or by us.
	before []span
	// promised are the finished offsets that the commits must cover from now on.
	promised map[int64]struct{}
	// committed is what was committed last, done the runs in it. Its Next is -1 before.
	committed Mark
	done      []span
	// due says that something promised is not committed yet.
	due bool
}

func newMarks() *marks { return &marks{partitions: map[int32]*mark{}} }

// place is where a request lies, and in which assignment of its partition it was read.
type place struct {
	partition  int32
	assignment int64
	offset     int64
}

// current is keep, and tells whether one of the places is in a partition that was not given away.
func (m *marks) current(places []place, assigned func() []int32) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.forget(assigned)
	return slices.ContainsFunc(places, func(at place) bool { return m.find(at) != nil })
}

// adopt begins a partition that was assigned, and tells whether it was not begun yet. Of an earlier assignment only what was
// finished counts still: others may have had it since. Where records were lost that does not count either: the offsets are
// given again, to requests that nobody has read, and to pass over those would stop their tasks.
func (m *marks) adopt(partition int32, from Assigned) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	p := m.partitions[partition]
	if p != nil && p.assignment == from.Mark.Assignment {
		return false
	}
	before := decodeDone(from.Mark.Next, from.Mark.Metadata)
	if p != nil {
		before = union(before, p.runs(from.Mark.Next))
	}
	if from.Lost {
		before = below(before, from.LostFrom)
	}
	m.seen = nil
	m.partitions[partition] = &mark{
		assignment: from.Mark.Assignment, shared: from.Shared, next: from.Mark.Next,
		open: map[int64]time.Time{}, promised: map[int64]struct{}{}, before: before, committed: Mark{Next: -1},
	}
	return true
}

// exclusive tells whether no other instance has read any of the places, or will before it is committed.
func (m *marks) exclusive(places []place) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return !slices.ContainsFunc(places, func(at place) bool {
		p := m.find(at)
		return p == nil || at.offset < p.shared
	})
}

// begin notes a request that was read, of an adopted partition, and tells whether there is work to do: false if it was
// finished already. Requests of a partition come in their order.
func (m *marks) begin(at place, by time.Time) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	p := m.find(at)
	if p == nil {
		return false
	}
	_, open := p.open[at.offset]
	if at.offset < p.next {
		return open
	}
	p.next = at.offset + 1
	if covers(p.before, at.offset) {
		return false
	}
	p.open[at.offset] = by
	return true
}

// find returns the mark that a place belongs to, nil if the partition was given away. mu is held.
func (m *marks) find(at place) *mark {
	if p := m.partitions[at.partition]; p != nil && p.assignment == at.assignment {
		return p
	}
	return nil
}

// finish notes that a request needs no more work. One of a partition that was given away meanwhile is ignored.
func (m *marks) finish(at place) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if p := m.find(at); p != nil {
		delete(p.open, at.offset)
	}
}

// promise finishes requests and makes them part of the next commit.
func (m *marks) promise(places []place) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, at := range places {
		if p := m.find(at); p != nil {
			delete(p.open, at.offset)
			p.promised[at.offset] = struct{}{}
			p.due = true
		}
	}
}

// kept tells whether all the places are covered by what is committed. If not, none of them is promised any more, and
// they are unfinished until by.
func (m *marks) kept(places []place, by time.Time) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	all := true
	for _, at := range places {
		p := m.find(at)
		all = all && p != nil && p.covered(at.offset)
	}
	for _, at := range places {
		if p := m.find(at); p != nil && !all && !p.covered(at.offset) {
			delete(p.promised, at.offset)
			p.open[at.offset] = by
		}
	}
	return all
}

func (p *mark) covered(offset int64) bool { return offset < p.committed.Next || covers(p.done, offset) }

// low returns what is to be committed: of each partition whose low-water mark rose, or of which something is promised.
func (m *marks) low(now time.Time) map[int32]Mark {
	m.mu.Lock()
	defer m.mu.Unlock()
	out := map[int32]Mark{}
	for id, p := range m.partitions {
		low := p.next
		for offset, by := range p.open {
			if offset < low && now.Before(by) {
				low = offset
			}
		}
		low = max(low, p.committed.Next)
		if low <= 0 && !p.due || low == p.committed.Next && !p.due {
			continue
		}
		if text, fits := p.metadata(low); fits {
			out[id] = Mark{Assignment: p.assignment, Next: low, Metadata: text}
		}
	}
	return out
}

// metadata returns the runs above low as text: all, or if those are too many the ones that hold something promised, or
// at least what is covered already. Where even that does not fit, the old commit, which covers it, must stand.
func (p *mark) metadata(low int64) (string, bool) {
	all := p.runs(low)
	text := encodeDone(low, all)
	if len(text) <= doneLimit {
		return text, true
	}
	promised := slices.Sorted(maps.Keys(p.promised))
	recorded := slices.DeleteFunc(slices.Clone(promised), func(o int64) bool { return !p.covered(o) })
	for _, must := range [][]int64{promised, recorded} {
		text = encodeDone(low, slices.DeleteFunc(slices.Clone(all), func(s span) bool { return !p.needs(s, must) }))
		if len(text) <= doneLimit {
			return text, true
		}
	}
	return "", false
}

// needs tells whether a run holds one of the sorted offsets, or something that was finished before.
func (p *mark) needs(s span, must []int64) bool {
	i, _ := slices.BinarySearch(must, s.first)
	return i < len(must) && must[i] < s.end ||
		slices.ContainsFunc(p.before, func(b span) bool { return b.first < s.end && s.first < b.end })
}

// runs returns the runs of finished offsets above low: what was read and is not open, and what was finished before and
// will be read again.
func (p *mark) runs(low int64) []span {
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

// commit notes that these marks are durable.
func (m *marks) commit(stored map[int32]Mark) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for id, s := range stored {
		p := m.partitions[id]
		if p == nil || p.assignment != s.Assignment {
			continue
		}
		p.committed, p.done, p.due = s, decodeDone(s.Next, s.Metadata), false
		maps.DeleteFunc(p.promised, func(o int64, _ struct{}) bool { return o < s.Next })
	}
}

// keep forgets the partitions that are not assigned any more: their marks are another instance's now.
func (m *marks) keep(assigned func() []int32) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.forget(assigned)
}

// forget is called with mu held: an answer from before it would not know a partition that was adopted since.
func (m *marks) forget(assigned func() []int32) {
	mine := assigned()
	if m.seen != nil && slices.Equal(m.seen, mine) {
		return
	}
	maps.DeleteFunc(m.partitions, func(id int32, _ *mark) bool { return !slices.Contains(mine, id) })
	m.seen = append(make([]int32, 0, len(mine)), mine...)
}
