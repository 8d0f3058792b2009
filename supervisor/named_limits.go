package supervisor

import (
	"github.com/sagalog/sagalog/events"
)

// LimitRecord is the latest record of a named limit in the definitions. Max and Rate are absent if it was deleted.
type LimitRecord struct {
	// Limit is its name as its records have it: events.LimitKey.
	Limit  string
	Offset int64
	Max    int
	Rate   string
}

// limits brings the named limits whose home is the partition into it: from then on they are part of its state, and the owner gives as many
// permits as the state says.
type limits struct {
	*core
	// known are the limits that the node has read, in the order of their offsets. They outlive epochs.
	known []LimitRecord
}

// SetLimits tells the owner the latest records of the named limits whose home is its partition, in the order of their offsets.
func SetLimits(o *Owner, now events.Instant, list []LimitRecord) {
	o.enter(now)
	o.limits.known = list
	o.deciding = true
}

// adopt brings the limits that are newer than those of the partition into it. The definitions are one partition, so an owner that knows a
// record knows all before it.
func (l *limits) adopt() error {
	for _, r := range l.known {
		has := l.state.Limits.Get(r.Limit)
		body := &events.LimitAdopted{Limit: r.Limit, Offset: r.Offset, Max: r.Max, Rate: r.Rate}
		//mutant:only-newer-limits-are-adopted
		if r.Offset <= l.state.Partition.LimitsOffset || body.Removes() && (has == nil || has.Offset == 0) {
			continue
		}
		if l.full() {
			return nil
		}
		if err := l.record(&events.Fact{Body: body, Cause: events.CauseDefinition(r.Offset)}, nil); err != nil {
			return err
		}
	}
	return nil
}

// askForAttempt asks for the permit of an attempt that could start otherwise, if its step needs one and has none, and says whether it did.
func askForAttempt(p *planner, t *events.Task, r events.Ready) (asks bool, err error) {
	limit := p.sched.Limit(t, r.Path)
	//mutant:attempt-asks-for-permit
	if limit == "" || events.StepPermitOf(t, r.Path, r.Operation) != nil {
		return false, nil
	}
	return true, p.record(&events.Fact{Task: t.ID, Cause: events.CauseFact(t.Last), Body: events.AskStepPermit(t, r.Path, r.Operation, limit)}, nil)
}

// askStepAgain repeats the ask of an attempt that has no answer.
func askStepAgain(t *events.Task, m events.Timer) events.Body {
	if p := events.StepPermitOf(t, m.Path, m.Operation); p != nil && p.N == m.Attempt && p.State == events.PermitStateAsked {
		return events.AskStepPermit(t, m.Path, m.Operation, p.Limit)
	}
	return nil
}

// hasLink says whether the task, or the attempt that the link of a grant names, has asked that limit with this link.
func hasLink(t *events.Task, m *events.PermitMessage) bool {
	switch {
	case !events.HasLink(t, m.Link):
		return false
	case m.Link.Path != "":
		return events.StepPermitOf(t, m.Link.Path, m.Link.Operation).Limit == m.Limit
	}
	return t.Permit.Limit == m.Limit
}

// granted says whether the task, or the attempt that the link names, has its permit already. It has the link.
func granted(t *events.Task, l events.Link) bool {
	if l.Path != "" {
		return events.StepPermitOf(t, l.Path, l.Operation).State == events.PermitStateGranted
	}
	return t.Permit.State == events.PermitStateGranted
}

// releaseBefore gives back the permits of the steps of a task that an operator terminates.
func releaseBefore(i *inbox, t *events.Task, body events.Body) error {
	if _, ends := body.(*events.TaskTerminated); !ends {
		return nil
	}
	for _, b := range events.OpenStepPermits(t) {
		if err := i.record(&events.Fact{Task: t.ID, Cause: events.CauseFact(t.Last), Body: b}, nil); err != nil {
			return err
		}
	}
	return nil
}

// returnUnused gives back the permit of an attempt that does not use it because an operator has paused its agent: attempts of other agents may
// wait for it. The attempt asks again when the agent goes on. A permit that came before the pause goes back when the limit repeats the grant.
func returnUnused(p *planner, link events.Link) error {
	if link.Path == "" || !p.dispatch.pauses() {
		return nil
	}
	t, err := p.state.Task(link.Task)
	if err != nil || t == nil || !events.HasLink(t, link) || p.prepare(t) != nil {
		return err
	}
	if x := events.StepPermitOf(t, link.Path, link.Operation); x.Used || x.State != events.PermitStateGranted {
		return nil
	}
	plan, err := p.sched.Plan(t)
	if err != nil {
		return err
	}
	for _, r := range plan.Ready {
		//mutant:permit-waits-for-no-paused-agent
		if r.Path == link.Path && r.Operation == link.Operation && p.dispatch.offers[r.Agent].Paused {
			return p.recordAndPlan(&events.Fact{Task: t.ID, Cause: events.CauseFact(t.Last), Body: events.ReleaseStepPermit(t, link.Path, link.Operation)})
		}
	}
	return nil
}

// returnHeld gives back the permit of an attempt whose input cannot be opened now: it may wait for long, and others need the permit. The attempt asks
// again when its input can be opened.
func returnHeld(p *planner, r events.Ready) error {
	t, err := p.state.Task(r.Task)
	if err != nil {
		return err
	}
	if x := events.StepPermitOf(t, r.Path, r.Operation); x == nil || x.Used || x.State != events.PermitStateGranted {
		return nil
	}
	return p.recordAndPlan(&events.Fact{Task: t.ID, Cause: events.CauseFact(t.Last), Body: events.ReleaseStepPermit(t, r.Path, r.Operation)})
}

// pauses says whether some agent is paused.
func (d *dispatch) pauses() bool {
	for _, o := range d.offers {
		if o.Paused {
			return true
		}
	}
	return false
}
