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
		if f.Time < p.time {
			w.fail("%s in partition %d has a time before that of the fact in front of it", f.Body.Name(), p.id)
		}
	}
	p.time = max(p.time, f.Time)
	p.passes(f)
	p.settles(f.Settled)
	p.planned(f)
	p.reported(f)
	p.sagas(f)
	switch b := f.Body.(type) {
	case *events.Submitted:
		delete(p.cancelled, f.Task)
		for _, h := range p.state.HeldFor(f.Task) {
			p.cancelled[f.Task] = p.cancelled[f.Task] || h.Request.Kind == events.RequestCancel
		}
	case *events.StepFailed:
		if b.Attempt > 0 {
			p.verdict(f, supervisor.Failure{Path: b.Step, Operation: events.Do, Error: b.Error, Effect: b.Effect, RetryAfter: b.RetryAfter.Std()}, b.Verdict)
		}
	case *events.UndoFailed:
		if b.Attempt > 0 {
			p.verdict(f, supervisor.Failure{Path: b.Step, Operation: events.Undo, Error: b.Error, RetryAfter: b.RetryAfter.Std()}, b.Verdict)
		}
	case *events.Timeout:
		p.timesOut(f, b)
		p.verdict(f, supervisor.Failure{Path: b.Step, Operation: b.Operation, Effect: events.EffectUnknown,
			Error: events.Error{Class: events.ClassTimeout, Message: "no report before the complete-by time"}}, b.Verdict)
	case *events.DeadlinePassed:
		if f.Time < b.Deadline {
			w.fail("the deadline of task %q passed early", f.Task)
		}
	case *events.TasksSwept:
		p.sweeps(b)
	case *events.InputRejected:
		p.rejects(f, b)
	}
}

// verdict checks that a failure was judged by the policy of the task's own definition.
func (p *partition) verdict(f *events.Fact, x supervisor.Failure, got events.Verdict) {
	t, err := p.state.Task(f.Task)
	if err != nil || t == nil {
		return
	}
	if p.w.clients.toxic[f.Task] != "" {
		return // its policy cannot be asked for in all lives of a process
	}
	x.Task, x.Now, x.Policy = t, f.Time, programs.Policy(t, x.Path, x.Operation)
	if want := supervisor.Decide(x); want != got {
		p.w.fail("a failure of step %q of task %q is judged %+v; its definition says %+v", x.Path, f.Task, got, want)
	}
}

// passes checks that no resume point moves over an input that nobody judged (INV12), and that no input is judged
// twice.
func (p *partition) passes(f *events.Fact) {
	to := map[events.Input]int64{}
	if in, part, offset, ok := f.Cause.Input(); ok {
		if part != p.id {
			p.w.fail("a fact of partition %d has the cause %s", p.id, f.Cause)
		}
		if first := p.byCause[f.Cause]; first != nil {
			p.w.fail("INV7: the input %s of partition %d was folded twice: %s and %s", f.Cause, p.id, first.Body.Name(), f.Body.Name())
		}
		if offset < p.state.Partition.Inputs[in].Next {
			p.w.fail("INV12: %s judges %s, which was passed", f.Body.Name(), f.Cause)
		}
		p.silent(in, offset)
		return
	}
	if b, ok := f.Body.(*events.InputsPassed); ok {
		for in, passed := range b.Inputs {
			to[in] = passed.Next
		}
	}
	for _, in := range bothInputs {
		p.silent(in, to[in])
	}
}

// silent checks that everything below the offset which makes no fact needs none.
func (p *partition) silent(in events.Input, to int64) {
	t := p.input(in)
	if to > t.end() {
		p.w.fail("INV12: partition %d passes %s up to %d, which ends at %d", p.id, in, to, t.end())
		return
	}
	for o := p.state.Partition.Inputs[in].Next; o < to; o++ {
		p.seePassed(t.meta[o])
		if why := p.needsFact(t.meta[o], t.landedAt[o]); why != "" {
			p.w.fail("INV12: partition %d passes %s offset %d without a fact: %s", p.id, in, o, why)
		}
	}
}

// needsFact says why an input cannot be passed without a fact, "" if it can.
func (p *partition) needsFact(m *meta, landed events.Instant) string {
	if m.kind == metaControl {
		return ""
	}
	if m.kind == metaGarbage {
		return "it cannot be read"
	}
	if events.Home(m.task, p.w.opt.Partitions) != p.id {
		if p.w.opt.Off&supervisor.RuleForward != 0 {
			return "" // what is lost by it shows when the world is at rest
		}
		return "it is misplaced"
	}
	t, _ := p.state.Task(m.task)
	switch m.kind {
	case metaSubmission:
		if t == nil || t.Content != m.content {
			return "it is no duplicate"
		}
	case metaReport:
		if r := m.report; t != nil && (r.Run == 0 || r.Run == t.Run) && t.Running(r.Step, r.Operation, r.Attempt) && !p.foretold(&r, landed) {
			return "its attempt is running"
		}
	case metaRequest:
		switch {
		case t == nil && p.everHeld[m.task+"\x00"+m.request.ID]:
		case t != nil && t.HasRequest(m.request.ID):
		case t != nil && slices.ContainsFunc(t.Held, func(q events.Request) bool { return q.ID == m.request.ID }): // judged when it is planned
		case t != nil && m.request.Kind == events.RequestCancel && (t.State == events.Undoing || t.State == events.Undone || t.ParkedFrom == events.Undoing):
		default:
			return "the request was not judged"
		}
	}
	return ""
}

// settles checks that the settled position passes no effect that nobody sent.
func (p *partition) settles(to events.Position) {
	for len(p.owed) > 0 && !to.Before(p.owed[0].at) {
		d := p.owed[0]
		if !p.arrived[d.key] && p.stillOwed(d.fact) {
			p.w.fail("settled passes %s, which nobody sent", d.key)
		}
		p.owed = p.owed[1:]
	}
}

// stillOwed says whether the effect must be sent whatever came after: work only for an attempt that runs.
func (p *partition) stillOwed(f *events.Fact) bool {
	t, _ := p.state.Task(f.Task)
	switch b := f.Body.(type) {
	case *events.StepStarted:
		return t != nil && t.Running(b.Step, events.Do, b.Attempt)
	case *events.UndoStarted:
		return t != nil && t.Running(b.Step, events.Undo, b.Attempt)
	}
	return true
}

// timesOut checks that no report of the attempt was durable before the attempt fell due, by the clock of who decides.
func (p *partition) timesOut(f *events.Fact, b *events.Timeout) {
	if f.Time < b.CompleteBy {
		p.w.fail("attempt %d of step %q of task %q times out early", b.Attempt, b.Step, f.Task)
	}
	due := p.writer.time.moment(b.CompleteBy)
	for o := p.state.Partition.Inputs[events.Reports].Next; o < p.reps.end(); o++ {
		m := p.reps.meta[o]
		if m.kind != metaReport || m.task != f.Task || m.report.Step != b.Step || m.report.Operation != b.Operation || m.report.Attempt != b.Attempt || m.report.Run > 1 {
			continue
		}
		p.w.saw(sawTimeoutRace)
		if p.reps.landedAt[o] < due {
			p.w.fail("a Timeout of task %q step %q beats its report at offset %d, durable before it fell due: %s before %s", f.Task, b.Step, o, p.reps.landedAt[o], due)
		}
	}
}

// sweeps checks that nothing durable before the horizon is judged after its task was forgotten, and that no effect
// of the task is behind the settled position (reading/traces.md, B1 to B7).
func (p *partition) sweeps(b *events.TasksSwept) {
	for _, id := range b.Tasks {
		t, _ := p.state.Task(id)
		if t == nil || !t.State.Ended() {
			p.w.fail("INV9: task %q is swept and has not ended", id)
			return
		}
		horizon := t.EndedAt.Add(p.w.cfg.Settings.RememberFor.Std())
		if t.EndedAt >= b.EndedBefore {
			p.w.fail("task %q is swept before its horizon", id)
		}
		p.unjudged(id, horizon, "the task is forgotten")
		for _, d := range p.owed {
			if d.fact.Task == id && !p.arrived[d.key] {
				p.w.fail("task %q is swept while %s is not settled", id, d.key)
			}
		}
	}
}

// unjudged checks that no submission or request of the task was durable before the instant, by the decider's clock,
// and is still to be judged.
func (p *partition) unjudged(id string, before events.Instant, what string) {
	due := p.writer.time.moment(before)
	for _, in := range bothInputs {
		t := p.input(in)
		for o := p.state.Partition.Inputs[in].Next; o < t.end(); o++ {
			m := t.meta[o]
			if m.task == id && (m.kind == metaSubmission || m.kind == metaRequest) && t.landedAt[o] < due {
				p.w.fail("%s although %s offset %d of %q was durable before and is not judged", what, in, o, id)
			}
		}
	}
}

// rejects checks that an input is rejected for a reason that is true.
func (p *partition) rejects(f *events.Fact, b *events.InputRejected) {
	if b.Held != "" {
		p.expires(f, b)
		return
	}
	in, _, o, ok := f.Cause.Input()
	if !ok || o >= p.input(in).end() {
		return // passes has said so
	}
	m := p.input(in).meta[o]
	t, _ := p.state.Task(m.task)
	wrong := ""
	switch b.Reason {
	case events.RejectInternal:
		if !p.w.clients.poisoned(m) {
			wrong = "nothing of it panics"
		}
	case events.RejectUnreadable, events.RejectInvalid:
		if m.kind != metaGarbage || m.tooLarge {
			wrong = "it is well formed, or too large to tell"
		}
	case events.RejectTooLarge:
		if !m.tooLarge {
			wrong = "it is within its limit"
		}
	case events.RejectWorkflow:
		if m.known {
			wrong = "its workflow was applied before it"
		}
	case events.RejectSchema:
		if !m.unfit {
			wrong = "it fits its schema"
		}
	case events.RejectConflict:
		if t == nil || t.Content == m.content {
			wrong = "nothing contradicts it"
		}
	case events.RejectMisplaced:
		if m.origin == "" && m.kind != metaGarbage {
			wrong = "nobody forwarded it"
		}
	case events.RejectRefused, events.RejectLimit:
		if m.kind != metaRequest {
			wrong = "it is no request"
		}
		if g := p.saga[m.task]; g != nil && g.requests[m.request.ID] {
			wrong = "it repeats one that was judged"
		}
		if b.Reason == events.RejectLimit && len(p.state.Held()) < p.w.cfg.Settings.HeldRequests {
			wrong = "more requests may be held"
		}
	}
	if wrong != "" {
		p.w.fail("INV12: %s is rejected (%s: %s): %s", f.Cause, b.Reason, b.Detail, wrong)
	}
}

// expires checks that a held request waited long enough for its task.
func (p *partition) expires(f *events.Fact, b *events.InputRejected) {
	for _, h := range p.state.HeldFor(f.Task) {
		if h.Request.ID != b.Held {
			continue
		}
		if f.Time < h.ExpiresAt {
			p.w.fail("a held request of %q expires early", f.Task)
		}
		due := p.writer.time.moment(h.ExpiresAt)
		t := &p.subs
		for o := p.state.Partition.Inputs[events.Submissions].Next; o < t.end(); o++ {
			if m := t.meta[o]; m.kind == metaSubmission && m.task == f.Task && t.landedAt[o] < due {
				p.w.fail("a held cancel of %q expires although its submission at %d was durable before", f.Task, o)
			}
		}
		return
	}
	p.w.fail("a request of %q expires that is not held", f.Task)
}

// after checks an accepted fact against the state that it left, and notes what it owes.
func (p *partition) after(f *events.Fact, by *producer) {
	if _, _, _, ok := f.Cause.Input(); ok {
		p.byCause[f.Cause] = f
	}
	p.facts[events.FactID(f, p.id)] = f
	p.spans(f)
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
		p.everHeld[f.Task+"\x00"+b.Request.ID] = true
	case *events.StepStarted:
		p.startedAt[f.Task+"\x00"+b.Step] = f
	case *events.TaskUndone:
		p.undone[f.Task] = true
	case *events.TaskParked:
		if strings.HasPrefix(b.Reason, "internal") && p.w.clients.toxic[f.Task] == "" {
			p.w.fail("a task is parked as internal: %s", b.Reason)
		}
	case *events.EffectFailed:
		if b.Kind == events.EffectDeadLetter {
			p.w.fail("INV12: a dead letter is given up")
		}
		p.arrived[p.key(b.Of, b.Kind)] = true
	}
	if t != nil {
		p.agrees(t)
		p.moves(t)
	}
	for _, kind := range effectsOf(f) {
		p.owed = append(p.owed, debt{f.Position(), p.key(f.Position(), kind), f})
	}
}

func (p *partition) submitted(f *events.Fact, b *events.Submitted) {
	if p.content[f.Task] == nil {
		p.content[f.Task] = map[string]bool{}
		p.w.report.Tasks++
	}
	p.content[f.Task][b.Content] = true
	p.pinned(f, b)
	delete(p.undone, f.Task)
	p.w.agents.forget(f.Task)
	if t, err := p.state.Task(f.Task); err != nil || t == nil {
		p.w.fail("INV1: task %q is not there after it was accepted", f.Task)
	}
	if events.Home(f.Task, p.w.opt.Partitions) != p.id {
		p.w.fail("INV1: task %q is accepted in partition %d", f.Task, p.id)
	}
}
