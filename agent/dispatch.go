package agent

import (
	"context"
	"slices"
	"time"
)

// worker wakes a worker that waits: true to look for a request, false to go home. It has room for one.
type worker chan bool

// wakeAtOnce is how many workers are on their way to a request at most. Each that has got there wakes the next, while those
// that have ended one take the next request themselves. So no request is tied to a worker that waits for a processor while
// others that came later are done, and where functions return at once few workers do all.
const wakeAtOnce = 4

// workLoop is one worker; their number is the bulkhead.
func (l *lane) workLoop(stop, work context.Context) {
	self := make(worker, 1)
	l.mu.Lock()
	l.waking--
	l.mu.Unlock()
	for q := l.next(self); q != nil; q = l.next(self) {
		place := l.exec.limit.enter(stop, q.by)
		if l.startable(stop, q) {
			l.serve(work, q)
		}
		l.exec.limit.leave(place)
	}
}

// next returns the next request for a worker, and waits for it; nil at a stop.
func (l *lane) next(self worker) *request {
	l.mu.Lock()
	defer l.mu.Unlock()
	for !l.stopped {
		q := l.ready.pop()
		if q == nil {
			l.idle = append(l.idle, self)
		}
		l.dispatch()
		l.askIfNeeded()
		l.roomy()
		if q != nil {
			return q
		}
		l.mu.Unlock()
		called := <-self
		l.mu.Lock()
		if called {
			l.waking--
		}
	}
	return nil
}

// dispatch wakes workers for ready requests, or begins them. mu is held. The worker that came last is taken first: what it
// used is in the caches still.
func (l *lane) dispatch() {
	for !l.stopped && l.waking < wakeAtOnce && l.waking < l.ready.len() {
		switch {
		case len(l.idle) > 0:
			last := len(l.idle) - 1
			l.idle[last] <- true
			l.idle = l.idle[:last]
		case l.started < l.agent.concurrency:
			l.started++
			l.begin()
		default:
			return
		}
		l.waking++
	}
}

// dismiss sends the workers home: those that wait at once, the others behind what they have.
func (l *lane) dismiss() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.stopped = true
	for _, w := range l.idle {
		w <- false
	}
	l.idle = nil
}

// askIfNeeded asks for a proof if a request that could begin soon needs one: as many can as there are workers without one,
// and a share of the concurrency is proven ahead, so that no worker waits for an answer. What waits behind is not asked for:
// the answer would be too old. mu is held.
func (l *lane) askIfNeeded() {
	free := len(l.idle) + l.waking + l.agent.concurrency - l.started
	soon := min(free+l.agent.concurrency/readShare-l.ready.len(), len(l.unproven))
	if soon > 0 {
		l.proof.want(l.unproven[soon-1].after)
	}
}

// proved is called when a question has its answer.
func (l *lane) proved() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.ripen()
}

// ripen makes ready what was read before the last question that has its answer, and sees to what is to be done next. mu is
// held.
func (l *lane) ripen() {
	answered := l.proof.settled()
	l.unproven = slices.DeleteFunc(l.unproven, func(q *request) bool {
		ripe := q.after < answered
		if ripe {
			l.ready.push(q)
		}
		return ripe
	})
	l.dispatch()
	l.askIfNeeded()
	l.roomy()
}

// startable tells whether a request that waited is to be worked on. One that is over, or another's by now, is let go, and
// one whose proof is not enough, because it waited for long or came again, waits for the next.
func (l *lane) startable(stop context.Context, q *request) bool {
	now := time.Now()
	switch standing := l.standing(q, now); {
	case !now.Before(q.by):
		l.metrics.drop(q.work.Operation, dropExpired)
		l.release(q, finished)
	case stop.Err() != nil:
		l.release(q, leaveUnfinished)
	case standing == gone:
		l.metrics.drop(q.work.Operation, dropRevoked)
		l.release(q, leaveUnfinished)
	case standing == unknown:
		l.postpone(q)
	default:
		return true
	}
	return false
}

// postpone has a request wait for the answer to a question that nobody has asked yet.
func (l *lane) postpone(q *request) {
	l.mu.Lock()
	defer l.mu.Unlock()
	q.after = l.proof.last()
	l.unproven = append(l.unproven, q)
	l.proof.want(q.after)
}

// fate is what becomes of a request's place in its partition.
type fate int

const (
	leaveUnfinished fate = iota
	finished
)

// release lets a request go.
func (l *lane) release(q *request, f fate) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.flying, q.id())
	if f == finished {
		for _, at := range q.places {
			l.marks.finish(at)
		}
	}
	l.held--
	l.roomy()
	if l.held == 0 {
		l.signalRoom() // for flush
	}
}

// overdue lets go of what waits for nothing any more at its complete-by time: for the answer to its report, whose record is
// given up then, or for a proof.
func (l *lane) overdue(now time.Time) {
	l.mu.Lock()
	var unanswered, unproven []*request
	for _, q := range l.flying {
		if !now.Before(q.by) && q.way.Load() == sent {
			unanswered = append(unanswered, q)
		}
	}
	l.unproven = slices.DeleteFunc(l.unproven, func(q *request) bool {
		over := !now.Before(q.by)
		if over {
			unproven = append(unproven, q)
		}
		return over
	})
	l.mu.Unlock()
	for _, q := range unanswered {
		l.reported(q, ErrCompleteBy)
	}
	for _, q := range unproven {
		l.metrics.drop(q.work.Operation, dropExpired)
		l.release(q, finished)
	}
}

// requests is a queue.
type requests struct {
	// list holds the requests from head on.
	list []*request
	head int
}

func (r *requests) len() int { return len(r.list) - r.head }

func (r *requests) push(q *request) {
	if r.head > len(r.list)/2 && len(r.list) == cap(r.list) {
		n := copy(r.list, r.list[r.head:])
		clear(r.list[n:])
		r.list, r.head = r.list[:n], 0
	}
	r.list = append(r.list, q)
}

// pop returns nil when there is none.
func (r *requests) pop() *request {
	if r.len() == 0 {
		return nil
	}
	q := r.list[r.head]
	r.list[r.head] = nil
	if r.head++; r.head == len(r.list) {
		r.list, r.head = r.list[:0], 0
	}
	return q
}

func (r *requests) all() []*request { return slices.Clone(r.list[r.head:]) }
