package verify

import (
	"bytes"
	"encoding/json"
	"slices"

	"github.com/sagalog/sagalog/events"
)

// wait is what a step waits for that no agent does.
type wait struct {
	since, until events.Instant
	within       events.Duration
	signals      []string
}

// kind says what it waits for.
func (w *wait) kind() events.Waiting {
	if len(w.signals) > 0 {
		return events.WaitingSignal
	}
	return events.WaitingSleep
}

// kept is a signal that no step has taken.
type kept struct {
	request, name string
	payload       json.RawMessage
}

// beginWait begins a step that no agent does.
func beginWait(t *telling, b *events.WaitStarted) {
	st := t.open(b.Step)
	r := t.def.step(b.Step)
	if r == nil {
		t.wrong(CheckAttempts, "unknown_step", b.Step, "the definition of workflow %s has no such step", t.workflow)
	} else if need := t.unmet(r); need != "" {
		t.wrong(CheckAttempts, "needs", b.Step, "it begins to wait before step %s, which it needs, has completed or was skipped (INV6)", need)
	}
	needsPermit(t, b.Step)
	within, fixed := r.waits()
	switch {
	case t.stands():
		t.wrong(CheckAttempts, "start_not_forward", b.Step, "it begins to wait although the task is %s", t.state())
	case st.over() || st.wait != nil || st.do.made() > 0 || st.do.waiting && st.do.retryAt > t.fact.Time:
		t.wrong(CheckAttempts, "start_again", b.Step, "it begins to wait although it waits already, has completed, was skipped, or had an attempt")
	case r != nil && (len(r.Sleep) == 0 && len(r.Wait) == 0 || !slices.Equal(r.signals(), b.Signals)), fixed && b.Within != within:
		t.wrong(CheckAttempts, "not_as_defined", b.Step, "it waits for %q, for %s, which differs from its definition", b.Signals, b.Within)
	case b.Within > 0 && b.Until != t.fact.Time.Add(b.Within.Std()), b.Until == 0 && len(b.Signals) == 0:
		t.wrong(CheckMovers, "no_end", b.Step, "it waits for %s from %s on, but until %q", b.Within, t.fact.Time, b.Until.String())
	}
	st.failed, st.do.waiting = false, false
	st.wait = &wait{since: t.fact.Time, until: b.Until, within: b.Within, signals: b.Signals}
	beginSoft(t, st, b.RemindAfter)
}

// waits returns the duration that the definition of the step gives; false if it gives none.
func (r *stepRule) waits() (within events.Duration, fixed bool) {
	if r == nil {
		return 0, false
	}
	if len(r.Wait) > 0 {
		return r.CompleteWithin, true
	}
	var text string
	if json.Unmarshal(r.Sleep, &text) != nil {
		return 0, false
	}
	within, err := events.ParseDuration(text)
	return within, err == nil
}

// signals returns the names of the signals for which the step waits.
func (r *stepRule) signals() (list []string) {
	var w struct {
		Signal json.RawMessage `json:"signal"`
	}
	var one string
	if len(r.Wait) == 0 || json.Unmarshal(r.Wait, &w) != nil {
		return nil
	}
	if json.Unmarshal(w.Signal, &one) == nil {
		return []string{one}
	}
	_ = json.Unmarshal(w.Signal, &list)
	return list
}

// woke ends a step that waits.
func woke(t *telling, b *events.StepCompleted) {
	st := t.step(b.Step)
	switch {
	case st != nil && st.items != nil:
		itemsOver(t, st)
	case st == nil || st.wait == nil:
		t.wrong(CheckAttempts, "outcome_of_nothing", b.Step, "it completes without an attempt although it does not wait")
		return
	case st.wait.kind() == events.WaitingSignal:
		takes(t, st, b.Signal, b.Output)
	case t.fact.Time < st.wait.until:
		t.wrong(CheckAttempts, "too_early", b.Step, "it sleeps until %s, and is over at %s", st.wait.until, t.fact.Time)
	}
	t.story.completed++
	st.completion, st.done, st.wait = t.story.completed, true, nil
}

// signalled keeps a signal.
func signalled(t *telling, b *events.SignalReceived) {
	t.requested(b.Request)
	if t.back {
		t.wrong(CheckAttempts, "signal_undoing", "", "the signal %q is kept although the task is being undone", b.Request)
	}
	t.kept = append(t.kept, kept{b.Request, b.Signal, b.Payload})
}

// takes checks that the step takes the first signal for which it waits, and has it as its output.
func takes(t *telling, st *step, request string, output json.RawMessage) {
	i := slices.IndexFunc(t.kept, func(k kept) bool { return st.wait != nil && slices.Contains(st.wait.signals, k.name) })
	if i < 0 || t.kept[i].request != request {
		t.wrong(CheckAttempts, "signal", st.id, "it takes the signal %q, which is not the first that is kept and for which it waits", request)
		return
	}
	k := t.kept[i]
	if !bytes.Equal(output, events.SignalOutput(k.name, k.payload)) {
		t.wrong(CheckAttempts, "signal_output", st.id, "its output differs from the signal %q that it takes", request)
	}
	t.kept = slices.Delete(t.kept, i, i+1)
}

// waitLapsed checks that the time of a step that waits for signals was over.
func waitLapsed(t *telling, st *step, b *events.Timeout) {
	if w := st.wait; w != nil && (w.until == 0 || b.CompleteBy != w.until || t.fact.Time < w.until) {
		t.wrong(CheckAttempts, "timeout_early", b.Step, "its wait timed out at %s for %s, but it waits until %q", t.fact.Time, b.CompleteBy, w.until.String())
	}
}
