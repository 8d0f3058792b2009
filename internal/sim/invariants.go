package sim

import (
	"slices"
	"strconv"

	"github.com/sagalog/sagalog/events"
	"github.com/sagalog/sagalog/supervisor"
)

// before checks an accepted fact against the state that it changes.
func (p *partition) before(f *events.Fact, by *producer) {
	w := p.w
	if _, claim := f.Body.(*events.PartitionClaimed); !claim && by != p.writer {
		w.fail("INV11: %s, accepted in partition %d, was written by %s and not by the current claimant", f.Body.Name(), p.id, by.slot.node.name)
	}
	if f.Time < p.state.Partition.Time {
		if _, claim := f.Body.(*events.PartitionClaimed); !claim {
			w.fail("%s in partition %d has a time before that of the fact in front of it", f.Body.Name(), p.id)
		}
	}
	p.passes(f)
	p.settles(f.Settled)
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
		if why := p.needsFact(t.meta[o]); why != "" {
			p.w.fail("INV12: partition %d passes %s offset %d without a fact: %s", p.id, in, o, why)
		}
	}
}

// needsFact says why an input cannot be passed without a fact, "" if it can.
func (p *partition) needsFact(m *meta) string {
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
		if r := m.report; t != nil && r.Run == t.Run && t.Running(r.Step, r.Operation, r.Attempt) {
			return "its attempt is running"
		}
	case metaRequest:
		switch {
		case t == nil && p.everHeld[m.task+"\x00"+m.request.ID]:
		case t != nil && t.HasRequest(m.request.ID):
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
	for o := p.state.Partition.Inputs[events.Reports].Next; o < p.reps.end(); o++ {
		m := p.reps.meta[o]
		if m.kind == metaReport && m.task == f.Task && m.report.Step == b.Step && m.report.Operation == b.Operation &&
			m.report.Attempt == b.Attempt && p.reps.landedAt[o].Add(p.writer.slot.node.skew) < b.CompleteBy {
			p.w.fail("a Timeout of task %q step %q beats its report at offset %d, durable before it fell due", f.Task, b.Step, o)
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
	for _, in := range bothInputs {
		t := p.input(in)
		for o := p.state.Partition.Inputs[in].Next; o < t.end(); o++ {
			m := t.meta[o]
			if m.task == id && (m.kind == metaSubmission || m.kind == metaRequest) && t.landedAt[o].Add(p.writer.slot.node.skew) < before {
				p.w.fail("%s although %s offset %d of %q was durable before and is not judged", what, in, o, id)
			}
		}
	}
}

func (p *partition) rejects(f *events.Fact, b *events.InputRejected) {
	switch {
	case b.Held != "":
		for _, h := range p.state.HeldFor(f.Task) {
			if h.Request.ID != b.Held {
				continue
			}
			if f.Time < h.ExpiresAt {
				p.w.fail("a held request of %q expires early", f.Task)
			}
			t := &p.subs
			for o := p.state.Partition.Inputs[events.Submissions].Next; o < t.end(); o++ {
				if m := t.meta[o]; m.kind == metaSubmission && m.task == f.Task && t.landedAt[o].Add(p.writer.slot.node.skew) < h.ExpiresAt {
					p.w.fail("a held cancel of %q expires although its submission at %d was durable before", f.Task, o)
				}
			}
			return
		}
		p.w.fail("a request of %q expires that is not held", f.Task)
	case b.Reason == events.RejectInternal:
		p.w.fail("an input is rejected as internal: %s", b.Detail)
	case b.Reason == events.RejectWorkflow:
		in, _, o, _ := f.Cause.Input()
		if m := p.input(in).meta[o]; m.known {
			p.w.fail("a submission of workflow %q, applied before it, is rejected as unknown", m.workflow)
		}
	}
}

// after checks an accepted fact against the state that it left, and notes what it owes.
func (p *partition) after(f *events.Fact, by *producer) {
	if _, _, _, ok := f.Cause.Input(); ok {
		p.byCause[f.Cause] = f
	}
	p.facts[events.FactID(f, p.id)] = f
	t, _ := p.state.Task(f.Task)
	switch b := f.Body.(type) {
	case *events.PartitionClaimed:
		if p.claims[b.ID] {
			p.w.fail("INV11: the claim %s, made by %s, becomes current a second time and deposes the owner", b.ID, b.Owner)
		}
		p.claims[b.ID] = true
		p.writer = by
		p.w.report.Epochs++
	case *events.Submitted:
		p.submitted(f, b)
	case *events.RequestHeld:
		p.everHeld[f.Task+"\x00"+b.Request.ID] = true
	case *events.StepStarted:
		p.starts(f, b, t)
	case *events.UndoStarted:
		p.undoes(f, b, t)
	case *events.TaskUndone:
		p.undone[f.Task] = true
	case *events.TaskParked:
		if len(b.Reason) >= 8 && b.Reason[:8] == "internal" {
			p.w.fail("a task is parked as internal: %s", b.Reason)
		}
	case *events.EffectFailed:
		if b.Kind == events.EffectDeadLetter {
			p.w.fail("INV12: a dead letter is given up")
		}
		p.arrived[p.key(b.Of, b.Kind)] = true
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
	delete(p.undone, f.Task)
	p.w.agents.forget(f.Task)
	if _, ok := p.state.Task(f.Task); ok != nil {
		p.w.fail("INV1: task %q is not there after it was accepted", f.Task)
	}
	if events.Home(f.Task, p.w.opt.Partitions) != p.id {
		p.w.fail("INV1: task %q is accepted in partition %d", f.Task, p.id)
	}
}

// starts checks INV6, and that a cancelled task starts nothing.
func (p *partition) starts(f *events.Fact, b *events.StepStarted, t *events.Task) {
	if p.cancelled[f.Task] {
		p.w.fail("step %q of task %q starts although a cancel was held before the task was accepted", b.Step, f.Task)
	}
	if f.Time < b.ReadyAt {
		p.w.fail("step %q of task %q starts before its time", b.Step, f.Task)
	}
	for _, s := range definitionOf(t.Definition).Steps {
		if s.ID != b.Step {
			continue
		}
		for _, need := range s.Needs {
			if n := t.Step(need); n == nil || (n.State != events.StepDone && n.State != events.StepSkippedOff) {
				p.w.fail("INV6: step %q of task %q starts before %q has completed", b.Step, f.Task, need)
			}
		}
		return
	}
	p.w.fail("task %q starts step %q, which its workflow does not have", f.Task, b.Step)
}

// undoes checks the order of undos and that no request of a do can still land (DESIGN 5).
func (p *partition) undoes(f *events.Fact, b *events.UndoStarted, t *events.Task) {
	own := t.Step(b.Step)
	if t.PivotPassed {
		p.w.fail("step %q of task %q is undone past the pivot", b.Step, f.Task)
	}
	if f.Time < t.QuietAt || f.Time < b.ReadyAt {
		p.w.fail("step %q of task %q is undone before a timed-out attempt is quiet", b.Step, f.Task)
	}
	for _, s := range t.Steps {
		switch {
		case s == own:
		case s.State == events.StepRunning:
			p.w.fail("step %q of task %q is undone while %q runs", b.Step, f.Task, s.Path)
		case s.Undo != nil && s.Undo.State == events.StepRunning:
			p.w.fail("steps %q and %q of task %q are undone at once", b.Step, s.Path, f.Task)
		case !s.Undoable || !s.Touched || (s.Undo != nil && s.Undo.State == events.StepUndone):
		case s.Completion == 0 && own.Completion > 0, s.Completion > own.Completion && own.Completion > 0:
			p.w.fail("step %q of task %q is undone before %q", b.Step, f.Task, s.Path)
		}
	}
}

func (p *partition) key(at events.Position, kind string) string {
	return strconv.Itoa(int(p.id)) + "/" + at.String() + " " + kind
}

// effectsOf is what a fact owes, told again apart from the owner.
func effectsOf(f *events.Fact) []string {
	switch b := f.Body.(type) {
	case *events.StepStarted, *events.UndoStarted:
		return []string{events.EffectWork}
	case *events.InputRejected:
		return []string{events.EffectDeadLetter}
	case *events.InputForwarded:
		return []string{events.EffectForward}
	case *events.TaskParked, *events.TaskUndone, *events.DeadlinePassed:
		return []string{events.EffectAlert}
	case *events.StepFailed:
		if b.Error.Class == events.ClassPermanent {
			return []string{events.EffectAlert}
		}
	case *events.EffectFailed:
		switch b.Kind {
		case events.EffectForward:
			return []string{events.EffectDeadLetter, events.EffectAlert}
		case events.EffectWork:
			return []string{events.EffectAlert}
		}
	}
	return nil
}

// leaves checks INV8: the fact of an effect that leaves is durable and accepted. It returns the effect's key.
func (p *partition) leaves(s *slot, a supervisor.Send) string {
	if a.Kind == events.EffectForward && p.w.opt.Off&supervisor.RuleForward != 0 {
		return ""
	}
	id := a.Record.Header(events.HeaderID)
	switch a.Kind {
	case events.EffectDeadLetter:
		id = a.Record.Header(supervisor.DeadFact)
	case events.EffectForward:
		id = ""
		for _, in := range bothInputs {
			if m := p.origin(&a.Record, in); string(in) == a.Topic && m != "" {
				if f := p.byCause[m]; f != nil && f.Body.Name() == events.NameInputForwarded {
					id = events.FactID(f, p.id)
				}
			}
		}
	}
	f := p.facts[id]
	if f == nil {
		p.w.fail("INV8: %s/%d sends %s %q to %s, whose fact the log does not hold", s.node.name, p.id, a.Kind, id, a.Topic)
		return ""
	}
	owed := effectsOf(f)
	if slices.Contains(owed, events.EffectDeadLetter) {
		owed = append(owed, events.EffectAlert) // that it was refused: owed by nobody, sent once an epoch
	}
	if !slices.Contains(owed, a.Kind) {
		p.w.fail("%s/%d sends %s for %s %s", s.node.name, p.id, a.Kind, f.Body.Name(), id)
	}
	p.w.note("%s/%d sends %s %s", s.node.name, p.id, a.Kind, id)
	return p.key(f.Position(), a.Kind)
}

func (p *partition) origin(r *events.Record, in events.Input) events.Cause {
	var part, offset int64
	from := r.Header(events.HeaderForwardedFrom)
	for i := range from {
		if from[i] == '/' {
			part, _ = strconv.ParseInt(from[:i], 10, 32)
			offset, _ = strconv.ParseInt(from[i+1:], 10, 64)
			return events.CauseInput(in, int32(part), offset)
		}
	}
	return ""
}

func (p *partition) arrives(key string) { p.arrived[key] = true }
