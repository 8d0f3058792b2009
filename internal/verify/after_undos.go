package verify

import "github.com/sagalog/sagalog/events"

// afterUndos is what the undos of a step leave for its later runs.
type afterUndos struct {
	// left says that an operator skipped one.
	left bool
	// quiet is until when a request of one may still land, and from when its attempt began.
	quiet, from events.Instant
}

// afterUndosOf returns what the undos of a step leave.
func afterUndosOf(s *story, id string) *afterUndos {
	if s.undos == nil {
		s.undos = map[string]*afterUndos{}
	}
	if s.undos[id] == nil {
		s.undos[id] = &afterUndos{}
	}
	return s.undos[id]
}

// left says whether an operator skipped an undo of the step, in any run.
func (s *story) left(id string) bool { return s.undos[id] != nil && s.undos[id].left }

// quietOf returns until when a request to undo the step may still land; zero if none may.
func (s *story) quietOf(id string) (quiet events.Instant) {
	if x := s.undos[id]; x != nil {
		quiet = x.quiet
	}
	return quiet
}

// doubted takes the end of an attempt to undo a step, whose requests may land until the given instant. An attempt is in doubt in any case if it was
// sent in two epochs, or if no agent reported its end.
func doubted(t *telling, st *step, quietAt events.Instant, unreported bool) {
	w := &st.undo
	if w.child != "" {
		sure(t, st, events.Undo, quietAt)
		return
	}
	if sure := !unreported && w.position.Epoch == t.fact.Epoch; quietAt < w.completeBy && !(sure && quietAt == 0) {
		t.wrong(CheckUndo, "doubt_too_short", st.id, "attempt %d to undo it has no report, was sent in two epochs or is in doubt, but its next run waits until %q, before its end %s", w.attempts, quietAt.String(), w.completeBy)
	}
	if x := afterUndosOf(t.story, st.id); quietAt > x.quiet {
		x.quiet, x.from = quietAt, w.startedAt
	}
}

// waitedForUndos checks that a step starts when no request to undo it can land any more.
func waitedForUndos(t *telling, b *events.StepStarted) {
	if quiet := t.quietOf(b.Step); t.fact.Time < quiet {
		t.wrong(CheckUndo, "not_quiet", b.Step, "attempt %d begins at %s, but a request to undo the step may land until %s", b.Attempt, t.fact.Time, quiet)
	}
	if x := t.undos[b.Step]; x != nil {
		x.quiet, x.from = 0, 0
	}
}

// correct lets an attempt that began at a wrong time act for its whole time from the right one on.
func (x *afterUndos) correct(to events.Instant) {
	if x.from > to && x.quiet > to {
		x.quiet = to.Add(max(x.quiet.Sub(x.from), 0))
	}
	x.from = min(x.from, to)
}
