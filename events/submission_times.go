package events

// MaxDelay is how long after its acceptance a task may start at the latest, if its submission says not before when. It is the bound of
// the durations of settings, too.
const MaxDelay = Duration(maxSpan)

// Times are the instants of a task. They follow from its submission and the time of its acceptance.
type Times struct {
	// Deadline is zero if the task has none.
	Deadline Instant
	// NotBefore is zero if the task may start at once. Delay is the duration that the submission gives for it.
	NotBefore Instant
	Delay     Duration
}

// TimesFrom returns the times of a task that is accepted at now. own is the deadline of the workflow, zero if it has none: it counts if
// the submission gives no deadline. A deadline given as a duration counts from NotBefore. The error is a *MemberError.
func (s *Submission) TimesFrom(now Instant, own Duration) (Times, error) {
	var t Times
	if s.NotBefore != "" {
		t.NotBefore, t.Delay = instantOf(s.NotBefore, now)
	}
	if t.NotBefore <= now { // it has come
		t.NotBefore, t.Delay = 0, 0
	}
	if latest := now.Add(MaxDelay.Std()); t.NotBefore > latest {
		return Times{}, memberError("/not_before", "%q is more than %s after the acceptance, at %s; at most that is possible", Clip(s.NotBefore, maxQuotedBytes), MaxDelay, now)
	}
	from := max(now, t.NotBefore)
	switch {
	case s.Deadline != "":
		t.Deadline, _ = instantOf(s.Deadline, from)
	case own > 0:
		t.Deadline = min(from.Add(own.Std()), lastInstant)
	}
	if t.NotBefore != 0 && t.Deadline != 0 && t.Deadline <= t.NotBefore {
		return Times{}, notAfter(s.Deadline, t.NotBefore.String())
	}
	return t, nil
}

func notAfter(deadline, notBefore string) error {
	return memberError("/deadline", "%q is not after not_before, which is %s: the task would be over before it may start", Clip(deadline, maxQuotedBytes), Clip(notBefore, maxQuotedBytes))
}

// instantOf returns the instant that a checked text gives, or the one that is the duration after from; within is that duration.
func instantOf(text string, from Instant) (at Instant, within Duration) {
	if i, err := ParseInstant(text); err == nil {
		return i, 0
	}
	within, _ = ParseDuration(text)
	return min(from.Add(within.Std()), lastInstant), within
}

func (s *Submission) checkTimes() error {
	if s.Deadline != "" {
		if err := s.checkDeadline(); err != nil {
			return err
		}
	}
	if s.NotBefore != "" {
		if err := s.checkNotBefore(); err != nil {
			return err
		}
	}
	return s.checkOrder()
}

func (s *Submission) checkDeadline() error { return checkTime("/deadline", s.Deadline) }

func (s *Submission) checkNotBefore() error {
	if err := checkTime("/not_before", s.NotBefore); err != nil {
		return err
	}
	if d, err := ParseDuration(s.NotBefore); err == nil && d > MaxDelay {
		return memberError("/not_before", "%q is more than %s, the longest possible", Clip(s.NotBefore, maxQuotedBytes), MaxDelay)
	}
	return nil
}

// checkTime checks a positive duration or an instant. Zero would mean no time.
func checkTime(pointer, text string) error {
	if i, err := ParseInstant(text); err == nil && i > 0 {
		return nil
	}
	d, err := ParseDuration(text)
	if err != nil || d <= 0 {
		return memberError(pointer, "%q is neither a positive duration such as 10m nor an instant such as 2026-11-21T14:00:00Z", Clip(text, maxQuotedBytes))
	}
	return nil
}

// checkOrder checks that the deadline is after NotBefore, if both are instants. TimesFrom checks the others.
func (s *Submission) checkOrder() error {
	deadline, err := ParseInstant(s.Deadline)
	if err != nil {
		return nil
	}
	if notBefore, err := ParseInstant(s.NotBefore); err == nil && deadline <= notBefore {
		return notAfter(s.Deadline, s.NotBefore)
	}
	return nil
}
