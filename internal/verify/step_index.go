package verify

import (
	"cmp"
	"slices"

	"github.com/sagalog/sagalog/events"
)

// stepIndex finds steps of a task without a look at all of them, of which there may be 10,000.
type stepIndex struct {
	// byID is nil while there are few.
	byID map[string]*step
	// live are the steps that are not closed items.
	live []*step
	// undoNext are those that must be undone and whose undo had not begun when it was made, the next one last; nil if it is to be made again.
	undoNext []*step
}

// manySteps is from how many steps on they are found by a map.
const manySteps = 16

func (s *story) step(id string) *step {
	if s.byID != nil {
		return s.byID[id]
	}
	for _, st := range s.steps {
		if st.id == id {
			return st
		}
	}
	return nil
}

// add adds a step that begins.
func (s *story) add(st *step) {
	if fan, _, item := events.SplitItem(st.id); item {
		if st.of = s.step(fan); st.of != nil && st.of.items != nil {
			st.of.items.begun++
			st.of.items.open++
		} else {
			st.of = nil
		}
	}
	s.steps = append(s.steps, st)
	s.live = append(s.live, st)
	if s.byID != nil {
		s.byID[st.id] = st
	} else if len(s.steps) > manySteps {
		s.byID = make(map[string]*step, 2*len(s.steps))
		for _, x := range s.steps {
			s.byID[x.id] = x
		}
	}
}

// removeSteps removes the steps that run once more.
func (s *story) removeSteps(a *again) {
	gone := func(st *step) bool { return a.has(st.id) }
	s.steps = slices.DeleteFunc(s.steps, gone)
	s.live = slices.DeleteFunc(s.live, gone)
	for id := range s.byID {
		if a.has(id) {
			delete(s.byID, id)
		}
	}
	s.undoNext = nil
}

// follow takes note of what a fact made of an item, and of the order of the undos.
func follow(s *story, body events.Body) {
	switch b := body.(type) {
	case *events.CompensationStarted, *events.Compensated, *events.CompensationFailed, *events.PermitAsked, *events.PermitGranted, *events.PermitReleased,
		*events.RequestRefused, *events.ChildAsked, *events.StepProgressed:
	case *events.Timeout:
		if b.Operation == events.Do {
			s.undoNext = nil
		}
	default:
		s.undoNext = nil
	}
	if st := s.step(stepIn(body)); st != nil {
		followItem(s, st)
	}
}

func followItem(s *story, st *step) {
	closed := st.closes()
	if st.of == nil || closed == st.closed {
		return
	}
	st.closed = closed
	if !closed {
		st.of.items.open++
		s.live = append(s.live, st)
		return
	}
	st.of.items.open--
	i := slices.Index(s.live, st)
	s.live = slices.Delete(s.live, i, i+1)
}

// nextUndone returns the step whose undo begins next: one of unknown outcome, or the one that completed last; nil if none does.
func (s *story) nextUndone(a *again) *step {
	begins := func(st *step) bool { return st.mustUndo() && !st.turned() && a.has(st.id) }
	if s.undoNext == nil {
		s.undoNext = make([]*step, 0, len(s.steps))
		for _, st := range s.steps {
			if begins(st) {
				s.undoNext = append(s.undoNext, st)
			}
		}
		slices.SortStableFunc(s.undoNext, func(a, b *step) int { return cmp.Compare(uint(a.completion-1), uint(b.completion-1)) }) // 0 is unknown, and the highest
	}
	for n := len(s.undoNext); n > 0; n-- {
		if st := s.undoNext[n-1]; begins(st) {
			return st
		}
		s.undoNext = s.undoNext[:n-1]
	}
	return nil
}
