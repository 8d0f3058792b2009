package agent

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/sagalog/sagalog/events"
)

// readAhead is how many requests a lane holds at most, as a multiple of its concurrency: one share being worked on,
// one waiting, so that a worker never waits for a poll. Not more, since what is held here another instance could do.
const readAhead = 2

// pollPause is the wait after a failed poll; the source's client has its own, shorter retries inside.
const pollPause = time.Second

// lane is one kind of agent in one process: its source, its workers, its breaker, its low-water marks. Lanes share
// nothing, so that a slow agent takes no time from another.
type lane struct {
	agent   *agent
	source  Source
	reports *reporter
	exec    *executor
	marks   *marks
	config  *Config
	metrics *metrics
	log     *slog.Logger

	// proof tells whether a request may be started.
	proof *proof

	queue chan *request
	// room wakes the reader, and flush, when a request has left the lane.
	room chan struct{}
	// wanted wakes the committer for promises.
	wanted chan struct{}

	// mu guards the fields below.
	mu sync.Mutex
	// held counts the requests that were read and are neither reported nor dropped.
	held int
	// running counts those that a worker has.
	running int
	// flying finds the running and waiting requests by attempt.
	flying map[attemptID]*request
	// promises wait for the next commit.
	promises []*promise
	// spent are the attempts that were reported to have had no effect, until their complete-by times.
	spent map[attemptID]time.Time
}

// attemptID is what makes two requests the same.
type attemptID struct {
	task      string
	run       int
	step      string
	operation events.Operation
	attempt   int
}

// request is a request that the lane holds.
type request struct {
	work        events.Work
	traceparent string
	by          time.Time
	// places are where the request lies: more than one if it was sent twice. Guarded by the lane's mu.
	places []place
	// after is the last question of proof that was asked before the request, in its last place, was read. Guarded by mu.
	after int64
}

func (q *request) id() attemptID {
	return attemptID{q.work.Task, q.work.Run, q.work.Step, q.work.Operation, q.work.Attempt}
}

// run works until stop ends, then gives what runs a grace. What did not end then is not reported and not committed,
// so it is delivered again.
func (l *lane) run(stop context.Context) error {
	stop, halt := context.WithCancel(stop)
	defer halt()
	work, kill := context.WithCancelCause(context.WithoutCancel(stop))
	defer kill(nil)
	var workers, committer, prover sync.WaitGroup
	for range l.agent.concurrency {
		workers.Go(func() { l.workLoop(stop, work) })
	}
	done := make(chan struct{})
	committer.Go(func() { l.commitLoop(done) })
	prover.Go(func() { l.proveLoop(stop) })

	err := l.readLoop(stop)
	halt()
	err = errors.Join(err, l.drain(&workers, kill))
	l.flush()
	close(done)
	committer.Wait()
	prover.Wait()
	return err
}

// readLoop polls as long as there is room.
func (l *lane) readLoop(stop context.Context) error {
	for {
		free := l.waitRoom(stop)
		if free == 0 {
			return nil
		}
		records, err := l.source.Poll(stop, free)
		for i := range records {
			l.take(stop, &records[i])
		}
		switch {
		case stop.Err() != nil:
			return nil
		case errors.Is(err, ErrSourceClosed):
			return fmt.Errorf("poll work requests of agent %s: %w", l.agent.name, err)
		case err != nil:
			l.log.Warn("polling work requests failed, trying again", "agent", l.agent.name, "error", err)
			pause(stop, pollPause)
		}
	}
}

// pause waits for d or for the end of ctx.
func pause(ctx context.Context, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-ctx.Done():
	}
}

// waitRoom returns how many more requests the lane may hold, at least one; 0 when stop has ended.
func (l *lane) waitRoom(stop context.Context) int {
	for stop.Err() == nil {
		if free := l.agent.concurrency*readAhead - l.load(); free > 0 {
			return free
		}
		select {
		case <-l.room:
		case <-stop.Done():
		}
	}
	return 0
}

// take accepts one record: bad ones, expired ones and twins of what is held go no further.
func (l *lane) take(stop context.Context, r *events.Record) {
	if r.Control {
		return
	}
	from := l.source.Assigned(r.Partition)
	at := place{r.Partition, from.Mark.Assignment, r.Offset}
	l.marks.adopt(r.Partition, from)
	w, envelope, err := events.DecodeWork(r)
	if err != nil {
		l.metrics.drop(l.agent.name, "", dropInvalid)
		l.log.Warn("a work request cannot be read and is dropped", "agent", l.agent.name,
			"partition", r.Partition, "offset", r.Offset, "error", err)
		l.marks.begin(at, time.Time{})
		l.marks.finish(at)
		return
	}
	q := &request{
		work: w, traceparent: traceparentOr(envelope.Traceparent), by: w.CompleteBy.Time(),
		places: []place{at}, after: l.proof.last(),
	}
	if !l.marks.begin(at, q.by) {
		l.metrics.drop(l.agent.name, w.Operation, dropDuplicate)
		return
	}
	if !time.Now().Before(q.by) {
		l.metrics.drop(l.agent.name, w.Operation, dropExpired)
		l.marks.finish(at)
		return
	}
	if l.joins(q) {
		// A twin of what is spent ends here, any other together with the one that is held.
		l.metrics.drop(l.agent.name, w.Operation, dropDuplicate)
		return
	}
	select {
	case l.queue <- q:
	case <-stop.Done():
		// Not finished and not committed: another instance gets it.
		l.release(q, leaveUnfinished)
	}
}

// joins tells whether the same attempt is held already; then it ends together with that. Otherwise q is held now.
func (l *lane) joins(q *request) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if _, spent := l.spent[q.id()]; spent {
		for _, at := range q.places {
			l.marks.finish(at)
		}
		return true
	}
	if twin := l.flying[q.id()]; twin != nil {
		twin.places, twin.after = append(twin.places, q.places...), q.after
		return true
	}
	l.flying[q.id()] = q
	l.held++
	return false
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
	delete(l.flying, q.id())
	places := q.places
	l.mu.Unlock()
	// The marks before the count: who sees nothing held may commit.
	if f == finished {
		for _, at := range places {
			l.marks.finish(at)
		}
	}
	l.mu.Lock()
	l.held--
	l.mu.Unlock()
	select {
	case l.room <- struct{}{}:
	default:
	}
}

// workLoop is one worker; their number is the bulkhead.
func (l *lane) workLoop(stop, work context.Context) {
	for {
		select {
		case <-stop.Done():
			return
		case q := <-l.queue:
			if stop.Err() != nil {
				l.release(q, leaveUnfinished)
				return
			}
			if l.startable(stop, q) {
				l.serve(work, q)
			}
		}
	}
}

// startable tells whether a request that waited is to be worked on, and lets it go otherwise.
func (l *lane) startable(stop context.Context, q *request) bool {
	ctx, cancel := context.WithDeadline(stop, q.by)
	defer cancel()
	proven := l.proven(ctx, q)
	switch {
	case !time.Now().Before(q.by):
		l.metrics.drop(l.agent.name, q.work.Operation, dropExpired)
		l.release(q, finished)
	case stop.Err() != nil:
		l.release(q, leaveUnfinished)
	case !proven:
		l.metrics.drop(l.agent.name, q.work.Operation, dropRevoked)
		l.release(q, leaveUnfinished)
	default:
		return true
	}
	return false
}

// serve makes one attempt and reports it.
func (l *lane) serve(work context.Context, q *request) {
	l.count(+1)
	defer l.count(-1)
	ctx, cancel := context.WithDeadlineCause(work, q.by, ErrCompleteBy)
	defer cancel()
	began := time.Now()
	t := l.exec.execute(WithAttempt(ctx, attemptOf(q.work, q.traceparent)), q.work)
	now := time.Now()
	switch {
	case !now.Before(q.by):
		// MISSION C4: report nothing, and try no recovery. The engine's timer decides.
		l.metrics.attempt(l.agent.name, q.work.Operation, resultLate, now.Sub(began))
		l.release(q, finished)
	case t.failure != nil && work.Err() != nil:
		// We cut it off ourselves; that says nothing about the attempt.
		l.metrics.attempt(l.agent.name, q.work.Operation, resultAbandoned, now.Sub(began))
		l.release(q, leaveUnfinished)
	default:
		l.metrics.attempt(l.agent.name, q.work.Operation, t.result(), now.Sub(began))
		t = l.settled(work, q, t)
		l.reports.send(report{request: q, try: t, began: began, ended: now}, func(err error) { l.reported(q, err) })
	}
}

// reported ends a request whose report has its answer. One that was not delivered counts as finished: the engine's
// complete-by time passes and a new attempt is made. To do the work again on our own would be a recovery (C4).
func (l *lane) reported(q *request, err error) {
	if err != nil {
		l.metrics.unreported(l.agent.name, q.work.Operation)
		l.log.Warn("a report was not delivered", "agent", l.agent.name, "task", q.work.Task, "step", q.work.Step,
			"attempt", q.work.Attempt, "error", err)
	}
	l.release(q, finished)
}

func (l *lane) count(by int) {
	l.mu.Lock()
	l.running += by
	n := l.running
	l.mu.Unlock()
	l.metrics.inFlight(l.agent.name, n)
}

func (l *lane) load() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.held
}

func (l *lane) inFlight() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.running
}

// drain waits for the workers: first a grace in which all may end, then, their contexts cancelled, a second one.
func (l *lane) drain(workers *sync.WaitGroup, kill context.CancelCauseFunc) error {
	ended := make(chan struct{})
	go func() {
		workers.Wait()
		close(ended)
	}()
	for range 2 {
		t := time.NewTimer(l.config.Grace)
		select {
		case <-ended:
			t.Stop()
			return nil
		case <-t.C:
			kill(ErrStopped)
		}
	}
	return fmt.Errorf("%w: agent %s, %d attempts", ErrStuck, l.agent.name, l.inFlight())
}

// flush lets go what waits in the queue, and then waits until nothing is held, which means that the reports on their
// way are answered; for a grace at most.
func (l *lane) flush() {
	for empty := false; !empty; {
		select {
		case q := <-l.queue:
			l.release(q, leaveUnfinished)
		default:
			empty = true
		}
	}
	t := time.NewTimer(l.config.Grace)
	defer t.Stop()
	for l.load() > 0 {
		select {
		case <-l.room:
		case <-t.C:
			return
		}
	}
}
