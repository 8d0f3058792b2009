package verify

import "github.com/sagalog/sagalog/events"

// soft is the soft limit of a step or a task. at is zero if none is set, or it has passed.
type soft struct {
	at, from events.Instant
}

// begin lets the limit count from the instant, if there is one.
func (l *soft) begin(after events.Duration, from events.Instant) {
	if after > 0 {
		l.at, l.from = from.Add(after.Std()), from
	}
}

// beginSoft begins the soft limit of a step. Only its first attempt, its wait, or the first of its items begins it.
func beginSoft(t *telling, st *step, after events.Duration) {
	var want events.Duration
	if r := t.def.step(st.id); r != nil && st.do.made() <= 1 && st.of == nil {
		want = r.RemindAfter
	}
	if after != want {
		t.wrong(CheckAttempts, "not_as_defined", st.id, "it begins with the soft limit %s, and its definition says %s", after, want)
	}
	st.soft.begin(after, t.fact.Time)
}

// softPassed checks that a soft limit passes once, in time, and of what is not over.
func softPassed(t *telling, b *events.SoftLimitPassed) {
	l := &t.soft
	if b.Step != "" {
		st := t.open(b.Step)
		if l = &st.soft; !st.do.running && !st.do.waiting && st.wait == nil && !st.fans() {
			t.wrong(CheckAttempts, "soft_limit_over", b.Step, "its soft limit passes although it neither runs nor waits")
		}
	}
	if l.at == 0 || b.SoftAt != l.at || b.Since != l.from || t.fact.Time < l.at {
		t.wrong(CheckAttempts, "soft_limit", b.Step, "a soft limit from %s to %s passes at %s, but it has one from %q to %q", b.Since, b.SoftAt, t.fact.Time, l.from.String(), l.at.String())
	}
	*l = soft{}
}
