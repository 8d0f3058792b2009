package events

import "fmt"

// Timeout says that the complete-by time of an attempt passed without an outcome or, if Attempt is 0, that the time of a step passed while
// no attempt of it was running.
type Timeout struct {
	Step       string    `json:"step"`
	Operation  Operation `json:"operation"`
	Attempt    int       `json:"attempt"`
	CompleteBy Instant   `json:"complete_by,omitzero"`
	// QuietAt is complete-by plus the grace in which a request in flight may still land; no undo starts before it.
	QuietAt Instant `json:"quiet_at,omitzero"`
	Verdict Verdict `json:"verdict"`
}

func (t *Task) timeout(f *Fact, b *Timeout) error {
	if b.Attempt == 0 {
		return lapsed(t, f, b)
	}
	s, err := t.attempt(b.Step, b.Operation, b.Attempt)
	if err != nil {
		return err
	}
	e := Error{Class: ClassTimeout, Message: "no report before the complete-by time"}
	if b.Operation == Undo {
		return t.compensationFailed(f, b.Step, b.Attempt, e, b.Verdict)
	}
	s.Touched = true
	t.QuietAt = max(t.QuietAt, b.QuietAt)
	t.failed(s, f.Time, &e, StepStateTimedOut, b.Verdict)
	return nil
}

// lapsed takes a Timeout of a step of which no attempt is running, so that nothing can change outside after it.
func lapsed(t *Task, f *Fact, b *Timeout) error {
	if t.Halted() || t.Undoing() != (b.Operation == Undo) {
		return fmt.Errorf("%w: the time to %s step %q is over while the task is %s", ErrImpossible, b.Operation, b.Step, t.State)
	}
	e := Error{Class: ClassTimeout, Message: "its time was over"}
	if b.Operation == Undo {
		return t.compensationFailed(f, b.Step, 0, e, b.Verdict)
	}
	s, err := t.open(b.Step, b.Name())
	if err != nil {
		return err
	}
	s.RetryAt = 0
	t.failed(s, f.Time, &e, StepStateTimedOut, b.Verdict)
	return nil
}
