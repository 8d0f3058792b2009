package events

// TimerKind says what a timer of a task does when it fires.
type TimerKind string

// The kinds of timers.
const (
	TimerCompleteBy TimerKind = "complete_by"
	TimerRetry      TimerKind = "retry"
	// TimerDue is the due time of a schedule, whose key stands for the task.
	TimerDue       TimerKind = "due"
	TimerStartBy   TimerKind = "start_by"
	TimerSleep     TimerKind = "sleep"
	TimerSignal    TimerKind = "signal"
	TimerQuiet     TimerKind = "quiet"
	TimerNotBefore TimerKind = "not_before"
	TimerDeadline  TimerKind = "deadline"
	TimerSoftLimit TimerKind = "soft_limit"
	TimerReminder  TimerKind = "reminder"
	TimerPermit    TimerKind = "permit"
	// TimerChild is when a step asks its child again.
	TimerChild   TimerKind = "child"
	TimerExpiry  TimerKind = "expiry"
	TimerHorizon TimerKind = "horizon"
)

// Timer is something that a task must do at some time.
type Timer struct {
	Due       Instant
	Kind      TimerKind
	Path      string
	Operation Operation
	Attempt   int
}

// Timers returns the task's timers in no order. They are a function of its state, so nothing else records them.
func (t *Task) Timers() []Timer {
	if t.State.Ended() {
		return nil
	}
	var list []Timer
	quiet := t.State == TaskStateUndoing
	for _, s := range t.Live() {
		quiet = quiet || s.Tolerated() && Undoes(t, s)
		if s.State == StepStateRunning && s.ends() {
			list = append(list, Timer{s.CompleteBy, TimerCompleteBy, s.Path, Do, s.Attempt})
		}
		if at := max(s.asking(Do), s.asking(Undo)); at != 0 {
			list = append(list, s.askTimer(at))
		}
		forward := t.Paused == nil && (t.State == TaskStateProcessing || t.State == TaskStatePending)
		if s.Waits() {
			if m, ok := s.timer(t); ok {
				list = append(list, m)
			}
		} else if next := s.NextItem(t); next != nil && forward {
			list = next.timers(list, Timer{next.nextAt(t.UpdatedAt), TimerRetry, next.Path, Do, next.Attempt + 1})
		} else if s.State == StepStateWaiting && s.Fan == nil && forward {
			list = s.timers(list, Timer{s.nextAt(t.UpdatedAt), TimerRetry, s.Path, Do, s.Attempt + 1})
		}
		if u := s.Undo; u != nil && u.State == StepStateRunning {
			if s.asking(Undo) == 0 {
				list = append(list, Timer{u.CompleteBy, TimerCompleteBy, s.Path, Undo, u.Attempt})
			}
		} else if u != nil && u.State == StepStateWaiting && Undoes(t, s) && t.Paused == nil {
			list = u.timers(list, Timer{u.RetryAt, TimerRetry, s.Path, Undo, u.Attempt + 1})
		}
	}
	if quiet && t.Paused == nil && t.QuietAt > t.UpdatedAt {
		list = append(list, Timer{Due: t.QuietAt, Kind: TimerQuiet})
	}
	//mutant:task-starts-at-its-time
	if t.NotBefore != 0 && !t.Halted() {
		//mutant:not-before-ends-at-its-time
		list = append(list, Timer{Due: t.NotBefore, Kind: TimerNotBefore})
	}
	if t.Deadline != 0 && !t.DeadlinePassed && !t.Undoing() {
		list = append(list, Timer{Due: t.Deadline, Kind: TimerDeadline})
	}
	if m, ok := t.Permit.timer(); ok {
		list = append(list, m)
	}
	list = stepPermitTimers(list, t)
	if t.RemindAt != 0 {
		list = append(list, Timer{Due: t.RemindAt, Kind: TimerReminder})
	}
	return softTimers(list, t)
}

// timers adds the timers of a step, or an undo, that waits for its next attempt.
func (l *startLimit) timers(list []Timer, retry Timer) []Timer {
	if retry.Due != 0 { // zero before the first attempt
		list = append(list, retry)
	}
	if l.StartBy != 0 {
		retry.Due, retry.Kind = l.StartBy, TimerStartBy
		list = append(list, retry)
	}
	return list
}

// Due returns when the first timer of the task is due, and zero if it has none.
func (t *Task) Due() Instant {
	var least Instant
	for _, m := range t.Timers() {
		least = earliest(least, m.Due)
	}
	return least
}
