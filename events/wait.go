package events

import "fmt"

// WaitStarted begins a step that no agent does. Such a step has no attempts. If it waits for signals, it is over when it takes one, and
// times out at Until; otherwise it sleeps, and is over at Until.
type WaitStarted struct {
	Step string `json:"step"`
	// Within is the duration that the definition gives; absent if it gives an instant.
	Within Duration `json:"within,omitzero"`
	// Until is absent if the step waits for signals without a limit.
	Until Instant `json:"until,omitzero"`
	// Signals are the names of the signals for which it waits.
	Signals []string `json:"signals,omitempty"`
	// Condition is the result of the step's if. It is absent if the step has none.
	Condition *bool `json:"condition,omitempty"`
	// RemindAfter is the soft limit of the step; zero if its definition gives none.
	RemindAfter Duration `json:"remind_after,omitzero"`
}

// Stamp sets the end of a wait whose definition gives a duration, which begins now. The plan, which knows no clock, leaves it out.
func (b *WaitStarted) Stamp(now Instant) {
	if b.Within > 0 {
		b.Until = min(now.Add(b.Within.Std()), lastInstant)
	}
}

// Wait is what a step waits for that no agent does, while it does so: its state is waiting then.
type Wait struct {
	Until Instant `json:"until,omitzero"`
	// Within is the duration that the definition gives; zero if it gives an instant.
	Within Duration `json:"within,omitzero"`
	// Signals are the names of the signals of which the first ends the wait; nil if the step sleeps.
	Signals []string `json:"signals,omitempty"`
}

// For says what the step waits for.
func (w *Wait) For() Waiting {
	if len(w.Signals) > 0 {
		return WaitingSignal
	}
	return WaitingSleep
}

// Waits says whether the step is one that no agent does, and is under way.
func (s *Step) Waits() bool { return s.State == StepStateWaiting && s.Wait != nil }

// begins begins an attempt or a wait.
func begins(t *Task, f *Fact) error {
	if t.ReplyTo != "" && t.ReplyBegan == (Position{}) {
		t.ReplyBegan = f.Position()
	}
	if b, ok := f.Body.(*FanOutStarted); ok {
		return fanOutStarted(t, f, b)
	}
	b, waits := f.Body.(*WaitStarted)
	if !waits {
		return t.stepStarted(f, f.Body.(*StepStarted))
	}
	if !t.Starts() || t.State == TaskStateUndoing || !Permitted(t) {
		return fmt.Errorf("%w: step %q begins to wait while the task is %s", ErrImpossible, b.Step, t.State)
	}
	s, err := t.open(b.Step, b.Name())
	if err != nil {
		return err
	}
	if s.Waits() || s.Attempted() || b.Until == 0 && len(b.Signals) == 0 {
		return fmt.Errorf("%w: step %q begins to wait until %q, after attempt %d", ErrImpossible, b.Step, b.Until, s.Attempt)
	}
	s.State, s.Wait, s.Output = StepStateWaiting, &Wait{Until: b.Until, Within: b.Within, Signals: b.Signals}, nil
	s.StartedAt, s.EndedAt, s.RetryAt = f.Time, 0, 0
	s.beginSoft(b.RemindAfter, f.Time)
	t.State = TaskStateProcessing
	return nil
}

// waitOrAttempt returns the step that a fact completes: one whose attempt runs or, if the fact names no attempt, one that waits.
func waitOrAttempt(t *Task, b *StepCompleted) (*Step, error) {
	if b.Attempt > 0 {
		return t.attempt(b.Step, Do, b.Attempt)
	}
	s := t.Step(b.Step)
	if s != nil && s.Fans() && s.Fan.Over() {
		return s.change(), nil
	}
	if s == nil || !s.Waits() {
		return nil, fmt.Errorf("%w: %s without an attempt, of step %q, which does not wait", ErrImpossible, b.Name(), b.Step)
	}
	return s.change(), take(t, s, b.Signal)
}

// timer returns what ends the wait of a step. A task that is held does not lose its signals to the time: an operator may let it go on too late.
func (s *Step) timer(t *Task) (m Timer, ok bool) {
	kind := TimerSleep
	if s.Wait.For() == WaitingSignal {
		kind = TimerSignal
	}
	//mutant:sleep-ends-at-its-time
	m = Timer{Due: s.Wait.Until, Kind: kind, Path: s.Path, Operation: Do}
	return m, m.Due != 0 && (kind == TimerSleep || t.Starts())
}

// correct takes a correction of the time. An instant that the definition gives is right.
func (w *Wait) correct(started, to Instant) {
	if w.Within > 0 {
		//mutant:corrected-sleep-has-all-its-time
		w.Until = lasting(w.Until, started, to)
	}
}
