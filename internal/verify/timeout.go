package verify

import "github.com/sagalog/sagalog/events"

// lapsed records that the time of a step is over while no attempt of it runs.
func (t *telling) lapsed(b *events.Timeout) {
	st := t.open(b.Step)
	if t.paused || t.parked {
		t.wrong(CheckAttempts, "timeout_halted", b.Step, "its time is over although the task is %s", t.state())
	}
	if st.wait != nil {
		waitLapsed(t, st, b)
	} else if w := st.work(b.Operation); w.startBy == 0 || w.startBy != b.StartBy || t.fact.Time < b.StartBy {
		t.wrong(CheckAttempts, "timeout_early", b.Step, "its time is over at %s for %s, but its next attempt may start until %q", t.fact.Time, b.StartBy, w.startBy.String())
	}
	if b.Operation == events.Undo {
		t.undoFailed(&events.CompensationFailed{Step: b.Step, Verdict: b.Verdict})
		return
	}
	if t.back || st.over() || st.do.running {
		t.wrong(CheckAttempts, "outcome_of_nothing", b.Step, "its time is over although it runs or is over, or the task is being undone")
		return
	}
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
	if w.child != "" {
		t.wrong(CheckAttempts, "timeout_of_child", b.Step, "attempt %d of the %s timed out, but task %s makes it, and only its end ends the attempt", b.Attempt, b.Operation, w.child)
	}
	if w.completeBy != b.CompleteBy || t.fact.Time < b.CompleteBy {
		t.wrong(CheckAttempts, "timeout_early", b.Step, "attempt %d of the %s timed out at %s for %s, but its complete-by time is %s", b.Attempt, b.Operation, t.fact.Time, b.CompleteBy, w.completeBy)
	}
	t.notSent(w.position)
	if b.Operation == events.Undo {
		doubted(t, st, b.QuietAt, true)
		t.undoVerdict(st, b.Verdict)
		return
	}
	st.touched = true
	t.quiet = max(t.quiet, b.QuietAt)
	t.obey(st, b.Verdict)
}

// queued records that a step must start in time.
func (t *telling) queued(b *events.StepQueued) {
	st := t.open(b.Step)
	r := t.def.step(b.Step)
	switch {
	case r == nil || r.StartWithin != b.StartWithin || b.StartBy != max(t.fact.Time, t.quietOf(b.Step)).Add(b.StartWithin.Std()):
		t.wrong(CheckAttempts, "not_as_defined", b.Step, "it must start within %s, by %s, which differs from its definition", b.StartWithin, b.StartBy)
	case t.stands() || st.over() || st.queued || st.do.made() > 0 || st.failed:
		t.wrong(CheckAttempts, "queued", b.Step, "it is queued although it has begun or is over, or the task is %s", t.state())
	case t.unmet(r) != "":
		t.wrong(CheckAttempts, "needs", b.Step, "it is queued before step %s, which it needs, is over", t.unmet(r))
	}
	st.queued, st.do.waiting, st.do.retryAt = true, false, 0
	st.do.startBy, st.do.timedFrom = b.StartBy, t.fact.Time
}

// limits checks that an attempt starts in time, and until when it says that others may start.
func (t *telling) limits(w *work, o starting) {
	if w.startBy != 0 && t.fact.Time >= w.startBy {
		t.wrong(CheckAttempts, "too_late", o.step, "attempt %d of the %s begins at %s, although its time was over at %s", o.attempt, o.op, t.fact.Time, w.startBy)
	}
	want, within := events.Instant(0), t.def.step(o.step).within(o.op)
	if within > 0 {
		want = t.fact.Time.Add(within.Std())
		if w.startBy != 0 && w.made() > 0 {
			want = w.startBy
		}
	}
	if o.startBy != want {
		t.wrong(CheckAttempts, "not_as_defined", o.step, "further attempts of the %s may start until %q, but its definition says %q", o.op, o.startBy.String(), want.String())
	}
	if o.startBy != w.startBy {
		w.timedFrom = t.fact.Time
	}
}
