package events

import "fmt"

// StepQueued says that a step is ready to start, and must start by then. Only a step whose definition says start_within has one.
type StepQueued struct {
	Step        string   `json:"step"`
	StartWithin Duration `json:"start_within"`
	// StartBy is when the time of the step is over, unless its first attempt has started before.
	StartBy Instant `json:"start_by"`
}

// Timeout says that the complete-by time of an attempt passed without an outcome or, if Attempt is 0, that the time of a step passed while
// no attempt of it was running.
type Timeout struct {
	Step       string    `json:"step"`
	Operation  Operation `json:"operation"`
	Attempt    int       `json:"attempt"`
	CompleteBy Instant   `json:"complete_by,omitzero"`
	// StartBy is set if Attempt is 0 and the next attempt did not start in time.
	StartBy Instant `json:"start_by,omitzero"`
	// QuietAt is complete-by plus the grace in which a request in flight may still land. No undo of the task starts before that of a do, and
	// no do of the step before that of an undo.
	QuietAt Instant `json:"quiet_at,omitzero"`
	Verdict Verdict `json:"verdict"`
}

// timed takes a fact about the time of a step.
func timed(t *Task, f *Fact) error {
	switch b := f.Body.(type) {
	case *StepQueued:
		return stepQueued(t, f, b)
	case *Timeout:
		return timeout(t, f, b)
	}
	return nil
}

func timeout(t *Task, f *Fact, b *Timeout) error {
	if b.Attempt == 0 {
		return lapsed(t, f, b)
	}
	s, err := t.attempt(b.Step, b.Operation, b.Attempt)
	if err != nil {
		return err
	}
	e := s.OutOfTime(b.Operation)
	if b.Operation == Undo {
		return t.compensationFailed(f, b.Step, b.Attempt, e, b.QuietAt, b.Verdict)
	}
	s.Touched = true
	t.QuietAt = max(t.QuietAt, b.QuietAt)
	t.failed(s, f.Time, &e, StepStateTimedOut, b.Verdict)
	return nil
}

// OutOfTime is the error of the running attempt of a step, or of its undo, when its complete-by time passes. An attempt that may show progress for
// longer than that was silent.
func (s *Step) OutOfTime(op Operation) Error {
	if op == Do && s.CompleteBy < s.CapBy {
		return Error{Class: ClassTimeout, Message: "its heartbeat was missed: neither progress nor a report came in time"}
	}
	return Error{Class: ClassTimeout, Message: "no report before the complete-by time"}
}

// lapsed takes a Timeout of a step of which no attempt is running, so that nothing can change outside after it.
func lapsed(t *Task, f *Fact, b *Timeout) error {
	if s := t.Step(b.Step); t.Halted() || (s == nil || b.Operation == Do) && t.Undoing() || s != nil && b.Operation == Undo && !Undoes(t, s) {
		return fmt.Errorf("%w: the time to %s step %q is over while the task is %s", ErrImpossible, b.Operation, b.Step, t.State)
	}
	e := Error{Class: ClassTimeout, Message: "its time was over"}
	if b.Operation == Undo {
		return t.compensationFailed(f, b.Step, 0, e, 0, b.Verdict)
	}
	s, err := t.open(b.Step, b.Name())
	if err != nil {
		return err
	}
	s.RetryAt = 0
	t.failed(s, f.Time, &e, StepStateTimedOut, b.Verdict)
	return nil
}

// stepQueued takes a StepQueued.
func stepQueued(t *Task, f *Fact, b *StepQueued) error {
	if !t.Starts() || t.State == TaskStateUndoing {
		return fmt.Errorf("%w: step %q is queued while the task is %s", ErrImpossible, b.Step, t.State)
	}
	s, err := t.open(b.Step, b.Name())
	if err != nil {
		return err
	}
	if s.Attempted() || s.StartBy != 0 {
		return fmt.Errorf("%w: step %q is queued after attempt %d, or twice", ErrImpossible, b.Step, s.Attempt)
	}
	s.State = StepStateWaiting // the time of a verdict about an attempt that was never made stays
	s.limit(b.StartBy, f.Time)
	return nil
}

// startLimit is until when the next attempt of a step, or of its undo, must start.
type startLimit struct {
	// StartBy is the instant from which no attempt starts any more; zero if it has no limit.
	StartBy Instant `json:"start_by,omitzero"`
	// TimedFrom is since when the time until StartBy counts.
	TimedFrom Instant `json:"timed_from,omitzero"`
}

// limit sets the limit as the fact of that time has it.
func (l *startLimit) limit(startBy, now Instant) {
	if startBy == l.StartBy {
		return
	}
	if l.StartBy, l.TimedFrom = startBy, now; startBy == 0 {
		l.TimedFrom = 0
	}
}

// correct lets the time until the limit last for its whole duration once more, if it counts from a wrong time.
func (l *startLimit) correct(to Instant) {
	//mutant:corrected-start-has-all-its-time
	l.StartBy = lasting(l.StartBy, l.TimedFrom, to)
	l.TimedFrom = min(l.TimedFrom, to)
}

// StartBy returns the instant from which no attempt of the step's operation starts any more; zero if it has no limit.
func StartBy(t *Task, path string, op Operation) Instant {
	s := t.Step(path)
	switch {
	case s == nil || op == Undo && s.Undo == nil:
		return 0
	case op == Undo:
		return s.Undo.StartBy
	}
	return s.StartBy
}
