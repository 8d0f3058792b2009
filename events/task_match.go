package events

// TaskMatch selects tasks by why they do not go on, and by what started them. The zero value selects all.
type TaskMatch struct {
	// Schedule is the schedule that started the tasks.
	Schedule string
	// FailedStep is a step whose last attempt, or that of its undo, has failed. ErrorCode is the code of that error, or its class.
	FailedStep, ErrorCode string
	// ChangedBy is until when a task must have changed last; zero means no limit.
	ChangedBy Instant
}

// OfSteps says that the steps of a task decide, so that they have to be read.
func (m TaskMatch) OfSteps() bool { return m.FailedStep != "" || m.ErrorCode != "" }

// Fits says whether a task is selected.
func (m TaskMatch) Fits(t *Task) bool {
	if m.ChangedBy != 0 && t.UpdatedAt > m.ChangedBy || m.Schedule != "" && t.Schedule != m.Schedule {
		return false
	}
	if !m.OfSteps() {
		return true
	}
	for _, s := range t.Steps {
		if m.FailedStep != "" && s.Path != m.FailedStep {
			continue
		}
		if m.names(s.Error) || s.Undo != nil && m.names(s.Undo.Error) {
			return true
		}
	}
	return false
}

func (m TaskMatch) names(e *Error) bool {
	return e != nil && (m.ErrorCode == "" || m.ErrorCode == e.Code || m.ErrorCode == string(e.Class))
}
