package sim

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/sagalog/sagalog/events"
	"github.com/sagalog/sagalog/scheduler"
	"github.com/sagalog/sagalog/supervisor"
)

// What steps wait for that nobody does, by the saga's own account.

// sagaWait is a step that waits.
type sagaWait struct {
	since, until events.Instant
	within       events.Duration
	epoch        events.Epoch
	signals      []string
}

// waits begins a wait.
func (a *sagas) waits(g *saga, f *events.Fact, b *events.WaitStarted) string {
	s := g.steps[b.Step]
	if s == nil {
		return "INV6: the workflow has no such step"
	}
	if why := a.mayWait(g, f, s); why != "" {
		return why
	}
	if b.Within != s.within(g) || !slices.Equal(b.Signals, signalsOf(s.def)) || b.Within > 0 && b.Until != f.Time.Add(b.Within.Std()) {
		return "a step waits for another time than its workflow says"
	}
	if why := s.beginsSoft(f, b.RemindAfter); why != "" {
		return why
	}
	s.failed, s.output = false, nil
	s.wait = &sagaWait{f.Time, b.Until, b.Within, f.Epoch, b.Signals}
	return ""
}

// mayWait says why a step may not begin to wait, or begin its items, for which it waits.
func (a *sagas) mayWait(g *saga, f *events.Fact, s *sagaStep) string {
	switch {
	case g.undoing || g.parked || g.parkDue || g.paused || g.early.until != 0:
		return "a step begins to wait in a task that is undone, is parked or paused, must be parked, or waits for its time"
	case s.running || s.over() || s.attempted() || s.wait != nil || s.fans:
		return "INV7: a step that waits, runs or has ended begins to wait"
	case !g.permit.has():
		return "a step begins to wait without the permit that its task needs"
	case a.cancelled[f.Task]:
		return "a step begins to wait although a cancel was held before the task was accepted"
	}
	for _, need := range s.def.Needs {
		if n := g.steps[need]; !n.over() {
			return "INV6: a step begins to wait before what it needs has completed"
		}
	}
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
	if len(s.def.Wait) > 0 {
		return s.def.CompleteWithin
	}
	return sleepOf(s.def)
}

// signalsOf returns the names of the signals for which a step waits.
func signalsOf(d *scheduler.Step) []string {
	switch {
	case len(d.Wait) == 0:
		return nil
	case d.ID == "w":
		return []string{"go", "stop"}
	}
	return []string{"go"}
}

// keeps adds a signal.
func (g *saga) keeps(w *World, b *events.SignalReceived) string {
	switch {
	case !g.once(b.Request):
		return "a signal is kept twice"
	case g.undoing:
		return "a signal is kept by a task that is undone"
	case b.Signal == "other":
		return "a signal is kept for which no step waits"
	}
	waiters := 0
	for _, s := range g.steps {
		if s.wait != nil && slices.Contains(s.wait.signals, b.Signal) {
			waiters++
		}
	}
	if len(g.steps) > 0 && waiters == 0 {
		w.saw(sawSignalKept)
	}
	if waiters > 1 {
		w.saw(sawTwoWaiters)
	}
	g.kept = append(g.kept, *b)
	return ""
}

// takes takes the first signal for which the step waits.
func (s *sagaStep) takes(g *saga, request string, output json.RawMessage) string {
	i := slices.IndexFunc(g.kept, func(k events.SignalReceived) bool { return s.wait != nil && slices.Contains(s.wait.signals, k.Signal) })
	if i < 0 || g.kept[i].Request != request {
		return "a step takes a signal that is not kept, for which it does not wait, or before an earlier one"
	}
	for _, other := range g.steps {
		if other.wait != nil && other != s && other.wait.since < s.wait.since && slices.Contains(other.wait.signals, g.kept[i].Signal) {
			return "a step takes a signal before one that has waited longer"
		}
	}
	if !bytes.Equal(output, events.SignalOutput(g.kept[i].Signal, g.kept[i].Payload)) {
		return "the output of a step differs from the signal that it takes"
	}
	g.kept = slices.Delete(g.kept, i, i+1)
	return ""
}

// givesUp ends a wait for which no signal came.
func (a *sagas) givesUp(g *saga, f *events.Fact, b *events.Timeout, x failure) string {
	s := g.steps[b.Step]
	switch {
	case s == nil || s.wait == nil || len(s.wait.signals) == 0:
		return "the time of a step is over that does not wait"
	case b.CompleteBy != s.wait.until || f.Time < b.CompleteBy || b.QuietAt != 0:
		return "a wait times out at another time than its workflow says"
	case g.parked || g.paused || g.undoing:
		return "a wait times out in a task that is held or undone"
	case slices.ContainsFunc(g.kept, func(k events.SignalReceived) bool { return slices.Contains(s.wait.signals, k.Signal) }):
		return "a wait times out although its signal is kept"
	}
	if a.w.saw(sawWaitTimeout); x.verdict.Action == events.ActionContinue {
		a.w.saw(sawContinued)
	}
	s.wait = nil
	return a.judged(g, f, x)
}

// signal sends a signal to a task, in time or not.
func (c *clients) signal(i int) {
	w := c.w
	q := events.Request{Kind: events.RequestSignal, Task: fmt.Sprintf("t%d", i), Signal: []string{"go", "go", "go", "stop", "other"}[w.rng.IntN(5)]}
	switch w.rng.IntN(4) {
	case 0:
	case 1:
		q.Payload = json.RawMessage("17")
	default:
		q.Payload = json.RawMessage(fmt.Sprintf(`{"n":%d}`, c.requests))
	}
	c.send([]events.Input{events.Reports, events.Submissions}[w.rng.IntN(2)], q)
}

// heldCancels returns how many requests are held whose number is a setting.
func (p *partition) heldCancels() (n int) {
	for _, h := range p.state.Held() {
		if h.Request.Kind != events.RequestSignal {
			n++
		}
	}
	return n
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
	case s != nil && s.fans:
		return a.fanEnds(g, f, s, b)
	case s == nil || s.wait == nil:
		return "INV7: a step without an attempt completes, and does not wait"
	case b.Signal != "":
		if why := s.takes(g, b.Signal, b.Output); why != "" || s.refuses(b.Output) {
			return why + "; a step takes a signal that it refuses"
		}
		a.w.saw(sawSignalTaken)
	case f.Time < s.wait.until:
		return "a step wakes before its time"
	}
	if s.wait.epoch != f.Epoch {
		a.w.saw(sawSleepTakenOver)
	}
	if b.Signal != "" {
		s.done, s.wait, s.output = true, nil, b.Output
		g.completed = append(g.completed, b.Step)
		return ""
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
	if s := t.Step(step); ByHand(f).Request != "" && s != nil && s.Waits() {
		w.saw(sawWokenByHand)
	}
}

// gaveUp checks the verdict on a wait that timed out.
func (p *partition) gaveUp(f *events.Fact, b *events.Timeout) {
	for _, in := range bothInputs {
		for _, x := range p.rules.Pending(in) {
			if x.Task == f.Task && x.Request.Kind == events.RequestSignal {
				p.w.saw(sawSignalRace)
			}
		}
	}
	p.verdict(f, supervisor.Failure{
		Path: b.Step, Operation: b.Operation, Effect: events.EffectNone, Over: true,
		Error: events.Error{Class: events.ClassTimeout, Message: "no signal came in time"},
	}, b.Verdict)
}
