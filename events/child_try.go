package events

import "slices"

// The tries of a step that a child does.

// ChildState is what a step knows of its children.
type ChildState struct {
	// Tries are those whose children may still be asked to undo themselves, and are remembered, in their order. The last is that of the latest
	// attempt.
	Tries []ChildTry `json:"tries,omitempty"`
	// AskedAt is when the running attempt last asked its child.
	AskedAt Instant `json:"asked_at,omitzero"`
	// Cancelled says why the running attempt wants its child to turn back; empty if it does not.
	Cancelled string `json:"cancelled,omitempty"`
	// Late says that it does because the time of the step is over.
	Late   bool `json:"late,omitzero"`
	Detach bool `json:"detach,omitzero"`
}

// ChildTry is a try of a step.
type ChildTry struct {
	Task string `json:"task"`
	N    int    `json:"n"`
	// Settled says that nothing of the child is left to undo: it has undone itself or was never accepted, or an agent or an operator has undone the step, or an operator leaves it.
	Settled bool `json:"settled,omitzero"`
}

// Child returns the child of the latest try of the step; empty if it has none, or it is detached and nothing of it is awaited.
func (s *Step) Child() string {
	if s == nil || s.ByChild == nil || len(s.ByChild.Tries) == 0 {
		return ""
	}
	return s.ByChild.Tries[len(s.ByChild.Tries)-1].Task
}

// ChildToUndo returns the child that the step asks next to undo itself, or asks now: that of the latest try of which something is left to undo.
// The step is undone once that of the first try is. If nothing of its children is left to undo, it is that of the latest try, which an owner does not
// ask: see Settled. It is empty if the step has no child.
func (s *Step) ChildToUndo() string {
	if i := s.unsettled(); i >= 0 {
		return s.ByChild.Tries[i].Task
	}
	return s.Child()
}

// Settled says whether nothing of the children of the step is left to undo.
func (s *Step) Settled() bool { return s.unsettled() < 0 }

// ChildToDecide returns the child that an operator's decision about the undo of the step is about; empty if it is about all, since no attempt of this run has
// begun to undo the step, or the latest one asked an agent.
func (s *Step) ChildToDecide() string {
	if u := s.Undo; u == nil || u.Agent != "" || u.Attempt <= s.EarlierUndos || s.Settled() {
		return ""
	}
	return s.ChildToUndo()
}

// unsettled returns the index of the latest try of which something is left to undo, or -1.
func (s *Step) unsettled() int {
	if s == nil || s.ByChild == nil {
		return -1
	}
	for i := len(s.ByChild.Tries) - 1; i >= 0; i-- {
		if !s.ByChild.Tries[i].Settled {
			return i
		}
	}
	return -1
}

// settle takes note that nothing of the try of that index is left to undo.
func (s *Step) settle(i int) {
	if i >= 0 && !s.ByChild.Tries[i].Settled {
		s.ByChild.Tries = slices.Clone(s.ByChild.Tries)
		s.ByChild.Tries[i].Settled = true
	}
}

// undoneByChild takes note that the child that was asked is undone, and returns whether the step must ask that of an earlier try.
func (s *Step) undoneByChild(now Instant) bool {
	s.settle(s.unsettled())
	//mutant:every-try-is-undone
	if s.unsettled() < 0 {
		return false
	}
	s.triedByChild()
	u := s.Undo
	u.State, u.EndedAt, u.RetryAt, u.Error, u.With, u.Tries = StepStateWaiting, now, now, nil, nil, 0
	u.limit(0, now)
	return true
}

// triedByChild takes note of the end of an attempt that a child did.
func (s *Step) triedByChild() {
	if x := s.ByChild; x != nil && x.AskedAt != 0 {
		x.AskedAt = 0
		if x.Detach { // it is nobody's now
			x.Tries = slices.Clip(x.Tries[:max(len(x.Tries)-1, 0)])
		}
	}
}
