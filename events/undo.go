package events

import "fmt"

// The facts of the undo of a step.

// Compensated says that the undo of one step succeeded.
type Compensated struct {
	Step    string `json:"step"`
	Attempt int    `json:"attempt"`
	// QuietAt is set if the attempt may also be carried out by another instance, or a second time. No do of the step starts before it.
	QuietAt Instant `json:"quiet_at,omitzero"`
	// Left says that a child undid itself, except for what an operator left.
	Left bool `json:"left,omitzero"`
	// Child, if set, is the child to which an operator's decision is limited: only what it did counts as undone.
	Child string `json:"child,omitempty"`
	Outcome
	Operator
}

func (t *Task) compensationStarted(f *Fact, b *CompensationStarted) error {
	if t.Paused != nil {
		return fmt.Errorf("%w: the undo of step %q starts while the task is paused", ErrImpossible, b.Step)
	}
	s, err := t.openUndo(b.Step, b.Name())
	if err != nil {
		return err
	}
	u := s.Undo
	if b.Attempt != u.Attempt+1 {
		return fmt.Errorf("%w: attempt %d to undo step %q after attempt %d", ErrImpossible, b.Attempt, b.Step, u.Attempt)
	}
	u.State, u.Agent, u.Function, u.Attempt = StepStateRunning, b.Agent, b.Function, b.Attempt
	u.StartedAt, u.CompleteBy, u.EndedAt, u.RetryAt = f.Time, b.CompleteBy, 0, 0
	u.limit(b.StartBy, f.Time)
	u.Tries++
	s.State = StepStateUndoing
	return byChild(t, s, f, b.Child)
}

// openUndo returns a step whose undo may start, or fail before its start: its do has ended, and its undo has not begun or is
// waiting.
func (t *Task) openUndo(path string, why Name) (*Step, error) {
	s := t.Step(path)
	switch {
	case s == nil || s.State == StepStateRunning:
		return nil, fmt.Errorf("%w: %s of step %q, whose do has not ended", ErrImpossible, why, path)
	case !Undoes(t, s):
		return nil, fmt.Errorf("%w: %s of step %q while the task is %s", ErrImpossible, why, path, t.State)
	case s.Undo == nil:
		s.Undo = &UndoState{State: StepStateNotStarted, Attempt: s.EarlierUndos}
	case s.Undo.State != StepStateWaiting:
		return nil, fmt.Errorf("%w: %s of step %q, whose undo is %s", ErrImpossible, why, path, s.Undo.State)
	}
	return s.change(), nil
}

func (t *Task) compensated(f *Fact, b *Compensated) error {
	if b.Request != "" && b.Left || b.Request == "" && b.Child != "" {
		return fmt.Errorf("%w: the undo of step %q is over for child %q, left: %t, by the request %q", ErrImpossible, b.Step, b.Child, b.Left, b.Request)
	}
	if b.Request != "" {
		return byHand{t, f}.compensated(b)
	}
	s, err := t.attempt(b.Step, Undo, b.Attempt)
	if err != nil {
		return err
	}
	s.doubt(b.QuietAt, s.Undo.StartedAt)
	s.Left = s.Left || b.Left
	if s.DoneByChild(Undo) != "" && s.undoneByChild(f.Time) {
		return nil
	}
	s.triedByChild()
	s.undone(f.Time)
	return nil
}

func (s *Step) undone(now Instant) {
	for i := s.unsettled(); i >= 0; i = s.unsettled() {
		s.settle(i)
	}
	u := s.Undo
	u.State, u.EndedAt, u.RetryAt, u.Error, u.With = StepStateUndone, now, 0, nil, nil
	s.State = StepStateUndone
}

func (t *Task) compensationFailed(f *Fact, path string, attempt int, e Error, quietAt Instant, v Verdict) error {
	var s *Step
	var err error
	if attempt == 0 { // failed before any work was sent
		s, err = t.openUndo(path, f.Body.Name())
	} else {
		s, err = t.attempt(path, Undo, attempt)
	}
	if err != nil {
		return err
	}
	u := s.Undo
	u.State, u.EndedAt, u.Error = StepStateFailed, f.Time, &e
	s.doubt(quietAt, u.StartedAt)
	s.triedByChild()
	u.FailureCount++
	t.FailureCount++
	switch v.Action {
	case ActionRetry:
		u.State, u.RetryAt = StepStateWaiting, v.At
		u.Tries -= v.notMade(u.Tries)
	case ActionCoolDown:
		u.State, u.RetryAt = StepStateWaiting, v.At
		u.Tries = 0
	default:
		s.State = StepStateUndoFailed
		if t.State != TaskStateError {
			t.ParkDue, t.ParkReason = path, v.Reason
		}
	}
	return nil
}
