package sim

import (
	"encoding/json"

	"github.com/sagalog/sagalog/events"
	"github.com/sagalog/sagalog/scheduler"
)

// What steps wait for that nobody does, by the saga's own account.

// sagaWait is a step that waits.
type sagaWait struct {
	since, until events.Instant
	within       events.Duration
	epoch        events.Epoch
}

// waits begins a wait.
func (a *sagas) waits(g *saga, f *events.Fact, b *events.WaitStarted) string {
	s := g.steps[b.Step]
	switch {
	case s == nil:
		return "INV6: the workflow has no such step"
	case g.undoing || g.parked || g.parkDue || g.paused:
		return "a step begins to wait in a task that is undone, is parked or paused, or must be parked"
	case s.running || s.done || s.skipped || s.attempt > 0 || s.wait != nil:
		return "INV7: a step that waits, runs or has ended begins to wait"
	case a.cancelled[f.Task]:
		return "a step begins to wait although a cancel was held before the task was accepted"
	}
	for _, need := range s.def.Needs {
		if n := g.steps[need]; !n.done && !n.skipped {
			return "INV6: a step begins to wait before what it needs has completed"
		}
	}
	if b.Within != s.within(g) || b.Within > 0 && b.Until != f.Time.Add(b.Within.Std()) {
		return "a step waits for another time than its workflow says"
	}
	s.failed, s.output = false, nil
	s.wait = &sagaWait{f.Time, b.Until, b.Within, f.Epoch}
	return ""
}

// within is how long a step sleeps by its workflow. All sleeps of the simulation that give an instant end at once.
func (s *sagaStep) within(g *saga) events.Duration {
	var in struct {
		Extra bool `json:"extra"`
	}
	if json.Unmarshal(g.input, &in) == nil && !in.Extra && g.def.Workflow == "wide" {
		return 0
	}
	return sleepOf(s.def)
}

// sleepOf returns the duration of a sleep if it is not over at once.
func sleepOf(d *scheduler.Step) events.Duration {
	var text string
	if json.Unmarshal(d.Sleep, &text) != nil {
		text = "700ms"
	}
	within, _ := events.ParseDuration(text)
	return within
}

// wakes ends a wait.
func (a *sagas) wakes(g *saga, f *events.Fact, b *events.StepCompleted) string {
	s := g.steps[b.Step]
	switch {
	case s == nil || s.wait == nil:
		return "INV7: a step without an attempt completes, and does not wait"
	case f.Time < s.wait.until:
		return "a step wakes before its time"
	}
	if s.wait.epoch != f.Epoch {
		a.w.saw(sawSleepTakenOver)
	}
	if a.w.saw(sawSleep); g.paused || g.parked {
		a.w.saw(sawSleepPaused)
	}
	s.done, s.wait, s.output = true, nil, b.Output
	g.completed = append(g.completed, b.Step)
	return ""
}

// corrects takes a correction of the time, and says whether that is about the wait.
func (x *sagaWait) corrects(to events.Instant) bool {
	if x == nil || x.within == 0 || x.since <= to {
		return false
	}
	x.until, x.since = moved(x.until, x.since, to), to
	return true
}

// seeTurned counts the waits that end because their task turns back. t is the task before the fact.
func (p *partition) seeTurned(t *events.Task) {
	for _, s := range t.Steps {
		if s.Waits() {
			p.w.saw(sawSleepCut)
		}
	}
}

// seeWoken counts the waits that operators end. t is the task before the fact.
func seeWoken(w *World, f *events.Fact, t *events.Task) {
	step := AttemptOf(f.Task, f.Body).Step
	if b, ok := f.Body.(*events.StepSkipped); ok {
		step = b.Step
	}
	if s := t.Step(step); byHand(f).Request != "" && s != nil && s.Waits() {
		w.saw(sawWokenByHand)
	}
}
