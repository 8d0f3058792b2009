package events

import "fmt"

// DeadlinePassed says that a task's deadline has passed. Action is "undo", or "alert" after the pivot.
type DeadlinePassed struct {
	Deadline Instant `json:"deadline"`
	Action   string  `json:"action"`
}

// The actions of DeadlinePassed.
const (
	DeadlineUndo  = "undo"
	DeadlineAlert = "alert"
)

// NotBeforePassed says that the instant has come before which nothing of the task may start.
type NotBeforePassed struct {
	NotBefore Instant `json:"not_before"`
}

// A task may be submitted before it is to start. Until then it is accepted and known, and nothing of it starts. A fact says that the
// instant has come: the plan, which knows no clock, depends on it.

// passed takes a fact that a time of the task as a whole has come.
func passed(t *Task, body Body) error {
	switch b := body.(type) {
	case *NotBeforePassed:
		if t.NotBefore == 0 || b.NotBefore != t.NotBefore || t.Halted() {
			return fmt.Errorf("%w: task %q waits until %q, is %s, and %s has come", ErrImpossible, t.ID, t.NotBefore.String(), t.State, b.NotBefore)
		}
		mayStart(t)
	case *SoftLimitPassed:
		return softLimitPassed(t, b)
	case *DeadlinePassed:
		t.DeadlinePassed = true
		if b.Action == DeadlineUndo {
			t.beginUndoing("the deadline passed")
		}
	}
	return nil
}

// mayStart ends the wait of a task for its time.
func mayStart(t *Task) { t.NotBefore, t.Delay = 0, 0 }

// correctTimes takes a correction of the time. A deadline or a soft limit that is counted from NotBefore moves with it, and an instant that the submission
// gives is right.
func correctTimes(t *Task, to Instant) {
	if t.NotBefore == 0 {
		//mutant:corrected-deadline-waits
		t.Deadline = lasting(t.Deadline, max(t.SubmittedAt, t.ReopenedAt), to)
		t.correctSoft(to)
		return
	}
	if t.Delay > 0 {
		before := t.NotBefore
		//mutant:corrected-delay-lasts
		t.NotBefore = lasting(t.NotBefore, t.SubmittedAt, to)
		if t.Deadline != 0 {
			t.Deadline -= before - t.NotBefore
		}
		if t.SoftAt != 0 {
			t.SoftAt, t.SoftFrom = t.SoftAt-(before-t.NotBefore), t.SoftFrom-(before-t.NotBefore)
		}
	}
}
