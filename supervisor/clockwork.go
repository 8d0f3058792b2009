package supervisor

import (
	"cmp"
	"fmt"
	"sort"
	"time"

	"github.com/sagalog/sagalog/events"
)

// clockwork lets timers fire. A timer due at T fires only when, in this epoch, every report below an end offset of
// reports asked for after T has been judged, and the timer is still due then; otherwise a take-over would time out,
// in a mass, work that has long been answered. What is forgotten (held requests, finished tasks) waits for both
// inputs in the same way.
type clockwork struct {
	question uint64
	asking   bool
	// askedAt is the time of the outstanding or the latest question.
	askedAt events.Instant
	// goals are, for each input, the answer that is not reached yet. A newer answer does not replace it: under a steady
	// load it would move away as fast as the owner comes nearer, and no timer would ever fire.
	goals map[events.Input]goal
	// horizon is, for each input, the latest time such that all that was durable before it has been judged.
	horizon map[events.Input]events.Instant
	// moved says that rows of tasks were touched whose retries fell due, and are not written yet.
	moved bool
	// expiredAt is the time up to which held requests have expired.
	expiredAt events.Instant
	// sweptAt is when sweeping was tried last.
	sweptAt events.Instant
}

// goal is an end offset that was asked for at a time.
type goal struct {
	end     int64
	askedAt events.Instant
}

// Bounds of one look at the timers: what is over them comes with the next batch.
const (
	dueBatch   = 500
	sweepBatch = 200
	sweepEvery = 10 * time.Second
	// settleAfter is how long a partition is idle before its settled position is written down by a fact of its own:
	// at once would cost a fact for each effect of a trickle of tasks.
	settleAfter = time.Second
)

// Ends answers AskEnds.
func (o *Owner) Ends(now events.Instant, gen, question uint64, ends map[events.Input]int64, err error) {
	if !o.current(gen) || question != o.times.question {
		return
	}
	o.enter(now)
	o.times.asking = false
	if err != nil {
		return // asked again with the next tick
	}
	for in, end := range ends {
		if _, unreached := o.times.goals[in]; !unreached {
			if o.times.goals == nil {
				o.times.goals = map[events.Input]goal{}
			}
			o.times.goals[in] = goal{end, o.times.askedAt}
		}
	}
	o.passHorizon()
	o.deciding = true
}

// passHorizon moves the horizon when everything below the ends that were asked for has been judged.
func (o *Owner) passHorizon() {
	for in, g := range o.times.goals {
		if o.in[in].judged < g.end {
			continue
		}
		if o.times.horizon == nil {
			o.times.horizon = map[events.Input]events.Instant{}
		}
		o.times.horizon[in] = max(o.times.horizon[in], g.askedAt)
		delete(o.times.goals, in)
	}
	o.releaseKept()
}

// tickTimers asks for the ends of the inputs when something is due.
func (o *Owner) tickTimers() {
	if o.phase != phaseOwning || o.times.asking || len(o.times.goals) == len(o.in) || !o.somethingDue() {
		return
	}
	o.times.asking = true
	o.times.question++
	o.times.askedAt = o.now
	o.do(AskEnds{o.gen, o.times.question})
}

func (o *Owner) somethingDue() bool {
	if len(o.box.kept) > 0 {
		return true
	}
	ids, err := o.store.Due(o.now, 1)
	if err != nil {
		o.stop(err)
		return false
	}
	if len(ids) > 0 {
		return true
	}
	for _, h := range o.state.Held() {
		if h.ExpiresAt <= o.now {
			return true
		}
	}
	if o.now.Sub(o.times.sweptAt) < sweepEvery {
		return false
	}
	ended, err := o.store.Ended(o.now.Add(-o.cfg.Settings.RememberFor.Std()), 1)
	return err == nil && len(ended) > 0
}

// reached returns the time up to which timers may fire.
func (o *Owner) reached() events.Instant {
	if o.cfg.Off.off(RuleTimers) {
		return o.now
	}
	return o.times.horizon[events.Reports]
}

// fireTimers decides the timers that are due and still due.
func (o *Owner) fireTimers(b *batch) bool {
	at := o.reached()
	if at == 0 {
		return true
	}
	ids, err := o.store.Due(at, dueBatch)
	if err != nil {
		o.stop(err)
		return false
	}
	for _, id := range ids {
		if o.full(b) {
			return true
		}
		if err := o.fireTask(b, id, at); err != nil {
			o.setAside("", id, err)
			return false
		}
	}
	return o.expireHeld(b, at) && o.sweep(b, at)
}

func (o *Owner) fireTask(b *batch, id string, at events.Instant) error {
	o.judging = judging{task: id}
	t, err := o.state.Task(id)
	if err != nil || t == nil {
		return err
	}
	o.cache.note(id)
	timers := t.Timers()
	sort.Slice(timers, func(i, j int) bool { return timers[i].Due < timers[j].Due })
	moved := false
	for _, m := range timers {
		if m.Due > at {
			break
		}
		switch m.Kind {
		case events.TimerCompleteBy:
			if !t.Running(m.Path, m.Operation, m.Attempt) {
				continue
			}
			err = o.emit(b, o.timeout(t, m), nil)
			o.stats.Timeouts++
		case events.TimerDeadline:
			if t.DeadlinePassed || t.State.Ended() {
				continue
			}
			err = o.emit(b, o.deadlinePassed(t, m), nil)
		}
		if err != nil {
			return err
		}
		moved = true
	}
	if !moved {
		return nil
	}
	o.times.moved = true
	o.state.Touch(id) // a retry that is due goes from the timers to the queue
	return o.follow(b, id)
}

func (o *Owner) timeout(t *events.Task, m events.Timer) *events.Fact {
	now := max(o.now, o.state.Partition.Time)
	v := Decide(Failure{
		Task: t, Path: m.Path, Operation: m.Operation, Effect: events.EffectUnknown,
		Error:  events.Error{Class: events.ClassTimeout, Message: "no report before the complete-by time"},
		Policy: o.policy(t, m.Path, m.Operation), Now: now,
	})
	body := &events.Timeout{Step: m.Path, Operation: m.Operation, Attempt: m.Attempt, CompleteBy: m.Due, Verdict: v}
	if m.Operation == events.Do {
		body.QuietAt = m.Due.Add(o.cfg.Settings.Grace.Std())
	}
	return &events.Fact{Task: t.ID, Body: body, Cause: events.CauseTimer(t.ID, t.Run, m.Path, m.Attempt, m.Kind)}
}

func (o *Owner) deadlinePassed(t *events.Task, m events.Timer) *events.Fact {
	action := events.DeadlineUndo
	if t.Irrevocable() || t.State == events.Parked {
		action = events.DeadlineAlert
	}
	return &events.Fact{
		Task: t.ID, Body: &events.DeadlinePassed{Deadline: t.Deadline, Action: action},
		Cause: events.CauseTimer(t.ID, t.Run, "", 0, m.Kind),
	}
}

// expireHeld rejects held requests whose task never came: only after submissions too was judged up to an end asked
// for after the expiry (reading/traces.md, D1).
func (o *Owner) expireHeld(b *batch, at events.Instant) bool {
	at = min(at, o.times.horizon[events.Submissions])
	if at == o.times.expiredAt { // nothing new can have fallen due: they are many when somebody cancels what is not there
		return true
	}
	held := o.state.Held()
	sort.Slice(held, func(i, j int) bool {
		a, b := held[i], held[j]
		return cmp.Or(cmp.Compare(a.ExpiresAt, b.ExpiresAt), cmp.Compare(a.Request.Task, b.Request.Task), cmp.Compare(a.Request.ID, b.Request.ID)) < 0
	})
	for _, h := range held {
		if h.ExpiresAt > at || o.full(b) {
			break
		}
		f := &events.Fact{
			Task:  h.Request.Task,
			Body:  &events.InputRejected{Reason: events.RejectExpired, Detail: "no task of this ID came while the request was held", Held: h.Request.ID, HeldAt: h.Cause},
			Cause: events.CauseTimer(h.Request.Task, 1, "", 0, events.TimerExpiry),
		}
		if !o.mustEmit(b, f) {
			return false
		}
	}
	if !o.full(b) {
		o.times.expiredAt = at
	}
	return true
}

// sweep forgets tasks that ended longer ago than they are remembered: when everything below ends of both inputs that
// were asked for after the horizon passed has been judged and passed in this epoch, and no effect of theirs is behind
// the folded settled position (reading/traces.md, B1 to B3).
func (o *Owner) sweep(b *batch, at events.Instant) bool {
	at = min(at, o.times.horizon[events.Submissions])
	before := at.Add(-o.cfg.Settings.RememberFor.Std())
	if before <= 0 || o.now.Sub(o.times.sweptAt) < sweepEvery {
		return true
	}
	swept, more, err := o.sweepable(b, before)
	if err != nil {
		o.stop(err)
		return false
	}
	if !more {
		o.times.sweptAt = o.now
	}
	if len(swept) == 0 {
		return true
	}
	if o.unpassed() && !o.passInputs(b) {
		return false
	}
	return o.mustEmit(b, &events.Fact{
		Body:  &events.TasksSwept{Tasks: swept, EndedBefore: before},
		Cause: events.CauseTimer("", 0, "", 0, events.TimerHorizon),
	})
}

// sweepable returns some tasks that may be forgotten now, and whether there are more, which do not wait for the next
// interval: a partition that ends a thousand tasks each second also forgets a thousand.
func (o *Owner) sweepable(b *batch, before events.Instant) (swept []string, more bool, err error) {
	ids, err := o.store.Ended(before, sweepBatch)
	if err != nil || len(ids) == 0 {
		return nil, false, err
	}
	busy, inFlight := o.unsettledTasks(b), false
	for _, id := range ids {
		t, err := o.state.Task(id)
		if err != nil {
			return nil, false, err
		}
		if t == nil { // swept already, by a batch in flight
			inFlight = true
			continue
		}
		o.cache.note(id)
		if t.State.Ended() && t.EndedAt < before && !busy[id] {
			swept = append(swept, id)
		}
	}
	return swept, len(swept) == sweepBatch || (inFlight && len(ids) == sweepBatch), nil
}

// guard turns a panic while deciding into an error that sets aside what caused it.
func guard(err *error) {
	if p := recover(); p != nil {
		*err = fmt.Errorf("panic while deciding: %v", p)
	}
}
