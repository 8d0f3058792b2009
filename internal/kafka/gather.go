package kafka

import (
	"sync"
	"sync/atomic"
	"time"
)

const (
	// gatherFrom is from how many records without an answer on a producer sends in beats of gatherBeat.
	gatherFrom = 8
	gatherBeat = 2 * time.Millisecond
)

// gathering holds records back for a moment while there are many, so that they share requests. A request costs the broker
// and both ends about the same whatever it carries, and so does the fetch that it wakes. The client's own linger would
// delay also the record that is alone.
type gathering struct {
	unanswered atomic.Int64
	timer      *time.Timer
	// flushing is held by whoever hands over, so that the order stays.
	flushing sync.Mutex

	mu sync.Mutex
	// mu guards the fields below.
	// held are the records that wait, in their order.
	held []*sending
	// open says that records are held: until what is held was handed over no other may overtake it.
	open bool
}

// beats is when the beats of this process began: all its producers send at the same instants.
var beats = time.Now()

// keep holds a record back, or says that it may go at once.
func (g *gathering) keep(s *sending) bool {
	n := g.unanswered.Add(1)
	g.mu.Lock()
	defer g.mu.Unlock()
	if !g.open {
		if n < gatherFrom {
			return false
		}
		g.open = true
		g.timer.Reset(gatherBeat - time.Since(beats)%gatherBeat)
	}
	g.held = append(g.held, s)
	return true
}

// next returns what is held, and opens the way when nothing is.
func (g *gathering) next(done []*sending) []*sending {
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

// flushGathered hands over what is held.
func (p *Producer) flushGathered() {
	g := &p.gathered
	g.flushing.Lock()
	defer g.flushing.Unlock()
	list := g.next(nil)
	for len(list) > 0 {
		now := time.Now() // the client would read the clock for each
		for _, s := range list {
			if s.record.Timestamp.IsZero() {
				s.record.Timestamp = now
			}
			p.hand(s)
		}
		list = g.next(list)
	}
}
