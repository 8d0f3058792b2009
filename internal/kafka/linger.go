package kafka

import (
	"sync"
	"sync/atomic"
	"time"
)

const (
	// With at least lingerFrom unanswered records, a producer sends only once every lingerInterval.
	lingerFrom     = 8
	lingerInterval = 2 * time.Millisecond
)

// lingering holds records back for a moment while there are many, so that they share requests. A request costs the broker and both
// clients about the same whatever it carries, and so does the fetch that it wakes. The client's own linger would also delay a
// single record.
type lingering struct {
	unanswered atomic.Int64
	timer      *time.Timer
	// flushing is held while records are handed to the client, so that they keep their order.
	flushing sync.Mutex

	mu sync.Mutex
	// mu guards the fields below.
	// held are the records that wait, in order.
	held []*sending
	// open says that records are held back. Until they are handed over, no other record may overtake them.
	open bool
}

// lingerEpoch is the origin of the intervals. All producers of this process send at the same instants.
var lingerEpoch = time.Now()

// keep holds a record back, or returns false if it may be sent at once.
func (g *lingering) keep(s *sending) bool {
	n := g.unanswered.Add(1)
	g.mu.Lock()
	defer g.mu.Unlock()
	if !g.open {
		if n < lingerFrom {
			return false
		}
		g.open = true
		g.timer.Reset(lingerInterval - time.Since(lingerEpoch)%lingerInterval)
	}
	g.held = append(g.held, s)
	return true
}

// next returns the records that are held back. If there are none, later records may be sent at once.
func (g *lingering) next(done []*sending) []*sending {
	clear(done)
	g.mu.Lock()
	defer g.mu.Unlock()
	list := g.held
	g.held = done[:0]
	if len(list) == 0 {
		g.open = false
	}
	return list
}

// flushLinger hands the records held back to the client.
func (p *Producer) flushLinger() {
	g := &p.linger
	g.flushing.Lock()
	defer g.flushing.Unlock()
	list := g.next(nil)
	for len(list) > 0 {
		now := time.Now() // otherwise the client would read the clock for each record
		for _, s := range list {
			if s.record.Timestamp.IsZero() {
				s.record.Timestamp = now
			}
			p.hand(s)
		}
		list = g.next(list)
	}
}
