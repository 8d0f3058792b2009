package sim

import (
	"fmt"

	"github.com/sagalog/sagalog/events"
	"github.com/sagalog/sagalog/supervisor"
)

// over says whether the steps that need this one may start.
func (s *sagaStep) over() bool { return s.done || s.skipped || s.continued }

// queues records that a step must start in time.
func (a *sagas) queues(g *saga, f *events.Fact, b *events.StepQueued) string {
	s := g.steps[b.Step]
	switch {
	case s == nil || g.undoing || g.parked || g.parkDue || g.paused || s.running || s.over() || s.queued || s.attempted() || s.failed:
		return "a step is queued that has begun or is over, or whose task does not go on"
	case b.StartWithin == 0 || b.StartWithin != s.def.StartWithin || b.StartBy != max(f.Time, s.lastUndo.quiet).Add(b.StartWithin.Std()):
		return "a step is queued for another time than its workflow says"
	}
	for _, need := range s.def.Needs {
		if !g.steps[need].over() {
			return "INV6: a step is queued before what it needs is over"
		}
	}
	a.w.saw(sawQueued)
	s.queued, s.startBy, s.timedFrom = true, b.StartBy, f.Time
	return ""
}

// begins checks until when further attempts may start, when one begins.
func (x *sagaTimes) begins(f *events.Fact, startBy events.Instant, within events.Duration, attempts int) string {
	want := events.Instant(0)
	if within > 0 {
		want = f.Time.Add(within.Std())
		if x.startBy != 0 && attempts > 0 {
			want = x.startBy
		}
	}
	if startBy != want {
		return "an attempt gives further ones another time than its workflow"
	}
	if startBy != x.startBy {
		x.timedFrom = f.Time
	}
	x.startBy = startBy
	return ""
}

// lapses records that the time of a step is over while no attempt of it runs.
func (a *sagas) lapses(g *saga, f *events.Fact, b *events.Timeout) string {
	s, x := g.steps[b.Step], failure{step: b.Step, class: events.ClassTimeout, verdict: b.Verdict, earliest: f.Time, over: true}
	if s == nil || g.parked || g.paused || g.undoing != (b.Operation == events.Undo) {
		return "the time of a step is over whose task does not go on"
	}
	times := &s.sagaTimes
	if b.Operation == events.Undo {
		times = &s.back
	}
	if times.startBy == 0 || b.StartBy != times.startBy || f.Time < b.StartBy {
		return "the time of a step is over at another time than its workflow says"
	}
	a.w.saw(sawLapsed)
	switch {
	case b.Operation == events.Undo && (s.undoRuns || s.undone):
		return "the time of an undo is over that runs or is done"
	case b.Operation == events.Undo:
		return a.undoJudged(g, f, x)
	case s.running || s.over():
		return "the time of a step is over that runs or is over"
	}
	if b.Verdict.Action == events.ActionContinue {
		a.w.saw(sawContinued)
	}
	return a.judged(g, f, x)
}

// timesOut returns what follows when the time of a step is over.
func (g *saga) timesOut(s *sagaStep) events.Action {
	if s.def.OnTimeout == string(events.ActionContinue) {
		return events.ActionContinue
	}
	return g.lastly(s)
}

// lapsed checks that the end of a step's time was judged by the policy of the task's own definition.
func (p *partition) lapsed(f *events.Fact, b *events.Timeout) {
	t, err := p.state.Task(f.Task)
	if err != nil || t == nil || t.Step(b.Step) == nil {
		return // the fold reports it
	}
	next := t.Step(b.Step).Attempt + 1
	if u := t.Step(b.Step).Undo; b.Operation == events.Undo && u != nil {
		next = u.Attempt + 1
	}
	p.verdict(f, supervisor.Failure{Path: b.Step, Operation: b.Operation, Over: true, Effect: events.EffectNone,
		Error: events.Error{Class: events.ClassTimeout, Message: fmt.Sprintf("attempt %d did not start before %s", next, b.StartBy)}}, b.Verdict)
}
