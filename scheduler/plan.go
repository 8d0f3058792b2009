package scheduler

import (
	"errors"
	"fmt"
	"slices"

	"github.com/sagalog/sagalog/events"
)

// Scheduler answers an owner's questions about tasks from the definitions that their partition adopted.
type Scheduler struct {
	*programs
	lists lists
}

// New returns a Scheduler that knows no definition.
func New() *Scheduler { return NewShared().New() }

// Prepare compiles the definition with that hash unless it is known. body has every default filled. The definition stays known at
// least until the next one is prepared; a definition that has not been used for long is forgotten.
func (s *Scheduler) Prepare(hash string, body []byte) error {
	if s.Program(hash) != nil {
		return nil
	}
	p := s.shared.find(hash)
	if p == nil {
		d, err := DecodeDefinition(body)
		if err != nil {
			return err
		}
		if p, err = CompileWith(d, s.shared.keys); err != nil {
			return err
		}
		s.shared.add(hash, p)
	}
	s.keep(hash, prepared{p, len(body)})
	return nil
}

// Use is Prepare with a program that was compiled already.
func (s *Scheduler) Use(hash string, p *Program, bytes int) { s.keep(hash, prepared{p, bytes}) }

// Prepared says whether Prepare needs no body.
func (s *Scheduler) Prepared(hash string) bool { return s.Program(hash) != nil }

// Reset forgets the lists and outputs that were put together. They follow from facts, and are found by run and path alone: if facts turn out to be void,
// others take their places.
func (s *Scheduler) Reset() { s.lists = lists{} }

// prepared returns the program of a task.
func (s *Scheduler) prepared(t *events.Task) (*Program, error) {
	if p := s.Program(t.Definition); p != nil {
		return p, nil
	}
	return nil, fmt.Errorf("definition %s of workflow %q is not prepared", t.Definition, t.Workflow)
}

// Plan returns what follows from the task's state. It is pure (INV4), and once its facts are folded it returns no more facts
// (INV5).
func (s *Scheduler) Plan(t *events.Task) (events.Plan, error) {
	if t.State.Ended() {
		return events.Plan{}, nil
	}
	// A cancel that arrived before the task becomes a fact before any step starts. Otherwise the task could act after it
	// was cancelled.
	if facts := heldCancels(t); len(facts) > 0 {
		return events.Plan{Facts: facts}, nil
	}
	for i := range t.Held {
		if h := &t.Held[i]; h.Kind == events.RequestSignal {
			fact, err := s.keepHeld(t, h)
			if why, passes := errors.AsType[*events.NoKeyError](err); passes {
				return events.Plan{Unopened: why}, nil
			}
			if err != nil {
				return events.Plan{}, err
			}
			return events.Plan{Facts: []events.Body{fact}}, nil
		}
	}
	if t.ParkDue != "" {
		return events.Plan{Facts: []events.Body{&events.TaskParked{Step: t.ParkDue, Reason: t.ParkReason}}}, nil
	}
	if facts := permitFacts(t); len(facts) > 0 {
		return events.Plan{Facts: facts}, nil
	}
	if !t.Starts() {
		return events.Plan{}, nil
	}
	if t.State == events.TaskStateUndoing {
		return s.planUndo(t)
	}
	if !events.Permitted(t) {
		return events.Plan{}, nil
	}
	p, err := s.prepared(t)
	if err != nil {
		return events.Plan{}, err
	}
	return planSteps(p, t, &s.lists), nil
}

// heldCancels returns what follows from the cancels that arrived before the task: the first one makes it turn back, and then all others are refused.
func heldCancels(t *events.Task) (facts []events.Body) {
	for _, h := range t.Held {
		switch {
		case h.Kind != events.RequestCancel:
		case t.State != events.TaskStateUndoing:
			return []events.Body{&events.CancelRequested{Request: h.ID, Reason: h.Reason, By: h.By}}
		default:
			facts = append(facts, &events.RequestRefused{Request: h.ID, Verb: h.Kind, Reason: events.RefusedUndoing, By: h.By})
		}
	}
	return facts
}

// planSteps finds the steps that may start, the steps to be skipped, and the end of the task. It allocates nothing for a task
// that waits for one running step, as most do.
func planSteps(p *Program, t *events.Task, known *lists) events.Plan {
	var few [fewSlots]*events.Step
	states := p.states(t, few[:])
	w, env := planner{task: t}, Env{task: t, keys: p.keys, lists: known}
	open, failed, running := 0, "", false
	for i := range p.steps {
		c := &p.steps[i]
		at := states[c.slot]
		if over(at) {
			continue
		}
		open++
		switch {
		case at == nil:
			w.begin(c, states, &env, 0)
		//mutant:sleep-begins-once
		case at.State == events.StepStateRunning, at.Waits():
			running = true
		case at.Fans():
			active, stuck := w.items(c, at, &env)
			if running = running || active; stuck != "" {
				failed = stuck
			}
		case at.State == events.StepStateWaiting && !at.Attempted(): // rerun, or reopened before it ever started: its condition is evaluated again
			w.begin(c, states, &env, at.NotBefore())
		case at.State == events.StepStateWaiting:
			w.start(c, &env, at.NotBefore())
		default:
			failed = c.step.ID
		}
	}
	if open == 0 {
		if end := finish(p, &env); env.unopened() == nil {
			w.plan.Facts = append(w.plan.Facts, end)
		}
	} else if failed != "" && !running && !w.awaits && w.plan.Quiet() && len(w.plan.Ready) == 0 && env.unopened() == nil {
		// The step that an operator retried is done. Nothing else would make the task progress (INV10).
		w.plan.Facts = append(w.plan.Facts, &events.TaskParked{Step: failed, Reason: fmt.Sprintf("step %q failed and was not retried", failed)})
	}
	if len(t.Kept) > 0 && w.plan.Quiet() && env.unopened() == nil { // all steps that can wait do so, and the order of their facts says which takes a signal
		w.takeSignal(p, &env)
	}
	w.plan.Cost, w.plan.Unopened = env.Close(), env.unopened()
	return w.plan
}

// Offers says whether the plan of a task offers an attempt, and from when. It evaluates no condition: Plan did so when it offered
// the attempt, and everything that a condition depends on was complete then. An owner asks again and again while an attempt waits
// for its agent, and the conditions of one task may cost a second.
func (s *Scheduler) Offers(t *events.Task, path string, op events.Operation) (notBefore events.Instant, yes bool, err error) {
	cancels := func(h events.Request) bool { return h.Kind == events.RequestCancel }
	if !t.Starts() || slices.ContainsFunc(t.Held, cancels) || t.ParkDue != "" || events.AwaitsPermit(t, path, op) {
		return 0, false, nil
	}
	if t.State == events.TaskStateUndoing {
		plan, err := s.planUndo(t)
		return offered(plan, path, op, err)
	}
	if !events.Permitted(t) {
		return 0, false, nil
	}
	p, err := s.prepared(t)
	if err != nil {
		return 0, false, err
	}
	c, at := p.compiled(path), t.Step(path)
	switch step, index, item := events.SplitItem(path); {
	case op == events.Undo && c != nil && at != nil && at.Tolerated():
		w := planner{task: t}
		w.undoTolerated(c, at)
		return offered(w.plan, path, op, nil)
	case c == nil || op != events.Do || !c.step.attempts() || item != (c.step.For != nil):
		return 0, false, nil
	case item && !offersItem(t, step, index, at, c.step.For.Parallel):
		return 0, false, nil
	case item && (at == nil || at.State == events.StepStateNotStarted):
		return nextItemAt(t, t.Step(step)), true, nil
	case at == nil:
		return 0, needsOver(c, t), nil
	case at.State == events.StepStateWaiting && !at.Attempted():
		return at.NotBefore(), needsOver(c, t), nil
	}
	return at.NotBefore(), at.State == events.StepStateWaiting, nil
}

// offered says whether a plan offers an attempt, and from when.
func offered(plan events.Plan, path string, op events.Operation, err error) (events.Instant, bool, error) {
	for _, r := range plan.Ready {
		if r.Path == path && r.Operation == op {
			return r.NotBefore, true, err
		}
	}
	return 0, false, err
}

// needsOver says whether the steps that a step needs are over.
func needsOver(c *compiledStep, t *events.Task) bool {
	return !slices.ContainsFunc(c.step.Needs, func(need string) bool { return !over(t.Step(need)) })
}

// over says whether the step has left not_started and is over, so that the steps that need it may start.
func over(s *events.Step) bool { return s != nil && s.Over() }

// planner builds a plan.
type planner struct {
	task *events.Task
	plan events.Plan
	// awaits says that an attempt waits for a permit.
	awaits bool
}

// begin decides whether a step that has not started may start (INV6), and not before the given instant: an operator's verdict may have
// delayed its first attempt.
func (w *planner) begin(c *compiledStep, states []*events.Step, env *Env, notBefore events.Instant) {
	for _, slot := range c.needs {
		if !over(states[slot]) {
			return
		}
	}
	yes, err := c.runs(env)
	switch {
	case env.unopened() != nil: // the step waits
	case err != nil:
		w.broken(c, env, err)
	case !yes:
		w.plan.Facts = append(w.plan.Facts, &events.StepSkipped{Step: c.step.ID, Why: events.SkipCondition, Condition: c.step.If})
	default:
		w.start(c, env, notBefore)
	}
}

// start adds what starts a step, not before the given instant.
func (w *planner) start(c *compiledStep, env *Env, notBefore events.Instant) {
	o, err := c.kind.begin(env, c.step.ID)
	if env.unopened() != nil { // the step waits
		return
	}
	if err != nil {
		w.broken(c, env, err)
		return
	}
	w.open(c.step.ID, o, notBefore)
}

func (w *planner) broken(c *compiledStep, env *Env, err error) {
	w.plan.Broken = append(w.plan.Broken, events.Broken{Path: c.step.ID, Operation: events.Do, Error: env.fault(events.ClassExpression, err.Error())})
}

// open adds what starts a step or its undo. An attempt starts when its agent has room for it, and not before the given instant.
func (w *planner) open(path string, o opening, notBefore events.Instant) {
	if o.fact != nil {
		w.plan.Facts = append(w.plan.Facts, o.fact)
		return
	}
	t := w.task
	if events.AwaitsPermit(t, path, o.call.Operation) {
		w.awaits = true
		return
	}
	w.plan.Ready = append(w.plan.Ready, events.Ready{
		Task: t.ID, Path: path, Operation: o.call.Operation, Agent: o.call.Agent, Function: o.call.Function, Priority: t.Priority, FairBy: t.FairBy,
		Since: t.SubmittedAt, NotBefore: notBefore,
	})
}

// finish ends the task. If its output cannot be built it parks the task, and the steps stay done.
func finish(p *Program, env *Env) events.Body {
	out, err := p.Output(env)
	if err != nil {
		fault := env.fault(events.ClassExpression, err.Error())
		why := fault.Message
		if fault.Detail != nil { // a reason has none
			why = "the content is sealed, so what the expression says is not repeated here"
		}
		return &events.TaskParked{Reason: "the workflow's output failed to evaluate: " + why + events.OutputHint(env.task)}
	}
	return &events.TaskProcessed{Output: out}
}

// Start returns the input of an attempt and the time that it may take, as the definition says. An error means that an expression
// failed, and no work is sent; an *events.NoKeyError, that it cannot be evaluated now.
func (s *Scheduler) Start(t *events.Task, path string, op events.Operation) (events.Start, error) {
	p, err := s.prepared(t)
	if err != nil {
		return events.Start{}, err
	}
	c := p.compiled(path)
	if c == nil {
		return events.Start{}, fmt.Errorf("workflow %q has no step %q", t.Workflow, path)
	}
	env := Env{task: t, keys: p.keys, lists: &s.lists}
	start, err := c.kind.start(&env, path, op)
	if why := env.unopened(); why != nil {
		return start, why
	}
	if err != nil {
		err = &events.FaultError{Fault: env.fault(events.ClassExpression, err.Error())}
	}
	return start, err
}

// Limit returns the limit of which each attempt to do or undo the step needs a permit, as its records have it; "" if it needs none.
func (s *Scheduler) Limit(t *events.Task, path string) string {
	if p := s.Program(t.Definition); p != nil {
		if c := p.compiled(path); c != nil && c.step.Limit != "" {
			return events.LimitKey(c.step.Limit)
		}
	}
	return ""
}

// Defined returns what the task's definition says about the step; zero if it has none of this name.
func (s *Scheduler) Defined(t *events.Task, path string) events.StepTraits {
	if p := s.Program(t.Definition); p != nil {
		if c := p.compiled(path); c != nil {
			return events.StepTraits{Known: true, Pivot: c.step.Pivot, Calls: c.step.attempts(), Items: c.step.For != nil}
		}
	}
	return events.StepTraits{}
}

// Policy returns the definition's policy for failures of the step's operation.
func (s *Scheduler) Policy(t *events.Task, path string, op events.Operation) events.Policy {
	if p := s.Program(t.Definition); p != nil {
		if c := p.compiled(path); c != nil {
			return c.kind.policy(op)
		}
	}
	return events.Policy{Then: events.ActionPark}
}

// Deadline returns the workflow's own deadline, zero if it has none.
func (s *Scheduler) Deadline(hash string) events.Duration {
	if p := s.Program(hash); p != nil {
		return p.Definition().Deadline
	}
	return 0
}

func expressionError(err error) events.Error {
	return events.Error{Class: events.ClassExpression, Message: err.Error()}
}
