package wftest

import (
	"encoding/json"

	"github.com/sagalog/sagalog/events"
)

// call is a request that a mock answers: of an agent, or of the task that does a step.
type call struct {
	events.Work
	// child is what the answer of a task is about; nil for an agent.
	child *events.ChildAnswer
}

// relative takes what the task says to the children that do its steps. They are not run: the mock of the step says how they end.
func (e *engine) relative(r *events.Record) error {
	if kind := r.Header(events.HeaderType); kind != "" && kind != events.TypeSubmission {
		var m events.ChildMessage
		if err := json.Unmarshal(r.Value, &m); err != nil {
			return err
		}
		switch {
		case kind == events.TypeChildUndo:
			e.works = append(e.works, callOf(m.Child, m.Link, nil))
		case kind == events.TypeChildAsk && m.Cancel != "":
			e.cancelled = append(e.cancelled, events.ChildAnswer{Child: m.Child, Link: m.Link, State: events.ChildUndone, Reason: m.Cancel})
		}
		return nil
	}
	sub, err := events.ParseSubmission(r.Value)
	if err != nil {
		return err
	}
	if p, _ := sub.ParentLink(); p != nil {
		e.works = append(e.works, callOf(sub.ID, p.Link, sub.Input))
	}
	return nil
}

func callOf(child string, l events.Link, input json.RawMessage) call {
	return call{
		events.Work{Task: l.Task, Run: l.Run, Step: l.Path, Operation: l.Operation, Attempt: l.N, Input: input},
		&events.ChildAnswer{Child: child, Link: l},
	}
}

// answerOf is how the child ends by the mock: it is processed, or undone with the error as its reason; a child that is to undo itself refuses
// with it.
func (a *answer) answerOf(c *events.ChildAnswer) *events.ChildAnswer {
	out := *c
	switch {
	case a.fault == nil && c.Link.Operation == events.Undo:
		out.State = events.ChildUndone
	case a.fault == nil:
		out.State, out.Output = events.ChildProcessed, a.output
	case c.Link.Operation == events.Undo:
		out.State, out.Reason = events.ChildRefuses, a.fault.Message
	default:
		out.State, out.Reason = events.ChildUndone, a.fault.Message
	}
	return &out
}

// cancel lets the children that are to turn back do so, whatever their mocks say.
func (p *playing) cancel() {
	for _, a := range p.cancelled {
		for i := range p.replies {
			if x := &p.replies[i]; x.child != nil && x.child.Link == a.Link {
				x.at = events.Instant(1<<62 - 1) // it is never sent
			}
		}
		p.replies = append(p.replies, reply{at: p.Now.Add(answersAfter), child: &a})
	}
	p.cancelled = nil
}
