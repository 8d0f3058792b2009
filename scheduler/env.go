package scheduler

import (
	"github.com/sagalog/sagalog/events"
	"github.com/sagalog/sagalog/internal/exprlang"
)

// Env is what the expressions of a task see: task.id, input.x, steps.package.output.id, and in an undo mapping
// step.input and step.output. Nothing is decoded before an expression asks for it, and what one has decoded, the next
// has too. One goroutine uses it, and the task must not change meanwhile.
type Env struct {
	task  *events.Task
	scope *exprlang.Scope
}

// NewEnv returns the environment of a task's expressions. It is closed when no expression is to be evaluated any more.
func NewEnv(t *events.Task) *Env { return &Env{task: t} }

// Close gives back the memory of the environment.
func (e *Env) Close() {
	if e.scope != nil {
		e.scope.Return()
		e.scope = nil
	}
}

// open returns the scope of the expressions, which the first of them makes.
func (e *Env) open() *exprlang.Scope {
	if e.scope == nil {
		s := exprlang.Borrow()
		s.Set("task", s.Object((*taskVariable)(e.task)))
		s.Set("input", s.Raw(e.task.Input))
		s.Set("steps", s.Object((*stepsVariable)(e.task)))
		e.scope = s
	}
	return e.scope
}

// openUndo is open with the variable step.
func (e *Env) openUndo(step string) *exprlang.Scope {
	s := e.open()
	s.Set("step", s.Object((*ownStep)(e.step(step))))
	return s
}

// step returns the state of a step also when there is none.
func (e *Env) step(id string) *events.Step {
	if s := e.task.Step(id); s != nil {
		return s
	}
	return &notStarted
}

// notStarted stands for steps that have not begun: null for input and output. It is only read.
var notStarted = events.Step{State: events.StepNotStarted}

// taskVariable is the variable task.
type taskVariable events.Task

// Member implements exprlang.Members.
func (t *taskVariable) Member(s *exprlang.Scope, name string) *exprlang.Node {
	switch name {
	case "id":
		return s.Text(t.ID)
	case "run":
		return s.Int(t.Run)
	case "workflow":
		return s.Text(t.Workflow)
	case "version":
		return s.Int(t.Version)
	}
	return nil
}

// Names implements exprlang.Members.
func (t *taskVariable) Names() []string { return taskMembers }

// stepsVariable is the variable steps of a task.
type stepsVariable events.Task

// Member implements exprlang.Members. The validator refuses names that no step has, so what is not here has not
// begun.
func (t *stepsVariable) Member(s *exprlang.Scope, name string) *exprlang.Node {
	e := Env{task: (*events.Task)(t)}
	return s.Object((*stepMember)(e.step(name)))
}

// Names implements exprlang.Members. Steps that have not begun are there when they are asked for by name.
func (t *stepsVariable) Names() []string {
	names := make([]string, 0, len(t.Steps))
	for _, s := range t.Steps {
		names = append(names, s.Path)
	}
	return names
}

// stepMember is a member of the variable steps.
type stepMember events.Step

// Member implements exprlang.Members.
func (m *stepMember) Member(s *exprlang.Scope, name string) *exprlang.Node {
	switch name {
	case "state":
		return s.Text(string(m.State))
	case "input":
		return s.Raw(m.Input)
	case "output":
		return s.Raw(m.Output)
	}
	return nil
}

// Names implements exprlang.Members.
func (m *stepMember) Names() []string { return stepMembers }

// ownStep is the variable step of an undo mapping.
type ownStep events.Step

// Member implements exprlang.Members.
func (o *ownStep) Member(s *exprlang.Scope, name string) *exprlang.Node {
	if name == "state" {
		return nil
	}
	return (*stepMember)(o).Member(s, name)
}

// Names implements exprlang.Members.
func (o *ownStep) Names() []string { return ownStepMembers }
