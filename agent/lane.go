package agent

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sagalog/sagalog/events"
)

// readAhead is how many requests a lane holds at most, as a multiple of its concurrency: one share being worked on,
// one waiting, so that a worker never waits for a poll. Not more, since what is held here another instance could do.
const readAhead = 2

// readShare is the part of the concurrency that a lane reads at least at once while some of what it read still waits for a
// worker: a poll for each request that ends would cost more than the request.
const readShare = 4

// pollPause is the wait after a failed poll; the source's client has its own, shorter retries inside.
const pollPause = time.Second

// expiredEvery is how often it is told that requests come too late.
const expiredEvery = 10 * time.Second

// lane is one kind of agent in one process: its source, its workers, its breaker, its low-water marks. Lanes share
// nothing, so that a slow agent takes no time from another.
//
// A request that was read waits in unproven, until the group has confirmed that its partition is ours, and then in ready.
// Workers take from ready, and wait themselves while it is empty; so what happens to many requests at once, the reading and
// the confirmation, takes the lock once, and a request wakes one worker at most.
type lane struct {
	agent   *agent
	source  Source
	reports *reporter
	exec    *executor
	marks   *marks
	config  *Config
	metrics *laneMetrics
	log     *slog.Logger

	// proof tells whether a request may be started.
	proof *proof

	// room wakes the reader, and flush, when a request has left the lane.
	room chan struct{}
	// wanted wakes the committer for promises.
	wanted chan struct{}
	// workers are the goroutines that work. begin starts one; run sets it.
	workers sync.WaitGroup
	begin   func()
	// running counts the requests that are being worked on.
	running atomic.Int64
	// saidExpired is when it was last told that a request was over when it came. Owned by readLoop.
	saidExpired time.Time

	// mu guards the fields below. It is taken before the one of marks.
	mu sync.Mutex
	// held counts the requests that were read and are neither reported nor dropped.
	held int
	// flying finds the running and waiting requests by attempt.
	flying map[attemptID]*request
	// unproven and ready are the waiting ones.
	unproven []*request
	ready    requests
	// idle are the workers that wait, the one that waits shortest last; waking counts those that were woken or started and
	// have not looked yet, started all. stopped says that none begins anything more.
	idle    []worker
	waking  int
	started int
	stopped bool
	// reading says that the reader waits for room.
	reading bool
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
	first  [1]place
	// after is the last question of proof that was asked before the request, in its last place, was read. Guarded by mu.
	after int64
	// attempt and report are the contexts of the function and of the report.
	attempt, report deadline
	// way is how far the report is.
	way atomic.Int32
}

// The ways of a report. Who brings it from sent to answered lets the request go.
const (
	unsent int32 = iota
	sent
	answered
)

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
	l.begin = func() { l.workers.Go(func() { l.workLoop(stop, work) }) }
	var committer, prover sync.WaitGroup
	done := make(chan struct{})
	committer.Go(func() { l.commitLoop(done) })
	prover.Go(func() { l.proveLoop(stop) })

	err := l.readLoop(stop)
	halt()
	l.dismiss()
	err = errors.Join(err, l.drain(kill))
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
		l.take(records)
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

// waitRoom returns how many more requests the lane may read, at least one; 0 when stop has ended.
func (l *lane) waitRoom(stop context.Context) int {
	for stop.Err() == nil {
		l.mu.Lock()
		free := l.free()
		l.reading = free == 0
		l.mu.Unlock()
		if free > 0 {
			return free
		}
		select {
		case <-l.room:
		case <-stop.Done():
		}
	}
	return 0
}

// free returns how many more requests may be read; none while it is few, unless nothing waits for a worker. mu is held.
func (l *lane) free() int {
	free := l.agent.concurrency*readAhead - l.held
	if free < l.agent.concurrency/readShare && len(l.unproven)+l.ready.len() > 0 {
		return 0
	}
	return max(free, 0)
}

// roomy wakes the reader if it waits and may read. mu is held.
func (l *lane) roomy() {
	if l.reading && l.free() > 0 {
		l.reading = false
		l.signalRoom()
	}
}

func (l *lane) signalRoom() {
	select {
	case l.room <- struct{}{}:
	default:
	}
}

// serve makes one attempt and reports it.
func (l *lane) serve(work context.Context, q *request) {
	l.count(+1)
	q.attempt = deadline{parent: work, by: q.by, request: q}
	began := time.Now()
	t := l.exec.execute(&q.attempt, &q.work)
	now := time.Now()
	q.attempt.end()
	switch {
	case !now.Before(q.by):
		// MISSION C4: report nothing, and try no recovery. The engine's timer decides.
		l.metrics.attempt(q.work.Operation, resultLate, now.Sub(began))
		l.release(q, finished)
	case t.failure != nil && work.Err() != nil:
		// We cut it off ourselves; that says nothing about the attempt.
		l.metrics.attempt(q.work.Operation, resultAbandoned, now.Sub(began))
		l.release(q, leaveUnfinished)
	default:
		l.metrics.attempt(q.work.Operation, t.result(), now.Sub(began))
		l.send(report{request: q, try: l.settled(work, q, t), began: began, ended: now})
	}
	l.count(-1)
}

// send sends the report of a request. From now on the request is ended by the sink's answer, or by the committer when the
// complete-by time passes before that.
func (l *lane) send(r report) {
	q := r.request
	q.report = deadline{parent: context.Background(), by: q.by}
	q.way.Store(sent)
	l.reports.send(r, func(err error) { l.reported(q, err) })
}

// reported ends a request whose report has its answer. One that was not delivered counts as finished: the engine's
// complete-by time passes and a new attempt is made. To do the work again on our own would be a recovery (C4).
func (l *lane) reported(q *request, err error) {
	if !q.way.CompareAndSwap(sent, answered) {
		return
	}
	q.report.end()
	if err != nil {
		l.metrics.unreported(q.work.Operation)
		l.log.Warn("a report was not delivered", "agent", l.agent.name, "task", q.work.Task, "step", q.work.Step,
			"attempt", q.work.Attempt, "error", err)
	}
	l.release(q, finished)
}

func (l *lane) count(by int64) {
	l.running.Add(by)
	l.metrics.running.Add(float64(by))
}

func (l *lane) load() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.held
}

func (l *lane) inFlight() int { return int(l.running.Load()) }

// drain waits for the workers: first a grace in which all may end, then, their contexts cancelled, a second one.
func (l *lane) drain(kill context.CancelCauseFunc) error {
	ended := make(chan struct{})
	go func() {
		l.workers.Wait()
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

// flush lets go what waits, and then waits until nothing is held, which means that the reports on their way are answered;
// for a grace at most.
func (l *lane) flush() {
	l.mu.Lock()
	waiting := append(l.ready.all(), l.unproven...)
	l.ready, l.unproven = requests{}, nil
	l.mu.Unlock()
	for _, q := range waiting {
		l.release(q, leaveUnfinished)
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
