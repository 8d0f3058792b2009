package sim

import (
	"fmt"
	"strconv"

	"github.com/sagalog/sagalog/events"
)

// Steps that other tasks do, by the saga's own account.

// sagaChild is what a saga knows of the child that does the latest attempt of a step, and of those of earlier attempts.
type sagaChild struct {
	// left are the children of which something may be left to undo. None of them is detached.
	left []string
	// turned says that it was asked to turn back, and late that it was because the time of the step is over.
	turned, late bool
	// lost says that nobody knows of it: then an operator must look, also if the task is being undone.
	lost bool
}

// byChild says whether a child does the step, and undoneByChild whether the child undoes it too.
func (s *sagaStep) byChild() bool { return len(s.def.Child) > 0 }
func (s *sagaStep) undoneByChild() bool {
	return s.byChild() && s.def.Undo != nil && s.def.Undo.Agent == ""
}

// completeBy returns when an attempt that begins now is over; zero if a child may take any time.
func (s *sagaStep) endsAt(f *events.Fact, op events.Operation) events.Instant {
	within := s.def.CompleteWithin
	if op == events.Undo {
		within = s.def.Undo.CompleteWithin
	}
	if s.byChild() && within == 0 {
		return 0
	}
	return f.Time.Add(within.Std())
}

// afterEnd says whether a fact may be about a task that has ended.
func afterEnd(body events.Body) bool {
	switch body.(type) {
	case *events.TaskRerun, *events.ChildrenReleased, *events.ChildUndoRequested:
		return true
	}
	return false
}

// startsChild checks that an attempt starts the child that its workflow says, and no other attempt does.
func (s *sagaStep) startsChild(g *saga, f *events.Fact, b *events.StepStarted) string {
	if (b.Child != nil) != s.byChild() {
		return "the start of a step differs from its workflow: a child does it, or does not"
	}
	if b.Child == nil {
		return ""
	}
	def, base := childIn(s.def), f.Task+"/"+s.def.ID
	if def.ID != "" { // of the workflow that gives one
		base = inputID(g.input)
	}
	if b.Attempt > 1 {
		base += "~" + strconv.Itoa(b.Attempt)
	}
	switch c := b.Child; {
	case c.Task != base || c.Workflow != def.Workflow || c.Version != def.Version || c.Detach != def.Detach || c.Priority != def.Priority || c.Deadline != def.Deadline:
		return fmt.Sprintf("the child of a step differs from its workflow: %+v", *c)
	case c.Depth != g.depth+1:
		return "a child is numbered wrong in its family"
	}
	s.child = sagaChild{left: s.child.left}
	if !def.Detach {
		s.child.left = append(s.child.left, b.Child.Task)
	}
	return ""
}

// startsUndoOfChild checks that the child of a step is asked to undo itself, if it is to: that of the latest attempt of which something is left.
func (s *sagaStep) startsUndoOfChild(f *events.Fact, b *events.CompensationStarted) string {
	if (b.Child != nil) != s.undoneByChild() || b.CompleteBy != s.endsAt(f, events.Undo) {
		return "the start of an undo differs from its workflow"
	}
	if b.Child != nil && b.Child.Task != s.childToUndo() {
		return "an undo asks " + b.Child.Task + " and not " + s.childToUndo()
	}
	return ""
}

// childToUndo returns the child of the latest attempt of which something is left to undo, if children undo the step; else "".
func (s *sagaStep) childToUndo() string {
	n := len(s.child.left)
	if n == 0 || !s.undoneByChild() {
		return ""
	}
	return s.child.left[n-1]
}

// decidedUndo takes an operator's decision about the undo of a step. It returns whether another child has something to undo, or why the
// decision is wrong.
func (s *sagaStep) decidedUndo(w *World, child string) (more bool, why string) {
	want := s.childToUndo()
	if s.undo == s.earlierUndos {
		want = "" // no child was asked
	}
	if child != "" && !s.undoFailed {
		return false, "an operator decides about the undo of a child that has not refused it"
	}
	if child != want {
		return false, fmt.Sprintf("an operator decides about the child %q, and the one that was asked is %q", child, want)
	}
	if child == "" {
		s.child.left = nil
	}
	more = s.childUndone(w)
	s.undoFailed, s.undone = false, !more
	return more, ""
}

// childUndone takes the success of an undo of the step, and says whether another child has something to undo.
func (s *sagaStep) childUndone(w *World) (more bool) {
	if n := len(s.child.left); n > 1 && s.undoneByChild() {
		s.child.left, s.undoTries, s.back.notBefore, s.back.startBy = s.child.left[:n-1], 0, 0, 0
		w.saw(sawEarlierChildUndone)
		return true
	}
	s.child.left = nil
	return false
}

// childHadNoEffect takes the failure of an attempt that a child did and that left nothing to undo.
func (s *sagaStep) childHadNoEffect() {
	if n := len(s.child.left); n > 0 && !childIn(s.def).Detach {
		s.child.left = s.child.left[:n-1]
	}
}

// relative takes what a parent or a child records about the other one.
func (a *sagas) relative(g *saga, f *events.Fact) string {
	switch b := f.Body.(type) {
	case *events.ChildAsked:
		return g.asksChild(b)
	case *events.ChildrenReleased:
		if !g.ended {
			return "a task that goes on releases its children"
		}
	case *events.ChildUndoRequested:
		return a.undoneForParent(g, f)
	}
	return ""
}

// asksChild checks that an attempt runs whose child is asked, and that it is asked to turn back if its parent does, or its time is over.
func (g *saga) asksChild(b *events.ChildAsked) string {
	s := g.steps[b.Link.Path]
	switch {
	case s == nil || !s.byChild():
		return "a child is asked of a step that none does"
	case b.Link.Operation == events.Undo && (!s.undoRuns || s.undo != b.Link.N || b.Cancel != "" || b.Late):
		return "a child is asked to undo itself, and no such attempt runs"
	case b.Link.Operation == events.Undo:
		return ""
	case !s.running || s.attempt != b.Link.N:
		return "a child is asked, and no such attempt runs"
	case b.Late && s.completeBy == 0:
		return "the time of a step is over that may take any"
	case b.Cancel != "" && !b.Late && !g.undoing && !s.child.turned:
		return "a child is asked to turn back, and its parent does not"
	}
	s.child.turned, s.child.late = s.child.turned || b.Cancel != "", s.child.late || b.Late
	return ""
}

// undoneForParent turns a task to undoing whose parent is undone, whether it has ended or not.
func (a *sagas) undoneForParent(g *saga, f *events.Fact) string {
	if g.irrevocable() {
		return "a child is undone that may be past its pivot"
	}
	for _, s := range g.steps {
		s.lastUndo.corrects(f.Time) // if it ended at a wrong time
	}
	if g.ended && g.toldAt > f.Time && g.quiet > f.Time {
		g.quiet = f.Time.Add(max(0, g.quiet.Sub(g.toldAt)))
	}
	if g.ended {
		a.w.saw(sawChildUndoneLater)
	}
	g.ended, g.paused, g.rerun = false, false, nil
	delete(a.p.done, lifeOf(a.p, f.Task))
	return g.turns("a parent")
}
