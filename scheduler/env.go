package scheduler

import (
	"encoding/json"
	"strconv"

	"github.com/sagalog/sagalog/events"
	"github.com/sagalog/sagalog/internal/exprlang"
)

// Env is what the expressions of a task see: task.id, input.x, steps.package.output.id, and in an undo mapping
// step.input and step.output. Nothing is decoded before an expression asks for it.
type Env struct {
	Task  TaskEnv
	Input json.RawMessage
	// Steps holds the steps that left not_started; the others are there for expressions all the same, with null
	// for input and output.
	Steps map[string]StepEnv

	scope *exprlang.Scope
}

// TaskEnv is the variable task.
type TaskEnv struct {
	ID       string `json:"id"`
	Run      int    `json:"run"`
	Workflow string `json:"workflow"`
	Version  int    `json:"version"`
}

// StepEnv is a member of the variable steps.
type StepEnv struct {
	State  string
	Input  json.RawMessage
	Output json.RawMessage
}

// Shared returns an environment whose copies share what any of them decodes, so that planning all steps of a task
// decodes its input once. Its values must not be changed any more, and one goroutine uses it at a time.
func (e Env) Shared() Env {
	e.scope = e.newScope()
	return e
}

func (e Env) open() *exprlang.Scope {
	if e.scope != nil {
		return e.scope
	}
	return e.newScope()
}

func (e Env) newScope() *exprlang.Scope {
	return exprlang.NewNodeScope(map[string]*exprlang.Node{
		"task":  exprlang.Object(e.Task),
		"input": exprlang.Raw(e.Input),
		"steps": exprlang.Object(allSteps(e.Steps)),
	})
}

// Member implements exprlang.Members.
func (t TaskEnv) Member(name string) *exprlang.Node {
	switch name {
	case "id":
		return text(t.ID)
	case "run":
		return whole(t.Run)
	case "workflow":
		return text(t.Workflow)
	case "version":
		return whole(t.Version)
	}
	return nil
}

// Names implements exprlang.Members.
func (t TaskEnv) Names() []string { return taskMembers }

type allSteps map[string]StepEnv

// Member implements exprlang.Members. The validator refuses names that no step has, so what is not here has not
// begun.
func (a allSteps) Member(name string) *exprlang.Node {
	s, ok := a[name]
	if !ok {
		s.State = string(events.StepNotStarted)
	}
	return exprlang.Object(s)
}

// Names implements exprlang.Members.
func (a allSteps) Names() []string {
	names := make([]string, 0, len(a))
	for name := range a {
		names = append(names, name)
	}
	return names
}

// Member implements exprlang.Members.
func (s StepEnv) Member(name string) *exprlang.Node {
	switch name {
	case "state":
		return text(s.State)
	case "input":
		return exprlang.Raw(s.Input)
	case "output":
		return exprlang.Raw(s.Output)
	}
	return nil
}

// Names implements exprlang.Members.
func (s StepEnv) Names() []string { return stepMembers }

// ownStep is the variable step of an undo mapping.
type ownStep StepEnv

// Member implements exprlang.Members.
func (s ownStep) Member(name string) *exprlang.Node {
	if name == "state" {
		return nil
	}
	return StepEnv(s).Member(name)
}

// Names implements exprlang.Members.
func (s ownStep) Names() []string { return ownStepMembers }

func text(s string) *exprlang.Node {
	n, err := exprlang.Value(s)
	if err != nil {
		return nil // A text beyond every limit; null fails where it is used.
	}
	return n
}

func whole(i int) *exprlang.Node { return exprlang.Raw(strconv.AppendInt(nil, int64(i), 10)) }
