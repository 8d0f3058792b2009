package supervisor

import (
	"fmt"

	"github.com/sagalog/sagalog/events"
)

// By skip, complete and fail an operator decides about a step what otherwise the report of an attempt decides. Nothing is decided
// about an attempt that runs, except that it failed: a report that came later would say something else about it.

// askedOperation returns the operation of the step that a request is about, or why it cannot be about it.
func askedOperation(t *events.Task, q *events.Request) (events.Operation, string) {
	op := q.Operation
	s := t.Step(q.Step)
	doRuns := s != nil && s.State == events.StepStateRunning // also in a task that is being undone, which waits for that
	undoing := t.Undoing() || s != nil && s.Tolerated() && s.ToUndo()
	if op == "" {
		if op = events.Do; undoing && !doRuns {
			op = events.Undo
		}
	}
	switch {
	case q.Step == "":
		return "", "the request names no step"
	case op != events.Do && op != events.Undo:
		return "", fmt.Sprintf("operation is %q; it must be do or undo", op)
	case op == events.Undo && !undoing:
		return "", "the task is not being undone, so there is no undo to decide about: leave out operation undo"
	case op == events.Undo && len(q.Output) > 0:
		return "", fmt.Sprintf("the task is being undone, so %s is about the undo of step %q, which has no output: leave out the output", q.Kind, q.Step)
	case op == events.Do && undoing && !doRuns:
		return "", fmt.Sprintf("the task is being undone, and none of its steps starts again: give operation undo to %s the undo of the step", q.Kind)
	}
	return op, ""
}

// undecided returns the step, if an operator may decide that its operation is over; else why not. A step that has not begun is nil.
func undecided(t *events.Task, path string, op events.Operation) (*events.Step, string) {
	s := t.Step(path)
	step, _, item := events.SplitItem(path)
	switch {
	case item && (s == nil || s.State == events.StepStateNotStarted):
		return nil, fmt.Sprintf("item %q has not begun: items begin in their order, and only then can one be skipped", path)
	case item && op == events.Do && !t.Step(step).Fans():
		return s, fmt.Sprintf("step %q is over, so nothing is to be decided about its items", step)
	case s == nil:
		return nil, ""
	case s.Fans() || s.Fan != nil && op == events.Undo:
		return s, fmt.Sprintf("step %q has %d items: decide about these", path, s.Fan.Count)
	}
	state, attempt := s.State, s.Attempt
	if op == events.Undo {
		if state, attempt = events.StepStateNotStarted, 0; s.Undo != nil {
			state, attempt = s.Undo.State, s.Undo.Attempt
		}
	}
	//mutant:nothing-is-decided-that-runs
	switch state {
	case events.StepStateTimedOut, events.StepStateFailed:
		if op == events.Do && s.Tolerated() {
			return s, fmt.Sprintf("the failure of item %q is tolerated, and the task goes on without it", path)
		}
		if op == events.Do && s.Continued {
			return s, fmt.Sprintf("step %q timed out, and the task went on without it", path)
		}
		return s, ""
	case events.StepStateRunning:
		if child := s.DoneByChild(op); child != "" {
			return s, byChild(child, path, op)
		}
		return s, fmt.Sprintf("attempt %d to %s step %q is running: fail it first", attempt, op, path)
	case events.StepStateNotStarted, events.StepStateWaiting:
		return s, ""
	}
	return s, fmt.Sprintf("step %q is %s already", path, state)
}

// byChild says where to decide about an operation that a child does.
func byChild(child, path string, op events.Operation) string {
	if op == events.Undo {
		return fmt.Sprintf("task %q undoes itself for step %q: decide there. If it is parked, retry or skip the undo that failed", child, path)
	}
	return fmt.Sprintf("task %q does step %q: decide there. If it is parked, retry or skip the step that failed; or cancel or terminate it, and its end ends the attempt", child, path)
}

// decidable returns the step that the request is about and the operation, or why nobody can decide that it is over.
func decidable(t *events.Task, q *events.Request) (s *events.Step, op events.Operation, why string) {
	if op, why = askedOperation(t, q); why != "" {
		return nil, op, why
	}
	s, why = undecided(t, q.Step, op)
	switch {
	case why != "" || op == events.Do:
	case s == nil || s.Undo == nil:
		why = fmt.Sprintf("no attempt to undo step %q has begun", q.Step)
	case s.Undo.State == events.StepStateWaiting && s.ChildToDecide() != "":
		why = fmt.Sprintf("the undo of step %q is about to ask task %q: decide if that refuses, or fail the undo first", q.Step, s.ChildToDecide())
	}
	return s, op, why
}

// skipped decides that a step or an undo is not needed.
func skipped(t *events.Task, q *events.Request) (events.Body, Refusal) {
	s, op, why := decidable(t, q)
	switch {
	case why != "":
		return refused("%s", why)
	//mutant:pivot-is-not-skipped
	case op == events.Do && s != nil && s.Pivot:
		return refused("%s", pivotSkipped(q.Step))
	}
	b := &events.StepSkipped{Step: q.Step, Why: events.SkipOperator, Output: q.Output, Left: op == events.Undo, Operator: operatorOf(q)}
	if b.Left {
		b.Child = s.ChildToDecide()
	}
	return b, Refusal{}
}

func pivotSkipped(path string) string {
	return fmt.Sprintf("step %q is the pivot, which cannot be skipped: if its work was done, complete it, which passes the point of no return", path)
}

// completed decides that a step or an undo was done by hand.
func completed(t *events.Task, q *events.Request) (events.Body, Refusal) {
	s, op, why := decidable(t, q)
	switch {
	case why != "":
		return refused("%s", why)
	case op == events.Undo:
		return &events.Compensated{Step: q.Step, Attempt: s.Undo.Attempt, Child: s.ChildToDecide(), Operator: operatorOf(q)}, Refusal{}
	case s == nil || !s.Attempted() && !s.Waits():
		return refused("no attempt of step %q has begun, so there is nothing to complete: skip it with the output that later steps need, unless it is the pivot", q.Step)
	}
	return &events.StepCompleted{Step: q.Step, Attempt: s.Attempt, Output: q.Output, Operator: operatorOf(q)}, Refusal{}
}

// failed decides that the running attempt of a step or an undo failed, or that one that waits for its next attempt gets none. What
// follows from it is left to the policy: see granted.
func failed(t *events.Task, q *events.Request) (events.Body, Refusal) {
	op, why := askedOperation(t, q)
	if why != "" {
		return refused("%s", why)
	}
	fault, why := faultGiven(q)
	if why != "" {
		return refused("%s", why)
	}
	s := t.Step(q.Step)
	attempt, running := 0, false
	switch {
	case s == nil || op == events.Undo && s.Undo == nil:
		return refused("no attempt to %s step %q has begun", op, q.Step)
	case op == events.Undo:
		attempt, running = s.Undo.Attempt, s.Undo.State == events.StepStateRunning
	default:
		attempt, running = s.Attempt, s.State == events.StepStateRunning
	}
	effect := q.Effect
	if child := s.DoneByChild(op); running && child != "" {
		return refused("task %q does it: cancel or terminate that task, and its end ends the attempt", child)
	}
	switch {
	case s.Fans():
		return refused("step %q has %d items: decide about these", q.Step, s.Fan.Count)
	case running && effect == "":
		effect = events.EffectInDoubt
	case running:
	case op == events.Undo && (s.Undo.State != events.StepStateWaiting || !events.Undoes(t, s)),
		op == events.Do && s.State != events.StepStateWaiting:
		return refused("no attempt to %s step %q is running, and none is to come", op, q.Step)
	case effect != "" && effect != events.EffectNone:
		return refused("no attempt to %s step %q is running, so the failure has no effect: leave out effect", op, q.Step)
	default:
		attempt, effect = 0, events.EffectNone
	}
	if op == events.Undo {
		return &events.CompensationFailed{Step: q.Step, Attempt: attempt, Error: fault, Operator: operatorOf(q)}, Refusal{}
	}
	return &events.StepFailed{Step: q.Step, Attempt: attempt, Error: fault, Effect: effect, Operator: operatorOf(q)}, Refusal{}
}

// faultGiven returns the error that a request to fail gives, within the limits of one that an agent reports.
func faultGiven(q *events.Request) (events.Error, string) {
	e := events.Error{Class: events.ClassPermanent}
	if q.Error != nil {
		e.Class, e.Code, e.Message = q.Error.Class, q.Error.Code, q.Error.Message
	}
	switch e.Class {
	case "":
		e.Class = events.ClassPermanent
	case events.ClassRetryable, events.ClassPermanent, events.ClassInternal, events.ClassLimit:
	default:
		return e, fmt.Sprintf("the class of the error is %q; it must be retryable, permanent, internal or limit", e.Class)
	}
	switch q.Effect {
	case "", events.EffectNone, events.EffectDoneUnknown, events.EffectInDoubt:
	default:
		return e, fmt.Sprintf("effect is %q; it must be none, done_unknown or in_doubt", q.Effect)
	}
	if e.Message == "" {
		if e.Message = q.Reason; e.Message == "" {
			e.Message = "an operator ended the attempt"
		}
	}
	return withinLimits(e), ""
}

func operatorOf(q *events.Request) events.Operator {
	return events.Operator{Request: q.ID, Reason: q.Reason, By: q.By}
}

// granted adds to the fact that a request leads to what only the owner knows, or says why it is refused after all: the definition and
// its policy, the settings, and the epoch in which the attempt was sent.
// The error is an *events.NoKeyError.
func (i *inbox) granted(t *events.Task, body events.Body) (_ events.Body, why string, err error) {
	limit := i.settings().PayloadBytes
	switch b := body.(type) {
	case *events.StepSkipped:
		if why = i.skippable(t, b); why == "" {
			b.Output, why = given(b.Output, "output", limit)
		}
	case *events.StepCompleted:
		b.Output, why = given(b.Output, "output", limit)
	case *events.SignalReceived:
		why, err = takable(i, t, b)
	case *events.TaskReopened:
		if b.With, why = given(b.With, "with", limit); why == "" && len(b.With) > 0 {
			why = withoutInput(i, t, b.Steps[0])
		}
	case *events.TaskRerun:
		why, err = redone(i, t, b)
	case *events.StepFailed:
		s := t.Step(b.Step)
		//mutant:failed-by-hand-is-in-doubt
		if b.Attempt > 0 && i.sentTwice(s, events.Do) {
			b.Effect = events.EffectInDoubt
		}
		//mutant:undo-waits-for-failed-by-hand
		b.QuietAt = i.planner.quietAt(s, events.Do, b.Effect)
		b.Verdict = i.planner.verdict(Failure{Task: t, Path: b.Step, Operation: events.Do, Error: b.Error, Effect: b.Effect})
	case *events.CompensationFailed:
		if b.Attempt > 0 { // whatever the operator says, nobody stops its request
			b.QuietAt = i.planner.quietAt(t.Step(b.Step), events.Undo, events.EffectInDoubt)
		}
		b.Verdict = i.planner.verdict(Failure{Task: t, Path: b.Step, Operation: events.Undo, Error: b.Error})
	}
	return body, why, err
}

// skippable says why a step that has not begun cannot be skipped: only its definition knows it.
func (i *inbox) skippable(t *events.Task, b *events.StepSkipped) string {
	if s := t.Step(b.Step); s != nil && s.Attempted() {
		return ""
	}
	if err := i.planner.prepare(t); err != nil {
		return err.Error()
	}
	switch step := i.sched.Defined(t, b.Step); {
	case !step.Known:
		return fmt.Sprintf("workflow %q has no step %q", t.Workflow, b.Step)
	case step.Pivot:
		return fmt.Sprintf("step %q is the pivot, and no attempt of it has begun: it can be completed once an attempt has failed", b.Step)
	}
	return ""
}

// withoutInput says why a retry gives no input to a step that calls nobody.
func withoutInput(i *inbox, t *events.Task, path string) string {
	if err := i.planner.prepare(t); err != nil {
		return err.Error()
	}
	traits := i.sched.Defined(t, path)
	if traits.Items && !events.IsItem(path) {
		return fmt.Sprintf("step %q has items, and each has its input: retry it without another input, or give one to an item", path)
	}
	if traits.Calls {
		return ""
	}
	return fmt.Sprintf("step %q waits or sleeps, so it has no input: retry it without another input, or skip it with the output that later steps need", path)
}

// given returns a value of a request as it stands in a fact, whose limit is in bytes.
func given(raw []byte, member string, limit int) ([]byte, string) {
	if len(raw) == 0 {
		return nil, ""
	}
	value, err := events.Compact(raw)
	switch {
	case err != nil:
		return nil, fmt.Sprintf("%s is not JSON: %s", member, err)
	case len(value) > limit:
		return nil, fmt.Sprintf("%s has %d bytes; %d are allowed (step output limit)", member, len(value), limit)
	}
	return value, ""
}
