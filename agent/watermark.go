package agent

import (
	"maps"
	"sync"
	"time"
)

// marks keeps, for each partition, which requests that were read are not finished, and so how far may be committed.
//
// Only the unfinished are kept, never the finished: their number is bounded by what is read ahead, while the finished
// ones behind one long attempt are not.
//
// Invariant: an offset that low returns never passes a request that is unfinished and whose complete-by time is still
// to come. (One whose time has passed would be dropped if it were read again. Waiting for a function that ignores its
// context would only have everything behind it done twice after a restart.)
type marks struct {
	// mu guards partitions and all they hold.
	mu         sync.Mutex
	partitions map[int32]*mark
}

type mark struct {
	// next is one past the highest offset that was read.
	next int64
	// open are the unfinished offsets with their complete-by times.
	open map[int64]time.Time
	// committed is the last offset that was committed; -1 before.
	committed int64
}

func newMarks() *marks { return &marks{partitions: map[int32]*mark{}} }

// place is where a request lies.
type place struct {
	partition int32
	offset    int64
}

// begin notes a request that was read. Requests of a partition come in their order; one that comes again after a
// rebalance is unfinished again.
func (m *marks) begin(at place, by time.Time) {
	m.mu.Lock()
	defer m.mu.Unlock()
	p := m.partitions[at.partition]
	if p == nil {
		p = &mark{open: map[int64]time.Time{}, committed: -1}
		m.partitions[at.partition] = p
	}
	p.next = max(p.next, at.offset+1)
	p.open[at.offset] = by
}

// finish notes that a request needs no more work. One of a partition that was given away meanwhile is ignored.
func (m *marks) finish(at place) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if p := m.partitions[at.partition]; p != nil {
		delete(p.open, at.offset)
	}
}

// low returns the low-water marks, as the next offset to read, of the partitions whose mark rose since it was committed.
func (m *marks) low(now time.Time) map[int32]int64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	rose := map[int32]int64{}
	for id, p := range m.partitions {
		low := p.next
		for offset, by := range p.open {
			if offset < low && now.Before(by) {
				low = offset
			}
		}
		if low > p.committed && low > 0 {
			rose[id] = low
		}
	}
	return rose
}

// commit notes that these marks are durable.
func (m *marks) commit(done map[int32]int64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for id, low := range done {
		if p := m.partitions[id]; p != nil {
			p.committed = max(p.committed, low)
		}
	}
}

// keep forgets the partitions that are not assigned any more: their marks are another instance's now.
func (m *marks) keep(assigned []int32) {
	m.mu.Lock()
	defer m.mu.Unlock()
	mine := make(map[int32]bool, len(assigned))
	for _, id := range assigned {
		mine[id] = true
	}
	maps.DeleteFunc(m.partitions, func(id int32, _ *mark) bool { return !mine[id] })
}
