package scheduler

import (
	"fmt"
	"maps"
	"sync/atomic"

	"github.com/sagalog/sagalog/events"
)

// Scheduler answers an owner's questions about tasks by the definitions that their partition adopted. It holds
// nothing but compiled definitions, so one serves every partition of a process.
type Scheduler struct {
	// programs are by definition hash. Neither the map nor a program in it ever changes: a new definition makes a new map,
	// since definitions are looked up for each fact and adopted a few times a day.
	programs atomic.Pointer[map[string]*Program]
}

// New returns a Scheduler that knows no definition.
func New() *Scheduler {
	s := &Scheduler{}
	s.programs.Store(&map[string]*Program{})
	return s
}

// Prepare compiles the definition of that hash, unless it is known. body has every default filled.
func (s *Scheduler) Prepare(hash string, body []byte) error {
	if s.program(hash) != nil {
		return nil
	}
	d, err := DecodeDefinition(body)
	if err != nil {
		return err
	}
	p, err := Compile(d)
	if err != nil {
		return err
	}
	for {
		old := s.programs.Load()
		programs := maps.Clone(*old)
		programs[hash] = p
		if s.programs.CompareAndSwap(old, &programs) {
			return nil
		}
	}
}

func (s *Scheduler) program(hash string) *Program { return (*s.programs.Load())[hash] }

// Program returns the compiled definition of that hash, nil if it was not prepared.
func (s *Scheduler) Program(hash string) *Program { return s.program(hash) }

// CheckInput validates a task's input by the schema of the definition and returns what is wrong, in one text; empty
// if nothing is.
func (s *Scheduler) CheckInput(hash string, input []byte) string {
	p := s.program(hash)
	if p == nil {
		return "the definition is not prepared"
	}
	text := ""
	for _, f := range p.ValidateInput(input) {
		if text != "" {
			text += "; "
		}
		text += "/input" + f.Pointer + ": " + f.Message
	}
	return text
}

// Plan returns what follows from the task's state. It is pure (INV4), and quiet once what it returned is folded
// (INV5).
func (s *Scheduler) Plan(t *events.Task) (events.Plan, error) {
	if t.State.Ended() {
		return events.Plan{}, nil
	}
	// A request that came before the task is a fact before any start (reading/traces.md, Dm3).
	for _, h := range t.Held {
		if h.Kind == events.RequestCancel {
			return events.Plan{Facts: []events.Body{&events.CancelRequested{Request: h.ID, Reason: h.Reason, By: h.By}}}, nil
		}
	}
	if t.ParkDue != "" {
		return events.Plan{Facts: []events.Body{&events.TaskParked{Step: t.ParkDue, Reason: t.ParkReason}}}, nil
	}
	switch t.State {
	case events.Parked:
		return events.Plan{}, nil
	case events.Undoing:
		return s.planUndo(t)
	}
	p := s.program(t.Definition)
	if p == nil {
		return events.Plan{}, fmt.Errorf("definition %s of workflow %q is not prepared", t.Definition, t.Workflow)
	}
	return planSteps(p, t), nil
}

// planSteps finds the steps that may start, those to be skipped, and the end. Most tasks wait for one running step, and
// for these it allocates nothing.
func planSteps(p *Program, t *events.Task) events.Plan {
	var few [fewSlots]*events.Step
	states := p.states(t, few[:])
	w, env := planner{task: t}, Env{task: t}
	open, failed, running := 0, "", false
	for i := range p.steps {
		c := &p.steps[i]
		at := states[c.slot]
		if at != nil && (at.State == events.StepDone || at.State == events.StepSkippedOff) {
			continue
		}
		open++
		switch {
		case at == nil:
			w.begin(c, states, &env)
		case at.State == events.StepWaiting && at.Attempt == 0: // reopened before it ever started: its if is asked anew
			w.begin(c, states, &env)
		case at.State == events.StepWaiting:
			w.ready(c.step, at.RetryAt)
		case at.State == events.StepRunning:
			running = true
		default:
			failed = c.step.ID
		}
	}
	if open == 0 {
		w.plan.Facts = append(w.plan.Facts, finish(p, &env))
	} else if failed != "" && !running && w.plan.Quiet() && len(w.plan.Ready) == 0 {
		// An operator retried another step, and that one is through: nothing else would move the task (INV10).
		w.plan.Facts = append(w.plan.Facts, &events.TaskParked{Step: failed, Reason: fmt.Sprintf("step %q failed and was not retried", failed)})
	}
	env.Close()
	return w.plan
}

// planner is a plan in the making.
type planner struct {
	task *events.Task
	plan events.Plan
}

// begin decides about a step that has not started (INV6).
func (w *planner) begin(c *compiledStep, states []*events.Step, env *Env) {
	for _, slot := range c.needs {
		n := states[slot]
		if n == nil || (n.State != events.StepDone && n.State != events.StepSkippedOff) {
			return
		}
	}
	yes, err := c.runs(env)
	switch {
	case err != nil:
		w.plan.Broken = append(w.plan.Broken, events.Broken{Path: c.step.ID, Operation: events.Do, Error: expressionError(err)})
	case !yes:
		w.plan.Facts = append(w.plan.Facts, &events.StepSkipped{Step: c.step.ID, Why: events.SkipCondition, Condition: c.step.If})
	default:
		w.ready(c.step, 0)
	}
}

func (w *planner) ready(step *Step, notBefore events.Instant) {
	r := readyOf(w.task, step.ID, events.Do, step.Agent)
	r.NotBefore = notBefore
	w.plan.Ready = append(w.plan.Ready, r)
}

func readyOf(t *events.Task, path string, op events.Operation, agent string) events.Ready {
	return events.Ready{Task: t.ID, Path: path, Operation: op, Agent: agent, Priority: t.Priority, Since: t.SubmittedAt}
}

// finish ends the task, or parks it when its output cannot be built: what was done stays done.
func finish(p *Program, env *Env) events.Body {
	out, err := p.Output(env)
	if err != nil {
		return &events.TaskParked{Reason: "the workflow's output failed to evaluate: " + err.Error()}
	}
	return &events.TaskProcessed{Output: out}
}

// planUndo picks the one step to be undone next: those of unknown outcome first, then the completed ones backwards,
// one by one. Nothing is undone while an attempt of a do is running (DESIGN 5).
func (s *Scheduler) planUndo(t *events.Task) (events.Plan, error) {
	var next *events.Step
	for _, step := range t.Steps {
		if step.State == events.StepRunning {
			return events.Plan{}, nil
		}
		if u := step.Undo; u != nil {
			switch u.State {
			case events.StepRunning:
				return events.Plan{}, nil
			case events.StepWaiting:
				return s.readyUndo(t, step, max(u.RetryAt, t.QuietAt))
			case events.StepBroken:
				return events.Plan{Facts: []events.Body{&events.TaskParked{Step: step.Path, Reason: "its undo failed"}}}, nil
			}
		}
		if toUndo(step) && (next == nil || undoneBefore(step, next)) {
			next = step
		}
	}
	if next == nil {
		return events.Plan{Facts: []events.Body{&events.TaskUndone{Reason: t.Reason}}}, nil
	}
	return s.readyUndo(t, next, t.QuietAt)
}

func (s *Scheduler) readyUndo(t *events.Task, at *events.Step, notBefore events.Instant) (events.Plan, error) {
	p := s.program(t.Definition)
	if p == nil {
		return events.Plan{}, fmt.Errorf("definition %s of workflow %q is not prepared", t.Definition, t.Workflow)
	}
	step, ok := p.Step(at.Path)
	if !ok || step.Undo == nil {
		return events.Plan{}, fmt.Errorf("step %q of workflow %q has no undo in its definition", at.Path, t.Workflow)
	}
	r := readyOf(t, at.Path, events.Undo, step.Undo.Agent)
	r.NotBefore = notBefore
	return events.Plan{Ready: []events.Ready{r}}, nil
}

// toUndo says whether a step must be undone: it has an undo, and not every attempt of it was reported to have had no
// effect.
func toUndo(s *events.Step) bool {
	return s.Undoable && s.Touched && (s.Undo == nil || s.Undo.State != events.StepUndone)
}

// undoneBefore orders two steps that are to be undone.
func undoneBefore(a, b *events.Step) bool {
	if (a.Completion == 0) != (b.Completion == 0) {
		return a.Completion == 0
	}
	if a.Completion != b.Completion {
		return a.Completion > b.Completion
	}
	return a.StartedAt > b.StartedAt
}

// Start returns what the definition says of the start of an attempt: the resolved input, and the time it may take.
// An error is an expression that failed: no work is sent.
func (s *Scheduler) Start(t *events.Task, path string, op events.Operation) (events.Start, error) {
	p := s.program(t.Definition)
	if p == nil {
		return events.Start{}, fmt.Errorf("definition %s of workflow %q is not prepared", t.Definition, t.Workflow)
	}
	c := p.compiled(path)
	if c == nil {
		return events.Start{}, fmt.Errorf("workflow %q has no step %q", t.Workflow, path)
	}
	env := Env{task: t}
	if op == events.Undo {
		start, err := startUndo(c, &env)
		env.Close()
		return start, err
	}
	step := c.step
	in, err := c.input(&env)
	env.Close()
	if err != nil {
		return events.Start{}, err
	}
	start := events.Start{CompleteBy: step.CompleteBy, Input: in, Pivot: step.Pivot, Undoable: step.Undo != nil}
	if step.If != "" {
		yes := true // Plan offers it for no other reason
		start.Condition = &yes
	}
	return start, nil
}

func startUndo(c *compiledStep, env *Env) (events.Start, error) {
	step, at := c.step, env.task.Step(c.step.ID)
	if step.Undo == nil || at == nil {
		return events.Start{}, fmt.Errorf("step %q has nothing to undo", step.ID)
	}
	start := events.Start{CompleteBy: step.Undo.CompleteBy, Input: at.Input, Output: at.Output}
	if step.Undo.With == nil {
		return start, nil
	}
	in, err := c.undoInput(env)
	start.Input = in
	return start, err
}

// Policy returns what the definition says of failures of the step's operation.
func (s *Scheduler) Policy(t *events.Task, path string, op events.Operation) events.Policy {
	p := s.program(t.Definition)
	if p == nil {
		return events.Policy{Then: events.ActionPark}
	}
	step, ok := p.Step(path)
	if !ok || (op == events.Undo && step.Undo == nil) {
		return events.Policy{Then: events.ActionPark}
	}
	if op == events.Undo {
		return policyOf(step.Undo.CompleteBy, step.Undo.Retry, nil)
	}
	return policyOf(step.CompleteBy, step.Retry, step.CoolDown)
}

func policyOf(completeBy events.Duration, r Retry, c *CoolDown) events.Policy {
	p := events.Policy{CompleteBy: completeBy, Attempts: r.Attempts, Backoff: r.Backoff, Factor: r.Factor, Max: r.Max, Then: events.Action(r.Then)}
	if c != nil {
		p.CoolDown, p.CoolDownTimes = c.Wait, c.Times
	}
	return p
}

// Deadline returns the workflow's own deadline, zero if it has none.
func (s *Scheduler) Deadline(hash string) events.Duration {
	if p := s.program(hash); p != nil {
		return p.Definition().Deadline
	}
	return 0
}

func expressionError(err error) events.Error {
	return events.Error{Class: events.ClassExpression, Message: err.Error()}
}
