package events

import "fmt"

// An operator may decide what otherwise a report decides: that a step is skipped, or that it or its undo is done. In both cases no
// attempt of it runs, so a report that is still under way is passed like that of any attempt that is over.

// Operator is who decided something that an agent's report or the plan decides otherwise. In a fact that no operator asked for, all
// members are absent.
type Operator struct {
	// Request is the ID of the request, and By its sender, as far as the API knows.
	Request string `json:"request,omitempty"`
	Reason  string `json:"reason,omitempty"`
	By      string `json:"by,omitempty"`
}

// byHand is a fact by which an operator decided about a step of a task.
type byHand struct {
	*Task
	fact *Fact
}

// unfinished returns a step whose do an operator may skip or complete.
func (t byHand) unfinished(path string, why Name) (*Step, error) {
	s := t.Step(path)
	switch {
	case t.Undoing():
		return nil, fmt.Errorf("%w: %s of step %q by an operator while the task is being undone", ErrImpossible, why, path)
	case s == nil:
		return t.open(path, why)
	case !s.Failed():
		return t.open(path, why)
	}
	return s.change(), nil
}

// unfinishedUndo returns a step whose undo an operator may skip or complete.
func (t byHand) unfinishedUndo(path string, why Name) (*Step, error) {
	s := t.Step(path)
	if s == nil || !turned(t.Task, s) || s.Undo == nil || s.Undo.State != StepStateFailed && s.Undo.State != StepStateWaiting {
		return nil, fmt.Errorf("%w: %s of step %q by an operator, whose undo did not fail", ErrImpossible, why, path)
	}
	return s.change(), nil
}

func (t byHand) skipped(b *StepSkipped) error {
	if b.Left {
		s, err := t.unfinishedUndo(b.Step, b.Name())
		if err != nil {
			return err
		}
		failure, failed := s.Undo.Error, s.Undo.State == StepStateFailed
		//mutant:skipped-undo-is-left
		s.Left = true
		switch more, err := t.undone(s, b.Child, b.Name()); {
		case err != nil:
			return err
		case !more:
			s.Undo.Skipped, s.Undo.Error = true, failure
		}
		t.decided(RequestSkip, b.Request, s, failed)
		return nil
	}
	s, err := t.unfinished(b.Step, b.Name())
	if err != nil {
		return err
	}
	if s.Pivot {
		return fmt.Errorf("%w: the pivot %q is skipped", ErrImpossible, b.Step)
	}
	failed := s.Failed()
	//mutant:skipped-step-is-undone
	s.State, s.EndedAt, s.RetryAt, s.Output, s.Reason, s.With, s.Wait = StepStateSkipped, t.fact.Time, 0, b.Output, b.Why, nil, nil
	t.decided(RequestSkip, b.Request, s, failed)
	return nil
}

func (t byHand) completed(b *StepCompleted) error {
	s, err := t.unfinished(b.Step, b.Name())
	if err != nil {
		return err
	}
	if !s.Attempted() && !s.Waits() || b.Attempt != s.Attempt {
		return fmt.Errorf("%w: attempt %d of step %q is completed by an operator, after attempt %d", ErrImpossible, b.Attempt, b.Step, s.Attempt)
	}
	failed := s.Failed()
	s.RetryAt = 0
	completeStep(t.Task, s, t.fact, b)
	t.decided(RequestComplete, b.Request, s, failed)
	return nil
}

func (t byHand) compensated(b *Compensated) error {
	s, err := t.unfinishedUndo(b.Step, b.Name())
	if err != nil {
		return err
	}
	if b.Attempt != s.Undo.Attempt {
		return fmt.Errorf("%w: attempt %d to undo step %q is completed by an operator, after attempt %d", ErrImpossible, b.Attempt, b.Step, s.Undo.Attempt)
	}
	failed := s.Undo.State == StepStateFailed
	if _, err := t.undone(s, b.Child, b.Name()); err != nil {
		return err
	}
	t.decided(RequestComplete, b.Request, s, failed)
	return nil
}

// undone ends the undo of a step, or only what concerns one of its children. It returns whether the child of an earlier try must be asked.
func (t byHand) undone(s *Step, child string, why Name) (more bool, err error) {
	if child != "" && (s.Settled() || s.ChildToUndo() != child || s.Undo.State != StepStateFailed) {
		return false, fmt.Errorf("%w: %s of step %q names child %q, but the child to undo is %q, and its undo is %s", ErrImpossible, why, s.Path, child, s.ChildToUndo(), s.Undo.State)
	}
	//mutant:decision-is-about-one-child
	if child != "" && s.undoneByChild(t.fact.Time) {
		s.State = StepStateUndoing
		return true, nil
	}
	s.undone(t.fact.Time)
	return false, nil
}

// decided lets a parked task go on if the step for which an operator decided had failed, and no other has.
func (t byHand) decided(verb Verb, request string, decided *Step, failed bool) {
	//mutant:decision-is-remembered
	t.judged(verb, request, "")
	if t.ParkDue == decided.Path {
		t.ParkDue, t.ParkReason = "", ""
	}
	if !failed {
		return
	}
	for _, s := range t.Live() {
		if s.State == StepStateUndoFailed || !t.Undoing() && s.Failed() {
			return
		}
	}
	//mutant:decision-lets-task-go-on
	t.unpark(t.fact.Time)
}
