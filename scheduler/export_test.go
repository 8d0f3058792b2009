package scheduler

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/santhosh-tekuri/jsonschema/v6"

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
	return c.kind.(*agentStep).input(env, step)
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
	return c.kind.(*agentStep).undoInput(env, step)
}

func (p *Program) find(step string) (*compiledStep, error) {
	c := p.compiled(step)
	if c == nil {
		return nil, fmt.Errorf("workflow %q has no step %q", p.definition.Workflow, step)
	}
	return c, nil
}

// ErrorsOf validates an input and returns how many errors the library holds at the end.
func (p *Program) ErrorsOf(raw json.RawMessage) int {
	v, err := jsonschema.UnmarshalJSON(bytes.NewReader(raw))
	if err != nil {
		return 0
	}
	seen := map[*jsonschema.ValidationError]bool{}
	var count func(e *jsonschema.ValidationError)
	count = func(e *jsonschema.ValidationError) {
		seen[e] = true
		for _, c := range e.Causes {
			count(c)
		}
	}
	var invalid *jsonschema.ValidationError
	if errors.As(p.schema.validate(v, len(raw)), &invalid) {
		count(invalid)
	}
	return len(seen)
}

// HoldSchema takes n copies of the schema and returns a function that gives them back. It returns how many are idle then.
func (p *Program) HoldSchema(n int) (give func() (idle int), err error) {
	var held []*boundedSchema
	for range n {
		b, err := p.schema.take()
		if err != nil {
			return nil, err
		}
		held = append(held, b)
	}
	return func() int {
		for _, b := range held {
			p.schema.give(b)
		}
		p.schema.mu.Lock()
		defer p.schema.mu.Unlock()
		return len(p.schema.idle)
	}, nil
}

// IsPlain says whether small inputs are validated without guards.
func (p *Program) IsPlain() bool { return p.schema.plain != nil }

// SpentOn returns how much of the budget a validation with guards spends, and the budget.
func (p *Program) SpentOn(raw json.RawMessage) (spent, budget int) {
	v, err := jsonschema.UnmarshalJSON(bytes.NewReader(raw))
	b, compiles := compileSchema(p.schema.source)
	if err != nil || compiles != nil {
		panic(errors.Join(err, compiles))
	}
	_ = b.Validate(v)
	return inputBudget - b.budget.left, inputBudget
}

// ScheduleKeys are the keys of a schedule.
var ScheduleKeys = scheduleKeys
