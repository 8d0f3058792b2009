package sim

import (
	"bytes"
	"slices"
	"strings"
	"time"

	"github.com/sagalog/sagalog/events"
	"github.com/sagalog/sagalog/supervisor"
)

// What must be true of parents and children in the world of the simulator, read from their facts. Judge.Relatives has what the model checks too.

// judge checks a fact of a partition about a parent or a child against all partitions, and counts what happens to them.
func (c *families) judge(p *partition, f *events.Fact) {
	w := c.w
	if w.limitless { // the log was lost, and what came after the checkpoints may have been said
		return
	}
	if _, undone := f.Body.(*events.TaskUndone); !undone || p.sagas.byTask[f.Task] == nil || !p.sagas.byTask[f.Task].byHand { // an operator may have left a child
		p.rules.Relatives(f, statesOf(w))
	}
	t := find(statesOf(w), f.Task)
	switch b := f.Body.(type) {
	case *events.Submitted:
		if b.Parent == nil {
			return
		}
		c.begins(f, b)
	case *events.ChildRefused:
		c.refuses(p, f, b)
	case *events.StepCompleted:
		c.endsAs(f, t, b.Step, b.Attempt, b.Request)
	case *events.StepFailed:
		c.endsAs(f, t, b.Step, b.Attempt, b.Request)
	case *events.TaskUndone:
		if t != nil && t.Parent != nil && t.Parent.Undo > 0 {
			w.saw(sawChildUndone)
		}
	}
	c.see(f, t)
}

// begins checks that a try starts its child once, and only if nobody has said that it never did.
func (c *families) begins(f *events.Fact, b *events.Submitted) {
	try := tryOf(f.Task, &b.Parent.Link)
	switch {
	case c.begun[try]:
		c.w.fail("the child %s starts a second time", try)
	case c.refused[try]:
		c.w.fail("the child %s starts, and was refused or lost before", try)
	}
	c.begun[try] = true
	c.w.saw(sawChildBegins)
	if b.Parent.Depth > 1 {
		c.w.saw(sawGrandchild)
	}
	if b.Parent.Detach {
		c.w.saw(sawDetached)
	}
}

// refuses checks that the reason for which a child never starts is true.
func (c *families) refuses(p *partition, f *events.Fact, b *events.ChildRefused) {
	w := c.w
	c.refused[tryOf(f.Task, &b.Parent.Link)] = true
	in, _, o, ok := f.Cause.Input()
	if !ok || in != events.Submissions || o >= p.inputs.submissions.end() {
		w.fail("the child %q is refused, and no input says so", f.Task)
		return
	}
	m, wrong := p.inputs.submissions.meta[o], ""
	switch b.Reason {
	case events.RejectLost:
		if w.saw(sawChildLost); !w.permitsLost && c.landed[m.Relative.try()] && c.awaited(&m.Relative) { // a late copy of an ask may come after the child is forgotten
			wrong = "its submission landed, and no input was given up"
		}
	case events.RejectUnknownWorkflow:
		if w.saw(sawChildUnknown); m.known {
			wrong = "its workflow was applied before it"
		}
	case events.RejectSchema:
		if w.saw(sawChildUnfit); !m.unfit {
			wrong = "it fits its schema"
		}
	case events.RejectTooOld:
		if w.saw(sawChildTooOld); !p.inputs.mayBeTooLate(&p.inputs.submissions.records[o]) {
			wrong = "it cannot be forgotten"
		}
	case events.RejectInternal:
		if !w.clients.poisoned(m) {
			wrong = "nothing about it panics"
		}
	case events.RejectTooLarge:
		if !m.tooLarge {
			wrong = "it is within its limit"
		}
	default:
		wrong = "there is no such reason"
	}
	if m.Kind != InputRelative || m.Relative.Child != f.Task || m.Relative.Link != b.Parent.Link {
		wrong = "it is about another child"
	}
	if wrong != "" {
		w.fail("INV12: the child %q is refused (%s: %s): %s", f.Task, b.Reason, b.Detail, wrong)
	}
}

// awaited says whether a parent still waits for what a record is about.
func (c *families) awaited(x *Relative) bool {
	p := find(statesOf(c.w), x.Link.Task)
	return p != nil && events.AwaitsChild(p, x.Child, x.Link)
}

// endsAs checks that a step that its child ends says what has become of the child. t is the task before the fact.
func (c *families) endsAs(f *events.Fact, t *events.Task, step string, attempt int, request string) {
	if t == nil || request != "" || attempt == 0 || t.Step(step).DoneByChild(events.Do) == "" {
		return
	}
	s := t.Step(step)
	kid := childOf(statesOf(c.w), t, s.Child())
	switch b := f.Body.(type) {
	case *events.StepCompleted:
		if kid == nil && s.ByChild.Detach {
			return
		}
		if kid == nil || !s.ByChild.Detach && (kid.State != events.TaskStateProcessed || !bytes.Equal(kid.Output, b.Output)) {
			c.w.fail("step %q of task %q is completed by %q, which is not processed with that output", step, t.ID, s.Child())
		}
	case *events.StepFailed:
		want := map[string]events.TaskState{"child_undone": events.TaskStateUndone, "child_terminated": events.TaskStateTerminated}[b.Error.Code]
		if want != "" && (kid == nil || kid.State != want) {
			c.w.fail("step %q of task %q fails as %s, and %q is not", step, t.ID, b.Error.Code, s.Child())
		}
	}
}

// panicked notes that what a parent or a child says is not judged, because that panics. It says so again after an hour.
func (c *families) panicked(p *partition, f *events.Fact, reason string) {
	in, _, o, ok := f.Cause.Input()
	if ok && strings.HasPrefix(reason, events.RejectInternal) && o < p.inputs.of(in).end() && p.inputs.of(in).meta[o].Kind == InputRelative {
		c.w.permitsLost = true
	}
}

// see counts what happens to parents and children. t is the task before the fact.
func (c *families) see(f *events.Fact, t *events.Task) {
	w := c.w
	switch b := f.Body.(type) {
	case *events.StepFailed:
		if s, ok := childFailures[b.Error.Code]; ok {
			w.saw(s)
		}
		if t != nil && t.Step(b.Step) != nil && t.Step(b.Step).ByChild != nil && b.Error.Class == events.ClassTimeout {
			w.saw(sawChildLate)
		}
	case *events.CompensationFailed:
		if s, ok := childFailures[b.Error.Code]; ok {
			w.saw(s)
		}
	case *events.ChildAsked:
		if w.saw(sawChildAsked); b.Cancel != "" {
			w.saw(sawChildTurns)
		}
	case *events.ChildAnswered:
		if _, _, _, input := f.Cause.Input(); input {
			w.saw(sawAnswerAgain)
		} else {
			w.saw(sawAnswerDaily)
		}
	case *events.ChildrenReleased:
		w.saw(sawChildrenReleased)
	case *events.ChildReturned:
		w.saw(sawChildReturned)
	case *events.EffectFailed:
		if slices.Contains([]string{events.EffectStart, events.EffectChild, events.EffectEnd}, b.Kind) && b.ScheduleEnded == nil {
			w.saw(sawChildSendRefused)
		}
	}
}

// childFailures are the situations that the code of a failed step shows.
var childFailures = map[string]situation{
	"child_undone": sawChildFailed, "child_terminated": sawChildTerminated, "child_rejected": sawChildRejected, "child_past_pivot": sawChildPastPivot,
}

// after takes the next accepted fact of a partition.
func (c *families) after(p *partition, f *events.Fact) {
	if _, ok := f.Body.(*events.ChildrenReleased); ok {
		for _, to := range relativesTo(f, c.w.opt.Partitions)[1:] {
			p.effects.owed = append(p.effects.owed, debt{f.Position(), p.effects.key(f.Position(), events.EffectChild), f, to})
		}
	}
	switch f.Body.(type) {
	case *events.TaskProcessed, *events.TaskUndone, *events.TaskTerminated, *events.StepFailed, *events.EffectFailed:
		c.turnedAt[f.Task] = c.w.now
	}
	switch f.Body.(type) {
	case *events.StepFailed, *events.EffectFailed, *events.Timeout:
		// While the pivot of a child runs, it ignores that its parent turns back, and learns it again after an hour.
		t, _ := p.state.Task(f.Task)
		c.w.permitsLost = c.w.permitsLost || t != nil && t.Parent != nil && slices.ContainsFunc(t.Steps, func(s *events.Step) bool { return s.Pivot && s.Attempt > 0 })
	}
	if b, ok := f.Body.(*events.StepCompleted); ok {
		if t, _ := p.state.Task(f.Task); t != nil && t.Step(b.Step) != nil && t.Step(b.Step).ByChild != nil { // what an agent may undo
			do := events.Work{Task: f.Task, Ticket: t.Incarnation, Run: events.RunOf(t.RunOf(b.Step)), Step: b.Step}
			c.w.agents.entry(c.w.doKey(&do)).do()
		}
	}
}

// fails checks the verdict on a failed attempt, which a child may have done.
func (c *families) fails(p *partition, f *events.Fact, b *events.StepFailed) {
	x := supervisor.Failure{Path: b.Step, Operation: events.Do, Error: b.Error, Effect: b.Effect, RetryAfter: b.RetryAfter.Std()}
	if t, _ := p.state.Task(f.Task); t != nil && t.Step(b.Step).DoneByChild(events.Do) != "" {
		if b.Error.Code == "child_lost" {
			if b.Verdict.Action != events.ActionPark {
				c.w.fail("the child of step %q of task %q is lost, and it does not park", b.Step, f.Task)
			}
			return
		}
		x.Over = t.Step(b.Step).ByChild.Late && b.Error.Code == "child_undone"
	}
	p.verdict(f, x, b.Verdict)
}

// mayRest says whether the task may be as it is although nothing is under way: it has ended or waits for an operator, for what does not come back
// in this run, or for children of which the same is true.
func (c *families) mayRest(t *events.Task) bool {
	w := c.w
	if t.State.Ended() || t.Halted() || w.outage.mayWait(t) || !events.Permitted(t) || waitsWithin(t) {
		return true
	}
	waits := false
	for _, s := range t.Steps {
		id := s.DoneByChild(events.Do)
		if id == "" {
			id = s.DoneByChild(events.Undo)
		}
		if id == "" && (s.State == events.StepStateRunning || s.Undo != nil && s.Undo.State == events.StepStateRunning) {
			return false
		}
		if id == "" {
			continue
		}
		kid := find(statesOf(w), id)
		if waits = true; kid == nil || kid.State.Ended() || !c.mayRest(kid) {
			return false
		}
	}
	return waits
}

// unrest says what a family still owes, "" if nothing.
func (c *families) unrest() string {
	if c.w.limitless || len(c.bodies) == 0 {
		return ""
	}
	return RelativesRest(statesOf(c.w), func(id string) bool { return c.w.clients.toxic[id] != "" }) // judging what such a task hears may panic each hour
}

// awaitReleases waits for days if a release may have been lost: then the child repeats its answer, and is released again.
func (c *families) awaitReleases() {
	w := c.w
	if w.violation != "" || !w.permitsLost || c.unrest() == "" {
		return
	}
	w.patient = true
	w.loop(w.now.Add(max(w.opt.Remember, 24*time.Hour)+2*events.TellParentAfter), w.atRest)
}
