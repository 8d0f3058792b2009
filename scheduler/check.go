package scheduler

import (
	"encoding/json"
	"fmt"

	"github.com/sagalog/sagalog/events"
	"github.com/sagalog/sagalog/internal/exprlang"
)

// check is what a step says about its own result: whether a step that completed means "no", and why.
type check struct {
	failIf string
	fails  *exprlang.Condition
	// reason is nil if the definition gives none.
	reason *exprlang.Template
}

// compileCheck returns nil if the step has no check.
func compileCheck(s *Step) (_ *check, err error) {
	if s.FailIf == "" {
		return nil, nil
	}
	c := &check{failIf: s.FailIf}
	if c.fails, err = exprlang.CompileCondition(s.FailIf, s.vars(checkVars)...); err != nil {
		return nil, fmt.Errorf("fail_if: %w", err)
	}
	if s.FailReason == "" {
		return c, nil
	}
	text, err := events.Marshal(s.FailReason)
	if err != nil {
		return nil, fmt.Errorf("fail_reason: %w", err)
	}
	if c.reason, err = exprlang.Compile(text, s.vars(checkVars)...); err != nil {
		return nil, fmt.Errorf("fail_reason: %w", err)
	}
	return c, nil
}

// Check returns why a step that completed with an output has failed all the same, nil if it has not, and what that cost in units of
// the budget of expressions. A check that fails to evaluate is a failure too: the step would pass otherwise. The error is an
// *events.NoKeyError: nobody can say yet.
func (s *Scheduler) Check(t *events.Task, path string, output json.RawMessage) (_ *events.Error, cost int, _ error) {
	p, err := s.prepared(t)
	if err != nil {
		e := expressionError(err)
		return &e, 0, nil
	}
	c := p.compiled(path)
	if c == nil || c.check == nil {
		return nil, 0, nil
	}
	env := Env{task: t, keys: p.keys, lists: &s.lists}
	if f, ok := c.kind.(*fanStep); ok {
		f.enter(&env, path)
	}
	fault := c.check.judge(&env, output)
	cost = env.Close()
	if why := env.unopened(); why != nil {
		return nil, cost, why
	}
	return fault, cost, nil
}

func (c *check) judge(env *Env, output json.RawMessage) *events.Error {
	scope := env.openCheck(output)
	fault := func(class events.Class, message string) *events.Error {
		e := env.fault(class, message)
		return &e
	}
	no, err := c.fails.Eval(scope)
	switch {
	case err != nil:
		return fault(events.ClassExpression, "fail_if: "+err.Error())
	case !no:
		return nil
	case c.reason == nil:
		return &events.Error{Class: events.ClassCheck, Message: "fail_if is true: " + c.failIf}
	}
	why, err := c.reason.Eval(scope)
	if err != nil {
		return fault(events.ClassCheck, fmt.Sprintf("fail_if is true: %s; fail_reason: %s", c.failIf, err))
	}
	var text string
	if json.Unmarshal(why, &text) != nil {
		text = string(why) // an expression that gives a number or an object is shown as JSON
	}
	return fault(events.ClassCheck, text)
}
