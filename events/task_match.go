package events

import "iter"

// TaskMatch selects tasks by why they do not go on, and by what started them. The zero value selects all.
type TaskMatch struct {
	// Schedule is the schedule that started the tasks.
	Schedule string
	// Parent is the task whose children are selected.
	Parent string
	// FailedStep is a step whose last attempt, or that of its undo, has failed. ErrorCode is the name of that error.
	FailedStep, ErrorCode string
	// ChangedBy is until when a task must have changed last; zero means no limit.
	ChangedBy Instant
}

// OfSteps says that the steps of a task decide, so that they have to be read.
func (m TaskMatch) OfSteps() bool { return m.FailedStep != "" || m.ErrorCode != "" }

// Fits says whether a task is selected.
func (m TaskMatch) Fits(t *Task) bool {
	if m.ChangedBy != 0 && t.UpdatedAt > m.ChangedBy || m.Schedule != "" && t.Schedule != m.Schedule || m.Parent != "" && (t.Parent == nil || t.Parent.Link.Task != m.Parent) {
		return false
	}
	if !m.OfSteps() {
		return true
	}
	for range m.Failures(t) {
		return true
	}
	return false
}

// Failures yields the errors that m selects, of a task's steps and of their undos.
func (m TaskMatch) Failures(t *Task) iter.Seq2[*Step, *Error] {
	return func(yield func(*Step, *Error) bool) {
		for _, s := range t.Steps {
			if m.FailedStep != "" && s.Path != m.FailedStep && DefinedStep(s.Path) != m.FailedStep {
				continue
			}
			if m.names(s.Error) && !yield(s, s.Error) {
				return
			}
			if s.Undo != nil && m.names(s.Undo.Error) && !yield(s, s.Undo.Error) {
				return
			}
		}
	}
}

func (m TaskMatch) names(e *Error) bool {
	return e != nil && (m.ErrorCode == "" || m.ErrorCode == e.Name())
}

// Name is the code of an error, or its class if it has no code. So each error has one name, and counts by name agree with lists by name.
func (e *Error) Name() string {
	if e.Code != "" {
		return e.Code
	}
	return string(e.Class)
}
