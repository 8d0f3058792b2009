package events

import (
	"cmp"
	"iter"
	"slices"
)

// manySteps is the number of steps from which a task has a stepIndex.
const manySteps = 2 * headSteps

// stepIndex finds the steps of a task with many items without a look at all of them: what a fact of an item costs does not depend on how many
// there are. It follows from Task.Steps, is stored nowhere, and is made again when a fact may have changed several steps.
type stepIndex struct {
	byPath map[string]*Step
	// live are the steps that are not closed items, in the order of Task.Steps.
	live []*Step
	// touched are items that were closed since the last Flush.
	touched []*Step
	// rows is the sum of the rows of the steps as of the last Flush.
	rows stepRows
	// toUndo are the steps that have to be undone, the next one last; nil if that is not known.
	toUndo []*Step
}

// stepRows is the sum of rows of steps.
type stepRows struct {
	count, bytes int
	sum          Hash
}

func (r *stepRows) add(s *rowState) {
	r.count, r.bytes, r.sum = r.count+1, r.bytes+s.bytes, r.sum.Add(s.hash)
}

func (r *stepRows) sub(s *rowState) {
	r.count, r.bytes, r.sum = r.count-1, r.bytes-s.bytes, r.sum.Sub(s.hash)
}

// indexed returns the index of the steps; nil if the task has few.
func indexOf(t *Task) *stepIndex {
	if len(t.Steps) < manySteps {
		return nil
	}
	if x := t.index; x != nil && len(x.byPath) == len(t.Steps) {
		return x
	}
	x := &stepIndex{byPath: make(map[string]*Step, len(t.Steps))}
	for i, s := range t.Steps {
		s.place = i
		x.byPath[s.Path] = s
		if s.row != nil {
			x.rows.add(s.row)
		}
		switch {
		case !isClosed(t, s, x.byPath):
			x.live = append(x.live, s)
		case s.changed:
			x.touched = append(x.touched, s)
		}
	}
	t.index = x
	return x
}

// closed says whether the step is an item that is over, or begins when its fan-out does. Nothing becomes of it but that it is undone.
func isClosed(t *Task, s *Step, byPath map[string]*Step) bool {
	step, _, item := SplitItem(s.Path)
	if !item || s.State == StepStateNotStarted {
		return item
	}
	fan := byPath[step]
	return fan != nil && fan.Fan != nil && fan.Fan.counter(s) != nil
}

// opened adds a step that has just left not_started.
func (x *stepIndex) opened(t *Task, s *Step) {
	if x == nil {
		return
	}
	s.place = len(t.Steps) - 1
	x.byPath[s.Path] = s
	x.live = append(x.live, s)
}

// follow takes note of an item that a fact has changed.
func (x *stepIndex) follow(t *Task, item *Step, b Body) {
	if x == nil {
		return
	}
	i, is := slices.BinarySearchFunc(x.live, item, byPlace)
	closed := isClosed(t, item, x.byPath)
	if closed {
		x.touched = append(x.touched, item)
	}
	switch {
	case closed && is:
		x.live = slices.Delete(x.live, i, i+1)
	case !closed && !is:
		x.live = slices.Insert(x.live, i, item)
	}
	switch b.(type) {
	case *CompensationStarted, *Compensated, *CompensationFailed:
	default:
		x.toUndo = nil
	}
}

func byPlace(a, b *Step) int { return cmp.Compare(a.place, b.place) }

// unsaved returns the steps outside the head that changed since the last Flush, in the order of Task.Steps.
func (x *stepIndex) unsaved() (list []*Step) {
	for _, some := range [][]*Step{x.live, x.touched} {
		for _, s := range some {
			if s.changed && s.place >= headSteps {
				list = append(list, s)
			}
		}
	}
	slices.SortFunc(list, byPlace)
	return slices.Compact(list)
}

// saved takes note of a row that is stored: that of a step, instead of the one that it had.
func (x *stepIndex) saved(old, now *rowState) {
	if x == nil {
		return
	}
	if old != nil {
		x.rows.sub(old)
	}
	if now != nil {
		x.rows.add(now)
	}
	x.touched = x.touched[:0]
}

// Live returns the steps of which something may yet become: all but the items that are over, which only an undo changes. Of a task with few
// steps it returns those too. The steps are in the order of Task.Steps.
func (t *Task) Live() []*Step {
	if x := indexOf(t); x != nil {
		return x.live
	}
	return t.Steps
}

// ToUndo yields the steps that have to be undone before the task is, or before its rerun begins, in their order: those of unknown outcome first,
// then the others in reverse order of completion.
func ToUndo(t *Task) iter.Seq[*Step] {
	return func(yield func(*Step) bool) {
		list := undosOf(t)
		for i := len(list) - 1; i >= 0; i-- {
			if list[i].ToUndo() && !yield(list[i]) {
				return
			}
		}
	}
}

func undosOf(t *Task) []*Step {
	x := indexOf(t)
	if x == nil {
		return sortedUndos(t, nil)
	}
	if x.toUndo == nil {
		x.toUndo = sortedUndos(t, make([]*Step, 0, len(t.Steps)))
	}
	for n := len(x.toUndo); n > 0 && !x.toUndo[n-1].ToUndo(); n-- {
		x.toUndo = x.toUndo[:n-1]
	}
	return x.toUndo
}

// sortedUndos appends the steps that have to be undone, the next one last.
func sortedUndos(t *Task, list []*Step) []*Step {
	for _, s := range slices.Backward(t.Steps) {
		if s.ToUndo() && (t.Rerun == nil || t.Rerun.Redone(s.Path)) {
			list = append(list, s)
		}
	}
	slices.SortStableFunc(list, undoneAfter)
	return list
}

// undoneAfter orders two steps that must be undone, the later one first.
func undoneAfter(a, b *Step) int {
	if (a.Completion == 0) != (b.Completion == 0) {
		return cmp.Compare(b.Completion, a.Completion)
	}
	//mutant:items-are-undone-in-reverse-order
	return cmp.Or(cmp.Compare(a.Completion, b.Completion), cmp.Compare(a.StartedAt, b.StartedAt))
}
