package scheduler

import (
	"fmt"
	"sync"

	"github.com/sagalog/sagalog/events"
)

// Scheduler answers an owner's questions about tasks by the definitions that their partition adopted. It holds
// nothing but compiled definitions, so one serves every partition of a process.
type Scheduler struct {
	// mu guards programs, by definition hash. A program is immutable.
	mu       sync.RWMutex
	programs map[string]*Program
}

// New returns a Scheduler that knows no definition.
func New() *Scheduler { return &Scheduler{programs: map[string]*Program{}} }

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
	s.mu.Lock()
	defer s.mu.Unlock()
	s.programs[hash] = p
	return nil
}

func (s *Scheduler) program(hash string) *Program {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.programs[hash]
}

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

// planSteps finds the steps that may start, those to be skipped, and the end.
func planSteps(p *Program, t *events.Task) events.Plan {
	var plan events.Plan
	scope := newTaskScope(t)
	open, failed, running := 0, "", false
	for i := range p.Definition().Steps {
		step := &p.Definition().Steps[i]
		at := t.Step(step.ID)
		if at != nil && (at.State == events.StepDone || at.State == events.StepSkippedOff) {
			continue
		}
		open++
		switch {
		case at == nil:
			planNew(p, t, step, scope, &plan)
		case at.State == events.StepWaiting && at.Attempt == 0: // reopened before it ever started: its if is asked anew
			planNew(p, t, step, scope, &plan)
		case at.State == events.StepWaiting:
			r := readyOf(t, step.ID, events.Do, step.Agent)
			r.NotBefore = at.RetryAt
			plan.Ready = append(plan.Ready, r)
		case at.State == events.StepRunning:
			running = true
		default:
			failed = step.ID
		}
	}
	if open == 0 {
		plan.Facts = append(plan.Facts, finish(p, scope))
	} else if failed != "" && !running && plan.Quiet() && len(plan.Ready) == 0 {
		// An operator retried another step, and that one is through: nothing else would move the task (INV10).
		plan.Facts = append(plan.Facts, &events.TaskParked{Step: failed, Reason: fmt.Sprintf("step %q failed and was not retried", failed)})
	}
	return plan
}

// planNew decides about a step that has not started (INV6).
func planNew(p *Program, t *events.Task, step *Step, scope *taskScope, plan *events.Plan) {
	for _, need := range step.Needs {
		n := t.Step(need)
		if n == nil || (n.State != events.StepDone && n.State != events.StepSkippedOff) {
			return
		}
	}
	if step.If != "" {
		yes, err := p.If(step.ID, scope.env())
		if err != nil {
			plan.Broken = append(plan.Broken, events.Broken{Path: step.ID, Operation: events.Do, Error: expressionError(err)})
			return
		}
		if !yes {
			plan.Facts = append(plan.Facts, &events.StepSkipped{Step: step.ID, Why: events.SkipCondition, Condition: step.If})
			return
		}
	}
	plan.Ready = append(plan.Ready, readyOf(t, step.ID, events.Do, step.Agent))
}

func readyOf(t *events.Task, path string, op events.Operation, agent string) events.Ready {
	return events.Ready{Task: t.ID, Path: path, Operation: op, Agent: agent, Priority: t.Priority, Since: t.SubmittedAt}
}

// finish ends the task, or parks it when its output cannot be built: what was done stays done.
func finish(p *Program, scope *taskScope) events.Body {
	out, err := p.Output(scope.env())
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
	step, ok := p.Step(path)
	if !ok {
		return events.Start{}, fmt.Errorf("workflow %q has no step %q", t.Workflow, path)
	}
	scope := newTaskScope(t)
	if op == events.Undo {
		return startUndo(p, step, t, scope)
	}
	in, err := p.With(path, scope.env())
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

func startUndo(p *Program, step *Step, t *events.Task, scope *taskScope) (events.Start, error) {
	at := t.Step(step.ID)
	if step.Undo == nil || at == nil {
		return events.Start{}, fmt.Errorf("step %q has nothing to undo", step.ID)
	}
	start := events.Start{CompleteBy: step.Undo.CompleteBy, Input: at.Input, Output: at.Output}
	if step.Undo.With == nil {
		return start, nil
	}
	in, err := p.UndoWith(step.ID, scope.env())
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

// taskScope builds the environment of a task's expressions when the first of them asks for it.
type taskScope struct {
	task  *events.Task
	built *Env
}

func newTaskScope(t *events.Task) *taskScope { return &taskScope{task: t} }

func (s *taskScope) env() Env {
	if s.built == nil {
		e := Env{Task: TaskEnv{ID: s.task.ID, Run: s.task.Run, Workflow: s.task.Workflow, Version: s.task.Version}, Input: s.task.Input}
		e.Steps = make(map[string]StepEnv, len(s.task.Steps))
		for _, st := range s.task.Steps {
			e.Steps[st.Path] = StepEnv{State: string(st.State), Input: st.Input, Output: st.Output}
		}
		e = e.Shared() // one decoding of the input for all expressions of a plan
		s.built = &e
	}
	return *s.built
}
