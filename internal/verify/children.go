package verify

import (
	"encoding/json"
	"fmt"

	"github.com/sagalog/sagalog/events"
)

// try is a try of a step, whose child is remembered until its parent releases it.
type try struct {
	child string
	n     int
	// settled says that nothing of the child is left to undo.
	settled bool
}

// childRule is the child of a step, as its definition gives it.
type childRule struct {
	Workflow string          `json:"workflow"`
	Version  int             `json:"version"`
	ID       json.RawMessage `json:"id"`
	Detach   bool            `json:"detach"`
}

// startsChild checks the child of an attempt, which no agent makes.
func startsChild(t *telling, r *stepRule, b *events.StepStarted) {
	c := b.Child
	if r == nil || (r.Child != nil) != (c != nil) {
		if r != nil {
			t.wrong(CheckAttempts, "not_as_defined", b.Step, "its start names the child %t, but its definition says %t", c != nil, r.Child != nil)
		}
		return
	}
	if c == nil {
		return
	}
	own := t.story.id + "/" + b.Step
	if b.Attempt > 1 {
		own += fmt.Sprintf("~%d", b.Attempt)
	}
	switch {
	case c.Workflow != r.Child.Workflow || c.Version != r.Child.Version || c.Detach != r.Child.Detach:
		t.wrong(CheckAttempts, "not_as_defined", b.Step, "its child is of workflow %s, version %d, detached %t, which differs from its definition", c.Workflow, c.Version, c.Detach)
	case len(r.Child.ID) == 0 && c.Task != own && len(own) <= events.MaxTaskID:
		t.wrong(CheckAttempts, "child_id", b.Step, "its child is %s, and must be %s", c.Task, own)
	}
	if !c.Detach {
		t.story.tried(b.Step, try{child: c.Task, n: b.Attempt})
		keep(t.partition, t.story.id, func(k *accepted) { k.tries++ })
	}
	t.relatives.starts(relation{t.story.id, t.story.incarnation, b.Step, b.Attempt}, &trial{child: c.Task, place: t.place, awaits: true, detached: c.Detach})
}

// undoesChild checks the child that is asked to undo itself.
func undoesChild(t *telling, r *stepRule, b *events.CompensationStarted) {
	if r != nil && r.Child != nil && (b.Child != nil) != (r.Undo.Agent == "") {
		t.wrong(CheckUndo, "not_as_defined", b.Step, "the child is asked to undo itself: %t, but its definition says %t", b.Child != nil, r.Undo.Agent == "")
	}
	if x := t.toUndo(b.Step); b.Child != nil && (x == nil || x.child != b.Child.Task) {
		t.wrong(CheckUndo, "child", b.Step, "task %s is asked to undo itself, which is not the child of the latest attempt that is left to undo", b.Child.Task)
	}
}

// toUndo returns the latest try of the step of which something is left to undo, or the latest one if nothing is; nil if it has none.
func (s *story) toUndo(path string) *try {
	tries := s.tries[path]
	for i := len(tries) - 1; i >= 0; i-- {
		if !tries[i].settled {
			return &tries[i]
		}
	}
	if len(tries) == 0 {
		return nil
	}
	return &tries[len(tries)-1]
}

// settle marks the latest try that is not settled as settled, and returns whether an earlier one is not.
func (s *story) settle(path string) (left bool) {
	if x := s.toUndo(path); x != nil {
		x.settled = true
		left = !s.toUndo(path).settled
	}
	return left
}

// settleAll notes that nothing of the step is left to undo.
func (s *story) settleAll(path string) {
	for s.settle(path) {
	}
}

// undoneByChild takes the end of an attempt to undo a step that a child made, and returns whether the step must ask that of an earlier try.
func undoneByChild(t *telling, st *step) bool {
	if st.undo.child == "" || !t.settle(st.id) {
		return false
	}
	asksEarlier(t, st)
	return true
}

// asksEarlier notes that the step asks the child of an earlier try next.
func asksEarlier(t *telling, st *step) {
	st.undo.waiting, st.undo.retryAt, st.undo.askedAt, st.undo.waitsFor = true, t.fact.Time, t.fact.Time, events.WaitingAgain(nil, false)
	st.undo.startBy, st.undo.timedFrom = 0, t.fact.Time
}

// sure checks that the end of an attempt that a child made leaves nothing in doubt: a child is one task, however often it was submitted or asked.
func sure(t *telling, st *step, op events.Operation, quietAt events.Instant) {
	if w := st.work(op); quietAt != 0 {
		t.wrong(CheckUndo, "doubt_of_child", st.id, "attempt %d of the %s is in doubt until %s, but task %s made it, and a task that has ended does nothing more", w.attempts, op, quietAt, w.child)
	}
}

// childAsked checks that a step asks a child that does its running attempt.
func childAsked(t *telling, b *events.ChildAsked) {
	st := t.step(b.Link.Path)
	if st == nil || b.Link.Task != t.story.id || b.Link.Incarnation != t.story.incarnation || b.Link.Operation != events.Do && b.Link.Operation != events.Undo {
		t.wrong(CheckAttempts, "child", b.Link.Path, "task %s is asked for a step that never started, or that is of another task", b.Child)
		return
	}
	w := st.work(b.Link.Operation)
	if !w.running || w.attempts != b.Link.N || w.child != b.Child {
		t.wrong(CheckAttempts, "child", b.Link.Path, "task %s is asked about attempt %d of the %s, which it does not make", b.Child, b.Link.N, b.Link.Operation)
		return
	}
	if b.Link.Operation == events.Do && b.Cancel != "" {
		if !t.back && !b.Late && !w.cancelled {
			t.wrong(CheckAttempts, "child_cancel", b.Link.Path, "task %s is asked to turn back, but its parent is %s", b.Child, t.state())
		}
		if b.Late && (w.completeBy == 0 || t.fact.Time < w.completeBy) {
			t.wrong(CheckAttempts, "child_cancel", b.Link.Path, "task %s is asked to turn back at %s, before the time of the step is over at %q", b.Child, t.fact.Time, w.completeBy.String())
		}
		w.cancelled = true
	}
}

// childOf returns the task that makes an attempt, "" if an agent does.
func childOf(c *events.ChildCall) string {
	if c == nil {
		return ""
	}
	return c.Task
}

// startsRelative says whether a child makes the attempt that the fact starts.
func startsRelative(b events.Body) bool {
	switch b := b.(type) {
	case *events.StepStarted:
		return b.Child != nil
	case *events.CompensationStarted:
		return b.Child != nil
	}
	return false
}

// startsWith notes a start that has a work request as its effect.
func (u *uncarried) startsWith(f *events.Fact) {
	if !startsRelative(f.Body) {
		u.starts = append(u.starts, f)
	}
}

// tried adds a try whose child must be released.
func (s *story) tried(path string, x try) {
	if s.tries == nil {
		s.tries = map[string][]try{}
	}
	s.tries[path] = append(s.tries[path], x)
}

// triedIn takes over the children of a carried step.
func triedIn(s *story, e *events.Step) {
	if x := e.ByChild; x != nil {
		for _, y := range x.Tries {
			if !x.Detach || y != x.Tries[len(x.Tries)-1] {
				s.tried(e.Path, try{y.Task, y.N, y.Settled})
			}
		}
	}
}

// triesOf counts the children of a task that it has not released.
func triesOf(t *events.Task) (n int) {
	for _, s := range t.Steps {
		if s.ByChild != nil && !(s.ByChild.Detach && s.DoneByChild(events.Do) != "") {
			n += len(s.ByChild.Tries)
		}
	}
	return n
}

// endedByChild checks that the outcome of an attempt follows from the answer of its child.
func endedByChild(p *partition, f *events.Fact, data []byte, wrong func(format string, args ...any)) {
	var a events.ChildAnswer
	if err := json.Unmarshal(data, &a); err != nil {
		wrong("which cannot be read: %v", err)
		return
	}
	s := p.live[f.Task]
	st := s.step(a.Link.Path)
	if st == nil || a.Link.Task != f.Task || a.Link.Incarnation != s.incarnation {
		wrong("which is about step %q of task %q", a.Link.Path, a.Link.Task)
		return
	}
	if w := st.work(a.Link.Operation); w.child != a.Child || w.attempts != a.Link.N {
		wrong("which is the answer of task %s about attempt %d", a.Child, a.Link.N)
	}
	fits := false
	switch b := f.Body.(type) {
	case *events.StepCompleted:
		fits = a.State == events.ChildProcessed || a.State == events.ChildAccepted
	case *events.StepFailed:
		undone := a.State == events.ChildUndone && !a.Left
		fits = b.Effect == events.EffectNone && (undone || a.State == events.ChildRejected) || b.Effect != events.EffectNone && !undone
	case *events.Compensated:
		fits = a.State == events.ChildUndone && a.Left == b.Left
	case *events.CompensationFailed:
		fits = a.State != events.ChildUndone
	}
	if !fits {
		wrong("which says that the child is %s", a.State)
	}
}
