package scheduler

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/sagalog/sagalog/events"
	"github.com/sagalog/sagalog/internal/exprlang"
)

// Program is a definition with its expressions and schema compiled. It is immutable and safe for concurrent use. Its results
// depend on its arguments alone (INV4).
type Program struct {
	definition *Definition
	// steps are the steps of the definition, in its order.
	steps []compiledStep
	// slots numbers the steps and the names that they need, so that a plan finds the state of each by number.
	slots map[string]int
	// bySlot is nil for a needed name that is not a step.
	bySlot []*compiledStep
	schema *inputSchema
	output *exprlang.Template
	// labels are in the order of their names. priority is nil if the definition has none.
	labels   []label
	priority *exprlang.Template
	// keys open the values of tasks; nil if this process has none.
	keys Keys
	// fairBy is the key for turns, nil without one. concurrency is the key, nil if any number of tasks may run at a time.
	fairBy, concurrency *exprlang.Template
}

type compiledStep struct {
	step      *Step
	kind      stepKind
	condition *exprlang.Condition
	// check is nil if the step has none.
	check *check
	slot  int
	needs []int
}

// Compile compiles a definition. It keeps the definition, which must not change afterwards.
func Compile(d *Definition) (*Program, error) {
	p := &Program{definition: d, steps: make([]compiledStep, len(d.Steps)), slots: make(map[string]int, len(d.Steps))}
	for i := range d.Steps {
		c, err := compileStep(&d.Steps[i])
		if err != nil {
			return nil, fmt.Errorf("workflow %q, step %q: %w", d.Workflow, d.Steps[i].ID, err)
		}
		p.steps[i] = *c
	}
	p.number()
	var err error
	if p.labels, p.priority, err = compileAcceptance(d); err != nil {
		return nil, fmt.Errorf("workflow %q: %w", d.Workflow, err)
	}
	if p.fairBy, err = compileTemplate(d.FairBy, acceptVars); err != nil {
		return nil, fmt.Errorf("workflow %q: fair_by: %w", d.Workflow, err)
	}
	if p.concurrency, err = compileConcurrency(d.Concurrency); err != nil {
		return nil, fmt.Errorf("workflow %q: %w", d.Workflow, err)
	}
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
	if p.schema, err = newInputSchema(schema); err != nil {
		return nil, fmt.Errorf("workflow %q: input: %w", d.Workflow, err)
	}
	return p, nil
}

// CompileWith is Compile for a process that can open sealed values, if keys is not nil.
func CompileWith(d *Definition, keys Keys) (*Program, error) {
	p, err := Compile(d)
	if err == nil {
		p.keys = keys
	}
	return p, err
}

// number gives a slot to each step and each needed name.
func (p *Program) number() {
	slot := func(name string) int {
		n, ok := p.slots[name]
		if !ok {
			n = len(p.bySlot)
			p.slots[name], p.bySlot = n, append(p.bySlot, nil)
		}
		return n
	}
	for i := range p.steps {
		c := &p.steps[i]
		c.slot = slot(c.step.ID)
		p.bySlot[c.slot] = c
		for _, need := range c.step.Needs {
			c.needs = append(c.needs, slot(need))
		}
	}
}

// fewSlots is the size up to which a plan keeps the states of the steps on the stack.
const fewSlots = 32

// states puts the state of each step that has left not_started into its slot. It uses into, whose slots are nil, unless it is too
// small.
func (p *Program) states(t *events.Task, into []*events.Step) []*events.Step {
	if len(p.bySlot) > len(into) {
		into = make([]*events.Step, len(p.bySlot))
	}
	for i, s := range t.Live() {
		slot, known := 0, true
		switch {
		case i < len(p.steps) && p.steps[i].step.ID == s.Path: // most tasks start their steps in the order of the definition
			slot = p.steps[i].slot
		case strings.HasSuffix(s.Path, "]"): // an item, of which there may be many
			continue
		default:
			slot, known = p.slots[s.Path]
		}
		if known && into[slot] == nil {
			into[slot] = s
		}
	}
	return into
}

func compileStep(s *Step) (_ *compiledStep, err error) {
	c := &compiledStep{step: s}
	if s.If != "" {
		if c.condition, err = exprlang.CompileCondition(s.If, doVars...); err != nil {
			return nil, fmt.Errorf("if: %w", err)
		}
	}
	if c.check, err = compileCheck(s); err != nil {
		return nil, err
	}
	c.kind, err = compileKind(s)
	return c, err
}

// compileTemplate returns nil for an absent template.
func compileTemplate(raw json.RawMessage, vars []string) (*exprlang.Template, error) {
	if len(raw) == 0 {
		return nil, nil
	}
	return exprlang.Compile(raw, vars...)
}

// Definition returns the definition. It must not be changed.
func (p *Program) Definition() *Definition { return p.definition }

// Step returns a step of the definition. It must not be changed.
func (p *Program) Step(id string) (*Step, bool) {
	c := p.compiled(id)
	if c == nil {
		return nil, false
	}
	return c.step, true
}

// compiled returns the step of a path, or of its item: pack[17] is the item of pack with the index 17. It returns nil if there is no such step.
func (p *Program) compiled(path string) *compiledStep {
	id, _, item := events.SplitItem(path)
	slot, ok := p.slots[id]
	if !ok {
		return nil
	}
	c := p.bySlot[slot]
	if item && (c == nil || c.step.For == nil) {
		return nil
	}
	return c
}

// Output evaluates the output of the task; without a template it is null.
func (p *Program) Output(env *Env) (json.RawMessage, error) {
	if p.output == nil {
		return json.RawMessage("null"), nil
	}
	if constant, ok := p.output.Constant(); ok {
		return constant, nil
	}
	return p.output.Eval(env.open())
}

func (c *compiledStep) runs(env *Env) (bool, error) {
	if c.condition == nil {
		return true, nil
	}
	return c.condition.Eval(env.open())
}
