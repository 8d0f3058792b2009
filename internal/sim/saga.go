package sim

import (
	"bytes"
	"encoding/json"
	"maps"
	"slices"

	"github.com/sagalog/sagalog/events"
	"github.com/sagalog/sagalog/scheduler"
)

// saga is what the judge knows of a task apart from the fold: DESIGN 5 told a second time, and shorter. It takes from the
// facts what they say, and from the workflow what it asks for, and shares no line with fold or plan.
type saga struct {
	def                    *scheduler.Definition
	input                  json.RawMessage
	ended, undoing, parked bool
	pivotPassed            bool
	// accepted is the offset of the fact that accepted it.
	accepted int64
	// requests are those that were judged.
	requests map[string]bool
	// parkDue says that a verdict asks for an operator.
	parkDue bool
	// quiet is when no request of a timed-out attempt can land any more.
	quiet     events.Instant
	steps     map[string]*sagaStep
	completed []string // in order
}

type sagaStep struct {
	def      *scheduler.Step
	agent    string
	attempt  int
	running  bool
	done     bool
	skipped  bool
	touched  bool // some attempt may have had an effect
	output   json.RawMessage
	undo     int // attempts
	undoRuns bool
	undone   bool
	byUndo   string // the agent of the running undo
	// tries are the attempts since the last cool-down or retry by an operator.
	tries, coolDowns, undoTries int
	// notBefore and undoNotBefore are when the next attempt may start.
	notBefore, undoNotBefore events.Instant
	// undoFailed says that its undo is an operator's.
	undoFailed bool
}

func newSaga(b *events.Submitted) *saga {
	g := &saga{def: definitionOf(b.Hash), input: b.Input, steps: map[string]*sagaStep{}, requests: map[string]bool{}}
	if g.def != nil {
		for i := range g.def.Steps {
			g.steps[g.def.Steps[i].ID] = &sagaStep{def: &g.def.Steps[i]}
		}
	}
	return g
}

// sagas judges a fact by the second telling, before it is folded.
func (p *partition) sagas(f *events.Fact) {
	if b, ok := f.Body.(*events.TasksSwept); ok {
		for _, id := range b.Tasks {
			delete(p.saga, id)
		}
		return
	}
	body := f.Body
	switch b := body.(type) {
	case *events.RequestHeld, *events.InputRejected, *events.InputForwarded, *events.PartitionClaimed:
		return
	case *events.Submitted:
		if p.saga[f.Task] != nil {
			p.w.fail("INV1: task %q is accepted twice", f.Task)
		}
		p.saga[f.Task] = newSaga(b)
		p.saga[f.Task].accepted = p.log.end() - 1
		return
	case *events.EffectFailed:
		switch {
		case b.Failed != nil:
			body = b.Failed
		case b.UndoFailed != nil:
			body = b.UndoFailed
		default:
			return
		}
	}
	if f.Task == "" {
		return
	}
	g := p.saga[f.Task]
	switch {
	case g == nil:
		p.w.fail("INV1: %s of task %q, which this partition does not have", body.Name(), f.Task)
	case g.ended:
		p.w.fail("INV9: %s of task %q, which has ended", body.Name(), f.Task)
	default:
		if why := p.tells(g, f, body); why != "" {
			p.w.fail("%s (%s of task %q)", why, body.Name(), f.Task)
		}
	}
}

// tells takes the fact into the saga, or says which promise it breaks.
func (p *partition) tells(g *saga, f *events.Fact, body events.Body) string {
	switch b := body.(type) {
	case *events.StepStarted:
		return p.startsStep(g, f, b)
	case *events.StepCompleted:
		return g.completes(b)
	case *events.StepFailed:
		return p.fails(g, f, b)
	case *events.Timeout:
		return p.timesOutIn(g, f, b)
	case *events.StepSkipped:
		return g.skips(b)
	case *events.UndoStarted:
		return p.startsUndo(g, f, b)
	case *events.Compensated:
		s := g.steps[b.Step]
		if s == nil || !s.undoRuns || s.undo != b.Attempt {
			return "INV7: the outcome of an undo that does not run"
		}
		s.undoRuns, s.undone = false, true
	case *events.UndoFailed:
		return p.undoFails(g, f, b)
	case *events.CancelRequested:
		if g.once(b.Request) {
			return g.turns("a cancel")
		}
		return "a request is judged twice"
	case *events.DeadlinePassed:
		if b.Action == events.DeadlineUndo {
			return g.turns("a deadline")
		}
	case *events.TaskProcessed:
		return g.ends(b)
	case *events.TaskUndone:
		return g.endsUndone()
	case *events.TaskParked:
		return g.parks(b)
	case *events.TaskReopened:
		if !g.once(b.Request) {
			return "a request is judged twice"
		}
		g.reopens(b)
	}
	return ""
}

// once says whether the request is judged for the first time.
func (g *saga) once(request string) bool {
	was := g.requests[request]
	g.requests[request] = true
	return !was
}

// parks checks that an operator is asked for a step that needs one.
func (g *saga) parks(b *events.TaskParked) string {
	s := g.steps[b.Step]
	switch {
	case g.parked:
		return "a parked task is parked"
	case b.Step != "" && s == nil:
		return "a task is parked for a step that it does not have"
	case b.Step != "" && g.undoing != s.undoFailed:
		return "a task is parked for a step that needs no operator"
	}
	g.parked, g.parkDue = true, false
	return ""
}

// reopens counts anew what an operator retries.
func (g *saga) reopens(b *events.TaskReopened) {
	g.parked = false
	for _, id := range b.Steps {
		switch s := g.steps[id]; {
		case s == nil:
		case g.undoing:
			s.undoTries, s.undoFailed, s.undoNotBefore = 0, false, 0
		default:
			s.tries, s.coolDowns, s.notBefore = 0, 0, 0
		}
	}
}

func (p *partition) startsStep(g *saga, f *events.Fact, b *events.StepStarted) string {
	s := g.steps[b.Step]
	switch {
	case s == nil:
		return "INV6: the workflow has no such step"
	case g.undoing || g.parked || g.parkDue:
		return "a step starts in a task that is undone or parked, or to be parked"
	case s.running || s.done || s.skipped:
		return "INV7: a step starts that runs or has ended"
	case b.Attempt != s.attempt+1:
		return "INV7: an attempt is numbered wrong"
	case f.Time < s.notBefore:
		return "a step starts again before its time"
	case p.cancelled[f.Task]:
		return "a step starts although a cancel was held before the task was accepted"
	}
	for _, need := range s.def.Needs {
		if n := g.steps[need]; !n.done && !n.skipped {
			return "INV6: a step starts before what it needs has completed"
		}
	}
	if b.Agent != s.def.Agent || b.Pivot != s.def.Pivot || b.Undoable != (s.def.Undo != nil) || b.CompleteBy != f.Time.Add(s.def.CompleteBy.Std()) {
		return "a step starts otherwise than its workflow says"
	}
	s.attempt, s.running, s.agent = b.Attempt, true, b.Agent
	s.tries++
	return p.takesPlace(b.Agent, b.Input)
}

// takesPlace checks the window of an agent and the limit of a step's input.
func (p *partition) takesPlace(agent string, input json.RawMessage) string {
	n := 0
	for _, g := range p.saga {
		for _, s := range g.steps {
			if s.running && s.agent == agent {
				n++
			}
			if s.undoRuns && s.byUndo == agent {
				n++
			}
		}
	}
	switch window := p.w.cfg.Window; {
	case n > window:
		return "an agent has more attempts than its window"
	case n == window:
		p.w.saw(sawWindowFull)
	}
	if len(input) > p.w.cfg.Settings.PayloadBytes {
		return "the input of a step is above its limit"
	}
	return ""
}

func (g *saga) completes(b *events.StepCompleted) string {
	s := g.steps[b.Step]
	if s == nil || !s.running || s.attempt != b.Attempt {
		return "INV7: the outcome of an attempt that does not run"
	}
	s.running, s.done, s.touched, s.output = false, true, true, b.Output
	g.completed = append(g.completed, b.Step)
	g.pivotPassed = g.pivotPassed || s.def.Pivot
	return ""
}

// turns begins the undoing, or leaves it as it is.
func (g *saga) turns(why string) string {
	if g.undoing {
		return ""
	}
	for _, s := range g.steps {
		if s.def.Pivot && (s.running || s.touched) {
			return why + " turns a task that may be past its pivot"
		}
	}
	g.undoing, g.parked, g.parkDue = true, false, false
	return ""
}

func (g *saga) skips(b *events.StepSkipped) string {
	s := g.steps[b.Step]
	switch {
	case s == nil || s.running || s.done || s.attempt > 0:
		return "INV6: a step is skipped that was attempted"
	case s.def.If == "":
		return "INV6: a step without a condition is skipped"
	}
	var in struct {
		N     json.Number `json:"n"`
		Extra bool        `json:"extra"`
	}
	if err := json.Unmarshal(g.input, &in); err == nil && g.def.Workflow == "dag" && in.Extra {
		return "INV6: a step is skipped whose condition holds"
	}
	s.skipped = true
	return ""
}

// startsUndo checks that nothing of the task runs, that the step has something to undo, and that it is its turn: those of
// unknown outcome first, then the completed ones backwards.
func (p *partition) startsUndo(g *saga, f *events.Fact, b *events.UndoStarted) string {
	own := g.steps[b.Step]
	switch {
	case own == nil || own.def.Undo == nil:
		return "the step has no undo"
	case !g.undoing || g.parked || own.undoFailed:
		return "an undo starts in a task that is not being undone, or is to be parked"
	case own.undone || !own.touched:
		return "an undo starts that is not needed"
	case b.Attempt != own.undo+1:
		return "INV7: an attempt is numbered wrong"
	case b.Agent != own.def.Undo.Agent || b.CompleteBy != f.Time.Add(own.def.Undo.CompleteBy.Std()):
		return "an undo starts otherwise than its workflow says"
	case len(b.Output) > 0 && !bytes.Equal(b.Output, own.output), own.done && len(own.output) > 0 && len(b.Output) == 0:
		return "an undo has another output than its step"
	}
	if f.Time < own.undoNotBefore {
		return "an undo starts again before its time"
	}
	if f.Time < g.quiet {
		return "an undo starts before a timed-out attempt is quiet"
	}
	turn := slices.Index(g.completed, b.Step)
	for _, id := range slices.Sorted(maps.Keys(g.steps)) {
		s := g.steps[id]
		switch {
		case s.running || s.undoRuns:
			return "an undo starts while another attempt of the task runs"
		case s == own || s.def.Undo == nil || !s.touched || s.undone:
		case turn >= 0 && (!s.done || slices.Index(g.completed, id) > turn):
			return "an undo starts before its turn"
		}
	}
	own.undo, own.undoRuns, own.byUndo = b.Attempt, true, b.Agent
	own.undoTries++
	return p.takesPlace(b.Agent, b.Input)
}

func (g *saga) ends(b *events.TaskProcessed) string {
	if g.undoing || g.parked {
		return "a task that is undone or parked ends well"
	}
	for _, s := range g.steps {
		if !s.done && !s.skipped {
			return "a task ends well before all its steps"
		}
	}
	if only := g.steps["only"]; only != nil && !bytes.Equal(b.Output, only.output) {
		return "a task ends with another output than its workflow says"
	}
	g.ended = true
	return ""
}

func (g *saga) endsUndone() string {
	if !g.undoing || g.parked {
		return "a task ends undone that was not being undone"
	}
	for _, s := range g.steps {
		switch {
		case s.running || s.undoRuns:
			return "a task ends undone while an attempt of it runs"
		case s.def.Undo != nil && s.touched && !s.undone:
			return "a task ends undone, and a step of it is not"
		}
	}
	g.ended = true
	return ""
}

// agrees compares the saga with the folded task.
func (p *partition) agrees(t *events.Task) {
	g := p.saga[t.ID]
	if g == nil {
		return
	}
	undoing := t.State == events.Undoing || t.State == events.Undone || t.ParkedFrom == events.Undoing
	if g.ended != t.State.Ended() || g.parked != (t.State == events.Parked) || g.undoing != undoing || g.pivotPassed != t.PivotPassed || g.parkDue != (t.ParkDue != "") {
		p.w.fail("INV2: task %q is folded to %s; told by its facts it is %+v", t.ID, t.State, *g)
	}
	for id, s := range g.steps {
		x := t.Step(id)
		if x == nil {
			if s.attempt > 0 {
				p.w.fail("INV2: step %q of task %q is lost", id, t.ID)
			}
			continue
		}
		undone := x.Undo != nil && x.Undo.State == events.StepUndone
		runs := x.Undo != nil && x.Undo.State == events.StepRunning
		if s.running != (x.State == events.StepRunning) || s.touched != x.Touched || s.done != (x.Completion > 0) ||
			s.attempt != x.Attempt || (undoing && x.State == events.StepWaiting) || s.undone != undone || s.undoRuns != runs || !bytes.Equal(s.output, x.Output) {
			p.w.fail("INV2: step %q of task %q is folded to %+v; told by its facts it is %+v", id, t.ID, *x, *s)
		}
	}
}
