package scheduler

import (
	"encoding/json"

	"github.com/sagalog/sagalog/events"
)

// Preview is what is known about a step of a task before the task exists.
type Preview struct {
	Step *Step
	// Condition is what the step's condition gives. It is nil if there is no condition, or if it depends on steps that are not over.
	Condition *bool
	// Skipped means that the step would be skipped, and Starts that it would be among the first to start.
	Skipped, Starts bool
	// Items is how many items a step with for would have; nil for others, and if its list depends on steps that are not over.
	Items *int
	// Input is the resolved input of a step that starts, or of its first item.
	Input json.RawMessage
	// Error says why the condition or the input cannot be evaluated: the task would be undone.
	Error string
}

// Preview returns what a pending task would do first: the steps in the order of the definition. It plans as an owner does, and adds
// the skipped steps to the task.
func (p *Program) Preview(t *events.Task) []Preview {
	list := make([]Preview, len(p.steps))
	at := map[string]*Preview{}
	for i := range p.steps {
		list[i].Step = p.steps[i].step
		at[p.steps[i].step.ID] = &list[i]
	}
	plan := planSteps(p, t, nil)
	for {
		skipped := false
		for _, f := range plan.Facts {
			switch s := f.(type) {
			case *events.StepSkipped:
				t.Steps = append(t.Steps, &events.Step{Path: s.Step, State: events.StepStateSkipped})
				at[s.Step].Skipped, skipped = true, true
			case *events.WaitStarted:
				at[s.Step].Starts = true
			case *events.FanOutStarted:
				x := at[s.Step]
				x.Starts, x.Items = true, &s.Count
				if s.Count > 0 {
					p.previewInput(x, t, events.ItemPath(s.Step, 0))
				}
			}
		}
		if !skipped {
			break
		}
		plan = planSteps(p, t, nil)
	}
	for _, b := range plan.Broken {
		at[b.Path].Error = b.Error.Message
	}
	for _, r := range plan.Ready {
		at[r.Path].Starts = true
		p.previewInput(at[r.Path], t, r.Path)
	}
	for i := range p.steps {
		list[i].judge(&p.steps[i], Env{task: t, keys: p.keys})
	}
	return list
}

// previewInput resolves the input of a step that starts, or of an item.
func (p *Program) previewInput(x *Preview, t *events.Task, path string) {
	start, err := p.compiled(path).kind.start(&Env{task: t, keys: p.keys}, path, events.Do)
	if x.Input = start.Input; err != nil {
		x.Starts, x.Error = false, err.Error()
	}
}

// judge evaluates the condition of a step if it depends on the task alone, or on steps that are skipped.
func (x *Preview) judge(c *compiledStep, env Env) {
	if c.condition == nil || x.Error != "" {
		return
	}
	open := func(path []string) bool { // steps alone may name any step
		return path[0] == "steps" && (len(path) == 1 || !over(env.task.Step(path[1])))
	}
	for _, r := range c.condition.References() {
		if len(r.Path) > 0 && open(r.Path) {
			return
		}
	}
	defer env.Close()
	yes, err := c.runs(&env)
	if err != nil {
		x.Error = err.Error()
		return
	}
	x.Condition = &yes
}
