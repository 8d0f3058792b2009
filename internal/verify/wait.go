package verify

import (
	"encoding/json"

	"github.com/sagalog/sagalog/events"
)

// wait is what a step waits for that no agent does.
type wait struct {
	since, until events.Instant
	within       events.Duration
}

// waits begins a step that no agent does.
func (t *telling) waits(b *events.WaitStarted) {
	st := t.open(b.Step)
	r := t.def.step(b.Step)
	if r == nil {
		t.wrong(CheckAttempts, "unknown_step", b.Step, "the definition of workflow %s has no such step", t.workflow)
	} else if need := t.unmet(r); need != "" {
		t.wrong(CheckAttempts, "needs", b.Step, "it begins to wait before step %s, which it needs, has completed or was skipped (INV6)", need)
	}
	within, fixed := r.sleeps()
	switch {
	case t.back || t.parked || t.paused:
		t.wrong(CheckAttempts, "start_not_forward", b.Step, "it begins to wait although the task is %s", t.state())
	case st.over() || st.wait != nil || st.do.attempts > 0 || st.do.waiting && st.do.retryAt > t.fact.Time:
		t.wrong(CheckAttempts, "start_again", b.Step, "it begins to wait although it waits already, has completed, was skipped, or had an attempt")
	case r != nil && len(r.Sleep) == 0, fixed && b.Within != within:
		t.wrong(CheckAttempts, "not_as_defined", b.Step, "it sleeps for %s, which differs from its definition", b.Within)
	case b.Within > 0 && b.Until != t.fact.Time.Add(b.Within.Std()), b.Until == 0:
		t.wrong(CheckMovers, "no_end", b.Step, "it sleeps for %s from %s on, but until %q", b.Within, t.fact.Time, b.Until.String())
	}
	st.failed, st.do.waiting = false, false
	st.wait = &wait{since: t.fact.Time, until: b.Until, within: b.Within}
}

// sleeps returns the duration that the definition of the step gives; false if it gives none.
func (r *stepRule) sleeps() (within events.Duration, fixed bool) {
	var text string
	if r == nil || json.Unmarshal(r.Sleep, &text) != nil {
		return 0, false
	}
	within, err := events.ParseDuration(text)
	return within, err == nil
}

// woke ends a step that waits.
func (t *telling) woke(b *events.StepCompleted) {
	st := t.step(b.Step)
	switch {
	case st == nil || st.wait == nil:
		t.wrong(CheckAttempts, "outcome_of_nothing", b.Step, "it completes without an attempt although it does not wait")
		return
	case t.fact.Time < st.wait.until:
		t.wrong(CheckAttempts, "too_early", b.Step, "it sleeps until %s, and is over at %s", st.wait.until, t.fact.Time)
	}
	t.story.completed++
	st.completion, st.done, st.doneAt, st.wait = t.story.completed, true, t.fact.Time, nil
}
