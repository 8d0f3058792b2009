package supervisor

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strings"

	"github.com/sagalog/sagalog/events"
)

// Copying makes the records that a copy of a namespace needs besides the state: what the copy's owners would otherwise never send, since the facts
// that say so are not in its log. All are repeats of what may have been sent before, and judged as such.
type Copying struct {
	*core
	made uint64
}

// NewCopying returns the Copying for the state of a partition of the old namespace. The configuration is that of the new namespace.
func NewCopying(cfg Config, s Scheduler, state *events.State) (*Copying, error) {
	o, err := NewOwner(cfg, s, nil)
	if err != nil {
		return nil, err
	}
	o.state = state
	return &Copying{core: o.core}, nil
}

// sends returns effects as the actions that send them.
func sends(list []*effect) (out []Send) {
	for _, y := range list {
		out = append(out, Send{Kind: y.kind, Topic: y.topic, Record: y.record})
	}
	return out
}

// fact returns a fact that was never written, for an effect that follows from the state. Its position is in no log.
func (c *Copying) fact(t *events.Task, at events.Instant, body events.Body) *events.Fact {
	c.made++
	f := &events.Fact{Epoch: events.Epoch{N: c.state.Partition.Epoch.N, ID: "copy"}, Sequence: math.MaxInt64 + c.made, Time: at, Body: body}
	if t != nil {
		f.Task, f.Traceparent = t.ID, t.Traceparent
	}
	return f
}

// OfTask returns the requests of the attempts of a task that run, and its asks for permits. skip says whether the outcome of an attempt is known
// already, though not judged. find returns the task of an ID, nil if none is known: a child that is not known is submitted again. find is nil if no
// submission was lost.
func (c *Copying) OfTask(t *events.Task, skip func(path string, op events.Operation, attempt int) bool, find func(id string) (*events.Task, error)) ([]Send, error) {
	home := events.Home(t.ID, c.cfg.Partitions)
	//mutant:copied-request-names-new-home
	c.cfg.Partition = home
	var list []*effect
	if p := t.Permit; p != nil && p.State != "" {
		ask := &events.PermitAsked{Limit: p.Limit, Max: p.Max, Version: t.Version, Priority: t.Priority, Repeat: true, Link: events.PermitLink(t, p.N)}
		list = append(list, permitEffects(c.outbox, c.fact(t, p.At, ask))...)
	}
	for i := range t.StepPermits {
		p := &t.StepPermits[i]
		list = append(list, permitEffects(c.outbox, c.fact(t, p.At, events.AskStepPermit(t, p.Path, p.Operation, p.Limit)))...)
	}
	for _, s := range t.Steps {
		if s.ByChild != nil && s.State == events.StepStateRunning { // a timer asks the child again
			again, err := c.lostChild(t, s, find)
			if err != nil {
				return nil, err
			}
			list = append(list, again...)
			continue
		}
		body, err := c.began(t, s)
		if err != nil {
			return nil, err
		}
		//mutant:copied-attempt-is-requested
		if w, ok := workOf(&events.Fact{Body: body}); ok && !skip(w.Step, w.Operation, w.Attempt) {
			at, _ := t.Times(w.Step, w.Operation, w.Attempt)
			list = append(list, c.outbox.work(t, c.fact(t, at, body))...)
		}
	}
	return sends(list), nil
}

// began returns the fact that began the running attempt of a step, as far as its request needs it; nil if none runs.
func (c *Copying) began(t *events.Task, s *events.Step) (events.Body, error) {
	if s.State == events.StepStateRunning {
		b := &events.StepStarted{
			Step: s.Path, Agent: s.Agent, Function: s.Function, Attempt: s.Attempt, CompleteBy: s.CompleteBy, Input: s.Input, Run: s.Run,
			Heartbeat: s.Heartbeat, CapBy: s.CapBy, Progress: s.Progress,
		}
		if s.Heartbeat > 0 { // the request has the first complete-by time
			b.CompleteBy = min(s.CapBy, s.StartedAt.Add(s.Heartbeat.Std()))
		}
		return b, nil
	}
	u := s.Undo
	if u == nil || u.State != events.StepStateRunning || u.Agent == "" { // a timer asks the child that undoes it again
		return nil, nil
	}
	if err := c.planner.prepare(t); err != nil {
		return nil, fmt.Errorf("task %q, step %q: %w", t.ID, s.Path, err)
	}
	start, err := c.sched.Start(t, s.Path, events.Undo) // the state does not keep the input of an undo
	b := &events.CompensationStarted{
		Step: s.Path, Agent: u.Agent, Function: u.Function, Attempt: u.Attempt, CompleteBy: u.CompleteBy, Input: start.Input, Output: start.Output, Run: t.RunOf(s.Path),
	}
	if events.IsSealed(t.Input) {
		if err != nil {
			b.Input = json.RawMessage("null") // so that a key that is missing is an error
		}
		if sealed := c.sealed(t, b); sealed != nil {
			return nil, fmt.Errorf("task %q, step %q is being undone: %w", t.ID, s.Path, sealed)
		}
	}
	if err != nil {
		return nil, nil // it cannot be made again, so the attempt times out
	}
	return b, nil
}

// lostChild returns the submission of the child that does a step, if the child is not known. An ask alone would find that it is lost.
func (c *Copying) lostChild(t *events.Task, s *events.Step, find func(id string) (*events.Task, error)) ([]*effect, error) {
	if find == nil {
		return nil, nil
	}
	if known, err := find(s.Child()); known != nil || err != nil {
		return nil, err
	}
	if err := c.planner.prepare(t); err != nil {
		return nil, fmt.Errorf("task %q, step %q: %w", t.ID, s.Path, err)
	}
	start, err := c.sched.Start(t, s.Path, events.Do) // the state keeps the child's ID and input only
	if err != nil || start.Child == nil {
		if events.IsSealed(t.Input) && c.cfg.Keys == nil {
			return nil, fmt.Errorf("task %q, step %q starts a task: %w", t.ID, s.Path, errNeedsKeys)
		}
		return nil, nil // it cannot be made again, so an operator learns that the child is lost
	}
	start.Child.Task = s.Child()
	at, _ := t.Times(s.Path, events.Do, s.Attempt)
	return toChild(c.outbox, t, c.fact(t, at, &events.StepStarted{Step: s.Path, Attempt: s.Attempt, Input: s.Input, Child: start.Child})), nil
}

// errNeedsKeys says that content cannot be opened.
var errNeedsKeys = errors.New("its request must be made again from encrypted content, so the copy needs the key file of the nodes: give --seal-key-file")

// sealed seals the content of a fact of a sealed task. It returns an error if it cannot, because nothing may leave in clear text.
func (c *Copying) sealed(t *events.Task, b *events.CompensationStarted) (err error) {
	for _, slot := range contentOf(b) {
		if len(*slot) == 0 || events.IsSealed(*slot) {
			continue
		}
		if c.cfg.Keys == nil {
			return errNeedsKeys
		}
		if *slot, err = c.cfg.Keys.SealLike(t.Input, *slot); err != nil {
			return err
		}
	}
	return nil
}

// OfLimit returns the grants of a limit to the links that have its permits: one of which the task knows nothing comes back as a release.
func (c *Copying) OfLimit(l *events.Limit) (list []Send) {
	for x := range l.Permits() {
		if x.Held() && x.EndsAt == 0 {
			b := &events.PermitsDecided{Limit: l.Name, Granted: &x.Link, Waiting: len(l.Waiting())}
			list = append(list, sends(permitEffects(c.outbox, c.fact(nil, x.GrantedAt, b)))...)
		}
	}
	return list
}

// OfSchedule returns what a schedule is owed, or owes, about its tasks that have not ended by its account. find returns the task of an ID, nil if
// none is known. again says that the submission of a task that is not known was lost.
func (c *Copying) OfSchedule(x *events.Schedule, again bool, find func(id string) (*events.Task, error)) ([]Send, error) {
	var list []*effect
	d, err := x.Definition()
	if err != nil {
		return nil, err
	}
	for i := range x.Running {
		r := &x.Running[i]
		t, err := find(r.Task)
		if err != nil {
			return nil, err
		}
		switch {
		case t != nil && t.State.Ended():
			end := events.TaskEnd{Schedule: x.Name, Task: t.ID, Began: t.ScheduleBegan, State: string(t.State), Reason: t.Reason}
			if t.Schedule == x.Name {
				list = append(list, c.schedules.end(c.fact(nil, t.EndedAt, &events.StateHash{}), end)...)
			}
		case t == nil && again:
			fired, ok := c.schedules.occur(unfired(x, r.Due), d, r.Due, x.Next).(*events.ScheduleFired)
			if ok && fired.Task == r.Task {
				list = append(list, c.schedules.start(c.fact(nil, r.At, fired), fired.Task, fired.Submission)...)
			}
		}
		if r.CancelledFor != 0 {
			b := &events.ScheduleCancelRequested{Schedule: x.Name, Task: r.Task, Due: r.CancelledFor, Began: x.Began}
			list = append(list, c.schedules.cancel(c.fact(nil, r.At, b), b)...)
		}
	}
	return sends(list), nil
}

// unfired returns the schedule as it was before a due time led to a task.
func unfired(x *events.Schedule, due events.Instant) *events.Schedule {
	before := *x
	before.Fires, before.Running, before.Previous = nil, nil, 0
	for _, f := range x.Fires {
		if f.Due < due {
			before.Previous = max(before.Previous, f.Due)
		}
	}
	return &before
}

// Owed is an effect of a fact that may not have left yet.
type Owed struct {
	Send
	// Input names the input whose bytes it needs; Complete adds them.
	Input events.Cause
	of    *events.Fact
	y     *effect
}

// OfFact returns what a fact owes, as by the watermark and the destinations that are delayed, apart from work: see OfTask. partition is that of the old
// namespace.
func (c *Copying) OfFact(f *events.Fact, partition int32) ([]Owed, error) {
	t, err := c.outbox.taskAt(f)
	if err != nil {
		return nil, err
	}
	c.cfg.Partition = partition
	effects := c.outbox.replies.reply(t, f)
	if owes(c.outbox, t, f) {
		effects = append(effects, c.outbox.effects(t, f)...)
	}
	var list []Owed
	p := &c.state.Partition
	for _, y := range effects {
		after := p.Watermark
		for to, taken := range p.Delayed { // of a topic, the names are those of its old partitions
			if (to == y.topic || strings.HasPrefix(to, y.topic+"/")) && taken.Before(after) {
				after = taken
			}
		}
		if y.kind == events.EffectWork || !after.Before(f.Position()) {
			continue
		}
		list = append(list, Owed{Send: Send{Kind: y.kind, Topic: y.topic, Record: y.record}, Input: y.wants, of: f, y: y})
	}
	return list, nil
}

// Complete adds the bytes of the input. from is the name of the old namespace: a dead letter names the place in it.
func (c *Copying) Complete(o *Owed, from string, input *events.Record) {
	to := c.cfg.Namespace
	c.cfg.Namespace = from
	c.outbox.complete(o.of, o.y, input)
	c.cfg.Namespace = to
	o.Record = o.y.record
}
