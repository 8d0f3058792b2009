package scheduler

import (
	"slices"

	"github.com/sagalog/sagalog/events"
)

// stepKind is what distinguishes one kind of step from another. Everything else is the same for all steps and no concern of a
// kind: needs and condition, state, and the order in which steps are undone. A kind's decisions become facts, so the fold of the
// steps' state (events) and their timers (events.Task.Timers, supervisor) need no kind either.
//
// Only the steps of agents and of children have attempts, so start of any other kind returns an error.
type stepKind interface {
	// begin returns what starts the step, or one of its items, or why it cannot start. All steps that it needs are over, and its condition holds.
	begin(env *Env, path string) (opening, error)
	// undo returns what undoes the step, or an error if nothing can.
	undo() (opening, error)
	// start returns the input of an attempt of the operation, and its time, and closes the environment. path is the path of the step, or of one of its items.
	start(env *Env, path string, op events.Operation) (events.Start, error)
	// policy returns what happens after failures of the operation.
	policy(op events.Operation) events.Policy
	// calls returns the operations of agents that the step may call.
	calls() []events.Call
}

// opening is what starts a step or its undo: an attempt that waits until its agent has room or, if there is no call, a fact.
type opening struct {
	call events.Call
	fact events.Body
}

// kind returns the kind of a step, which is not compiled.
func (s *Step) kind() stepKind {
	switch {
	case len(s.Sleep) > 0:
		return &sleepStep{step: s}
	case len(s.Wait) > 0:
		return &waitStep{step: s}
	case len(s.Child) > 0:
		return &childStep{agentStep: agentStep{step: s}}
	}
	return &agentStep{step: s}
}

// Calls returns the operations of agents that the step may call.
func (s *Step) Calls() []events.Call { return s.kind().calls() }

// Agents returns the agents that the steps may call, in order.
func (d *Definition) Agents() (list []string) {
	for i := range d.Steps {
		for _, c := range d.Steps[i].Calls() {
			list = append(list, c.Agent)
		}
	}
	slices.Sort(list)
	return slices.Compact(list)
}

// compileKind returns the kind of a step with its expressions compiled.
func compileKind(s *Step) (stepKind, error) {
	if s.For == nil {
		return compileOne(s)
	}
	item, err := compileOne(s)
	if err != nil {
		return nil, err
	}
	return compileFanStep(s, item)
}

// compileOne is compileKind without the items of the step.
func compileOne(s *Step) (stepKind, error) {
	switch {
	case len(s.Sleep) > 0:
		return compileSleepStep(s)
	case len(s.Wait) > 0:
		return compileWaitStep(s)
	case len(s.Child) > 0:
		return compileChildStep(s)
	}
	return compileAgentStep(s)
}

// condition is what a fact says about the condition of a step that starts: Plan opens only steps whose condition holds.
func condition(s *Step) *bool {
	if s.If == "" {
		return nil
	}
	yes := true
	return &yes
}
