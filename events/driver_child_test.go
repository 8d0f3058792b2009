package events_test

import (
	"pgregory.net/rapid"

	"github.com/sagalog/sagalog/events"
)

// parentOf returns the try of a task elsewhere, or nil.
func (d *driver) parentOf() *events.ParentLink {
	if !rapid.Bool().Draw(d.t, "has a parent") {
		return nil
	}
	return &events.ParentLink{
		Link:  events.Link{Task: "ü/p", Incarnation: "1-p/7", Run: 1, Path: "q[0]", Operation: events.Do, N: rapid.IntRange(1, 2).Draw(d.t, "try")},
		Depth: 2, Detach: rapid.IntRange(0, 3).Draw(d.t, "detached") == 0,
	}
}

// strangers returns facts about a task that is not known.
func (d *driver) strangers(id string) []move {
	p := d.parentOf()
	if p == nil {
		return nil
	}
	answer := events.ChildAnswer{Child: id, Link: p.Link, State: events.ChildLost, Code: events.RejectLost}
	return []move{
		{id, &events.ChildRefused{
			Parent: *p, Workflow: rapid.SampledFrom([]string{"", "w"}).Draw(d.t, "workflow"), Content: "c", Reason: rapid.SampledFrom([]string{events.RejectLost, events.RejectSchema}).Draw(d.t, "reason"),
			Detail: rapid.SampledFrom([]string{"", "no\ufffd"}).Draw(d.t, "detail"), RememberFor: 36e11,
		}},
		{id, &events.ChildAnswered{Answer: answer}},
		{id, &events.ChildReturned{ChildRelease: events.ChildRelease{Child: "x", Link: p.Link}}},
	}
}

// ofParent returns facts about a task that follow from what its parent says, whether it has ended or not.
func (d *driver) ofParent(t *events.Task) (list []events.Body) {
	if p := d.parentOf(); p != nil { // which may be that of the task, or another one
		p.Link.Operation = rapid.SampledFrom([]events.Operation{events.Do, events.Undo}).Draw(d.t, "operation")
		p.Link.Incarnation = rapid.SampledFrom([]string{"1-p/7", "1-p/8"}).Draw(d.t, "incarnation")
		a := events.ChildAnswer{Child: t.ID, Link: p.Link, State: rapid.SampledFrom([]events.ChildEnd{events.ChildRefuses, events.ChildTerminated}).Draw(d.t, "state"), Reason: "because", Output: d.blob(`[ 3 ]`)}
		list = append(list, &events.ChildAnswered{Answer: a})
	}
	p := t.Parent
	if p == nil || p.Released {
		return list
	}
	if rapid.IntRange(0, 3).Draw(d.t, "releases") == 0 {
		list = append(list, &events.ChildReleased{Link: p.Link})
	}
	if l := p.Link; !t.ChildrenReleased && !t.Irrevocable() && (!t.State.Ended() || t.State == events.TaskStateProcessed) {
		l.Operation, l.N = events.Undo, p.Undo+1
		list = append(list, &events.ChildUndoRequested{Link: l, Reason: rapid.SampledFrom([]string{"", "r"}).Draw(d.t, "why")})
	}
	return list
}

// ended returns facts that fit a task that has ended.
func (d *driver) ended(t *events.Task) []events.Body {
	list := d.ofParent(t)
	if b := events.ReleaseChildren(t); b != nil {
		list = append(list, b)
	}
	return list
}

// end completes a fact that ends a task.
func (*driver) end(t *events.Task, b events.Body) events.Body {
	events.End(t, b)
	return b
}

// byChild returns facts of a step that a child does, or did.
func (d *driver) byChild(t *events.Task, s *events.Step) (list []events.Body) {
	for _, op := range []events.Operation{events.Do, events.Undo} {
		if s.DoneByChild(op) != "" {
			list = append(list, events.AskChild(t, s, op, rapid.SampledFrom([]string{"", "turn back"}).Draw(d.t, "cancel"), rapid.Bool().Draw(d.t, "late")))
		}
	}
	return list
}

// try returns the start of a try of a step.
func (d *driver) try(t *events.Task, s *events.Step) *events.StepStarted {
	c := &events.ChildCall{
		Task: events.ChildID(t.ID, s.Path, "", s.Attempt+1), Workflow: "w", Labels: map[string]string{"b": "2", "a": "1"}, Depth: events.Depth(t) + 1,
		Detach: rapid.IntRange(0, 3).Draw(d.t, "detaches") == 0,
	}
	by := rapid.SampledFrom([]events.Instant{0, d.now.Add(5e9)}).Draw(d.t, "complete by")
	return &events.StepStarted{Step: s.Path, Attempt: s.Attempt + 1, CompleteBy: by, Input: d.blob(` 1 `), Undoable: true, Child: c}
}
