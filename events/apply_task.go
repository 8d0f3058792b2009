package events

import (
	"fmt"
	"slices"
	"strings"
)

// foldTask changes the task that the fact is about.
func (s *State) foldTask(f *Fact) error {
	t, err := s.Task(f.Task)
	if err != nil {
		return err
	}
	if t == nil {
		return unknownTask(s, f.Task)
	}
	if t.State.Ended() && !afterEnd(f.Body) {
		return fmt.Errorf("%w: task %q has ended", ErrImpossible, f.Task) // INV9
	}
	t.UpdatedAt = max(t.UpdatedAt, f.Time)
	t.Facts++
	t.Last = Position{s.Partition.Epoch, f.Sequence} // the fact's own copy, which does not share bytes with the record
	s.touchTask(f.Task, t)
	if err := usePermit(t, f.Body); err != nil {
		return err
	}
	return foldItem(s, t, f)
}

// foldBody changes the task by what the fact says.
func foldBody(s *State, t *Task, f *Fact) error {
	switch b := f.Body.(type) {
	case *StepStarted, *WaitStarted, *FanOutStarted:
		return begins(t, f)
	case *StepProgressed:
		return stepProgressed(t, f, b)
	case *StepCompleted:
		return t.stepCompleted(f, b)
	case *StepFailed:
		return t.stepFailed(f, b)
	case *StepQueued, *Timeout:
		return timed(t, f)
	case *StepSkipped:
		return skipStep(t, f, b)
	case *CompensationStarted:
		return t.compensationStarted(f, b)
	case *Compensated:
		return t.compensated(f, b)
	case *CompensationFailed:
		t.judged(RequestFail, b.Request, "")
		return t.compensationFailed(f, b.Step, b.Attempt, b.Error, b.QuietAt, b.Verdict)
	case *SignalReceived:
		return received(t, b)
	case *CancelRequested:
		cancelled(t, f, b)
	case *RequestRefused:
		t.Facts-- // refusals have their own bound, MaxRequests: asking in vain must not park a task
		t.judged(b.Verb, b.Request, b.Reason)
	case *NotBeforePassed, *DeadlinePassed, *SoftLimitPassed:
		return passed(t, b)
	case *TaskProcessed, *TaskUndone, *TaskTerminated:
		return t.ended(f)
	case *TaskRerun, *RunBegun:
		return rerunning(t, f)
	case *TaskPaused, *TaskResumed:
		return t.pausing(f)
	case *PermitAsked, *PermitGranted, *PermitReleased, *PermitBlocked:
		return permitFact(t, f)
	case *ChildAsked, *ChildrenReleased, *ChildAnswered, *ChildUndoRequested, *ChildReleased:
		return childFact(t, f)
	case *TaskParked:
		t.parked(f, b, s.Partition.Settings.RemindAfter)
	case *TaskReminded:
		return reminded(t, f, b, s.Partition.Settings.RemindAfter)
	case *TaskReopened:
		return t.reopened(f, b)
	case *TimeCorrected:
		return correctTask(&s.Partition, t, b)
	default:
		return fmt.Errorf("%w: %s", ErrUnknownFact, f.Body.Name())
	}
	return nil
}

// cancelled turns the task to undoing, even if an operator holds it. One that is undoing for a rerun, which only its parent cancels, begins no run any more.
func cancelled(t *Task, f *Fact, b *CancelRequested) {
	t.judged(RequestCancel, b.Request, "")
	reason := reasonOr(b.Reason, "cancelled")
	paused := t.Paused != nil
	t.Paused = nil
	if abandonRerun(t, reason) && paused {
		t.goOn(f.Time)
	}
	t.beginUndoing(reason)
}

// abandonRerun lets a task that is undoing for a rerun end undone, and returns whether it is.
func abandonRerun(t *Task, reason string) bool {
	if t.Rerun == nil {
		return false
	}
	t.Rerun, t.Reason = nil, reason
	return true
}

// pausing holds a task, or lets it go on.
func (t *Task) pausing(f *Fact) error {
	if b, pause := f.Body.(*TaskPaused); pause == (t.Paused != nil) {
		return fmt.Errorf("%w: %s of task %q", ErrImpossible, f.Body.Name(), t.ID)
	} else if pause {
		t.judged(RequestPause, b.Request, "")
		t.Paused = &Paused{By: b.By, Since: f.Time, Reason: b.Reason}
		t.halt(f.Time)
		return nil
	}
	t.judged(RequestResume, f.Body.(*TaskResumed).Request, "")
	t.Paused = nil
	t.goOn(f.Time)
	return nil
}

// halt stops the clock of the deadline, unless it is stopped.
func (t *Task) halt(now Instant) {
	if t.HaltedAt == 0 {
		t.HaltedAt = now
	}
}

// goOn starts that clock again, unless the task is still parked or paused. A deadline that was still to come when the clock stopped counts
// on from there. If it passed in the meantime, it has only raised an alert, and can pass again.
func (t *Task) goOn(now Instant) {
	if t.Halted() || t.HaltedAt == 0 {
		return
	}
	if t.Deadline > t.HaltedAt {
		//mutant:deadline-counts-on
		//mutant:deadline-counts-from-not-before
		t.Deadline = min(t.Deadline+max(0, now-max(t.HaltedAt, t.NotBefore)), lastInstant)
		//mutant:deadline-passes-again
		t.DeadlinePassed = false
		t.ReopenedAt = now
	}
	t.HaltedAt = 0
}

func (t *Task) parked(f *Fact, b *TaskParked, remindAfter Duration) {
	if t.State != TaskStateError { // otherwise it could never be reopened
		if t.State == TaskStateUndoing {
			t.ParkedReason = t.Reason
		}
		t.ParkedFrom, t.ParkedAt, t.State = t.State, f.Time, TaskStateError
		t.remindAfter(f.Time, remindAfter)
		t.halt(f.Time)
	}
	t.Reason, t.ParkDue, t.ParkReason = b.Reason, "", ""
}

// reminded takes a reminder that the task is parked.
func reminded(t *Task, f *Fact, b *TaskReminded, remindAfter Duration) error {
	if t.State != TaskStateError || b.Reminder != t.Reminders+1 {
		return fmt.Errorf("%w: reminder %d of task %q, which is %s, after reminder %d", ErrImpossible, b.Reminder, t.ID, t.State, t.Reminders)
	}
	t.Reminders = b.Reminder
	t.remindAfter(f.Time, remindAfter)
	return nil
}

// remindAfter says when the alert about a parked task is repeated.
func (t *Task) remindAfter(now Instant, wait Duration) {
	t.RemindAt = 0
	if wait > 0 && t.Reminders < MaxReminders {
		t.RemindAt = now.Add(wait.Std())
	}
}

func reasonOr(reason, otherwise string) string {
	if reason == "" {
		return otherwise
	}
	return reason
}

// open returns a step that may start, be skipped, or fail before its start, because it has not started or is waiting. Any other
// step has an attempt, an outcome or an undo that would be lost.
func (t *Task) open(path string, why Name) (*Step, error) {
	s := t.Step(path)
	if s == nil {
		s = &Step{Path: path, State: StepStateNotStarted, Run: t.RunOf(path)}
		if t.Steps == nil {
			t.Steps = make([]*Step, 0, usualSteps)
		}
		t.Steps = append(t.Steps, s)
		t.index.opened(t, s)
	}
	if s.State != StepStateNotStarted && s.State != StepStateWaiting {
		return nil, fmt.Errorf("%w: %s of step %q, which is %s", ErrImpossible, why, path, s.State)
	}
	if s.State == StepStateNotStarted {
		if err := beginItem(t, path, why); err != nil {
			return nil, err
		}
	}
	return s.change(), nil
}

func (t *Task) stepStarted(f *Fact, b *StepStarted) error {
	if !t.Starts() || t.State == TaskStateUndoing || !Permitted(t) {
		return fmt.Errorf("%w: step %q starts while the task is %s", ErrImpossible, b.Step, t.State)
	}
	s, err := t.open(b.Step, b.Name())
	if err != nil {
		return err
	}
	if b.Attempt != s.Attempt+1 || s.Waits() {
		return fmt.Errorf("%w: attempt %d of step %q, which waits or had attempt %d", ErrImpossible, b.Attempt, b.Step, s.Attempt)
	}
	if RunOf(b.Run) != RunOf(s.Run) {
		return fmt.Errorf("%w: step %q of run %d starts in run %d", ErrImpossible, b.Step, RunOf(s.Run), RunOf(b.Run))
	}
	s.Agent, s.Function, s.State, s.Attempt, s.Input, s.Output = b.Agent, b.Function, StepStateRunning, b.Attempt, b.Input, nil
	s.StartedAt, s.CompleteBy, s.EndedAt, s.RetryAt = f.Time, b.CompleteBy, 0, 0
	s.Pivot, s.Undoable, s.Heartbeat, s.CapBy = b.Pivot, b.Undoable, b.Heartbeat, b.CapBy
	s.limit(b.StartBy, f.Time)
	s.beginSoft(b.RemindAfter, f.Time)
	s.undoQuiet = undoQuiet{}
	s.Tries++
	t.State = TaskStateProcessing
	return byChild(t, s, f, b.Child)
}

// skipStep forgets the failure of a step that failed before its start and was reopened. The plan never skips a step that was
// attempted: its effects would not be undone. If an operator does, they still are.
func skipStep(t *Task, f *Fact, b *StepSkipped) error {
	if b.Why == SkipOperator {
		return byHand{t, f}.skipped(b)
	}
	s, err := t.open(b.Step, b.Name())
	if err != nil {
		return err
	}
	if s.Attempted() || t.Paused != nil || t.NotBefore != 0 || s.Waits() {
		return fmt.Errorf("%w: step %q is skipped while it or its task waits, after attempt %d, or while the task is paused", ErrImpossible, b.Step, s.Attempt)
	}
	*s = Step{
		Path: b.Step, State: StepStateSkipped, Attempt: s.Attempt, EndedAt: f.Time, Reason: b.Why,
		Run: s.Run, EarlierAttempts: s.EarlierAttempts, EarlierUndos: s.EarlierUndos, Left: s.Left, ByChild: s.ByChild, undoQuiet: s.undoQuiet, row: s.row, place: s.place, changed: true,
	}
	return nil
}

// attempt returns the step if the given attempt of it is running. An outcome of any other attempt is refused (INV7).
func (t *Task) attempt(path string, op Operation, attempt int) (*Step, error) {
	if !t.Running(path, op, attempt) {
		return nil, fmt.Errorf("%w: %s attempt %d of step %q is not running", ErrImpossible, op, attempt, path)
	}
	return t.Step(path).change(), nil
}

func (t *Task) stepCompleted(f *Fact, b *StepCompleted) error {
	if b.Request != "" {
		return byHand{t, f}.completed(b)
	}
	s, err := waitOrAttempt(t, b)
	if err != nil {
		return err
	}
	completeStep(t, s, f, b)
	return nil
}

func completeStep(t *Task, s *Step, f *Fact, b *StepCompleted) {
	t.Completions++
	s.State, s.EndedAt, s.Output, s.Error, s.Reason, s.With = StepStateCompleted, f.Time, b.Output, nil, "", nil
	s.Completion, s.Touched, s.Wait = t.Completions, s.Attempted(), nil
	s.triedByChild()
	t.QuietAt = max(t.QuietAt, b.QuietAt)
	if s.Pivot {
		t.PivotPassed = true
	}
}

func (t *Task) stepFailed(f *Fact, b *StepFailed) error {
	var s *Step
	var err error
	if b.Attempt == 0 { // failed before any work was sent, so it changed nothing outside
		s, err = t.open(b.Step, b.Name())
	} else {
		s, err = t.attempt(b.Step, Do, b.Attempt)
	}
	if err != nil {
		return err
	}
	switch {
	case b.Attempt > 0 && b.Effect != EffectNone:
		s.Touched = true
	case s.DoneByChild(Do) != "":
		s.settle(s.unsettled())
	}
	if b.Output != nil { // its undo may need it
		s.Output = b.Output
	}
	if err := take(t, s, b.Signal); err != nil {
		return err
	}
	//mutant:doubt-stays-in-task
	t.QuietAt = max(t.QuietAt, b.QuietAt)
	t.judged(RequestFail, b.Request, "")
	e := b.Error
	t.failed(s, f.Time, &e, StepStateFailed, b.Verdict)
	return nil
}

// failed records a failure of a do and carries out the verdict.
func (t *Task) failed(s *Step, now Instant, e *Error, state StepState, v Verdict) {
	s.State, s.EndedAt, s.Error, s.Reason, s.Wait = state, now, e, v.Reason, nil
	s.FailureCount++
	t.FailureCount++
	s.triedByChild()
	switch v.Action {
	case ActionRetry:
		s.State, s.RetryAt = StepStateWaiting, v.At
		s.Tries -= v.notMade(s.Tries)
	case ActionCoolDown:
		s.State, s.RetryAt = StepStateWaiting, v.At
		s.Tries = 0
		s.CoolDowns++
	case ActionUndo:
		t.beginUndoing(v.Reason)
	case ActionPark:
		if t.State != TaskStateError {
			t.ParkDue, t.ParkReason = s.Path, v.Reason
		}
	case ActionContinue:
		s.Continued = true
		if !IsItem(s.Path) || e.Class == ClassTimeout {
			s.State = StepStateTimedOut
		}
	}
}

// notMade returns how many attempts the verdict takes off the count: one or none.
func (v *Verdict) notMade(tries int) int {
	if v.Uncounted && tries > 0 {
		return 1
	}
	return 0
}

// beginUndoing does not change a task that is already undoing, even if it is parked because an undo failed: it still needs an
// operator (INV10). If the task was about to be parked because of a failed do, that is cancelled.
func (t *Task) beginUndoing(reason string) {
	if t.Undoing() {
		return
	}
	t.State, t.Reason, t.ParkedFrom, t.ParkedAt = TaskStateUndoing, reason, "", 0
	t.ParkDue, t.ParkReason = "", ""
	t.Reminders, t.RemindAt = 0, 0
	mayStart(t)
	if t.Paused == nil {
		t.HaltedAt = 0
	}
	for _, s := range t.Live() {
		if s.State == StepStateWaiting { // no do starts after this
			s.change()
			s.State, s.RetryAt, s.Wait = StepStateFailed, 0, nil
		}
	}
}

func (t *Task) reopened(f *Fact, b *TaskReopened) error {
	if len(b.With) > 0 && len(b.Steps) != 1 {
		return fmt.Errorf("%w: an input for %d reopened steps", ErrImpossible, len(b.Steps))
	}
	for _, path := range b.Steps {
		s := t.Step(path)
		if s == nil {
			return fmt.Errorf("%w: step %q is reopened and never started", ErrImpossible, path)
		}
		s.change()
		switch {
		case s.State == StepStateUndoFailed || (s.Undo != nil && s.Undo.State == StepStateWaiting):
			s.State, s.Undo.State, s.Undo.RetryAt, s.Undo.Tries = StepStateUndoing, StepStateWaiting, f.Time, 0
			s.Undo.limit(0, f.Time)
			if len(b.With) > 0 {
				s.Undo.With = b.With
			}
		case s.Fans():
			return fmt.Errorf("%w: step %q is reopened, and its items go on", ErrImpossible, path)
		case s.Waits(): // nothing but its time ends it
			return fmt.Errorf("%w: step %q is reopened and waits until %s", ErrImpossible, path, s.Wait.Until)
		case s.Failed() || s.State == StepStateWaiting:
			s.State, s.RetryAt, s.Tries, s.CoolDowns = StepStateWaiting, f.Time, 0, 0
			s.limit(0, f.Time)
			if len(b.With) > 0 {
				//mutant:given-input-is-kept
				s.With = b.With
			}
		default: // it is running, done or undone: only a rerun could start it again
			return fmt.Errorf("%w: step %q is reopened and is %s", ErrImpossible, path, s.State)
		}
	}
	t.judged(RequestRetry, b.Request, "")
	t.unpark(f.Time)
	return nil
}

// unpark lets a parked task go on. The reason for which it was parked stays until there is another, since an operator who looks at the
// task would not find it elsewhere; but a task that is undone ends with the reason for that.
func (t *Task) unpark(now Instant) {
	if t.State != TaskStateError {
		return
	}
	if t.ParkedFrom == TaskStateUndoing {
		t.Reason = t.ParkedReason
	}
	t.State, t.ParkedFrom, t.ParkedAt, t.ParkedReason = t.ParkedFrom, "", 0, ""
	t.Reminders, t.RemindAt = 0, 0
	t.goOn(now)
}

// judged remembers what became of a request, and removes it from the held requests. refused is the reason why it was refused; the
// position of the fact is t.Last.
func (t *Task) judged(verb Verb, id, refused string) {
	if id == "" {
		return
	}
	t.changeRequest(id)
	if i, known := slices.BinarySearchFunc(t.Requests, id, func(r JudgedRequest, id string) int { return strings.Compare(r.ID, id) }); !known {
		//mutant:refusal-is-remembered
		t.Requests = slices.Insert(t.Requests, i, JudgedRequest{id, verb, t.Last, refused})
	}
	if i := slices.IndexFunc(t.Held, func(r Request) bool { return r.ID == id }); i >= 0 {
		t.Held = slices.Delete(slices.Clone(t.Held), i, i+1)
	}
}
