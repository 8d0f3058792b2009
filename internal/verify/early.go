package verify

import "github.com/sagalog/sagalog/events"

// early is the time for which a task waits before it begins. until is zero once it has come.
type early struct {
	until  events.Instant
	within events.Duration
}

// stands says that no step of the task may start.
func (s *story) stands() bool { return s.back || s.parked || s.paused || s.early.until != 0 }

// begins takes the fact that the time of the task has come.
func begins(t *telling, b *events.NotBeforePassed) {
	switch {
	case t.early.until == 0 || b.NotBefore != t.early.until || t.fact.Time < b.NotBefore:
		t.wrong(CheckAttempts, "not_before", "", "its time %s comes at %s, but it waits until %q", b.NotBefore, t.fact.Time, t.early.until.String())
	case t.back || t.parked || t.paused:
		t.wrong(CheckAttempts, "not_before_held", "", "its time comes although it is %s", t.state())
	}
	t.early.until = 0
}

// sameTimes says whether the times of an accepted task follow from its submission. The definition may give the deadline.
func sameTimes(accepted events.Instant, sub *events.Submission, b *events.Submitted) bool {
	times, err := sub.TimesFrom(accepted, 0)
	return err == nil && times.NotBefore == b.NotBefore && times.Delay == b.Delay && (sub.Deadline == "" || times.Deadline == b.Deadline)
}
