package sim

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/sagalog/sagalog/events"
	"github.com/sagalog/sagalog/scheduler"
	"github.com/sagalog/sagalog/supervisor"
)

// What an operator decided about a step, by the saga's own account.

// decided judges the request of an operator's decision about a step. A parked task goes on if the step had failed and no other has.
func (g *saga) decided(f *events.Fact, request, step string, failed bool) string {
	if !g.once(request) {
		return "a request is judged twice"
	}
	g.byHand = true
	if g.parkStep == step {
		g.parkDue, g.parkStep = false, ""
	}
	for _, s := range g.steps {
		if s.undoFailed || s.failed && !g.undoing {
			failed = false
		}
	}
	if failed {
		g.unparks(f)
	}
	return ""
}

// tellsByHand adds a fact by which an operator decided that a step or an undo is over; false for any other fact.
func (g *saga) tellsByHand(w *World, f *events.Fact) (why string, so bool) {
	if ByHand(f).Request == "" {
		return "", false
	}
	switch b := f.Body.(type) {
	case *events.StepSkipped:
		return g.skippedByHand(w, f, b), true
	case *events.StepCompleted:
		return g.completedByHand(f, b), true
	case *events.Compensated:
		return g.compensatedByHand(w, f, b), true
	}
	return "", false
}

func (g *saga) skippedByHand(w *World, f *events.Fact, b *events.StepSkipped) string {
	s, failed := g.steps[b.Step], false
	switch {
	case s == nil:
		return "a step is skipped that the task does not have"
	case b.Left:
		if why := g.undoOpen(s); why != "" {
			return why
		}
		failed, s.left, s.undoneByHand = s.undoFailed, true, true
		if _, why := s.decidedUndo(w, b.Child); why != "" {
			return why
		}
	case g.undoing, s.running, s.over(), s.fans, s.item && !s.known:
		return "an operator skips a step that runs, is over, or is undone"
	case s.def.Pivot:
		return "an operator skips the pivot"
	default:
		failed, s.skipped, s.failed, s.queued, s.output, s.wait = s.failed, true, false, false, b.Output, nil
	}
	return g.decided(f, b.Request, b.Step, failed)
}

// undoOpen says why an operator cannot decide about the undo of a step.
func (g *saga) undoOpen(s *sagaStep) string {
	if !g.undoes(s) || s.undoRuns || s.undone || s.undo == s.earlierUndos && !s.undoFailed && s.back.askedAt == 0 {
		return "an operator decides about an undo that runs, is over, or has not begun"
	}
	return ""
}

func (g *saga) completedByHand(f *events.Fact, b *events.StepCompleted) string {
	s := g.steps[b.Step]
	if s == nil || g.undoing || s.running || s.over() || !s.attempted() && s.wait == nil || s.attempt != b.Attempt || b.QuietAt != 0 {
		return "an operator completes a step that runs, is over, or was not attempted"
	}
	failed := s.failed
	s.failed, s.done, s.touched, s.output, s.doneByHand, s.wait = false, true, s.attempted(), b.Output, true, nil
	g.completed = append(g.completed, b.Step)
	g.pivotPassed = g.pivotPassed || s.def.Pivot
	return g.decided(f, b.Request, b.Step, failed)
}

func (g *saga) compensatedByHand(w *World, f *events.Fact, b *events.Compensated) string {
	s := g.steps[b.Step]
	if s == nil || s.undo != b.Attempt || b.QuietAt != 0 {
		return "an operator completes an undo that the step does not have, or puts it in doubt"
	}
	if why := g.undoOpen(s); why != "" {
		return why
	}
	failed := s.undoFailed
	s.undoneByHand = true
	if _, why := s.decidedUndo(w, b.Child); why != "" {
		return why
	}
	return g.decided(f, b.Request, b.Step, failed)
}

// leftSteps checks which steps a task leaves that ends undone.
func (g *saga) leftSteps(b *events.TaskUndone) string {
	n := 0
	for id, s := range g.steps {
		if s.left {
			n++
		}
		if s.left != slices.Contains(b.Left, id) {
			return "a task that ends undone names other steps than those that were left"
		}
	}
	if n != len(b.Left) {
		return "a task that ends undone names a step twice"
	}
	return ""
}

// decides checks that what an operator decided agrees with the request.
func decides(f *events.Fact, q *events.Request) string {
	op, step, output, verb := events.Do, "", []byte(nil), events.RequestFail
	var by events.Operator
	switch b := f.Body.(type) {
	case *events.StepSkipped:
		step, output, verb, by = b.Step, b.Output, events.RequestSkip, b.Operator
		if b.Left {
			op = events.Undo
		}
	case *events.StepCompleted:
		step, output, verb, by = b.Step, b.Output, events.RequestComplete, b.Operator
	case *events.Compensated:
		op, step, verb, by = events.Undo, b.Step, events.RequestComplete, b.Operator
	case *events.StepFailed:
		step, by = b.Step, b.Operator
	case *events.CompensationFailed:
		op, step, by = events.Undo, b.Step, b.Operator
	default:
		return ""
	}
	switch {
	case q.Kind != verb || q.Step != step || q.ID != by.Request || q.Operation != "" && q.Operation != op:
		return "it is about something else"
	case !bytes.Equal(q.Output, output):
		return "it gives another output"
	}
	return ""
}

// ByHand returns what an operator decided in a fact, if one did.
func ByHand(f *events.Fact) events.Operator {
	switch b := f.Body.(type) {
	case *events.StepSkipped:
		return b.Operator
	case *events.StepCompleted:
		return b.Operator
	case *events.Compensated:
		return b.Operator
	case *events.StepFailed:
		return b.Operator
	case *events.CompensationFailed:
		return b.Operator
	}
	return events.Operator{}
}

// decide is an operator's decision about a step of a live task, in whatever state: many are refused.
func (c *clients) decide() {
	w := c.w
	for _, i := range w.rng.Perm(len(c.bodies)) {
		q := events.Request{Task: fmt.Sprintf("t%d", i), Kind: []events.Verb{events.RequestSkip, events.RequestComplete, events.RequestFail, events.RequestRetry}[w.rng.IntN(4)]}
		t, err := w.parts[events.Home(q.Task, w.opt.Partitions)].state.Task(q.Task)
		if err != nil || t == nil || t.State.Ended() {
			continue
		}
		if d := definitionOf(t.Definition); d != nil {
			q.Step = stepIn(w, d)
		}
		for _, s := range t.Steps {
			if decidable(s, q.Kind) && w.rng.IntN(3) > 0 {
				q.Step = s.Path
			}
		}
		c.fill(&q, t)
		c.request(q)
		return
	}
}

// stepIn draws a step of a workflow, and of one with items one of these now and then, which need not exist.
func stepIn(w *World, d *scheduler.Definition) string {
	s := &d.Steps[w.rng.IntN(len(d.Steps))]
	if s.For != nil && w.rng.IntN(2) == 0 {
		return events.ItemPath(s.ID, w.rng.IntN(6))
	}
	return s.ID
}

// decidable says whether an operator would decide about the step.
func decidable(s *events.Step, verb events.Verb) bool {
	state := s.State
	if s.Undo != nil {
		state = s.Undo.State
	}
	running := state == events.StepStateRunning
	return running == (verb == events.RequestFail) && (running || state == events.StepStateFailed || state == events.StepStateTimedOut || state == events.StepStateWaiting)
}

// fill draws the members of a decision.
func (c *clients) fill(q *events.Request, t *events.Task) {
	w := c.w
	if w.rng.IntN(3) == 0 {
		q.Operation = []events.Operation{events.Do, events.Undo}[w.rng.IntN(2)]
	}
	value := json.RawMessage(fmt.Sprintf(`{"n":%d}`, c.requests))
	switch q.Kind {
	case events.RequestSkip, events.RequestComplete:
		if w.rng.IntN(2) == 0 && !t.Undoing() {
			q.Output = value
		}
	case events.RequestFail:
		q.Error = &events.Error{Class: []events.Class{"", events.ClassRetryable, events.ClassPermanent}[w.rng.IntN(3)], Message: "by hand"}
	case events.RequestRetry:
		q.With, q.Operation = value, ""
	}
}

// stops checks that nobody needs the outcome of an attempt that an owner wants stopped. The stop is lost: the agents here are older ones,
// which do not know it.
func (p *partition) stops(a *supervisor.Send) {
	stop, ok := events.DecodeStop(&a.Record)
	if !ok || a.ID != 0 {
		p.w.fail("a stop that cannot be read, or that something waits for")
		return
	}
	p.w.saw(sawStop)
	g := p.sagas.byTask[stop.Task]
	if g == nil || p.ticket(stop.Task) != stop.Ticket || g.undoing && stop.Operation == events.Do {
		return
	}
	s := g.steps[stop.Step]
	if s == nil || s.running && s.attempt == stop.Attempt && stop.Operation == events.Do || s.undoRuns && s.undo == stop.Attempt && stop.Operation == events.Undo {
		p.w.fail("the attempt %d to %s %s.%s is stopped although its outcome is wanted", stop.Attempt, stop.Operation, stop.Task, stop.Step)
	}
}

// seeByHand counts what operators decide about steps. t is the task before the fact.
func (w *World) seeByHand(f *events.Fact, t *events.Task) {
	seeWoken(w, f, t)
	seeFanOut(w, f, t)
	switch b := f.Body.(type) {
	case *events.StepSkipped:
		switch s := t.Step(b.Step); {
		case b.Why != events.SkipOperator:
		case b.Left:
			w.saw(sawLeft)
		case s != nil && s.Touched:
			w.saw(sawSkippedTouched)
		default:
			w.saw(sawSkippedByHand)
		}
	case *events.StepCompleted:
		if b.Request == "" {
			return
		}
		if w.saw(sawCompletedByHand); t.Step(b.Step).Pivot {
			w.saw(sawPivotByHand)
		}
	case *events.Compensated:
		if b.Request != "" {
			w.saw(sawUndoneByHand)
		}
	case *events.StepFailed:
		switch {
		case b.Request == "":
		case b.Attempt == 0:
			w.saw(sawFailedWaiting)
		default:
			w.saw(sawFailedByHand)
		}
	case *events.CompensationFailed:
		if b.Request != "" {
			w.saw(sawUndoFailedByHand)
		}
	case *events.TaskReopened:
		if len(b.With) > 0 {
			w.saw(sawGivenInput)
		}
	}
}
