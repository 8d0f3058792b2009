package events

// undoQuiet is until when requests to undo a step may still land: those of attempts that timed out, whose agent or operator does not vouch for
// their end, or that two owners sent. It outlasts the run of the step, since its next run waits for it.
type undoQuiet struct {
	// UndoQuietAt is when no request to undo the step can land any more; no do of the step starts before it.
	UndoQuietAt Instant `json:"undo_quiet_at,omitzero"`
	// UndoQuietFrom is when the attempt started from which UndoQuietAt is.
	UndoQuietFrom Instant `json:"undo_quiet_from,omitzero"`
}

// doubt takes an attempt to undo the step that began at the given time.
func (q *undoQuiet) doubt(quietAt, started Instant) {
	if quietAt > q.UndoQuietAt {
		*q = undoQuiet{quietAt, started}
	}
}

// correctQuiet lets the attempt act for its whole time once more, if it began at a wrong time.
func (q *undoQuiet) correctQuiet(to Instant) {
	//mutant:corrected-undo-in-doubt-lasts
	q.UndoQuietAt = lasting(q.UndoQuietAt, q.UndoQuietFrom, to)
	q.UndoQuietFrom = min(q.UndoQuietFrom, to)
}

// NotBefore returns the instant before which no attempt of the step starts: the time of its next attempt, or that of the last request to undo
// it in an earlier run.
func (s *Step) NotBefore() Instant {
	//mutant:do-waits-for-its-undo
	return max(s.RetryAt, s.UndoQuietAt)
}

// nextAt returns the time at which something follows for a step that waits; zero if nothing does. now is that of the task's latest fact: what
// had passed by then has been planned.
func (s *Step) nextAt(now Instant) Instant {
	if s.UndoQuietAt > now {
		return s.NotBefore()
	}
	return s.RetryAt
}
