package supervisor

import (
	"encoding/json"
	"fmt"
	"strconv"

	"github.com/sagalog/sagalog/events"
)

// A task asks a limit for a permit, and the limit gives permits to as many links as it may. Both judge what the other says by the name
// of the link alone, so that copies, late or twice, do no harm: docs/protocol.md, "Links".

// permitJudgements says how the records of tasks and limits are judged.
func permitJudgements(all map[string]judgement) {
	for _, kind := range []string{events.TypePermitAsk, events.TypePermitGrant, events.TypePermitRelease} {
		all[kind] = judgePermit
	}
}

func judgePermit(i *inbox, item *input) error {
	kind := item.env.Type
	var m events.PermitMessage
	if err := json.Unmarshal(item.data, &m); err != nil {
		return i.reject(item, "", events.RejectUnreadable, err.Error())
	}
	why := m.Check(kind)
	if key := string(item.record.Key); why == "" && key != "" && key != m.To(kind) {
		why = fmt.Sprintf("its key is %q, and it is addressed to %q", events.Clip(key, maxDetail/4), events.Clip(m.To(kind), maxDetail/4))
	}
	if why != "" {
		return i.reject(item, "", events.RejectInvalid, "the record about a permit cannot be used: "+why)
	}
	if done, err := i.elsewhere(item, m.To(kind)); done || err != nil {
		return err
	}
	var body *events.PermitsDecided
	switch l := i.state.Limits.Get(m.Limit); kind {
	case events.TypePermitAsk:
		body = judgeAsk(l, &m, i.stamp())
	case events.TypePermitRelease:
		sent, err := events.ParseInstant(item.env.Time)
		if err != nil {
			sent = i.stamp() // QuietAt counts as it is
		}
		body = judgeRelease(l, &m, m.QuietFrom(sent, i.stamp()), i.stamp())
	default:
		return judgeGrant(i, item, &m)
	}
	if body == nil {
		return nil
	}
	return i.record(i.caused(item, "", body), nil)
}

// judgeAsk answers an ask, nil if there is nothing to say: the link waits, or its permit is about to end. An ask that the limit knows is
// answered with the last answer. One that it does not know is an ask whatever its age, even if it is a repeat: its task may need no permit any
// more, and returns it then.
func judgeAsk(l *events.Limit, m *events.PermitMessage, now events.Instant) *events.PermitsDecided {
	if x := l.Permit(m.Link); x != nil {
		if !x.Held() || x.EndsAt != 0 {
			return nil
		}
		return tells(l, x)
	}
	a := &events.PermitAsked{Limit: m.Limit, Link: m.Link, Max: m.Max, Version: m.Version, Priority: m.Priority, Repeat: m.Repeat}
	body := &events.PermitsDecided{Limit: m.Limit, Asked: a}
	if l.FreeWith(a, now) > 0 {
		body.Granted = l.NextWith(a)
	}
	return body
}

// judgeRelease takes back the permit of a link, or its place among those that wait, and gives the permit to the next one. A permit with an
// attempt in doubt is kept until its quiet time is over.
func judgeRelease(l *events.Limit, m *events.PermitMessage, quiet, now events.Instant) *events.PermitsDecided {
	x := l.Permit(m.Link)
	if x == nil || x.EndsAt != 0 {
		return nil
	}
	//mutant:permit-in-doubt-is-kept
	if x.Held() && quiet > now {
		return &events.PermitsDecided{Limit: m.Limit, Ending: &events.PermitReleased{Limit: m.Limit, Link: m.Link, QuietAt: quiet}}
	}
	return released(l, x, now)
}

// released removes a link, and gives its permit to the next one.
func released(l *events.Limit, x *events.Permit, now events.Instant) *events.PermitsDecided {
	body := &events.PermitsDecided{Limit: x.Limit, Released: &x.Link}
	if next := l.Next(); x.Held() && next != nil && l.FreeWithout(x, now) > 0 {
		body.Granted = &next.Link
	}
	return body
}

// judgeGrant takes a grant. If the task does not have the link, the permit goes back: the task has ended or is forgotten, or needs
// none any more. A task that has the permit already takes nothing from it, but an alert is raised if it is parked and others wait.
func judgeGrant(i *inbox, item *input, m *events.PermitMessage) error {
	t, err := i.state.Task(m.Link.Task)
	if err != nil {
		return err
	}
	if t == nil || !hasLink(t, m) {
		return i.record(i.caused(item, m.Link.Task, events.ReturnPermit(t, m, i.stamp())), nil)
	}
	//mutant:grant-counts-once
	if granted(t, m.Link) {
		if b := events.BlockPermit(t, m, i.stamp()); b != nil {
			return i.record(i.caused(item, t.ID, b), nil)
		}
		return returnUnused(i.planner, m.Link)
	}
	i.judging.task = t.ID
	if err := i.planner.recordAndPlan(i.caused(item, t.ID, &events.PermitGranted{Limit: m.Limit, Link: m.Link})); err != nil {
		return err
	}
	return returnUnused(i.planner, m.Link)
}

// permitDue is what a limit does at that time about a permit that is due.
func permitDue(l *events.Limit, x *events.Permit, now events.Instant) *events.PermitsDecided {
	//mutant:ended-permit-is-freed
	if x.EndsAt != 0 {
		return released(l, x, now)
	}
	if x.Held() {
		return tells(l, x)
	}
	return &events.PermitsDecided{Limit: x.Limit, Granted: &x.Link}
}

// tells is the fact by which a holder hears of its permit again.
func tells(l *events.Limit, x *events.Permit) *events.PermitsDecided {
	return &events.PermitsDecided{Limit: x.Limit, Granted: &x.Link, Waiting: len(l.Waiting())}
}

func (t *timers) permitsDue() (bool, error) { return len(t.state.Limits.Due(t.now)) > 0, nil }

// firePermits decides about the permits that are due. Nothing that anybody could report contradicts it: a holder that has ended says so when it
// hears of its permit again.
func (t *timers) firePermits(at events.Instant) error {
	for {
		n := len(t.batch.facts)
		if err := t.firePermitsOnce(at); err != nil || len(t.batch.facts) == n {
			return err
		}
	}
}

// firePermitsOnce decides about each of them once: of the links that wait for a limit, the first.
func (t *timers) firePermitsOnce(at events.Instant) error {
	for _, x := range t.state.Limits.Due(at) {
		if t.full() {
			return nil
		}
		l := t.state.Limits.Get(x.Limit)
		if l.Permit(x.Link) != x || !x.Held() && (l.Free(t.stamp()) == 0 || l.Next() != x) { // an earlier one in the list has changed it
			continue
		}
		if err := t.record(aboutPermit(x, permitDue(l, x, t.stamp())), nil); err != nil {
			return err
		}
		// What is free goes out at once: to look for each permit at all links again would take too long with many that wait.
		for next := l.Next(); next != nil && l.Free(t.stamp()) > 0 && !t.full(); next = l.Next() {
			if err := t.record(aboutPermit(next, permitDue(l, next, t.stamp())), nil); err != nil {
				return err
			}
		}
	}
	return nil
}

// aboutPermit is the fact by which a limit does what is due about a permit.
func aboutPermit(x *events.Permit, body *events.PermitsDecided) *events.Fact {
	return &events.Fact{Body: body, Cause: events.CauseTimer(x.Link.Task, x.Link.Run, x.Link.Path, x.Link.N, events.TimerPermit)}
}

// askAgain repeats the ask of a task, or of one of its steps, that has no answer.
func (*timers) askAgain(task *events.Task, m events.Timer) events.Body {
	if m.Path != "" {
		return askStepAgain(task, m)
	}
	if task.Permit.State != events.PermitStateAsked {
		return nil
	}
	return events.AskPermit(task)
}

// permitEffects is the effect of a fact about a permit: a record for the entity that it is about.
func permitEffects(x *outbox, f *events.Fact) []*effect {
	kind, m, ok := events.PermitMessageOf(f)
	if !ok {
		return nil
	}
	r, err := events.EncodePermit(kind, m, events.Subject{ID: events.FactID(f, x.cfg.Partition), Source: x.source, Time: f.Time, Traceparent: f.Traceparent})
	if err != nil {
		return nil
	}
	r.Partition = events.Home(m.To(kind), x.cfg.Partitions)
	return []*effect{{kind: events.EffectPermit, topic: string(events.Reports), part: "/" + strconv.Itoa(int(r.Partition)), record: r}}
}
