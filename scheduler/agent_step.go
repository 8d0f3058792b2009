package scheduler

import (
	"encoding/json"
	"fmt"

	"github.com/sagalog/sagalog/events"
	"github.com/sagalog/sagalog/internal/exprlang"
)

// agentStep is the work of an agent, which is done and undone in attempts.
type agentStep struct {
	step     *Step
	with     *exprlang.Template
	undoWith *exprlang.Template
}

func compileAgentStep(s *Step) (_ *agentStep, err error) {
	a := &agentStep{step: s}
	if a.with, err = compileTemplate(s.With, s.vars(doVars)); err != nil {
		return nil, fmt.Errorf("with: %w", err)
	}
	if s.Undo == nil {
		return a, nil
	}
	if a.undoWith, err = compileTemplate(s.Undo.With, s.vars(undoVars)); err != nil {
		return nil, fmt.Errorf("undo.with: %w", err)
	}
	return a, nil
}

// begin returns the attempt, and before the first one of a step that must start in time the fact from which that time counts.
func (a *agentStep) begin(env *Env, path string) (opening, error) {
	if a.step.StartWithin > 0 {
		if s := env.task.Step(path); s == nil || !s.Attempted() && s.StartBy == 0 {
			return opening{fact: &events.StepQueued{Step: path, StartWithin: a.step.StartWithin}}, nil
		}
	}
	return opening{call: a.doCall()}, nil
}

func (a *agentStep) undo() (opening, error) {
	if a.step.Undo == nil {
		return opening{}, fmt.Errorf("step %q has no undo in its definition", a.step.ID)
	}
	return opening{call: a.undoCall()}, nil
}

func (a *agentStep) start(env *Env, path string, op events.Operation) (start events.Start, err error) {
	if op == events.Undo {
		start, err = a.startUndo(env, path)
	} else {
		start, err = a.startDo(env, path)
	}
	start.Cost = env.Close()
	return start, err
}

func (a *agentStep) startDo(env *Env, path string) (events.Start, error) {
	in, err := a.input(env, path)
	if err != nil {
		return events.Start{}, err
	}
	return events.Start{
		CompleteWithin: a.step.CompleteWithin, Heartbeat: a.step.Heartbeat, Within: a.step.Retry.Within, Input: in, Condition: condition(a.step),
		Pivot: a.step.Pivot, Undoable: a.step.Undo != nil, RemindAfter: a.step.RemindAfter,
	}, nil
}

func (a *agentStep) startUndo(env *Env, path string) (events.Start, error) {
	at := env.task.Step(path)
	if a.step.Undo == nil || at == nil {
		return events.Start{}, fmt.Errorf("step %q has nothing to undo", path)
	}
	in, err := a.undoInput(env, path)
	start := events.Start{CompleteWithin: a.step.Undo.CompleteWithin, Within: a.step.Undo.Retry.Within, Input: in}
	if at.Reason != events.SkipOperator { // the output of a step that an operator skipped says nothing about what its attempts did
		start.Output = at.Output
	}
	return start, err
}

// input is the task's input if the step has no template, and what an operator gave instead, if one did.
func (a *agentStep) input(env *Env, path string) (json.RawMessage, error) {
	//mutant:given-input-is-used
	if given := env.step(path).With; len(given) > 0 {
		return given, nil
	}
	if a.with == nil {
		return env.task.Input, nil
	}
	if constant, ok := a.with.Constant(); ok {
		return constant, nil
	}
	return a.with.Eval(env.open())
}

// undoInput is the recorded input of the do if the undo has no template, and what an operator gave instead, if one did.
func (a *agentStep) undoInput(env *Env, path string) (json.RawMessage, error) {
	if u := env.step(path).Undo; u != nil && len(u.With) > 0 {
		return u.With, nil
	}
	if a.undoWith == nil {
		return env.step(path).Input, nil
	}
	if constant, ok := a.undoWith.Constant(); ok {
		return constant, nil
	}
	return a.undoWith.Eval(env.openUndo(path))
}

func (a *agentStep) policy(op events.Operation) events.Policy {
	switch {
	case op == events.Do:
		p := policyOf(a.step.CompleteWithin, a.step.Retry, a.step.CoolDown)
		p.OnTimeout = events.Action(a.step.OnTimeout)
		return p
	case a.step.Undo != nil:
		return policyOf(a.step.Undo.CompleteWithin, a.step.Undo.Retry, nil)
	default:
		return events.Policy{Then: events.ActionPark}
	}
}

func policyOf(completeWithin events.Duration, r Retry, c *CoolDown) events.Policy {
	p := events.Policy{CompleteWithin: completeWithin, Attempts: r.Attempts, Backoff: r.Backoff, Factor: r.Factor, MaxBackoff: r.MaxBackoff, Then: events.Action(r.Then)}
	if c != nil {
		p.CoolDown, p.CoolDownTimes = c.Wait, c.Times
	}
	return p
}

func (a *agentStep) doCall() events.Call {
	return events.Call{Agent: a.step.Agent, Function: a.step.Operation, Operation: events.Do}
}

func (a *agentStep) undoCall() events.Call {
	return events.Call{Agent: a.step.Undo.Agent, Function: a.step.Undo.Operation, Operation: events.Undo}
}

func (a *agentStep) calls() []events.Call {
	list := []events.Call{a.doCall()}
	if a.step.Undo != nil {
		list = append(list, a.undoCall())
	}
	return list
}
