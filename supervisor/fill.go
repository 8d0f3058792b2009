package supervisor

import (
	"maps"
	"slices"
	"strings"

	"github.com/sagalog/sagalog/events"
)

// unplannedBatch bounds the tasks planned at once after a take-over, so that inputs do not wait for all of them.
const unplannedBatch = 200

// fill decides the facts of a batch: what the partition itself needs, then reports, submissions, timers and starts.
// A share of each batch belongs to each of them, so that none starves while the others keep coming: a burst of
// submissions would otherwise hold back the very starts that work it off. What is left over goes to the inputs. It
// returns false when the epoch is over.
func (o *Owner) fill(b *batch) bool {
	o.queue.limit = o.cfg.Queue
	gen := o.gen
	then := func(ok bool) bool { return ok && o.gen == gen }
	if !o.settling() {
		return then(o.failEffects(b))
	}
	return then(o.adopt(b)) && then(o.parkPoisoned(b)) && then(o.failEffects(b)) &&
		then(o.judgeGuarded(b, events.Reports, 2)) && then(o.judgeGuarded(b, events.Submissions, 3)) && then(o.judgeGuarded(b, events.Reports, 3)) &&
		then(o.planUnplanned(b)) && then(o.fireGuarded(b)) && then(o.admit(b)) &&
		then(o.judgeGuarded(b, events.Reports, 4)) && then(o.judgeGuarded(b, events.Submissions, 4)) && then(o.rest(b))
}

// settling says whether the effects behind the settled position are within their bound. Beyond it nothing is decided
// but that the broker refused some: that alone moves the position on. While work is kept until reports are judged, the
// bound waits too: what is kept lies in front of all others, and deciding is what it waits for.
func (o *Owner) settling() bool { return len(o.box.entries) < o.cfg.Unsettled || len(o.box.kept) > 0 }

// adopt writes the settings of this owner where they differ, and the hash of the state each so many facts.
func (o *Owner) adopt(b *batch) bool {
	p := &o.state.Partition
	if p.Settings != o.cfg.Settings && !o.mustEmit(b, &events.Fact{Body: &events.SettingsAdopted{Settings: o.cfg.Settings}, Cause: o.lastCause()}) {
		return false
	}
	if n := o.cfg.Settings.HashEvery; n > 0 && p.SinceHash >= n {
		h, err := o.state.Hash()
		if err != nil {
			o.stop(err)
			return false
		}
		return o.mustEmit(b, &events.Fact{Body: &events.StateHash{Hash: h}, Cause: o.lastCause()})
	}
	return true
}

func (o *Owner) judgeGuarded(b *batch, in events.Input, quarters int) bool {
	var ok bool
	err := func() (err error) {
		defer guard(&err)
		ok = o.judgeInputs(b, in, quarters)
		return nil
	}()
	if err != nil {
		o.setAside(o.judging.cause, "", err)
		return false
	}
	return ok
}

func (o *Owner) fireGuarded(b *batch) bool {
	var ok bool
	err := func() (err error) {
		defer guard(&err)
		ok = o.fireTimers(b)
		return nil
	}()
	if err != nil {
		o.setAside("", o.judging.task, err)
		return false
	}
	return ok
}

// failEffects writes down the effects that the broker refused for good.
func (o *Owner) failEffects(b *batch) bool {
	if !o.box.failed {
		return true
	}
	o.box.failed = false
	for _, e := range o.box.entries {
		for _, x := range e.effects {
			if x.failed == "" || x.done || e.failing {
				continue
			}
			e.failing = true
			if err := o.failEffect(b, e, x); err != nil {
				o.setAside("", e.fact.Task, err)
				return false
			}
		}
	}
	return true
}

func (o *Owner) failEffect(b *batch, e *entry, x *effect) (err error) {
	defer guard(&err)
	body := &events.EffectFailed{Of: e.at, Kind: x.kind, Error: clip(x.failed, maxDetail)}
	task := ""
	switch x.kind {
	case events.EffectForward:
		body.Input = e.fact.Cause
	case events.EffectWork:
		task = e.fact.Task
		o.failWork(e, body)
	}
	if err := o.emit(b, &events.Fact{Task: task, Body: body, Cause: events.CauseFact(e.at)}, nil); err != nil {
		return err
	}
	if task != "" {
		return o.follow(b, task)
	}
	return nil
}

// failWork makes the refused work request a failed attempt, if the attempt still runs. It had no effect, since no agent
// saw it; but where it was sent again after a take-over, an agent may have got it from the owner before.
func (o *Owner) failWork(e *entry, body *events.EffectFailed) {
	f, effect := e.fact, events.EffectNone
	if e.again {
		effect = events.EffectUnknown
	}
	t, err := o.state.Task(f.Task)
	if err != nil || t == nil {
		return
	}
	fault := events.Error{Class: events.ClassDispatch, Message: body.Error}
	failure := Failure{Task: t, Error: fault, Effect: effect, Now: max(o.now, o.state.Partition.Time)}
	switch w := f.Body.(type) {
	case *events.StepStarted:
		if t.Running(w.Step, events.Do, w.Attempt) {
			failure.Path, failure.Operation, failure.Policy = w.Step, events.Do, o.policy(t, w.Step, events.Do)
			body.Failed = &events.StepFailed{Step: w.Step, Attempt: w.Attempt, Error: fault, Effect: effect, Verdict: Decide(failure)}
		}
	case *events.UndoStarted:
		if t.Running(w.Step, events.Undo, w.Attempt) {
			failure.Path, failure.Operation, failure.Policy = w.Step, events.Undo, o.policy(t, w.Step, events.Undo)
			body.UndoFailed = &events.UndoFailed{Step: w.Step, Attempt: w.Attempt, Error: fault, Verdict: Decide(failure)}
		}
	}
}

// parkPoisoned parks the tasks that made deciding panic, before anything else can touch them again. A task whose
// acceptance was lost with the epoch is parked when it is accepted again; one that is parked, and whose reopening was
// lost, when it is reopened again: forgotten here, it would panic again with the same request, for ever.
func (o *Owner) parkPoisoned(b *batch) bool {
	if len(o.poisonTask) == 0 {
		return true
	}
	for _, id := range slices.Sorted(maps.Keys(o.poisonTask)) {
		t, err := o.state.Task(id)
		switch {
		case err != nil || t == nil:
		case t.State.Ended():
			delete(o.poisonTask, id)
			continue
		case t.State == events.Parked:
			continue
		}
		if err == nil {
			err = o.planOne(b, id)
		}
		if err != nil {
			o.stop(err) // parking it asks for nothing that could fail
			return false
		}
	}
	return true
}

// forgive forgets the poison of tasks whose parking is durable: what an operator asks next is tried.
func (o *Owner) forgive(b *batch) {
	for _, f := range b.facts {
		if p, ok := f.Body.(*events.TaskParked); ok && strings.HasPrefix(p.Reason, parkedInternal) {
			delete(o.poisonTask, f.Task)
		}
	}
}

// planUnplanned plans live tasks that were folded from the log: a crash may have cut a batch before its follow-ups.
func (o *Owner) planUnplanned(b *batch) bool {
	if !o.unplanned || len(o.pipe.flying) > 0 {
		return true
	}
	ids, err := o.store.Unplanned(unplannedBatch)
	if err != nil {
		o.stop(err)
		return false
	}
	o.unplanned = len(ids) > 0
	for _, id := range ids {
		if err := o.planOne(b, id); err != nil {
			o.setAside("", id, err)
			return false
		}
	}
	if len(ids) > 0 && len(b.facts) == 0 {
		// Only the rows change, and before the store is asked for the next it must have them (mayFlush): a batch takes them
		// along, and the one that can be made of nothing passes the inputs.
		return o.passInputs(b)
	}
	return true
}

func (o *Owner) planOne(b *batch, id string) (err error) {
	defer guard(&err)
	t, err := o.state.Task(id)
	if err != nil || t == nil {
		return err
	}
	o.cache.note(id)
	o.state.Touch(id)
	return o.follow(b, id)
}

// rest writes what an idle partition still owes: the passed inputs, so that the token of a duplicate arrives, and the
// settled position of effects. It never answers itself: it has no effect.
func (o *Owner) rest(b *batch) bool {
	if len(b.facts) > 0 {
		o.box.quietSince = o.now
		return true
	}
	if o.times.moved {
		// Retries fell due that have no place yet: their rows are written anew, or they would stand in front of all later
		// timers for ever. No fact goes with them.
		o.flush.owed = true
	}
	for _, q := range o.in {
		if len(q.items) > 0 {
			return true
		}
	}
	settled := o.settled()
	owed := o.state.Partition.Settled.Before(o.box.lastDone) && !settled.Before(o.box.lastDone)
	if o.unpassed() || (owed && o.now.Sub(o.box.quietSince) >= settleAfter) {
		return o.passInputs(b)
	}
	return true
}
