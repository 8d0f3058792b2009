package model

import (
	"bytes"
	"encoding/json"
	"slices"

	"github.com/sagalog/sagalog/events"
	"github.com/sagalog/sagalog/internal/sim"
)

// account is what the facts of a task say about one of its steps, read without the fold.
type account struct {
	runs, failed, touched, undoable bool
	undoRuns, undoFailed, undone    bool
	// pivot says that it is the point of no return.
	pivot bool
	// kids are the children that have work to undo, in the order of their tries. asked is the one that was asked to undo itself.
	kids  []string
	asked string
	// left says that an operator skipped the undo.
	left bool
	// given and undoGiven are the inputs that an operator gave.
	given, undoGiven json.RawMessage
}

// accounts returns the accounts of the steps of a task, by their paths.
func (j *judge) accounts(task string) map[string]*account {
	all, redone := map[string]*account{}, []string(nil)
	j.log.accepted(j.w.sp, func(f *events.Fact) bool {
		if f.Task == task {
			tell(all, f, &redone)
		}
		return true
	})
	return all
}

func tell(all map[string]*account, f *events.Fact, redone *[]string) {
	of := func(path string) *account {
		if all[path] == nil {
			all[path] = &account{}
		}
		return all[path]
	}
	switch b := f.Body.(type) {
	case *events.Submitted:
		clear(all)
	case *events.StepStarted:
		s := of(b.Step)
		s.runs, s.failed, s.undoable, s.pivot = true, false, b.Undoable, b.Pivot
		if b.Child != nil {
			s.kids = append(s.kids, b.Child.Task)
		}
	case *events.StepCompleted:
		s := of(b.Step)
		s.runs, s.failed, s.touched = false, false, true
	case *events.StepFailed:
		of(b.Step).fails(b)
	case *events.EffectFailed:
		if b.Failed != nil {
			of(b.Failed.Step).fails(b.Failed)
		} else if b.CompensationFailed != nil {
			of(b.CompensationFailed.Step).undoFails(b.CompensationFailed.Verdict)
		}
	case *events.Timeout:
		if s := of(b.Step); b.Operation == events.Undo {
			s.undoFails(b.Verdict)
		} else {
			s.runs, s.failed, s.touched = false, over(b.Verdict), true
		}
	case *events.StepSkipped:
		if s := of(b.Step); b.Left {
			s.left = true
			s.undoneOf(b.Child)
		} else {
			s.failed = false
		}
	case *events.CompensationStarted:
		s := of(b.Step)
		s.undoRuns = true
		if b.Child != nil {
			s.asked = b.Child.Task
		}
	case *events.Compensated:
		of(b.Step).compensated(b)
	case *events.CompensationFailed:
		of(b.Step).undoFails(b.Verdict)
	case *events.TaskRerun:
		*redone = b.Steps
		for path, s := range all { // a failed undo is tried again
			s.undoFailed = s.undoFailed && !redoes(b.Steps, path)
		}
	case *events.RunBegun:
		for path, s := range all { // what an operator left stays
			if redoes(*redone, path) {
				*s = account{left: s.left}
			}
		}
	case *events.TaskReopened:
		for _, path := range b.Steps {
			of(path).reopens(b.With)
		}
	}
}

// redoes says whether a rerun of the steps does the step once more. The items of a step do as it does.
func redoes(redone []string, path string) bool {
	return slices.Contains(redone, events.DefinedStep(path))
}

// over says whether a verdict makes no other attempt.
func over(v events.Verdict) bool {
	return v.Action != events.ActionRetry && v.Action != events.ActionCoolDown
}

func (s *account) fails(b *events.StepFailed) {
	s.runs, s.failed = false, over(b.Verdict)
	s.touched = s.touched || b.Attempt > 0 && b.Effect != events.EffectNone
	if n := len(s.kids); n > 0 && b.Attempt > 0 && b.Effect == events.EffectNone {
		s.kids = s.kids[:n-1]
	}
}

func (s *account) compensated(b *events.Compensated) {
	child := s.asked
	if b.Request != "" {
		child = b.Child
	}
	s.left = s.left || b.Left
	s.undoneOf(child)
}

// undoneOf takes the end of an undo, or of what one child has to undo.
func (s *account) undoneOf(child string) {
	if s.kids = slices.DeleteFunc(s.kids, func(c string) bool { return c == child }); child == "" {
		s.kids = nil
	}
	s.undoRuns, s.undoFailed, s.undone = false, false, len(s.kids) == 0
}

func (s *account) undoFails(v events.Verdict) { s.undoRuns, s.undoFailed = false, over(v) }

func (s *account) reopens(with json.RawMessage) {
	if len(with) > 0 && s.undoFailed {
		s.undoGiven = with
	} else if len(with) > 0 {
		s.given = with
	}
	s.failed, s.undoFailed = false, false
}

// byHand checks what an operator decides about a step, and what follows from it.
func (j *judge) byHand(f *events.Fact) {
	decided := sim.ByHand(f)
	if decided.Request != "" {
		j.once(f, decided.Request)
	}
	switch b := f.Body.(type) {
	case *events.StepSkipped:
		if s := j.accounts(f.Task)[b.Step]; decided.Request != "" && s != nil && (s.undoRuns || s.runs) {
			j.w.fail("an operator skips %s of %s while an attempt of it runs", b.Step, f.Task)
		}
	case *events.StepCompleted:
		if s := j.accounts(f.Task)[b.Step]; decided.Request != "" && s.runs {
			j.w.fail("an operator completes %s of %s while an attempt of it runs", b.Step, f.Task)
		}
	case *events.Compensated:
		if s := j.accounts(f.Task)[b.Step]; decided.Request != "" && s.undoRuns {
			j.w.fail("an operator completes the undo of %s of %s while an attempt of it runs", b.Step, f.Task)
		}
	case *events.StepStarted:
		if s := j.accounts(f.Task)[b.Step]; s != nil && s.given != nil && !bytes.Equal(s.given, b.Input) {
			j.w.fail("%s of %s starts with another input than the operator gave", b.Step, f.Task)
		}
	case *events.CompensationStarted:
		if s := j.accounts(f.Task)[b.Step]; s != nil && s.undoGiven != nil && !bytes.Equal(s.undoGiven, b.Input) {
			j.w.fail("the undo of %s of %s starts with another input than the operator gave", b.Step, f.Task)
		}
		if s := j.accounts(f.Task)[b.Step]; s != nil && b.Child != nil && len(s.kids) > 0 && s.kids[len(s.kids)-1] != b.Child.Task {
			j.w.fail("%s of %s is undone, and asks %s instead of %s", b.Step, f.Task, b.Child.Task, s.kids[len(s.kids)-1])
		}
		if s := j.accounts(f.Task)[b.Step]; s != nil && s.undone {
			j.w.fail("%s of %s is undone a second time (left by an operator: %t)", b.Step, f.Task, s.left)
		}
	case *events.TaskUndone:
		j.endsUndone(f.Task, b.Left)
		keepsLeft(j, f.Task)
	case *events.TaskProcessed:
		keepsLeft(j, f.Task)
	}
}

// endsUndone checks that everything a task did is undone, or left by an operator, and that the fact names what is left.
func (j *judge) endsUndone(task string, named []string) {
	for path, s := range j.accounts(task) {
		switch {
		case s.undoable && s.touched && !s.undone:
			j.w.fail("%s ends undone, and %s, which may have had an effect, is not undone", task, path)
		case s.left != slices.Contains(named, path):
			j.w.fail("%s ends undone, names %v as left, and the undo of %s was skipped: %t", task, named, path, s.left)
		}
	}
}

// keepsLeft checks that the state names the steps that an operator left, in any run of the task.
func keepsLeft(j *judge, task string) {
	t, _ := j.State.Task(task)
	for path, s := range j.accounts(task) {
		if x := t.Step(path); x != nil && x.Left != s.left {
			j.w.fail("%s ends, the undo of %s was skipped: %t, and its state says %t", task, path, s.left, x.Left)
		}
	}
}

// parkedForNothing says that a task waits for an operator although none of its steps has failed.
func (j *judge) parkedForNothing(t *events.Task) bool {
	if t.State != events.TaskStateError {
		return false
	}
	for _, s := range j.accounts(t.ID) {
		if s.failed || s.undoFailed {
			return false
		}
	}
	return true
}
