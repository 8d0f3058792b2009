package supervisor

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/sagalog/sagalog/events"
)

// planner decides what follows from the state of a task.
type planner struct {
	*core
	// poison holds the tasks for which deciding panicked, with the reason. They are parked without being planned.
	poison map[string]string
	// noOutput holds tasks that an operator retries, until they are planned: if all steps of such a task are done and only its output fails, it
	// ends without one (see outcome). A plan may wait for a key. If the epoch ends meanwhile, the task parks once more, and the next retry ends it.
	noOutput map[string]bool
	// unplanned says that the store may hold live tasks that nobody planned in this epoch.
	unplanned bool
}

const (
	// planRounds bounds the rounds of planning after one fact: each round ends a step or the task, so even the largest workflow
	// needs no more.
	planRounds = 2100
	// planCost bounds the cost of the expressions that one cause may lead to, beyond which the task is parked, or a rerun refused. A single plan may
	// use a quarter of it, but each condition that skips a step leads to another plan.
	planCost = 4_000_000
	// unplannedBatch bounds the tasks planned at once after a take-over, so that inputs do not wait for all of them.
	unplannedBatch = 200
	// parkedInternal is the prefix of the reason of a task that was parked because deciding panicked.
	parkedInternal = "internal: "
)

// inFlight is how many appends may be unanswered: only one while a take-over has unplanned tasks, because the previous batch must
// be in the store.
func (p *planner) inFlight() int {
	if p.unplanned {
		return 1
	}
	return p.cfg.InFlight
}

// fold forgets the poison of a task whose parking is durable, so that an operator's next request is tried. The
// plan itself follows from the state of a task and not from the fact that changed it.
func (p *planner) fold(f *events.Fact) {
	if b, ok := f.Body.(*events.TaskParked); ok && strings.HasPrefix(b.Reason, parkedInternal) {
		delete(p.poison, f.Task)
	}
}

// plan records what follows from the task's state until nothing follows (INV5), and queues the attempts that may start.
// It depends on the state and not on the input that changed it, so that a new owner plans the same. docs/protocol.md,
// "Follow-ups are planned from the state".
func (p *planner) plan(id string) error {
	p.judging.task = id
	cost, waits := 0, false
	defer func() {
		if !waits {
			delete(p.noOutput, id)
		}
	}()
	for range planRounds {
		t, err := p.state.Task(id)
		if err != nil || t == nil || t.State.Ended() {
			delete(p.unopened.tasks, id)
			return err
		}
		if why, bad := p.poison[id]; bad {
			return p.park(t, parkedInternal+why)
		}
		if parkedAsPoison(t) {
			// Nothing follows, and planning may panic again. Each new epoch sends the running work again; its report would make
			// planning panic and end the epoch, in an endless loop.
			return nil
		}
		if err := p.prepare(t); err != nil {
			return p.park(t, err.Error())
		}
		plan, err := p.sched.Plan(t)
		if err != nil {
			return err
		}
		cost += plan.Cost
		p.batch.cost += plan.Cost
		if waits = plan.Unopened != nil; waits {
			p.unopened.hold(id, "", plan.Unopened)
			p.unopened.write(id)
		}
		if plan.Quiet() {
			if plan.Unopened == nil {
				p.unopened.settle(id)
			}
			p.dispatch.queue.push(p.queued(t, plan), p.stamp())
			return nil
		}
		if cost > planCost {
			return p.park(t, "the expressions evaluated for one decision do too much work; a retry continues from here, but such work belongs in an agent")
		}
		err = p.recordPlan(t, plan)
		if why, passes := errors.AsType[*events.NoKeyError](err); passes {
			waits = true
			p.unopened.hold(id, "", why)
			p.unopened.write(id)
			return nil
		}
		if errors.Is(err, events.ErrTooLarge) {
			return p.park(t, err.Error())
		}
		if err != nil {
			return err
		}
	}
	return fmt.Errorf("planning task %q does not end", id)
}

// recordAndPlan records a fact about a task and what follows from it.
func (p *planner) recordAndPlan(f *events.Fact) error {
	if err := p.record(f, nil); err != nil {
		return err
	}
	return p.plan(f.Task)
}

func parkedAsPoison(t *events.Task) bool {
	return t.State == events.TaskStateError && strings.HasPrefix(t.Reason, parkedInternal)
}

// prepare makes the task's definition known to the scheduler, from the partition's own state.
func (p *planner) prepare(t *events.Task) error {
	if p.sched.Prepared(t.Definition) {
		return nil
	}
	body, err := p.state.DefinitionBody(t.Definition)
	if err != nil {
		if p.state.Definition(t.Definition) != nil {
			p.epoch.unread = err
		}
		return err
	}
	return p.sched.Prepare(t.Definition, body)
}

// policy returns the failure policy of the task's definition. A process that has just started must first prepare the
// definition, and a timer or a report may be the first to need it. A task that is parked because deciding panicked, or is
// about to be, has no policy, because asking for it may panic again.
func (p *planner) policy(t *events.Task, path string, op events.Operation) events.Policy {
	if _, bad := p.poison[t.ID]; bad || parkedAsPoison(t) {
		return events.Policy{Then: events.ActionPark}
	}
	if err := p.prepare(t); err != nil {
		return events.Policy{Then: events.ActionPark} // plan parks the task with the reason
	}
	return p.sched.Policy(t, path, op)
}

// check returns why the result of a step that completed means failure, nil if it does not. The error is an *events.NoKeyError.
func (p *planner) check(t *events.Task, path string, output json.RawMessage) (*events.Error, error) {
	if p.prepare(t) != nil {
		// Plan parks the task. The result of a step that may have a check must not pass without it; Check reports the missing definition.
		if body, err := p.state.DefinitionBody(t.Definition); err == nil && !bytes.Contains(body, []byte(`"fail_if"`)) {
			return nil, nil
		}
	}
	fault, cost, err := p.sched.Check(t, path, output)
	p.batch.cost += cost
	return fault, err
}

// verdict judges the failure of an attempt by the policy of its step, now.
func (p *planner) verdict(f Failure) events.Verdict {
	f.Policy, f.Now = p.policy(f.Task, f.Path, f.Operation), p.stamp()
	return JudgeFailure(f)
}

func (p *planner) recordPlan(t *events.Task, plan events.Plan) error {
	for _, body := range plan.Facts {
		body = p.outcome(t, body)
		if err := p.record(&events.Fact{Task: t.ID, Body: body, Cause: events.CauseFact(t.Last)}, nil); err != nil {
			return err
		}
	}
	for _, x := range plan.Broken {
		if t.State.Ended() || t.State == events.TaskStateUndoing {
			return nil // one of the earlier failures made the task undo
		}
		f := p.notStarted(t, x.Path, x.Operation, x.Error)
		if b, ok := f.Body.(*events.StepFailed); ok {
			b.Signal, b.Output = x.Signal, x.Output
		}
		if err := p.record(f, nil); err != nil {
			return err
		}
	}
	return nil
}

// outcome completes a fact of a plan by what the plan does not know: the time, and the settings. It parks a task whose output is too large. If an operator retries a task whose output fails, the task ends without one: the
// same expression of the same definition would fail again, and past its pivot the task could not be cancelled either.
func (p *planner) outcome(t *events.Task, body events.Body) events.Body {
	switch b := body.(type) {
	case *events.StepQueued:
		b.StartBy = p.stamp().Add(b.StartWithin.Std())
		if s := t.Step(b.Step); s != nil { // it cannot start before
			b.StartBy = max(b.StartBy, s.UndoQuietAt.Add(b.StartWithin.Std()))
		}
		return b
	case *events.WaitStarted:
		b.Stamp(p.stamp())
	}
	if done, ok := body.(*events.TaskProcessed); ok && len(done.Output) > p.settings().PayloadBytes {
		reason := fmt.Sprintf("the workflow's output has %d bytes; %d are allowed (step output limit)", len(done.Output), p.settings().PayloadBytes)
		body = &events.TaskParked{Reason: reason + events.OutputHint(t)}
	}
	if parked, ok := body.(*events.TaskParked); ok && parked.Step == "" && p.noOutput[t.ID] {
		body = &events.TaskProcessed{Output: json.RawMessage("null")}
	}
	//mutant:end-releases-permit
	events.End(t, body)
	return body
}

// notStarted is the failure of an attempt before any work was sent.
func (p *planner) notStarted(t *events.Task, path string, op events.Operation, e events.Error) *events.Fact {
	e.Message = events.Clip(e.Message, maxDetail)
	failure := Failure{Task: t, Path: path, Operation: op, Error: e, Effect: events.EffectNone}
	body := failureOf(failure, 0, p.verdict(failure))
	return &events.Fact{Task: t.ID, Cause: events.CauseFact(t.Last), Body: body}
}

// quietAt returns the time until which a request of the step's running do, or undo, may still take effect, zero if the attempt is not in
// doubt.
func (p *planner) quietAt(s *events.Step, op events.Operation, e events.Effect) events.Instant {
	if e != events.EffectInDoubt {
		return 0
	}
	if op == events.Undo {
		//mutant:do-waits-for-undo-in-doubt
		//mutant:undo-in-doubt-keeps-its-permit
		return p.quietAfter(s.Undo.CompleteBy)
	}
	//mutant:undo-waits-for-doubt
	//mutant:doubt-lasts-until-the-cap
	return p.quietAfter(s.LastEnd())
}

// quietAfter returns the time until which a request of an attempt may still take effect that acts until the given instant. An attempt with
// a heartbeat may act until its cap if its agent does not know that it is over: its progress is acknowledged, although nobody needs it.
func (p *planner) quietAfter(end events.Instant) events.Instant {
	return end.Add(p.settings().Grace.Std())
}

// park parks a task that cannot be planned, unless it is parked.
func (p *planner) park(t *events.Task, reason string) error {
	if t.State == events.TaskStateError || t.State.Ended() {
		return nil
	}
	follow := func(b events.Body) error {
		return p.record(&events.Fact{Task: t.ID, Cause: events.CauseFact(t.Last), Body: b}, nil)
	}
	err := follow(&events.TaskParked{Reason: events.Clip(reason, maxDetail)})
	if b := events.UnusedPermit(t); b != nil && err == nil {
		err = follow(b)
	}
	for _, b := range events.UnneededPermits(t) {
		if err == nil {
			err = follow(b)
		}
	}
	return err
}

// start begins an attempt that was admitted, if it is still due and its input can be evaluated and sealed.
func (p *planner) start(r events.Ready) error {
	if !p.unopened.waits(r) { // else its row from before it was tried is still in the store
		err := p.tryStart(r)
		why, passes := errors.AsType[*events.NoKeyError](err)
		if !passes {
			return err
		}
		p.unopened.hold(r.Task, r.Path, why)
		if err := returnHeld(p, r); err != nil {
			return err
		}
	}
	p.unopened.write(r.Task)
	return nil
}

func (p *planner) tryStart(r events.Ready) error {
	t, err := p.state.Task(r.Task)
	if err != nil || t == nil || t.State.Ended() {
		return err
	}
	p.judging = judging{task: r.Task}
	if why, bad := p.poison[r.Task]; bad {
		return p.park(t, parkedInternal+why)
	}
	if err := p.prepare(t); err != nil {
		return p.park(t, err.Error())
	}
	if due, err := p.stillReady(t, r); err != nil || !due {
		return err
	}
	if t.Facts >= p.settings().TaskFacts && r.Operation == events.Do { // the number of steps bounds the undos
		return p.park(t, fmt.Sprintf("the task has %d facts, its limit (task_facts)", t.Facts))
	}
	if why := p.tooLarge(t); why != "" && r.Operation == events.Do {
		return p.park(t, why)
	}
	if has := events.StepPermitOf(t, r.Path, r.Operation); has != nil && has.State != events.PermitStateGranted {
		return nil // the grant tries again
	}
	body, fault, err := p.startOf(t, r) // first, so that what cannot be opened now asks for no permit
	if err != nil {
		return err
	}
	if fault != nil {
		return p.recordAndPlan(p.notStarted(t, r.Path, r.Operation, *fault))
	}
	f := &events.Fact{Task: t.ID, Cause: events.CauseFact(t.Last), Body: body}
	if r.NotBefore != 0 {
		f.Cause = events.CauseTimer(t.ID, t.Run, r.Path, attemptAfter(t, r.Path, r.Operation), events.TimerRetry)
	}
	if err := p.seal(t, f); err != nil {
		return err
	}
	if asks, err := askForAttempt(p, t, r); asks || err != nil {
		return err
	}
	err = p.record(f, nil)
	if errors.Is(err, events.ErrTooLarge) {
		return p.recordAndPlan(p.notStarted(t, r.Path, r.Operation, events.Error{Class: events.ClassLimit, Message: err.Error()}))
	}
	if err == nil && events.IsItem(r.Path) { // the next item may begin
		return p.plan(t.ID)
	}
	return err
}

// waits says whether a queued attempt still waits to start.
func (p *planner) waits(r events.Ready) (bool, error) {
	t, err := p.state.Task(r.Task)
	if err != nil || t == nil || t.State.Ended() {
		return false, err
	}
	if _, bad := p.poison[r.Task]; bad || p.prepare(t) != nil {
		return false, nil // it is parked, or about to be
	}
	due := false
	err = blaming(r.Task, func() (err error) { due, err = p.stillReady(t, r); return err })
	return due, err
}

func (p *planner) stillReady(t *events.Task, r events.Ready) (bool, error) {
	if r.Operation == events.Do && p.overdue(t) || p.late(t, r) {
		// Its row in the store goes, or it would be read again and again until the timer fires, ahead of younger tasks. That may
		// take long, because the timer waits for the reports.
		p.state.Touch(t.ID)
		p.timers.moved = true
		return false, nil
	}
	notBefore, yes, err := p.sched.Offers(t, r.Path, r.Operation)
	if yes && notBefore > p.stamp() {
		// An earlier owner, whose clock was ahead, found it ready and wrote its row, but no fact. It belongs to the timers again.
		p.state.Touch(t.ID)
		p.timers.moved = true
		return false, err
	}
	return yes, err
}

// queued returns the attempts of a plan that may wait in the queue.
func (p *planner) queued(t *events.Task, plan events.Plan) []events.Ready {
	overdue := p.overdue(t)
	return slices.DeleteFunc(plan.Ready, func(r events.Ready) bool {
		return r.Operation == events.Do && overdue || p.late(t, r) || p.unopened.waits(r)
	})
}

// overdue says whether the deadline of a task is about to undo it. No do starts then: it would only be undone, or it would be the
// pivot, and the deadline could not undo the task any more.
func (p *planner) overdue(t *events.Task) bool {
	//mutant:no-do-starts-overdue
	return t.Deadline != 0 && t.Deadline <= p.stamp() && !t.DeadlinePassed && !t.Irrevocable()
}

// parkPoisoned parks the tasks that made deciding panic, before anything else can touch them again. A task whose
// acceptance was lost with the epoch is parked when it is accepted again. If the reopening of a task that was parked or had ended was lost,
// the task is parked when it is reopened: if its poison were forgotten here, the same request would panic again and again.
func (p *planner) parkPoisoned() error {
	if len(p.poison) == 0 {
		return nil
	}
	for _, id := range slices.Sorted(maps.Keys(p.poison)) {
		t, err := p.state.Task(id)
		switch {
		case err != nil || t == nil:
		case t.State.Ended(), t.State == events.TaskStateError:
			continue
		}
		if err == nil {
			err = p.planNew(id)
		}
		if err != nil {
			return err // parking calls nothing that can fail
		}
	}
	return nil
}

// planUnplanned plans live tasks that were folded from the log: a crash may have cut off a batch before its follow-ups. If
// planning records no fact, only rows change, and the store must have them before it is asked for more tasks; the inbox then
// records the resume points, so that there is a batch to commit.
func (p *planner) planUnplanned() error {
	//mutant:plan-from-state
	if !p.unplanned || len(p.flying) > 0 {
		return nil
	}
	ids, err := p.store.Unplanned(unplannedBatch)
	if err != nil {
		return err
	}
	p.unplanned = len(ids) > 0
	for _, id := range ids {
		if p.costly() {
			break
		}
		if err := p.planNew(id); err != nil {
			return blame(id, err)
		}
	}
	if len(ids) > 0 && len(p.batch.facts) == 0 {
		return p.inbox.pass()
	}
	return nil
}

// planNew plans a task that this epoch has not planned yet.
func (p *planner) planNew(id string) (err error) {
	defer guard(&err, func(err error) error { return err })
	t, err := p.state.Task(id)
	if err != nil || t == nil {
		return err
	}
	p.state.Touch(id)
	return p.plan(id)
}

// agenda tells the store when the owner must look at a task next, which of its steps wait in the queue, and what the others wait for.
// The attempts in the queue join it now, because a row for a ready step no longer says when its retry was due.
func (p *planner) agenda(t *events.Task) (a events.Planned) {
	now := p.stamp()
	a.Waits = events.CountWaits(t, now)
	for _, m := range t.Timers() {
		switch row := rowOf(m.Kind); {
		case row.reads != nil:
			a.Due = earliest(a.Due, m.Due)
		case row.decide != nil || m.Due > now: // otherwise the step is in the queue already
			a.Wake = earliest(a.Wake, m.Due)
		}
	}
	plan, err := p.planGuarded(t)
	if err != nil {
		return a
	}
	if plan.Unopened != nil && p.unopened.until(t.ID) <= now {
		p.unopened.hold(t.ID, "", plan.Unopened)
	}
	a.Waits = p.unopened.count(a.Waits, t.ID)
	a.Wake = earliest(a.Wake, p.unopened.until(t.ID))
	list := p.queued(t, plan)
	p.dispatch.queue.push(list, now)
	for _, r := range list {
		if r.NotBefore <= now {
			a.Ready = append(a.Ready, events.ReadyKey{Agent: r.Agent, Function: r.Function, Path: r.Path, Operation: r.Operation, Since: r.Since, Priority: r.Priority})
		}
	}
	return a
}

// earliest returns the earlier of two instants; zero means that there is no such instant.
func earliest(a, b events.Instant) events.Instant {
	if a == 0 || b != 0 && b < a {
		return b
	}
	return a
}

// planGuarded asks for a plan. A panic here sets nothing aside, because the task was already planned when it changed.
func (p *planner) planGuarded(t *events.Task) (plan events.Plan, err error) {
	defer guard(&err, func(err error) error { return err })
	_ = p.prepare(t) // Plan itself reports a missing definition if it needs one
	return p.sched.Plan(t)
}
