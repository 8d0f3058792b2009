package scheduler

import (
	"encoding/json"
	"fmt"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/sagalog/sagalog/internal/exprlang"
)

// Program is a definition with every expression and its schema compiled. It is immutable and safe for concurrent
// use; what it gives depends on its arguments alone (INV4).
type Program struct {
	definition *Definition
	steps      map[string]*compiledStep
	schema     *jsonschema.Schema
	output     *exprlang.Template
}

type compiledStep struct {
	step      *Step
	condition *exprlang.Condition
	with      *exprlang.Template
	undoWith  *exprlang.Template
}

// Compile compiles a definition, which it keeps and which must not be changed after.
func Compile(d *Definition) (*Program, error) {
	p := &Program{definition: d, steps: make(map[string]*compiledStep, len(d.Steps))}
	for i := range d.Steps {
		c, err := compileStep(&d.Steps[i])
		if err != nil {
			return nil, fmt.Errorf("workflow %q, step %q: %w", d.Workflow, d.Steps[i].ID, err)
		}
		p.steps[d.Steps[i].ID] = c
	}
	var err error
	if p.output, err = compileTemplate(d.Output, outputVars); err != nil {
		return nil, fmt.Errorf("workflow %q: output: %w", d.Workflow, err)
	}
	if len(d.Input) == 0 {
		return p, nil
	}
	schema, err := decodeSchema(d.Input)
	if err != nil {
		return nil, fmt.Errorf("workflow %q: input: %w", d.Workflow, err)
	}
	if p.schema, err = compileSchema(schema); err != nil {
		return nil, fmt.Errorf("workflow %q: input: %w", d.Workflow, err)
	}
	return p, nil
}

func compileStep(s *Step) (_ *compiledStep, err error) {
	c := &compiledStep{step: s}
	if s.If != "" {
		if c.condition, err = exprlang.CompileCondition(s.If, doVars...); err != nil {
			return nil, fmt.Errorf("if: %w", err)
		}
	}
	if c.with, err = compileTemplate(s.With, doVars); err != nil {
		return nil, fmt.Errorf("with: %w", err)
	}
	if s.Undo == nil {
		return c, nil
	}
	if c.undoWith, err = compileTemplate(s.Undo.With, undoVars); err != nil {
		return nil, fmt.Errorf("undo.with: %w", err)
	}
	return c, nil
}

// compileTemplate returns nil for an absent template.
func compileTemplate(raw json.RawMessage, vars []string) (*exprlang.Template, error) {
	if len(raw) == 0 {
		return nil, nil
	}
	return exprlang.Compile(raw, vars...)
}

// Definition returns the definition, which is only read.
func (p *Program) Definition() *Definition { return p.definition }

// Step returns a step of the definition, which is only read.
func (p *Program) Step(id string) (*Step, bool) {
	c, ok := p.steps[id]
	if !ok {
		return nil, false
	}
	return c.step, true
}

// If evaluates the condition of a step; a step without one runs.
func (p *Program) If(step string, env Env) (bool, error) {
	c, err := p.find(step)
	if err != nil || c.condition == nil {
		return err == nil, err
	}
	return c.condition.Eval(env.open())
}

// With evaluates the input of a step. Without a mapping it is the task's input, in the very bytes of env.
func (p *Program) With(step string, env Env) (json.RawMessage, error) {
	c, err := p.find(step)
	if err != nil {
		return nil, err
	}
	if c.with == nil {
		return env.Input, nil
	}
	if constant, ok := c.with.Constant(); ok {
		return constant, nil
	}
	return c.with.Eval(env.open())
}

// UndoWith evaluates the input of a step's undo. Without a mapping it is the step's own recorded input.
func (p *Program) UndoWith(step string, env Env) (json.RawMessage, error) {
	c, err := p.find(step)
	if err != nil {
		return nil, err
	}
	if c.step.Undo == nil {
		return nil, fmt.Errorf("step %q has no undo", step)
	}
	own := env.Steps[step]
	if c.undoWith == nil {
		return own.Input, nil
	}
	if constant, ok := c.undoWith.Constant(); ok {
		return constant, nil
	}
	return c.undoWith.Eval(env.open().With("step", exprlang.Object(ownStep(own))))
}

// Output evaluates the output of the task; without a template it is null.
func (p *Program) Output(env Env) (json.RawMessage, error) {
	if p.output == nil {
		return json.RawMessage("null"), nil
	}
	if constant, ok := p.output.Constant(); ok {
		return constant, nil
	}
	return p.output.Eval(env.open())
}

func (p *Program) find(step string) (*compiledStep, error) {
	c, ok := p.steps[step]
	if !ok {
		return nil, fmt.Errorf("workflow %q has no step %q", p.definition.Workflow, step)
	}
	return c, nil
}
