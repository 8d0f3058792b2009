package verify

import "github.com/sagalog/sagalog/events"

// lapsed records that the time of a step is over while no attempt of it runs.
func (t *telling) lapsed(b *events.Timeout) {
	st := t.open(b.Step)
	if t.paused || t.parked {
		t.wrong(CheckAttempts, "timeout_halted", b.Step, "its time is over although the task is %s", t.state())
	}
	if b.Operation == events.Undo {
		t.undoFailed(b.Step, 0, b.Verdict)
		return
	}
	if t.back || st.over() || st.do.running {
		t.wrong(CheckAttempts, "outcome_of_nothing", b.Step, "its time is over although it runs or is over, or the task is being undone")
		return
	}
	waitLapsed(t, st, b)
	t.obey(st, b.Verdict)
}

func (t *telling) timeout(b *events.Timeout) {
	if b.Attempt == 0 {
		t.lapsed(b)
		return
	}
	st := t.outcome(b.Step, b.Operation, b.Attempt)
	if st == nil {
		return
	}
	w := st.work(b.Operation)
	if w.completeBy != b.CompleteBy || t.fact.Time < b.CompleteBy {
		t.wrong(CheckAttempts, "timeout_early", b.Step, "attempt %d of the %s timed out at %s for %s, but its complete-by time is %s", b.Attempt, b.Operation, t.fact.Time, b.CompleteBy, w.completeBy)
	}
	t.notSent(w.position)
	if b.Operation == events.Undo {
		t.undoVerdict(st, b.Verdict)
		return
	}
	st.touched = true
	t.quiet = max(t.quiet, b.QuietAt)
	t.obey(st, b.Verdict)
}
