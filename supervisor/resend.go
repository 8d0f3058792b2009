package supervisor

import (
	"slices"

	"github.com/sagalog/sagalog/events"
)

// takeOver asks for the facts whose effects must be sent again: those above the watermark as folded from the log, not
// as known in memory.
func (x *outbox) takeOver() {
	x.last, x.next = x.state.Partition.Watermark, x.state.OffsetAfter(x.state.Partition.Watermark)
	if x.cfg.Off.off(RuleWatermark) {
		x.next = x.state.Next
	}
	//mutant:new-owner-sends-delayed
	x.delays.takeOver()
	x.say(ReadFacts{Generation: x.gen, From: x.next, To: x.state.Next})
}

// replay takes the records that takeOver asked for.
func (x *outbox) replay(records []events.Record) error {
	for i := range records {
		r := &records[i]
		if !x.state.Accepted(r.Offset) {
			continue
		}
		f, err := events.DecodeFact(r)
		if err != nil {
			return err
		}
		t, err := x.taskAt(f)
		if err != nil {
			return err // if it were left out, the watermark would pass it
		}
		if !x.state.Partition.Watermark.Before(f.Position()) {
			continue
		}
		//mutant:new-owner-resends
		if owes(x, t, f) {
			x.stats.Resent++
			x.fold(t, f, r.Offset)
			continue
		}
		// It owes no work, but the log does not say so yet: if its task were swept and the ID reused, the next owner would find
		// this attempt running.
		x.owing = append(x.owing, marked{f.Position(), f.Task})
		if len(x.entries) == 0 {
			x.lastDone = f.Position() // a fact must record the watermark once the partition is idle
		}
		//mutant:reply-is-sent-again
		x.pass(f, r.Offset, x.replies.reply(t, f))
	}
	return nil
}

// taskAt returns the task that a fact is about; nil if it is forgotten, even if another task has its ID now.
func (x *outbox) taskAt(f *events.Fact) (*events.Task, error) {
	if f.Task == "" {
		return nil, nil
	}
	t, err := x.state.Task(f.Task)
	if t == nil || err != nil {
		return nil, err
	}
	if accepted, err := events.ParsePosition(t.Incarnation); err == nil && f.Position().Before(accepted) {
		return nil, nil
	}
	return t, nil
}

// owes says whether a new owner sends the fact's effects again. Work is sent again only for attempts that still run, and what a schedule sends to
// a task only until the schedule knows that it has ended, or was given up.
func owes(x *outbox, t *events.Task, f *events.Fact) bool {
	over := func(schedule, task string) bool {
		s := x.state.Schedules[schedule]
		return s != nil && s.IsOver(task)
	}
	switch b := f.Body.(type) {
	case *events.ScheduleFired:
		return !over(b.Schedule, b.Task)
	case *events.ScheduleCancelRequested:
		return !over(b.Schedule, b.Task)
	case *events.ChildAsked:
		return t != nil && events.AwaitsChild(t, b.Child, b.Link)
	}
	c := changeOf(t, f)
	return c.what != began || c.running(t)
}

// keepWork holds back the work that must be sent again. Its report may be in the topic, still unread. If the work were sent now,
// the second copy could act after that report had made the owner decide that the step had no effect and needs no undo. Likewise
// the end of a task that a schedule started may be there. Its home may have forgotten the task, and a second submission would start it again.
func (x *outbox) keepWork() {
	fresh := x.fresh[:0]
	for e := range x.all {
		for _, y := range e.effects {
			if y.kind == events.EffectWork || y.kind == events.EffectStart {
				x.kept = append(x.kept, y)
			} else {
				fresh = append(fresh, y)
			}
		}
	}
	x.fresh = fresh
}

// sendKept sends again the work of running attempts, and the submissions of schedules whose tasks have not ended, once every report below an end
// offset requested in this epoch has been judged. judged is the time at which that end was requested, zero until then. docs/protocol.md, "Work is sent again
// after the reports are judged".
func (x *outbox) sendKept(judged events.Instant) error {
	//mutant:resent-work-waits-for-reports
	//mutant:resent-work-waits-for-corrected-times
	if judged == 0 || x.epoch.correcting() {
		return nil
	}
	if x.judged = true; len(x.kept) == 0 {
		return nil
	}
	for _, y := range x.kept {
		//mutant:failed-work-is-not-sent-again
		if y.done { // an operator has failed its attempt
			continue
		}
		t, err := x.taskAt(y.of.fact)
		if err != nil {
			return err
		}
		if owes(x, t, y.of.fact) {
			if w, ok := workOf(y.of.fact); ok { // the instances may have changed meanwhile
				w.Task = t.ID
				y.record.Partition = x.dispatch.route(t, &w)
			}
			x.fresh = append(x.fresh, y)
		} else {
			x.settle(y)
		}
	}
	x.kept = nil
	x.trim()
	x.send()
	return nil
}

// fetched adds the bytes of an input to the effects that need them.
func (x *outbox) fetched(cause events.Cause, r *events.Record) {
	x.fetching = max(x.fetching-1, 0)
	for e := range x.all {
		for _, y := range e.effects {
			if y.wants == cause && !y.done {
				y.wants = ""
				x.complete(e.fact, y, r)
				x.delays.weigh(y, y.record.Size())
				x.fresh = append(x.fresh, y)
			}
		}
	}
	x.send()
}

// waitsForReports says whether an effect waits until the reports from before the epoch are judged.
func (x *outbox) waitsForReports() bool {
	return len(x.kept) > 0 || !x.judged && slices.ContainsFunc(x.delays.list, (*delayed).waits)
}
