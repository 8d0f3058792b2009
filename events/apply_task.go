package events

import "fmt"

// foldTask changes the task that the fact is about.
func (s *State) foldTask(f *Fact) error {
	t, err := s.Task(f.Task)
	if err != nil {
		return err
	}
	if t == nil {
		return fmt.Errorf("%w: task %q is not known", ErrImpossible, f.Task)
	}
	if t.State.Ended() {
		return fmt.Errorf("%w: task %q has ended", ErrImpossible, f.Task) // INV9
	}
	t.UpdatedAt = max(t.UpdatedAt, f.Time)
	t.Facts++
	s.touchTask(f.Task)
	switch b := f.Body.(type) {
	case *StepStarted:
		return t.stepStarted(f, b)
	case *StepCompleted:
		return t.stepCompleted(f, b)
	case *StepFailed:
		return t.stepFailed(f, b)
	case *Timeout:
		return t.timeout(f, b)
	case *StepSkipped:
		t.enter(b.Step, &Step{Path: b.Step, State: StepSkippedOff, EndedAt: f.Time, Reason: b.Why})
	case *UndoStarted:
		return t.undoStarted(f, b)
	case *Compensated:
		return t.compensated(f, b)
	case *UndoFailed:
		return t.undoFailed(f, b.Step, b.Attempt, b.Error, b.Verdict)
	case *CancelRequested:
		t.judged(b.Request)
		t.beginUndoing(reasonOr(b.Reason, "cancelled"))
	case *DeadlinePassed:
		t.DeadlinePassed = true
		if b.Action == DeadlineUndo {
			t.beginUndoing("the deadline passed")
		}
	case *TaskProcessed:
		t.State, t.EndedAt, t.Output = Processed, f.Time, b.Output
	case *TaskUndone:
		t.State, t.EndedAt = Undone, f.Time
	case *TaskParked:
		t.ParkedFrom, t.State, t.Reason = t.State, Parked, b.Reason
		t.ParkDue, t.ParkReason = "", ""
	case *TaskReopened:
		return t.reopened(f, b)
	default:
		return fmt.Errorf("%w: %s", ErrUnknownFact, f.Body.Name())
	}
	return nil
}

func reasonOr(reason, otherwise string) string {
	if reason == "" {
		return otherwise
	}
	return reason
}

// enter puts a step into the list, in place of its earlier state if it has one.
func (t *Task) enter(path string, s *Step) *Step {
	for i, old := range t.Steps {
		if old.Path == path {
			t.Steps[i] = s
			return s
		}
	}
	t.Steps = append(t.Steps, s)
	return s
}

func (t *Task) stepStarted(f *Fact, b *StepStarted) error {
	if t.State != Pending && t.State != Processing {
		return fmt.Errorf("%w: step %q starts while the task is %s", ErrImpossible, b.Step, t.State)
	}
	s := t.Step(b.Step)
	if s == nil {
		s = t.enter(b.Step, &Step{Path: b.Step})
	}
	if s.State == StepRunning || b.Attempt != s.Attempt+1 {
		return fmt.Errorf("%w: attempt %d of step %q after attempt %d, which is %s", ErrImpossible, b.Attempt, b.Step, s.Attempt, s.State)
	}
	s.Agent, s.State, s.Attempt, s.Input = b.Agent, StepRunning, b.Attempt, b.Input
	s.StartedAt, s.CompleteBy, s.RetryAt = f.Time, b.CompleteBy, 0
	s.Pivot, s.Undoable = b.Pivot, b.Undoable
	s.Tries++
	t.State = Processing
	return nil
}

// attempt returns the step whose running attempt the outcome is of (INV7).
func (t *Task) attempt(path string, op Operation, attempt int) (*Step, error) {
	if !t.Running(path, op, attempt) {
		return nil, fmt.Errorf("%w: %s attempt %d of step %q is not running", ErrImpossible, op, attempt, path)
	}
	return t.Step(path), nil
}

func (t *Task) stepCompleted(f *Fact, b *StepCompleted) error {
	s, err := t.attempt(b.Step, Do, b.Attempt)
	if err != nil {
		return err
	}
	t.Completions++
	s.State, s.EndedAt, s.Output, s.Error = StepDone, f.Time, b.Output, nil
	s.Completion, s.Touched = t.Completions, true
	if s.Pivot {
		t.PivotPassed = true
	}
	return nil
}

func (t *Task) stepFailed(f *Fact, b *StepFailed) error {
	s := t.Step(b.Step)
	if b.Attempt == 0 { // failed before any work was sent
		if s == nil {
			s = t.enter(b.Step, &Step{Path: b.Step})
		}
		if s.State == StepRunning {
			return fmt.Errorf("%w: step %q fails before its start while it runs", ErrImpossible, b.Step)
		}
	} else if _, err := t.attempt(b.Step, Do, b.Attempt); err != nil {
		return err
	}
	if b.Effect != EffectNone {
		s.Touched = true
	}
	e := b.Error
	t.failed(s, f.Time, &e, StepBroken, b.Verdict)
	return nil
}

func (t *Task) timeout(f *Fact, b *Timeout) error {
	s, err := t.attempt(b.Step, b.Operation, b.Attempt)
	if err != nil {
		return err
	}
	e := Error{Class: ClassTimeout, Message: "no report before the complete-by time"}
	if b.Operation == Undo {
		return t.undoFailed(f, b.Step, b.Attempt, e, b.Verdict)
	}
	s.Touched = true
	t.QuietAt = max(t.QuietAt, b.QuietAt)
	t.failed(s, f.Time, &e, StepTimedOut, b.Verdict)
	return nil
}

// failed books a failure of a do and obeys the verdict.
func (t *Task) failed(s *Step, now Instant, e *Error, state StepState, v Verdict) {
	s.State, s.EndedAt, s.Error, s.Reason = state, now, e, v.Reason
	s.FailureCount++
	t.FailureCount++
	switch v.Action {
	case ActionRetry:
		s.State, s.RetryAt = StepWaiting, v.At
	case ActionCoolDown:
		s.State, s.RetryAt = StepWaiting, v.At
		s.Tries = 0
		s.CoolDowns++
	case ActionUndo:
		t.beginUndoing(v.Reason)
	case ActionPark:
		if t.State != Parked {
			t.ParkDue, t.ParkReason = s.Path, v.Reason
		}
	}
}

func (t *Task) beginUndoing(reason string) {
	if t.State == Undoing {
		return
	}
	if t.State == Parked {
		t.ParkedFrom = ""
	}
	t.State, t.Reason = Undoing, reason
}

func (t *Task) undoStarted(f *Fact, b *UndoStarted) error {
	s := t.Step(b.Step)
	if s == nil || t.State != Undoing {
		return fmt.Errorf("%w: undo of step %q starts while the task is %s", ErrImpossible, b.Step, t.State)
	}
	if s.Undo == nil {
		s.Undo = &UndoState{}
	}
	u := s.Undo
	if u.State == StepRunning || b.Attempt != u.Attempt+1 {
		return fmt.Errorf("%w: attempt %d to undo step %q after attempt %d", ErrImpossible, b.Attempt, b.Step, u.Attempt)
	}
	u.State, u.Agent, u.Attempt = StepRunning, b.Agent, b.Attempt
	u.StartedAt, u.CompleteBy, u.RetryAt = f.Time, b.CompleteBy, 0
	u.Tries++
	s.State = StepUndoing
	return nil
}

func (t *Task) compensated(f *Fact, b *Compensated) error {
	s, err := t.attempt(b.Step, Undo, b.Attempt)
	if err != nil {
		return err
	}
	s.Undo.State, s.Undo.EndedAt, s.Undo.Error = StepUndone, f.Time, nil
	s.State = StepUndone
	return nil
}

func (t *Task) undoFailed(f *Fact, path string, attempt int, e Error, v Verdict) error {
	s, err := t.attempt(path, Undo, attempt)
	if err != nil {
		return err
	}
	u := s.Undo
	u.State, u.EndedAt, u.Error = StepBroken, f.Time, &e
	u.FailureCount++
	t.FailureCount++
	switch v.Action {
	case ActionRetry, ActionCoolDown:
		u.State, u.RetryAt = StepWaiting, v.At
	default:
		s.State = StepUndoFailed
		if t.State != Parked {
			t.ParkDue, t.ParkReason = path, v.Reason
		}
	}
	return nil
}

func (t *Task) reopened(f *Fact, b *TaskReopened) error {
	for _, path := range b.Steps {
		s := t.Step(path)
		if s == nil {
			return fmt.Errorf("%w: step %q is reopened and never started", ErrImpossible, path)
		}
		if s.State == StepUndoFailed || (s.Undo != nil && s.Undo.State == StepWaiting) {
			s.State, s.Undo.State, s.Undo.RetryAt, s.Undo.Tries = StepUndoing, StepWaiting, f.Time, 0
			continue
		}
		s.State, s.RetryAt, s.Tries, s.CoolDowns = StepWaiting, f.Time, 0, 0
	}
	t.judged(b.Request)
	if t.State == Parked {
		t.State, t.ParkedFrom, t.Reason = t.ParkedFrom, "", ""
	}
	return nil
}

// judged remembers a request's ID and takes the request from those held.
func (t *Task) judged(id string) {
	if id == "" {
		return
	}
	t.Requests = append(t.Requests, id)
	if over := len(t.Requests) - maxRequests; over > 0 {
		t.Requests = append([]string(nil), t.Requests[over:]...)
	}
	for i, h := range t.Held {
		if h.ID == id {
			t.Held = append(append([]Request(nil), t.Held[:i]...), t.Held[i+1:]...)
			break
		}
	}
}
