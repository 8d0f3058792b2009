package supervisor

import (
	"fmt"
	"strings"

	"github.com/sagalog/sagalog/events"
)

// followUps bounds the rounds of planning after one fact: each round ends a step or the task, so a workflow of the
// largest size needs no more.
const followUps = 2100

// follow plans what follows from the task's state until the plan is quiet (INV5), and queues the attempts that may
// start. It plans from the state and not from the input that changed it, so that a new owner finds the same
// (reading/traces.md, i1).
func (o *Owner) follow(b *batch, id string) (err error) {
	o.judging.task = id
	for range followUps {
		t, err := o.state.Task(id)
		if err != nil || t == nil || t.State.Ended() {
			return err
		}
		if why, bad := o.poisonTask[id]; bad {
			return o.parkFor(b, t, parkedInternal+why)
		}
		if parkedAsPoison(t) {
			// Nothing follows, and to ask may panic again: each new epoch sends the running work again, and the report of that
			// would end it, for ever.
			return nil
		}
		if err := o.prepare(t); err != nil {
			return o.parkFor(b, t, err.Error())
		}
		plan, err := o.sched.Plan(t)
		if err != nil {
			return err
		}
		if plan.Quiet() {
			o.queue.push(plan.Ready, o.stamp())
			return nil
		}
		if err := o.emitPlan(b, t, plan); err != nil {
			return err
		}
	}
	return fmt.Errorf("the plan of task %q does not come to rest", id)
}

// parkedInternal begins the reason of a task that was parked because deciding panicked.
const parkedInternal = "internal: "

func parkedAsPoison(t *events.Task) bool {
	return t.State == events.Parked && strings.HasPrefix(t.Reason, parkedInternal)
}

// prepare makes the task's definition known to the scheduler, from the partition's own state.
func (o *Owner) prepare(t *events.Task) error {
	d := o.state.Definition(t.Definition)
	if d == nil {
		return fmt.Errorf("definition %s was never adopted", t.Definition)
	}
	return o.sched.Prepare(d.Hash, d.Body)
}

// policy returns what the task's definition says of failures. A process that has just started knows no definition
// before it is prepared, and a timer or a report may be the first to ask for it.
// A task that was parked because deciding panicked has none, since asking again may panic again.
func (o *Owner) policy(t *events.Task, path string, op events.Operation) events.Policy {
	if parkedAsPoison(t) {
		return events.Policy{Then: events.ActionPark}
	}
	if err := o.prepare(t); err != nil {
		return events.Policy{Then: events.ActionPark} // follow parks the task and says why
	}
	return o.sched.Policy(t, path, op)
}

func (o *Owner) emitPlan(b *batch, t *events.Task, plan events.Plan) error {
	for _, body := range plan.Facts {
		if p, ok := body.(*events.TaskProcessed); ok && len(p.Output) > o.cfg.Settings.PayloadBytes {
			body = &events.TaskParked{Reason: fmt.Sprintf("the workflow's output has %d bytes; %d are allowed (step output limit)", len(p.Output), o.cfg.Settings.PayloadBytes)}
		}
		if err := o.emit(b, &events.Fact{Task: t.ID, Body: body, Cause: events.CauseFact(t.Last)}, nil); err != nil {
			return err
		}
	}
	for _, x := range plan.Broken {
		if t.State.Ended() || t.State == events.Undoing {
			return nil // an earlier one of these turned the task
		}
		if err := o.emit(b, o.notStarted(t, x.Path, x.Operation, x.Error), nil); err != nil {
			return err
		}
	}
	return nil
}

// notStarted is the failure of an attempt before any work was sent.
func (o *Owner) notStarted(t *events.Task, path string, op events.Operation, e events.Error) *events.Fact {
	e.Message = clip(e.Message, maxDetail)
	v := Decide(Failure{
		Task: t, Path: path, Operation: op, Error: e, Effect: events.EffectNone,
		Policy: o.policy(t, path, op), Now: max(o.now, o.state.Partition.Time),
	})
	f := &events.Fact{Task: t.ID, Cause: events.CauseFact(t.Last)}
	if op == events.Undo {
		f.Body = &events.UndoFailed{Step: path, Error: e, Verdict: v}
	} else {
		f.Body = &events.StepFailed{Step: path, Error: e, Effect: events.EffectNone, Verdict: v}
	}
	return f
}

// parkFor parks a task that cannot be planned, unless it is parked.
func (o *Owner) parkFor(b *batch, t *events.Task, reason string) error {
	if t.State == events.Parked || t.State.Ended() {
		return nil
	}
	return o.emit(b, &events.Fact{Task: t.ID, Cause: events.CauseFact(t.Last), Body: &events.TaskParked{Reason: clip(reason, maxDetail)}}, nil)
}

// start begins an attempt that was admitted, if it is still due.
func (o *Owner) start(b *batch, r events.Ready) error {
	t, err := o.state.Task(r.Task)
	if err != nil || t == nil || t.State.Ended() {
		return err
	}
	o.judging = judging{task: r.Task}
	o.cache.note(r.Task)
	if why, bad := o.poisonTask[r.Task]; bad {
		return o.parkFor(b, t, parkedInternal+why)
	}
	if err := o.prepare(t); err != nil {
		return o.parkFor(b, t, err.Error())
	}
	if due, err := o.stillReady(t, r); err != nil || !due {
		return err
	}
	if t.Facts >= o.cfg.Settings.TaskFacts && r.Operation == events.Do { // undoing has an end of its own
		return o.parkFor(b, t, fmt.Sprintf("the task has %d facts, its limit (task_facts)", t.Facts))
	}
	s, err := o.sched.Start(t, r.Path, r.Operation)
	if err != nil {
		return o.cannotStart(b, t, r, events.Error{Class: events.ClassExpression, Message: err.Error()})
	}
	if n := len(s.Input); n > o.cfg.Settings.PayloadBytes {
		return o.cannotStart(b, t, r, events.Error{Class: events.ClassLimit, Message: fmt.Sprintf("the input has %d bytes; %d are allowed (step input limit)", n, o.cfg.Settings.PayloadBytes)})
	}
	return o.emit(b, o.started(t, r, s), nil)
}

func (o *Owner) cannotStart(b *batch, t *events.Task, r events.Ready, e events.Error) error {
	if err := o.emit(b, o.notStarted(t, r.Path, r.Operation, e), nil); err != nil {
		return err
	}
	return o.follow(b, t.ID)
}

func (o *Owner) stillReady(t *events.Task, r events.Ready) (bool, error) {
	plan, err := o.sched.Plan(t)
	if err != nil {
		return false, err
	}
	for _, x := range plan.Ready {
		if plan.Quiet() && x.Path == r.Path && x.Operation == r.Operation && x.NotBefore <= o.stamp() {
			return true, nil
		}
	}
	return false, nil
}

func (o *Owner) started(t *events.Task, r events.Ready, s events.Start) *events.Fact {
	now := max(o.now, o.state.Partition.Time)
	f := &events.Fact{Task: t.ID, Cause: events.CauseFact(t.Last)}
	at := t.Step(r.Path)
	if r.Operation == events.Undo {
		attempt := 1
		if at.Undo != nil {
			attempt = at.Undo.Attempt + 1
		}
		f.Body = &events.UndoStarted{Step: r.Path, Agent: r.Agent, Attempt: attempt, CompleteBy: now.Add(s.CompleteBy.Std()), ReadyAt: r.NotBefore, Input: s.Input, Output: s.Output}
	} else {
		attempt := 1
		if at != nil {
			attempt = at.Attempt + 1
		}
		f.Body = &events.StepStarted{
			Step: r.Path, Agent: r.Agent, Attempt: attempt, CompleteBy: now.Add(s.CompleteBy.Std()), ReadyAt: r.NotBefore,
			Input: s.Input, Condition: s.Condition, Pivot: s.Pivot, Undoable: s.Undoable,
		}
	}
	if r.NotBefore != 0 {
		f.Cause = events.CauseTimer(t.ID, t.Run, r.Path, attemptOf(f.Body), events.TimerRetry)
	}
	return f
}

func attemptOf(b events.Body) int {
	switch b := b.(type) {
	case *events.StepStarted:
		return b.Attempt
	case *events.UndoStarted:
		return b.Attempt
	}
	return 0
}

// stamp is the time that the next fact would carry: what waits until an instant waits no longer once facts have passed
// it, also where they were decided by a clock that was ahead of this one.
func (o *Owner) stamp() events.Instant { return max(o.now, o.state.Partition.Time) }

// agenda tells the store when the owner must look at a task next, and which of its steps wait for a place. These stand
// in the queue from here on: a row that says that a step is ready says no more when its retry was due.
func (o *Owner) agenda(t *events.Task) (due events.Instant, ready []events.ReadyKey) {
	now := o.stamp()
	for _, m := range t.Timers() {
		waits := m.Kind == events.TimerRetry || m.Kind == events.TimerQuiet
		if waits && m.Due <= now {
			continue // it is due: the step stands in the queue
		}
		if due == 0 || m.Due < due {
			due = m.Due
		}
	}
	plan, err := o.planGuarded(t)
	if err != nil {
		return due, nil
	}
	o.queue.push(plan.Ready, now)
	for _, r := range plan.Ready {
		if r.NotBefore <= now {
			ready = append(ready, events.ReadyKey{Agent: r.Agent, Path: r.Path, Operation: r.Operation, Since: r.Since, Priority: r.Priority})
		}
	}
	return due, ready
}

// planGuarded asks for a plan where a panic sets nothing aside: whoever changed the task has asked before.
func (o *Owner) planGuarded(t *events.Task) (p events.Plan, err error) {
	defer guard(&err)
	return o.sched.Plan(t)
}
