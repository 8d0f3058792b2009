package sim

import "github.com/sagalog/sagalog/events"

// sagaSoft is the soft limit of a step or a task, by the saga's own account. at is zero if none is set, or it has passed.
type sagaSoft struct {
	at, from events.Instant
}

// begin lets the limit count from the instant, if there is one.
func (x *sagaSoft) begin(after events.Duration, from events.Instant) {
	if after > 0 {
		x.at, x.from = from.Add(after.Std()), from
	}
}

// corrects takes a correction of the time.
func (x *sagaSoft) corrects(to events.Instant) {
	x.at, x.from = moved(x.at, x.from, to), min(x.from, to)
}

// beginsSoft begins the soft limit of a step with its first attempt, or its wait.
func (s *sagaStep) beginsSoft(f *events.Fact, after events.Duration) string {
	var want events.Duration
	if !s.attempted() {
		want = s.def.RemindAfter
	}
	if after != want {
		return "a step begins with another soft limit than its workflow says"
	}
	s.soft.begin(after, f.Time)
	return ""
}

// passesSoft takes the fact that a soft limit has passed: once, in time, and of what is not over.
func (a *sagas) passesSoft(g *saga, f *events.Fact, b *events.SoftLimitPassed) string {
	x := &g.soft
	if b.Step != "" {
		s := g.steps[b.Step]
		if s == nil || s.over() || s.failed || !s.running && s.wait == nil && !s.fans && s.attempt == 0 {
			return "the soft limit of a step passes that neither runs nor waits"
		}
		x = &s.soft
	}
	if x.at == 0 || b.SoftAt != x.at || b.Since != x.from || f.Time < x.at {
		return "a soft limit passes that does not exist, passes again, or passes early"
	}
	x.at, x.from = 0, 0
	if b.Step == "" {
		a.w.saw(sawSoftTask)
	} else {
		a.w.saw(sawSoftStep)
	}
	return ""
}

// softTimer returns the first timer of a soft limit.
func softTimer(t *events.Task) (due events.Instant, ok bool) {
	for _, m := range t.Timers() {
		if m.Kind == events.TimerSoftLimit && (!ok || m.Due < due) {
			due, ok = m.Due, true
		}
	}
	return due, ok
}
