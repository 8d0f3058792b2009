package events

import (
	"fmt"
	"strconv"
	"strings"
)

// A step with for is a fan-out: it has an item for each entry of a list. Each item is a step with attempts. Its path is that of the
// fan-out with the item's index: send[17]. Items begin in the order of the list. They are steps in all respects, except that their facts do not
// count in Task.Facts, and that their failures may be tolerated. The fan-out itself has no attempts. It is waiting until all items are over.

// FanOutStarted begins a fan-out. The list follows from the definition and the state, so only its length is recorded.
type FanOutStarted struct {
	Step string `json:"step"`
	// Count is how many items there are, at most MaxItems.
	Count int `json:"count"`
	// Tolerate is how many of them may fail.
	Tolerate int `json:"tolerate,omitzero"`
	// Collect says what the output of the step is made of: CollectOutputs, CollectFailures or CollectNone.
	Collect string `json:"collect"`
	// Condition is the result of the step's if. It is absent if the step has none.
	Condition *bool `json:"condition,omitempty"`
	// RemindAfter is the soft limit of the step; zero if its definition gives none.
	RemindAfter Duration `json:"remind_after,omitzero"`
}

// FanOut is what a step with for knows of its items.
type FanOut struct {
	Count    int    `json:"count"`
	Tolerate int    `json:"tolerate,omitzero"`
	Collect  string `json:"collect"`
	// Begun is how many items have left not_started: all those with an index below it.
	Begun int `json:"begun,omitzero"`
	// Completed, Failed and Skipped count the items that are over. Failed counts those whose failure is tolerated.
	Completed int `json:"completed,omitzero"`
	Failed    int `json:"failed,omitzero"`
	Skipped   int `json:"skipped,omitzero"`
	// Undone is how many are undone.
	Undone int `json:"undone,omitzero"`
}

// What the output of a fan-out is made of. It is not stored, since the items hold it: it is put together for expressions and readers.
const (
	// CollectOutputs is a list of the outputs of all items, null for those that have none.
	CollectOutputs = "outputs"
	// CollectFailures is a list of the items whose failure was tolerated: index, input and error of each.
	CollectFailures = "failures"
	// CollectNone is null.
	CollectNone = "none"
)

// MaxItems bounds the items of a fan-out.
const MaxItems = 10_000

// ItemPath returns the path of an item of a fan-out, by its index from 0.
func ItemPath(step string, index int) string { return step + "[" + strconv.Itoa(index) + "]" }

// SplitItem returns the fan-out and the index of the item with this path; false if it is not the path of an item.
func SplitItem(path string) (step string, index int, ok bool) {
	if path == "" || path[len(path)-1] != ']' {
		return path, 0, false
	}
	step, rest, ok := strings.Cut(path[:len(path)-1], "[")
	if !ok {
		return path, 0, false
	}
	if rest == "" || len(rest) > maxIndexDigits || rest[0] == '0' && rest != "0" {
		return path, 0, false
	}
	for _, c := range []byte(rest) {
		if c < '0' || c > '9' {
			return path, 0, false
		}
		index = 10*index + int(c-'0')
	}
	return step, index, true
}

// maxIndexDigits bounds an index: MaxItems may grow, but not as far as that.
const maxIndexDigits = 9

// IsItem says whether a path is that of an item.
func IsItem(path string) bool {
	_, _, item := SplitItem(path)
	return item
}

// IsItemOf says whether a path is that of an item of the step.
func IsItemOf(path, step string) bool {
	of, _, item := SplitItem(path)
	return item && of == step
}

// DefinedStep returns the step of the definition to which a path belongs: send for the item send[17], and for any other step itself.
func DefinedStep(path string) string {
	step, _, _ := SplitItem(path)
	return step
}

// Fans says whether the step is a fan-out whose items are not over.
func (s *Step) Fans() bool { return s.State == StepStateWaiting && s.Fan != nil }

// NextItem returns the item that begins next, if an earlier run of the fan-out had it; else nil.
func (s *Step) NextItem(t *Task) *Step {
	if !s.Fans() || s.Fan.Begun == s.Fan.Count {
		return nil
	}
	return t.Step(ItemPath(s.Path, s.Fan.Begun))
}

// Open is how many items have begun and are not over.
func (f *FanOut) Open() int { return f.Begun - f.Completed - f.Failed - f.Skipped - f.Undone }

// Over says whether all items are over, so that the fan-out completes.
//
//mutant:fan-out-waits-for-its-items
func (f *FanOut) Over() bool { return f.Begun == f.Count && f.Open() == 0 }

// Tolerates says whether one more failure of an item is tolerated.
func Tolerates(t *Task, fan *Step) bool {
	failed := fan.Fan.Failed
	for _, s := range t.Live() {
		//mutant:items-being-undone-have-failed
		if DefinedStep(s.Path) == fan.Path && s.Tolerated() && s.ToUndo() {
			failed++
		}
	}
	return failed < fan.Fan.Tolerate
}

// Tolerated says whether the step is an item whose failure is tolerated. If it may have had an effect, it is undone while the task goes on.
func (s *Step) Tolerated() bool {
	return s.Continued && IsItem(s.Path)
}

// Undoes says whether the undo of the step may begin in the state of the task.
func Undoes(t *Task, s *Step) bool {
	return t.State == TaskStateUndoing || t.State == TaskStateProcessing && s.Tolerated()
}

// turned says whether a decision about the step is one about its undo. The decision may wait until the task is reopened.
func turned(t *Task, s *Step) bool { return t.Undoing() || s.Tolerated() }

// fanOutStarted begins a fan-out.
func fanOutStarted(t *Task, f *Fact, b *FanOutStarted) error {
	if !t.Starts() || t.State == TaskStateUndoing || !Permitted(t) {
		return fmt.Errorf("%w: the items of step %q begin while the task is %s", ErrImpossible, b.Step, t.State)
	}
	s, err := t.open(b.Step, b.Name())
	if err != nil {
		return err
	}
	if IsItem(b.Step) || s.Waits() || s.Fans() || s.Attempted() || b.Count < 0 || b.Count > MaxItems || b.Tolerate < 0 {
		return fmt.Errorf("%w: step %q begins with %d items, after attempt %d", ErrImpossible, b.Step, b.Count, s.Attempt)
	}
	s.State, s.Output, s.Fan = StepStateWaiting, nil, &FanOut{Count: b.Count, Tolerate: b.Tolerate, Collect: b.Collect}
	s.StartedAt, s.EndedAt, s.RetryAt = f.Time, 0, 0
	s.beginSoft(b.RemindAfter, f.Time)
	t.State = TaskStateProcessing
	return nil
}

// beginItem counts an item that leaves not_started.
func beginItem(t *Task, path string, why Name) error {
	step, index, item := SplitItem(path)
	if !item {
		return nil
	}
	s := t.Step(step)
	if s == nil || !s.Fans() || index != s.Fan.Begun || index >= s.Fan.Count {
		return fmt.Errorf("%w: %s of step %q, which is not the next item of a fan-out", ErrImpossible, why, path)
	}
	s.change()
	fan := *s.Fan
	fan.Begun++
	s.Fan = &fan
	return nil
}

// counter returns the count to which the item belongs in its state; nil while it is open. An item whose failure is tolerated is open until it is undone.
func (f *FanOut) counter(s *Step) *int {
	switch {
	//mutant:tolerated-item-is-undone
	case s.Continued && s.ToUndo():
		return nil
	case s.Continued:
		return &f.Failed
	case s.State == StepStateUndone:
		return &f.Undone
	case s.State == StepStateCompleted:
		return &f.Completed
	case s.State == StepStateSkipped:
		return &f.Skipped
	}
	return nil
}

// itemOf returns the fan-out and the item that a fact is about; nil if it is about no item that has begun.
func itemOf(t *Task, b Body) (fan, item *Step) {
	path := StepOf(b)
	step, _, is := SplitItem(path)
	if !is {
		return nil, nil
	}
	fan, item = t.Step(step), t.Step(path)
	if fan == nil || fan.Fan == nil || item == nil {
		return nil, nil
	}
	return fan, item
}

// StepOf returns the path of the step that a fact changes; empty if it may change several, or none.
func StepOf(b Body) string {
	switch b := b.(type) {
	case *StepQueued:
		return b.Step
	case *StepStarted:
		return b.Step
	case *StepProgressed:
		return b.Step
	case *StepCompleted:
		return b.Step
	case *StepFailed:
		return b.Step
	case *StepSkipped:
		return b.Step
	case *Timeout:
		return b.Step
	case *CompensationStarted:
		return b.Step
	case *Compensated:
		return b.Step
	case *CompensationFailed:
		return b.Step
	case *SoftLimitPassed:
		return b.Step
	case *ChildAsked:
		return b.Link.Path
	}
	return ""
}

// foldItem folds a fact of a task, and keeps the counts of its fan-outs up to date.
func foldItem(s *State, t *Task, f *Fact) error {
	fan, item := itemOf(t, f.Body)
	if fan != nil {
		recount(fan, item, -1)
	}
	counted := t.Facts
	if err := foldBody(s, t, f); err != nil {
		return err
	}
	if fan, item = itemOf(t, f.Body); fan == nil {
		if !onlyLinks(f.Body) {
			t.index = nil
		} else if step, _, item := SplitItem(linkOf(f.Body).Path); item && t.Step(step) != nil && t.Step(step).Fan != nil {
			t.Facts = counted - 1
		}
		return nil
	}
	t.Facts = counted - 1 // MaxItems and the policy of the step bound them
	recount(fan, item, 1)
	t.index.follow(t, item, f.Body)
	return nil
}

// onlyLinks says whether the fact changes no step: there may be many such facts of a task with many items.
func onlyLinks(b Body) bool {
	switch b.(type) {
	case *PermitAsked, *PermitGranted, *PermitReleased, *SignalReceived, *RequestRefused:
		return true
	}
	return false
}

func recount(s, item *Step, by int) {
	fan := *s.Fan
	n := fan.counter(item)
	if n == nil {
		return
	}
	*n += by
	s.change().Fan = &fan
}
