package sim

import (
	"slices"
	"strings"

	"github.com/sagalog/sagalog/events"
	"github.com/sagalog/sagalog/supervisor"
)

// before checks an accepted fact against the state that it changes.
func (p *partition) before(f *events.Fact, by *producer) {
	w := p.w
	if _, claim := f.Body.(*events.PartitionClaimed); !claim {
		if by != p.writer {
			w.fail("INV11: %s, accepted in partition %d, was written by %s and not by the current claimant", f.Body.Name(), p.id, by.slot.node.name)
		}
	}
	p.rules.GoesOn(f)
	p.rules.Passes(f)
	p.rules.Follows(f)
	for _, in := range bothInputs {
		for o := range p.rules.Silent(f, in) {
			p.inputs.seePassed(p.inputs.of(in).meta[o])
		}
	}
	p.effects.settled(SettledAfter(&p.state.Partition, f))
	p.planned(f)
	p.inputs.reported(f)
	p.sagas.judge(f)
	p.permits(f)
	p.schedules.judge(f)
	w.families.judge(p, f)
	w.levels.judge(p, f)
	switch b := f.Body.(type) {
	case *events.Submitted:
		holdsCancel(p, f.Task, b)
	case *events.StepFailed:
		if b.Attempt > 0 {
			p.effects.believes(f, b)
			w.families.fails(p, f, b)
		}
	case *events.CompensationFailed:
		if b.Attempt > 0 {
			p.verdict(f, supervisor.Failure{Path: b.Step, Operation: events.Undo, Error: b.Error, RetryAfter: b.RetryAfter.Std()}, b.Verdict)
		}
	case *events.StepProgressed:
		p.rules.Progresses(f, b)
	case *events.Timeout:
		p.timesOut(f, b)
	case *events.DeadlinePassed:
		p.rules.PassesDeadline(f, b)
	case *events.TimeCorrected:
		p.correction(f, b)
	case *events.TasksSwept:
		p.rules.Sweeps(f, b)
		w.settings.forgets(p, b)
	case *events.SettingsAdopted:
		p.rules.Adopts(b)
		w.settings.adopted(p, b)
	case *events.InputLossAccepted:
		p.rules.GivesUp(b)
		w.saw(sawGivenUp)
		if b.From == b.To {
			w.saw(sawGivenUpNone)
		}
	case *events.InputRejected:
		p.inputs.rejects(f, b)
	case *events.NamespaceClosed:
		if p.state.Partition.Owner != events.CopyOwner {
			w.fail("%s closes partition %d, and no copy has claimed it", p.state.Partition.Owner, p.id)
		}
	}
}

// holdsCancel notes whether a task is accepted whose cancel is held.
func holdsCancel(p *partition, task string, b *events.Submitted) {
	delete(p.sagas.cancelled, task)
	for _, h := range p.state.HeldFor(task) {
		p.sagas.cancelled[task] = p.sagas.cancelled[task] || h.Request.Kind == events.RequestCancel && (h.Request.ScheduleBegan == 0 || h.Request.ScheduleBegan == b.ScheduleBegan)
	}
}

// timesOut checks the end of an attempt, or of the time of its step, without a report.
func (p *partition) timesOut(f *events.Fact, b *events.Timeout) {
	p.rules.TimesOut(f, b)
	switch {
	case b.Attempt == 0 && b.StartBy != 0:
		p.lapsed(f, b)
		return
	case b.Attempt == 0:
		p.gaveUp(f, b)
		return
	}
	for _, x := range p.rules.Pending(events.Reports) {
		if x.Outcome(Attempt{f.Task, b.Step, b.Operation, b.Attempt}, p.ticket(f.Task), runOf(p, Attempt{f.Task, b.Step, b.Operation, b.Attempt})) {
			p.w.saw(sawTimeoutRace)
		}
	}
	unsent := strings.Contains(b.Verdict.Reason, supervisor.UnsentReason)
	p.verdict(f, supervisor.Failure{Path: b.Step, Operation: b.Operation, Effect: events.EffectInDoubt,
		Unsent: unsent, Missing: b.Verdict.Uncounted && !unsent,
		Error: events.Error{Class: events.ClassTimeout, Message: p.silence(f, b)}}, b.Verdict)
}

// silence says what did not come in time: a report, or, of an attempt that may go on longer while it shows progress, any sign of life.
func (p *partition) silence(f *events.Fact, b *events.Timeout) string {
	if t, err := p.state.Task(f.Task); err == nil && t != nil && b.Operation == events.Do {
		if s := t.Step(b.Step); s != nil && s.Heartbeat > 0 && b.CompleteBy < s.CapBy {
			return "its heartbeat was missed: neither progress nor a report came in time"
		}
	}
	return "no report before the complete-by time"
}

// verdict checks that a failure was judged by the policy of the task's own definition.
func (p *partition) verdict(f *events.Fact, x supervisor.Failure, got events.Verdict) {
	t, err := p.state.Task(f.Task)
	if err != nil || t == nil {
		return
	}
	if p.w.clients.toxic[f.Task] != "" {
		return // in some lives of a process, looking up the policy panics
	}
	x.Task, x.Now, x.Policy = t, f.Time, programs.Policy(t, x.Path, x.Operation)
	if s := t.Step(x.Path); s != nil && s.Heartbeat > 0 && x.Error.Class == events.ClassRetryable {
		x.Stopped = strings.Contains(got.Reason, supervisor.StoppedReason)
	}
	if want := supervisor.JudgeFailure(x); want != got {
		p.w.fail("a failure of step %q of task %q is judged %+v; its definition says %+v", x.Path, f.Task, got, want)
	}
}

// after checks an accepted fact against the state after it, and notes the effects that it owes.
func (p *partition) after(f *events.Fact, by *producer) {
	if in, _, o, ok := f.Cause.Input(); ok {
		p.inputs.facts[f.Cause] = f
		if b, ok := f.Body.(*events.InputRejected); ok {
			for o++; o <= b.Last; o++ {
				p.inputs.facts[events.CauseInput(in, p.id, o)] = f
			}
		}
	}
	p.facts[events.FactID(f, p.id)] = f
	p.effects.spans(f)
	t, _ := p.state.Task(f.Task)
	switch b := f.Body.(type) {
	case *events.PartitionClaimed:
		if _, again := p.claims[b.ID]; again {
			p.w.fail("INV11: the claim %s, made by %s, becomes current a second time and deposes the owner", b.ID, b.Owner)
		}
		p.claims[b.ID] = p.at[f]
		p.writer = by
		p.w.report.Epochs++
	case *events.Submitted:
		p.submitted(f, b)
	case *events.RequestHeld:
		p.inputs.held[f.Task+"\x00"+b.Request.ID] = true
	case *events.StepStarted:
		p.startedAt[f.Task+"\x00"+b.Step] = f
		p.w.offers.startsAt(b.Agent)
		p.w.agents.remind(AttemptOf(f.Task, b), t.Incarnation)
	case *events.CompensationStarted:
		p.w.offers.startsAt(b.Agent)
		p.w.agents.remind(AttemptOf(f.Task, b), t.Incarnation)
	case *events.TaskUndone:
		p.mustBeGone(t)
	case *events.TaskProcessed:
		p.mustBeThere(t)
	case *events.TaskParked:
		if strings.HasPrefix(b.Reason, "internal") && p.w.clients.toxic[f.Task] == "" {
			p.w.fail("a task is parked as internal: %s", b.Reason)
		}
		p.w.families.panicked(p, f, b.Reason)
	case *events.InputRejected:
		p.w.families.panicked(p, f, b.Reason)
	case *events.EffectFailed:
		if b.Kind == events.EffectDeadLetter {
			p.w.fail("INV12: a dead letter is given up")
		}
		p.effects.arrived[p.effects.key(b.Of, b.Kind)] = true
		w := p.w
		w.permitsLost = w.permitsLost || slices.Contains([]string{events.EffectPermit, events.EffectStart, events.EffectChild, events.EffectEnd}, b.Kind)
	}
	if t != nil {
		p.sagas.agrees(t)
		p.moves(t)
	}
	p.answers.after(f)
	p.schedules.after(f)
	p.w.families.after(p, f)
	for _, kind := range EffectsOf(f) {
		p.effects.owed = append(p.effects.owed, debt{f.Position(), p.effects.key(f.Position(), kind), f, DestinationOf(f, kind, p.w.opt.Partitions)})
	}
}

func (p *partition) submitted(f *events.Fact, b *events.Submitted) {
	if p.inputs.content[f.Task] == nil {
		p.inputs.content[f.Task] = map[string]bool{}
		p.w.report.Tasks++
	}
	p.inputs.content[f.Task][b.Content] = true
	p.inputs.pinned(f, b)
	if t, err := p.state.Task(f.Task); err != nil || t == nil {
		p.w.fail("INV1: task %q is missing after it was accepted", f.Task)
	} else if t.Incarnation != f.Position().String() {
		p.w.fail("task %q, accepted at %s, has the incarnation %q", f.Task, f.Position(), t.Incarnation)
	}
	if events.Home(f.Task, p.w.opt.Partitions) != p.id {
		p.w.fail("INV1: task %q is accepted in partition %d", f.Task, p.id)
	}
}
