package agent

import (
	"context"
	"encoding/json"
	"time"

	"github.com/sagalog/sagalog/events"
)

// workLoop is one worker.
func (c *consumer) workLoop(stop, work context.Context) {
	c.pool.arrived()
	c.serve(stop, work, make(worker, 1))
}

// serve takes requests until the stop. If a function ends the goroutine (runtime.Goexit), the worker goes on in another one.
func (c *consumer) serve(stop, work context.Context, self worker) {
	stopped := false
	defer func() {
		if !stopped {
			c.workers.Go(func() { c.serve(stop, work, self) })
		}
	}()
	for q := c.pool.next(self); q != nil; q = c.pool.next(self) {
		c.admit(stop, work, q)
	}
	stopped = true
}

// admit runs a request when the limit allows it.
func (c *consumer) admit(stop, work context.Context, q *request) {
	place := c.exec.limit.enter(stop, q.by)
	defer c.exec.limit.leave(place)
	if c.mayStart(stop, q) {
		c.attempt(work, q)
	}
}

// mayStart reports whether a waiting request may run. A request that has expired, whose undo has come, or that now
// belongs to another instance, leaves the pool. If its ownership is unknown, because it waited for long or was
// delivered again, it waits for the next answer.
func (c *consumer) mayStart(stop context.Context, q *request) bool {
	now := time.Now()
	switch s := c.standing(q, now); {
	case !now.Before(q.by):
		c.metrics.drop(dropExpired)
		c.pool.finish(q)
	case c.pool.undone(q):
		c.metrics.drop(dropUndone)
		c.pool.finish(q)
	case stop.Err() != nil:
		c.pool.abandon(q)
	case s == lost:
		c.metrics.drop(dropRevoked)
		c.pool.abandon(q)
	case s == unknown:
		c.pool.postpone(q)
	default:
		return true
	}
	return false
}

func (c *consumer) standing(q *request, now time.Time) standing {
	places, after := c.pool.where(q)
	c.pool.offsets.Retain(c.source.Partitions)
	if !c.pool.offsets.Owns(places) {
		return lost
	}
	return c.ownership.check(places, after, now)
}

// attempt makes one attempt and reports it, also if the function ends the goroutine.
func (c *consumer) attempt(work context.Context, q *request) {
	c.count(+1)
	began, returned := time.Now(), false
	var t try
	defer func() {
		if !returned {
			t = try{failure: exited()}
		}
		c.conclude(work, q, t, began)
	}()
	locked := q.unseal(c.config.Keys)
	if c.missed.note(locked, time.Now()) {
		c.often.Warn("refused a sealed request: this process lacks the key; the engine sends the request again", "error", locked.Err)
	}
	q.attempt = deadline{parent: work, by: q.by, request: q}
	if b := newBeats(&q.work, q.by); b != nil {
		q.beats = b
		q.attempt.parent, q.attempt.by = b.begin(work, c.sending(q)), b.cap
	}
	q.begin()
	q.shared = !c.exclusive(q)
	if t.failure = locked; locked == nil {
		t = q.seal(c.config.Keys, c.exec.execute(&q.attempt, &q.work))
	}
	returned = true
}

// conclude ends an attempt: it reports it, or says why nothing is reported.
func (c *consumer) conclude(work context.Context, q *request, t try, began time.Time) {
	now := time.Now()
	q.attempt.end()
	if q.beats != nil {
		q.beats.finish()
	}
	switch {
	case !now.Before(q.until()):
		// Neither a report nor a recovery follows: the engine's timer decides.
		c.metrics.call(resultLate, now.Sub(began))
		c.pool.finish(q)
	case t.failure != nil && work.Err() != nil && q.beats != nil:
		// Delivered again, the request would have only its first heartbeat left, or none. So another attempt goes on.
		c.metrics.call(resultAbandoned, now.Sub(began))
		c.report(report{request: q, try: c.withProvenEffect(work, q, t.brokenOff()), began: began, ended: now})
	case t.failure != nil && work.Err() != nil:
		// The stop cut it off, so the outcome of the attempt is unknown.
		c.metrics.call(resultAbandoned, now.Sub(began))
		c.pool.abandon(q)
	case t.failure == nil && q.accepted.Load():
		c.metrics.call(resultAccepted, now.Sub(began))
		c.pool.finish(q)
	default:
		c.metrics.call(t.result(), now.Sub(began))
		c.report(report{request: q, try: c.withProvenEffect(work, q, t), began: began, ended: now})
	}
	c.count(-1)
}

// sending returns the function that sends progress of a request.
func (c *consumer) sending(q *request) func(context.Context, json.RawMessage, func(error)) {
	return func(ctx context.Context, value json.RawMessage, done func(error)) {
		if q.like != nil {
			sealed, err := c.config.Keys.SealLike(q.like, value)
			if err != nil {
				c.workers.Go(func() { done(err) })
				return
			}
			value = sealed
		}
		c.workers.Go(func() { // a worker has the request
			c.reports.progress(ctx, q, value, func(err error) {
				if err != nil && ctx.Err() == nil {
					c.often.Warn("progress was not delivered, and is sent again", "task", q.work.Task, "step", q.work.Step, "attempt", q.work.Attempt, "error", err)
				}
				done(err)
			})
		})
	}
}

func (c *consumer) count(by int64) {
	c.running.Add(by)
	c.metrics.running.Add(float64(by))
}

// report sends a report. The sink's answer ends the request, or expire does when the complete-by time passes before that.
func (c *consumer) report(r report) {
	q := r.request
	q.report = deadline{parent: context.Background(), by: q.until()}
	q.progress.Store(sent)
	c.reports.send(r, func(err error) { c.reported(q, err) })
}

// reported ends a request whose report was answered. If the report was not delivered, the request still counts as finished: its
// complete-by time passes, and the engine makes a new attempt. Running the work again here would be a recovery, and recovery is
// the engine's task.
func (c *consumer) reported(q *request, err error) {
	if !q.progress.CompareAndSwap(sent, answered) {
		return
	}
	q.report.end()
	if err != nil {
		c.metrics.unreported()
		c.often.Warn("a report was not delivered", "task", q.work.Task, "step", q.work.Step, "attempt", q.work.Attempt, "error", err)
	}
	c.pool.finish(q)
}

// An attempt that is reported without effect must never run again: the engine does not undo it, so the effect of a second run
// would stay. But its request is delivered again after a crash if an earlier request of the partition holds back the low-water
// mark. So the report waits for a commit that covers the request, by the low-water mark or by the runs in its metadata. Without
// such a commit the effect is reported as unknown, which is always safe. It is also unknown if another instance may have the
// same request: the run there may have an effect and end second, and then its report is ignored. For the same reason a success,
// or a failure that is over, is in doubt then: its undo waits for the other run.

// withProvenEffect returns the try with an effect that is safe to report.
func (c *consumer) withProvenEffect(work context.Context, q *request, t try) try {
	switch {
	case t.failure == nil:
		t.doubt = t.doubt || !c.exclusive(q)
		return t
	case t.failure.Effect == events.EffectDoneUnknown && (t.doubt || q.doubt.Load() || !c.exclusive(q)):
		return t.inDoubt()
	case t.failure.Effect != events.EffectNone:
		return t
	}
	if places, _ := c.pool.where(q); c.pool.offsets.Exclusive(places) {
		if c.neverAgain(work, q) {
			return t
		}
		c.often.Warn("an attempt had no effect, but that cannot be recorded; the effect is reported as unknown",
			"task", q.work.Task, "step", q.work.Step, "attempt", q.work.Attempt)
	}
	return t.inDoubt()
}

// inDoubt returns a failed try with that effect.
func (t try) inDoubt() try {
	f := *t.failure
	f.Effect = events.EffectInDoubt
	t.failure = &f
	return t
}

// brokenOff returns the failure of an attempt with a heartbeat that a stop of the agent ended. The engine does not count it.
func (t try) brokenOff() try {
	f := &Failure{Class: events.ClassUnavailable, Effect: events.EffectDoneUnknown, Code: events.CodeStopped, Err: ErrStopped}
	if t.failure.Effect == events.EffectInDoubt {
		f.Effect = events.EffectInDoubt
	}
	return try{failure: f}
}

// exclusive says whether no other instance can have received the request.
func (c *consumer) exclusive(q *request) bool {
	places, _ := c.pool.where(q)
	return c.pool.offsets.Exclusive(places)
}

// neverAgain makes sure that the attempt never runs again, and reports whether it could. A duplicate that arrives meanwhile
// must be covered too. One that arrives later is dropped.
func (c *consumer) neverAgain(work context.Context, q *request) bool {
	left := time.Until(q.until())
	t := time.NewTimer(left - reportMargin(left))
	defer t.Stop()
	for {
		places, _ := c.pool.where(q)
		select {
		case covered := <-c.committer.finishDurably(places, q.until()):
			if !covered || !c.pool.offsets.Exclusive(places) {
				return false
			}
		case <-t.C:
			return false
		case <-work.Done():
			return false
		}
		if c.pool.noteNoEffect(q, places) {
			return true
		}
	}
}
