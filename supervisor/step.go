package supervisor

import (
	"errors"
	"fmt"

	"github.com/sagalog/sagalog/events"
)

// Every step is the work of an agent, done or undone in attempts. Everything about an attempt that depends on that is in this
// file: how it starts, what it sends, and what ends it.

// attempt is one attempt of an operation of a step.
type attempt struct {
	task, path string
	op         events.Operation
	number     int
}

// running says whether this is the running attempt of its step.
func (a attempt) running(t *events.Task) bool {
	return t != nil && t.Running(a.path, a.op, a.number)
}

// startOf returns the fact that begins an attempt to do or undo a step, or why it cannot begin. The attempt must be ready. The error is an
// *events.NoKeyError.
func (p *planner) startOf(t *events.Task, r events.Ready) (events.Body, *events.Error, error) {
	_ = p.prepare(t) // Start itself reports a missing definition
	s, err := p.sched.Start(t, r.Path, r.Operation)
	p.batch.cost += s.Cost
	if unopened, passes := errors.AsType[*events.NoKeyError](err); passes {
		return nil, nil, unopened
	}
	if err != nil {
		if e, ok := errors.AsType[*events.FaultError](err); ok {
			return nil, &e.Fault, nil
		}
		return nil, &events.Error{Class: events.ClassExpression, Message: err.Error()}, nil
	}
	if n := len(s.Input); n > p.settings().PayloadBytes {
		return nil, &events.Error{Class: events.ClassLimit, Message: fmt.Sprintf("the input has %d bytes; %d are allowed (step input limit)", n, p.settings().PayloadBytes)}, nil
	}
	completeBy, number := p.stamp().Add(s.CompleteWithin.Std()), attemptAfter(t, r.Path, r.Operation)
	if s.Child != nil && s.CompleteWithin == 0 {
		completeBy = 0
	}
	startBy := p.startBy(t, r, s.Within)
	if r.Operation == events.Undo {
		return &events.CompensationStarted{Step: r.Path, Agent: r.Agent, Function: r.Function, Attempt: number, CompleteBy: completeBy, ReadyAt: r.NotBefore, StartBy: startBy, Input: s.Input, Output: s.Output, Run: t.RunOf(r.Path), Child: s.Child}, nil, nil
	}
	b := &events.StepStarted{
		Step: r.Path, Agent: r.Agent, Function: r.Function, Attempt: number, CompleteBy: completeBy, ReadyAt: r.NotBefore, StartBy: startBy,
		Input: s.Input, Run: t.RunOf(r.Path), Condition: s.Condition, Pivot: s.Pivot, Undoable: s.Undoable, Child: s.Child,
	}
	if !attempted(t, r.Path, r.Operation) {
		b.RemindAfter = s.RemindAfter
	}
	if s.Heartbeat > 0 {
		b.Heartbeat, b.CapBy, b.CompleteBy = s.Heartbeat, completeBy, min(completeBy, p.stamp().Add(s.Heartbeat.Std()))
		if at := t.Step(r.Path); at != nil {
			b.Progress = at.Progress
		}
	}
	return b, nil, nil
}

// startBy returns the instant from which no further attempt may start, zero if it has no limit. It counts from the first attempt of the
// run, or the first one since an operator's retry.
func (p *planner) startBy(t *events.Task, r events.Ready, within events.Duration) events.Instant {
	if within == 0 {
		return 0
	}
	if by := events.StartBy(t, r.Path, r.Operation); by != 0 && attempted(t, r.Path, r.Operation) {
		return by
	}
	return p.stamp().Add(within.Std())
}

// late says whether the attempt must not start any more. Its timer decides what follows, and may still wait for the reports.
func (p *planner) late(t *events.Task, r events.Ready) bool {
	by := events.StartBy(t, r.Path, r.Operation)
	//mutant:no-attempt-starts-late
	return by != 0 && by <= p.stamp()
}

// attemptAfter returns the number of the next attempt.
func attemptAfter(t *events.Task, path string, op events.Operation) int {
	switch s := t.Step(path); {
	case s == nil:
		return 1
	case op == events.Undo && s.Undo == nil:
		return s.EarlierUndos + 1
	case op == events.Undo:
		return s.Undo.Attempt + 1
	default:
		return s.Attempt + 1
	}
}

// attempted says whether an attempt of the operation has begun in the step's run.
func attempted(t *events.Task, path string, op events.Operation) bool {
	s := t.Step(path)
	if s == nil || op == events.Undo {
		return s != nil && s.Undo != nil && s.Undo.Attempt > s.EarlierUndos
	}
	return s.Attempted()
}

// workOf returns the work request that a fact has as its effect; false if it has none.
func workOf(f *events.Fact) (events.Work, bool) {
	switch b := f.Body.(type) {
	case *events.StepStarted:
		if b.Child != nil {
			return events.Work{}, false
		}
		return events.Work{
			//mutant:work-has-the-run-of-its-fact
			Run: events.RunOf(b.Run), Step: b.Step, Agent: b.Agent, Function: b.Function, Operation: events.Do, Attempt: b.Attempt, CompleteBy: b.CompleteBy, Input: b.Input,
			Heartbeat: b.Heartbeat, CapBy: b.CapBy, Progress: b.Progress,
		}, true
	case *events.CompensationStarted:
		if b.Child != nil {
			return events.Work{}, false
		}
		return events.Work{
			Run: events.RunOf(b.Run), Step: b.Step, Agent: b.Agent, Function: b.Function, Operation: events.Undo, Attempt: b.Attempt, CompleteBy: b.CompleteBy, Input: b.Input, Output: b.Output,
		}, true
	}
	return events.Work{}, false
}

// change is what a fact changes about an attempt.
type change struct {
	attempt
	what changed
	// agent is the agent whose window the attempt counts against.
	agent string
}

// changed says how a fact changed an attempt.
type changed int

const (
	unchanged changed = iota
	began
	ended
)

// changeOf says what a fact changes about an attempt. t is the task as it is after the fact.
func changeOf(t *events.Task, f *events.Fact) change {
	if w, ok := workOf(f); ok {
		return change{attempt{f.Task, w.Step, w.Operation, w.Attempt}, began, w.Agent}
	}
	x := change{attempt: attempt{task: f.Task, op: events.Do}, what: ended}
	switch b := f.Body.(type) {
	case *events.StepStarted: // a child does it
		return change{attempt{f.Task, b.Step, events.Do, b.Attempt}, began, ""}
	case *events.CompensationStarted:
		return change{attempt{f.Task, b.Step, events.Undo, b.Attempt}, began, ""}
	case *events.StepCompleted:
		//mutant:completed-by-hand-frees-no-place
		if b.Request == "" { // an operator completes a step of which no attempt runs
			x.path, x.number = b.Step, b.Attempt
		}
	case *events.StepFailed:
		x.path, x.number = b.Step, b.Attempt
	case *events.Timeout:
		x.path, x.op, x.number = b.Step, b.Operation, b.Attempt
	case *events.Compensated:
		if b.Request == "" {
			x.path, x.op, x.number = b.Step, events.Undo, b.Attempt
		}
	case *events.CompensationFailed:
		x.path, x.op, x.number = b.Step, events.Undo, b.Attempt
	case *events.EffectFailed:
		if b.Failed != nil {
			x.path, x.number = b.Failed.Step, b.Failed.Attempt
		} else if b.CompensationFailed != nil {
			x.path, x.op, x.number = b.CompensationFailed.Step, events.Undo, b.CompensationFailed.Attempt
		}
	}
	if x.number == 0 || t == nil { // not about an attempt, or about one that did not begin, or the task is gone
		return change{}
	}
	switch s := t.Step(x.path); {
	case s == nil || x.op == events.Undo && s.Undo == nil:
		return change{} // another task has the ID now
	case x.op == events.Undo:
		x.agent = s.Undo.Agent
	default:
		x.agent = s.Agent
	}
	return x
}

// failureOf returns the fact that an attempt failed before any agent reported; number zero means that no attempt began.
func failureOf(f Failure, number int, v events.Verdict) events.Body {
	if f.Operation == events.Undo {
		return &events.CompensationFailed{Step: f.Path, Attempt: number, Error: f.Error, Verdict: v}
	}
	return &events.StepFailed{Step: f.Path, Attempt: number, Error: f.Error, Effect: f.Effect, Verdict: v}
}

// tooLarge returns why no other step of a task may start: what its steps hold has grown too large. It is empty if they may.
func (p *planner) tooLarge(t *events.Task) string {
	bytes, limit := p.cache.known[t.ID].bytes, p.settings().TaskBytes()
	if bytes <= limit {
		return ""
	}
	return fmt.Sprintf("the task has %d bytes, and no step starts beyond %d, which is %d times payload_bytes: make the steps return IDs instead of contents. To let this task go on, raise the limit (sagalog namespace set payload_bytes=N, at most %d) and retry the task; otherwise cancel it", bytes, limit, events.PayloadsOfTask, events.MaxPayloadBytes)
}
