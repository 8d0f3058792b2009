package scheduler

import (
	"encoding/json"
	"fmt"

	"github.com/sagalog/sagalog/events"
)

// NewEnv returns the environment of a task's expressions. The caller closes it after the last evaluation.
func NewEnv(t *events.Task) *Env { return &Env{task: t} }

// If evaluates the condition of a step. It is true if the step has none.
func (p *Program) If(step string, env *Env) (bool, error) {
	c, err := p.find(step)
	if err != nil {
		return false, err
	}
	return c.runs(env)
}

// With evaluates the input of a step. Without a mapping it is the task's input, byte for byte.
func (p *Program) With(step string, env *Env) (json.RawMessage, error) {
	c, err := p.find(step)
	if err != nil {
		return nil, err
	}
	return c.input(env)
}

// UndoWith evaluates the input of a step's undo. Without a mapping it is the step's recorded input.
func (p *Program) UndoWith(step string, env *Env) (json.RawMessage, error) {
	c, err := p.find(step)
	if err != nil {
		return nil, err
	}
	if c.step.Undo == nil {
		return nil, fmt.Errorf("step %q has no undo", step)
	}
	return c.undoInput(env)
}

func (p *Program) find(step string) (*compiledStep, error) {
	c := p.compiled(step)
	if c == nil {
		return nil, fmt.Errorf("workflow %q has no step %q", p.definition.Workflow, step)
	}
	return c, nil
}
