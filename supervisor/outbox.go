package supervisor

import (
	"time"

	"github.com/sagalog/sagalog/events"
)

// outbox holds the durable facts whose effects are not all acknowledged, in the order of the log.
//
// Invariant: settled() never passes a fact with an effect that nobody acknowledged, and never counts facts in flight
// (reading/traces.md, Cm1 and Cm2).
type outbox struct {
	nextID  uint64
	entries []*entry
	// waiting are the effects that were sent and have no answer, by ID; fresh are to be sent; refused are dead letters
	// to be tried again.
	waiting map[uint64]*effect
	fresh   []*effect
	refused []*effect
	// durable is the position of the last fact known to be durable.
	durable events.Position
	// lastDone is the position of the latest fact with an effect that settled() has passed.
	lastDone events.Position
	// unsettled are the facts with effects behind the folded settled position, for sweeps.
	unsettled []marked
	// kept is the work to be sent again once the reports from before the epoch are judged: see releaseKept.
	kept []keptWork
	// replaying says that the effects of the time before the epoch are still being collected.
	replaying bool
	// failed says that some effect was refused for good and has no EffectFailed yet.
	failed bool
	// quietSince is when the last fact was decided, for the settled position of an idle partition.
	quietSince events.Instant
}

type keptWork struct {
	fact   *events.Fact
	effect *effect
}

type marked struct {
	at   events.Position
	task string
}

// entry is one fact with effects.
type entry struct {
	at, before events.Position
	fact       *events.Fact
	effects    []*effect
	// again says that an earlier owner may have sent the effects too.
	again bool
	// failing is set while an EffectFailed for it is on its way.
	failing bool
}

// effect is one record to be produced outside of events.
type effect struct {
	id     uint64
	kind   string
	topic  string
	record events.Record
	// wants is the input whose bytes are still missing.
	wants  events.Cause
	done   bool
	failed string
	// alerted says that an alert was raised for its refusal.
	alerted bool
	// retryAt is when a refused dead letter is tried again.
	retryAt events.Instant
}

// deadLetterPause is how long a refused dead letter waits: it is never given up, and an operator has to mend a topic.
const deadLetterPause = 5 * time.Second

// settled returns the position up to which all effects are acknowledged.
func (o *Owner) settled() events.Position {
	if o.box.replaying {
		return events.Position{}
	}
	if o.cfg.Off.off(RuleSettled) {
		return o.box.durable
	}
	if len(o.box.entries) > 0 {
		return o.box.entries[0].before
	}
	return o.box.durable
}

// release queues the effects of a batch's facts.
func (o *Owner) release(b *batch) {
	for i, f := range b.facts {
		var input *events.Record
		if r, ok := b.inputs[i]; ok {
			input = &r
		}
		o.enqueue(f, input)
		o.box.durable = f.Position()
	}
}

func (o *Owner) enqueue(f *events.Fact, input *events.Record) {
	list := o.effectsOf(f, input)
	if len(list) == 0 {
		return
	}
	e := &entry{at: f.Position(), before: o.box.durable, fact: f, effects: list, again: o.box.replaying}
	for _, x := range list {
		o.box.nextID++
		x.id = o.box.nextID
	}
	o.box.fresh = append(o.box.fresh, list...)
	o.box.entries = append(o.box.entries, e)
	o.box.unsettled = append(o.box.unsettled, marked{e.at, f.Task})
}

// sendEffects sends what was not sent yet and has its bytes.
func (o *Owner) sendEffects() {
	for _, x := range o.box.fresh {
		if x.wants != "" {
			o.do(FetchInput{o.gen, x.wants})
			continue
		}
		if o.box.waiting == nil {
			o.box.waiting = map[uint64]*effect{}
		}
		o.box.waiting[x.id] = x
		o.do(Send{Generation: o.gen, ID: x.id, Kind: x.kind, Topic: x.topic, Record: x.record})
	}
	o.box.fresh = o.box.fresh[:0]
}

// Sent answers Send. refused says that the broker refused the record for good; the shell itself tries again what may
// yet succeed.
func (o *Owner) Sent(now events.Instant, gen, id uint64, refused error) {
	if !o.current(gen) {
		return
	}
	o.enter(now)
	x := o.box.waiting[id]
	if x == nil {
		return
	}
	delete(o.box.waiting, id)
	switch {
	case refused == nil:
		x.done = true
	case x.kind == events.EffectDeadLetter: // never given up
		x.retryAt = o.now.Add(deadLetterPause)
		o.box.refused = append(o.box.refused, x)
		o.alertRefused(x, refused)
	default:
		x.failed = refused.Error()
		o.box.failed = true
	}
	o.box.trim()
	o.deciding = true
}

// alertRefused raises one alert for a dead letter that is refused. It is no effect of a fact of its own: should it be
// lost with the epoch, the next refusal raises it again.
func (o *Owner) alertRefused(x *effect, refused error) {
	if x.alerted {
		return
	}
	x.alerted = true
	for _, e := range o.box.entries {
		for _, y := range e.effects {
			if x != y {
				continue
			}
			for _, a := range o.alert(e.fact, AlertEffect, "", "dead letter, tried again: "+refused.Error()) {
				o.do(Send{Generation: o.gen, Kind: a.kind, Topic: a.topic, Record: a.record})
			}
		}
	}
}

// retryEffects sends refused dead letters again.
func (o *Owner) retryEffects() {
	keep := o.box.refused[:0]
	for _, x := range o.box.refused {
		if x.retryAt <= o.now {
			o.box.fresh = append(o.box.fresh, x)
		} else {
			keep = append(keep, x)
		}
	}
	o.box.refused = keep
	o.sendEffects()
}

// trim drops the facts at the front whose effects are all acknowledged.
func (b *outbox) trim() {
	for len(b.entries) > 0 && b.entries[0].done() {
		b.lastDone = b.entries[0].at
		b.entries[0] = nil
		b.entries = b.entries[1:]
	}
}

func (e *entry) done() bool {
	for _, x := range e.effects {
		if !x.done {
			return false
		}
	}
	return true
}

// confirm marks effects as done whose EffectFailed has become durable: the position moves on over them.
func (b *outbox) confirm(acked *batch) {
	for _, f := range acked.facts {
		failed, ok := f.Body.(*events.EffectFailed)
		if !ok {
			continue
		}
		for _, e := range b.entries {
			if e.at == failed.Of {
				for _, x := range e.effects {
					if x.failed != "" && x.kind == failed.Kind {
						x.done = true
					}
				}
				e.failing = false
			}
		}
	}
	b.trim()
}

// folded forgets the facts that the folded settled position has passed.
func (b *outbox) folded(settled events.Position) {
	for len(b.unsettled) > 0 && !settled.Before(b.unsettled[0].at) {
		b.unsettled = b.unsettled[1:]
	}
}

// unsettledTasks returns the tasks of which some effect lies behind the folded settled position, or may come to: facts
// in flight count, whatever they are.
func (o *Owner) unsettledTasks(filling *batch) map[string]bool {
	busy := map[string]bool{}
	for _, m := range o.box.unsettled {
		busy[m.task] = true
	}
	for _, b := range append([]*batch{filling}, o.pipe.flying...) {
		for _, f := range b.facts {
			busy[f.Task] = true
		}
	}
	return busy
}

// resend collects the effects of the facts behind the folded settled position, as the log and not memory knows it.
func (o *Owner) resend() {
	p := o.state.Partition.Settled
	o.box.replaying = true
	o.box.durable = p
	from := o.state.Next
	if runs := o.state.Runs(); len(runs) > 0 && !o.cfg.Off.off(RuleSettled) {
		from = runs[0].Offset
	}
	o.do(ReadFacts{o.gen, from, o.state.Next})
}

// Replayed answers ReadFacts with records in order; done comes with the last of them.
func (o *Owner) Replayed(now events.Instant, gen uint64, records []events.Record, done bool) {
	if !o.current(gen) || o.phase != phaseResuming {
		return
	}
	o.enter(now)
	for i := range records {
		r := &records[i]
		if !o.state.Accepted(r.Offset) {
			continue
		}
		f, err := events.DecodeFact(r)
		if err != nil {
			o.stop(err)
			return
		}
		if !o.state.Partition.Settled.Before(f.Position()) {
			continue
		}
		due, err := o.outstanding(f)
		if err != nil {
			o.stop(err) // to leave it out would have the settled position pass it
			return
		}
		if due {
			o.stats.Resent++
			o.enqueue(f, nil)
		} else {
			// Nothing is owed for it. But the log does not say so yet: were its task swept, and its ID taken again, the owner
			// after this one would find its attempt running.
			o.box.unsettled = append(o.box.unsettled, marked{f.Position(), f.Task})
			if len(o.box.entries) == 0 {
				o.box.lastDone = f.Position() // a fact is to say so when all is quiet
			}
		}
		o.box.durable = f.Position()
	}
	if done {
		o.box.replaying = false
		o.keepWork()
		o.settleIn()
		o.tickTimers()
		o.sendEffects()
	}
}

// keepWork holds back the work that is to be sent again. Its report may lie in the log unread; sent now, a copy could
// act after a step was judged, by that report, to have had no effect and to need no undo.
func (o *Owner) keepWork() {
	fresh := o.box.fresh[:0]
	for _, e := range o.box.entries {
		for _, x := range e.effects {
			if x.kind == events.EffectWork {
				o.box.kept = append(o.box.kept, keptWork{e.fact, x})
			} else {
				fresh = append(fresh, x)
			}
		}
	}
	o.box.fresh = fresh
}

// releaseKept sends the work again whose attempts still run, once every report below an end asked for in this epoch
// has been judged.
func (o *Owner) releaseKept() {
	if len(o.box.kept) == 0 || o.times.horizon[events.Reports] == 0 {
		return
	}
	for _, k := range o.box.kept {
		due, err := o.outstanding(k.fact)
		if err != nil {
			return // the store is broken, and the partition stops
		}
		if due {
			o.box.fresh = append(o.box.fresh, k.effect)
		} else {
			k.effect.done = true
		}
	}
	o.box.kept = nil
	o.box.trim()
	o.sendEffects()
}

// outstanding says whether a new owner sends the fact's effects again: work only for attempts that still run.
func (o *Owner) outstanding(f *events.Fact) (bool, error) {
	t, err := o.state.Task(f.Task)
	if err != nil {
		return false, err
	}
	if t != nil {
		o.cache.note(f.Task)
	}
	switch b := f.Body.(type) {
	case *events.StepStarted:
		return t != nil && t.Running(b.Step, events.Do, b.Attempt), nil
	case *events.UndoStarted:
		return t != nil && t.Running(b.Step, events.Undo, b.Attempt), nil
	}
	return true, nil
}

// Fetched answers FetchInput. gone says that the record is not there any more: the log was trimmed in front of its
// settled effects, which nothing of ours does.
func (o *Owner) Fetched(now events.Instant, gen uint64, cause events.Cause, r events.Record, err error) {
	if !o.current(gen) {
		return
	}
	o.enter(now)
	if err != nil {
		o.stop(err)
		return
	}
	for _, e := range o.box.entries {
		for _, x := range e.effects {
			if x.wants == cause {
				x.wants = ""
				o.fillEffect(e.fact, x, &r)
				o.box.fresh = append(o.box.fresh, x)
			}
		}
	}
	o.sendEffects()
}
