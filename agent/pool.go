package agent

import (
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/sagalog/sagalog/agent/internal/offsets"
	"github.com/sagalog/sagalog/events"
)

// readAhead is the maximum number of requests in a pool, as a multiple of the concurrency. One half is running and the other is
// waiting, so that a worker never waits for a poll. It is not larger, because another instance could work on the waiting
// requests.
const readAhead = 2

// readShare is the part of the concurrency that must be free before the next poll while requests still wait for a worker:
// a poll for each request that ends would cost more than the request.
const readShare = 4

// wakeAtOnce is the maximum number of woken workers that have not yet taken a request. Each worker that takes one wakes the
// next, and a worker that has ended a request takes the next one itself. So no request is tied to a worker that still waits for
// a CPU while later requests are done, and if functions return at once, a few workers do everything.
const wakeAtOnce = 4

// pool holds the requests of one agent that were read and are neither reported nor dropped, and the workers that run them.
//
// A request waits in unconfirmed until the group has confirmed that its partition is ours, and then in ready. Workers take from
// ready, and wait themselves while it is empty. So reading or confirming many requests takes the lock only once, and a request
// wakes at most one worker.
type pool struct {
	concurrency int
	ownership   *ownership
	offsets     *offsets.Tracker
	// start starts a worker. Set by run.
	start func()
	// room wakes the reader, and awaitEmpty, when a request has left the pool.
	room chan struct{}

	// mu guards the fields below. It is taken before that of offsets.
	mu sync.Mutex
	// held counts the requests in the pool.
	held int
	// inFlight holds the running and waiting requests by attempt.
	inFlight map[attemptID]*request
	// unconfirmed and ready hold the waiting requests.
	unconfirmed []*request
	ready       []*request
	// idle holds the waiting workers, the most recent one last. waking counts the workers that were woken or started and have
	// not looked for a request yet. started counts all workers. stopped says that workers take no more requests.
	idle    []worker
	waking  int
	started int
	stopped bool
	// reading says that the reader waits for room.
	reading bool
	// noEffect holds the attempts that were reported without effect, until their complete-by times.
	noEffect map[attemptID]time.Time
	// undos holds the steps whose undo has come, until the complete-by times of these undos.
	undos map[stepID]time.Time
}

// worker wakes a waiting worker: true to look for a request, false to end. It is buffered for one.
type worker chan bool

func newPool(concurrency int, o *ownership, t *offsets.Tracker) *pool {
	return &pool{
		concurrency: concurrency, ownership: o, offsets: t, room: make(chan struct{}, 1),
		inFlight: map[attemptID]*request{}, noEffect: map[attemptID]time.Time{}, undos: map[stepID]time.Time{},
	}
}

// waitRoom returns how many more requests may be read, at least one; 0 when stop has ended.
func (p *pool) waitRoom(stop context.Context) int {
	for stop.Err() == nil {
		p.mu.Lock()
		free := p.free()
		p.reading = free == 0
		p.mu.Unlock()
		if free > 0 {
			return free
		}
		select {
		case <-p.room:
		case <-stop.Done():
		}
	}
	return 0
}

// free returns how many more requests may be read. If that would be few, it returns 0, unless no request waits for a worker. mu
// is held.
func (p *pool) free() int {
	free := p.concurrency*readAhead - p.held
	if free < p.concurrency/readShare && len(p.unconfirmed)+len(p.ready) > 0 {
		return 0
	}
	return max(free, 0)
}

// wakeReader wakes the reader if it waits and may read. mu is held.
func (p *pool) wakeReader() {
	if p.reading && p.free() > 0 {
		p.reading = false
		p.signalRoom()
	}
}

func (p *pool) signalRoom() {
	select {
	case p.room <- struct{}{}:
	default:
	}
}

// add adds the requests that were read, and marks the ones to drop because they are finished, expired, or already held. The
// tracker and inFlight are updated under one lock. Otherwise a request that ends in between would look like one that was never
// held.
func (p *pool) add(read []arrival, now time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for i := range read {
		a := &read[i]
		switch q := a.request; {
		case q == nil:
			p.offsets.Begin(a.at, time.Time{})
			p.offsets.Finish(a.at)
		case !p.offsets.Begin(a.at, q.by):
			a.dropped = dropDuplicate
		case !now.Before(q.by):
			a.dropped = dropExpired
			p.offsets.Finish(a.at)
		case p.isDuplicate(q):
			a.dropped = dropDuplicate
		case p.undoHasCome(q):
			a.dropped = dropUndone
			p.offsets.Finish(a.at)
		default:
			if q.work.Operation == events.Undo {
				p.undos[q.step()] = q.by
			}
			p.inFlight[q.id()] = q
			p.held++
			p.unconfirmed = append(p.unconfirmed, q)
		}
	}
	p.advance() // the answer may have come while the records were decoded
}

// isDuplicate reports whether the same attempt is already held, or has already been reported with effect none. In the
// first case q is finished together with it, in the second at once. mu is held.
func (p *pool) isDuplicate(q *request) bool {
	id := q.id()
	if _, reported := p.noEffect[id]; reported {
		p.offsets.Finish(q.places...)
		return true
	}
	twin := p.inFlight[id]
	if twin != nil {
		twin.places, twin.after = append(twin.places, q.places...), q.after
	}
	return twin != nil
}

// undone reports whether the undo of this request's step has come, in which case the request may not start any more. After a
// take-over an agent may get a do and its undo together.
func (p *pool) undone(q *request) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.undoHasCome(q)
}

// undoHasCome is called with mu held.
func (p *pool) undoHasCome(q *request) bool {
	_, come := p.undos[q.step()]
	return come && q.work.Operation == events.Do
}

// confirm is called when an ownership question has its answer.
func (p *pool) confirm() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.advance()
}

// advance makes the requests ready that were read before the last answered question was asked, and wakes the workers and the
// reader. mu is held.
func (p *pool) advance() {
	answered := p.ownership.lastAnswered()
	p.unconfirmed = slices.DeleteFunc(p.unconfirmed, func(q *request) bool {
		confirmed := q.after < answered
		if confirmed {
			p.ready = append(p.ready, q)
		}
		return confirmed
	})
	p.wakeWorkers()
	p.askIfNeeded()
	p.wakeReader()
}

// askIfNeeded asks for a confirmation if a request that could start soon needs one. As many can start as there are workers
// without a request. Beyond those a share of the concurrency is confirmed in advance, so that no worker waits for an answer.
// For later requests the answer would be too old when they start. mu is held.
func (p *pool) askIfNeeded() {
	free := len(p.idle) + p.waking + p.concurrency - p.started
	soon := min(free+p.concurrency/readShare-len(p.ready), len(p.unconfirmed))
	if soon > 0 {
		p.ownership.ask(p.unconfirmed[soon-1].after)
	}
}

// next returns the next request for a worker, and waits for it; nil at a stop.
func (p *pool) next(self worker) *request {
	p.mu.Lock()
	defer p.mu.Unlock()
	for !p.stopped {
		var q *request
		if len(p.ready) > 0 {
			q, p.ready[0] = p.ready[0], nil // otherwise its input stays in memory until the queue is reallocated
			p.ready = p.ready[1:]
		} else {
			p.idle = append(p.idle, self)
		}
		p.wakeWorkers()
		p.askIfNeeded()
		p.wakeReader()
		if q != nil {
			return q
		}
		p.mu.Unlock()
		woken := <-self
		p.mu.Lock()
		if woken {
			p.waking--
		}
	}
	return nil
}

// arrived records that a started worker begins to look for requests.
func (p *pool) arrived() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.waking--
}

// wakeWorkers wakes or starts workers for ready requests. mu is held. The worker that became idle last is woken first: its data
// is still in the caches.
func (p *pool) wakeWorkers() {
	for !p.stopped && p.waking < wakeAtOnce && p.waking < len(p.ready) {
		switch {
		case len(p.idle) > 0:
			last := len(p.idle) - 1
			p.idle[last] <- true
			p.idle = p.idle[:last]
		case p.started < p.concurrency:
			p.started++
			p.start()
		default:
			return
		}
		p.waking++
	}
}

// dismiss ends the waiting workers at once, and the others when they have ended their request.
func (p *pool) dismiss() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.stopped = true
	for _, w := range p.idle {
		w <- false
	}
	p.idle = nil
}

// where returns the current places of a request, and the number of the last ownership question that was asked before it was
// read.
func (p *pool) where(q *request) ([]offsets.Place, int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return q.places[:len(q.places):len(q.places)], q.after
}

// postpone makes a request wait for the answer to an ownership question that is yet to be asked.
func (p *pool) postpone(q *request) {
	p.mu.Lock()
	defer p.mu.Unlock()
	q.after = p.ownership.lastAsked()
	p.unconfirmed = append(p.unconfirmed, q)
	p.ownership.ask(q.after)
}

// finish removes a request that needs no more work.
func (p *pool) finish(q *request) { p.remove(q, true) }

// abandon removes a request and leaves it unfinished, so that it is delivered again.
func (p *pool) abandon(q *request) { p.remove(q, false) }

func (p *pool) remove(q *request, finished bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.inFlight, q.id())
	if finished {
		p.offsets.Finish(q.places...)
	}
	p.held--
	p.wakeReader()
	if p.held == 0 {
		p.signalRoom() // for awaitEmpty
	}
}

// expire returns the requests whose complete-by time passed while they waited for the answer to their report or for the group.
// They stop waiting.
func (p *pool) expire(now time.Time) (unanswered, unconfirmed []*request) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, q := range p.inFlight {
		if q.progress.Load() == sent && !now.Before(q.until()) {
			unanswered = append(unanswered, q)
		}
	}
	p.unconfirmed = slices.DeleteFunc(p.unconfirmed, func(q *request) bool {
		over := !now.Before(q.by)
		if over {
			unconfirmed = append(unconfirmed, q)
		}
		return over
	})
	for id, by := range p.noEffect {
		if !now.Before(by) { // a duplicate would be dropped as expired by now
			delete(p.noEffect, id)
		}
	}
	maps.DeleteFunc(p.undos, func(_ stepID, by time.Time) bool { return !now.Before(by) })
	return unanswered, unconfirmed
}

// noteNoEffect makes sure that duplicates of a request are dropped from now on. If a duplicate has come since its places were
// read, it returns false instead.
func (p *pool) noteNoEffect(q *request, places []offsets.Place) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(q.places) != len(places) {
		return false
	}
	p.noEffect[q.id()] = q.by
	return true
}

// abandonWaiting abandons the requests that no worker has taken.
func (p *pool) abandonWaiting() {
	p.mu.Lock()
	waiting := slices.Concat(p.ready, p.unconfirmed)
	p.ready, p.unconfirmed = nil, nil
	p.mu.Unlock()
	for _, q := range waiting {
		p.abandon(q)
	}
}

// awaitEmpty waits until no request is held, so that all reports are answered.
func (p *pool) awaitEmpty(most time.Duration) {
	t := time.NewTimer(most)
	defer t.Stop()
	for p.load() > 0 {
		select {
		case <-p.room:
		case <-t.C:
			return
		}
	}
}

func (p *pool) load() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.held
}
