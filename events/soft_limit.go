package events

import "fmt"

// SoftLimitPassed says that a step, or the task if Step is empty, is not over when its soft limit has passed. An operator is alerted, once,
// and nothing else follows.
type SoftLimitPassed struct {
	Step string `json:"step,omitempty"`
	// Since is when the limit began to count, and SoftAt when it passed.
	Since  Instant `json:"since"`
	SoftAt Instant `json:"soft_at"`
}

// softLimit is the soft limit of a step or a task, which remind_after of its definition gives.
type softLimit struct {
	// SoftAt is when the alert is due; zero if there is no limit, or the alert was raised.
	SoftAt Instant `json:"soft_at,omitzero"`
	// SoftFrom is since when the time until SoftAt counts.
	SoftFrom Instant `json:"soft_from,omitzero"`
}

// beginSoft lets the limit count from the instant, if there is one.
func (l *softLimit) beginSoft(after Duration, from Instant) {
	if after > 0 {
		l.SoftAt, l.SoftFrom = min(from.Add(after.Std()), lastInstant), from
	}
}

// correctSoft lets the time until the limit last for its whole duration once more, if it counts from a wrong time.
func (l *softLimit) correctSoft(to Instant) {
	l.SoftAt = lasting(l.SoftAt, l.SoftFrom, to)
	l.SoftFrom = min(l.SoftFrom, to)
}

// softTimers adds the timers of the soft limits of a task and of the steps that run or wait.
func softTimers(list []Timer, t *Task) []Timer {
	if t.SoftAt != 0 {
		list = append(list, Timer{Due: t.SoftAt, Kind: TimerSoftLimit})
	}
	for _, s := range t.Live() {
		if s.SoftAt != 0 && (s.State == StepStateRunning || s.State == StepStateWaiting) {
			list = append(list, Timer{Due: s.SoftAt, Kind: TimerSoftLimit, Path: s.Path, Operation: Do})
		}
	}
	return list
}

// softLimitPassed takes a SoftLimitPassed.
func softLimitPassed(t *Task, b *SoftLimitPassed) error {
	l := &t.softLimit
	if b.Step != "" {
		s := t.Step(b.Step)
		if s == nil || s.State != StepStateRunning && s.State != StepStateWaiting {
			return fmt.Errorf("%w: the soft limit of step %q has passed, which neither runs nor waits", ErrImpossible, b.Step)
		}
		l = &s.change().softLimit
	}
	if l.SoftAt == 0 || l.SoftAt != b.SoftAt || l.SoftFrom != b.Since {
		return fmt.Errorf("%w: a soft limit of task %q from %s to %s has passed, which has one from %q to %q", ErrImpossible, t.ID, b.Since, b.SoftAt, l.SoftFrom.String(), l.SoftAt.String())
	}
	l.SoftAt, l.SoftFrom = 0, 0
	return nil
}
