package sim

import "github.com/sagalog/sagalog/events"

// failure is a failed attempt as the second telling sees it.
type failure struct {
	step    string
	class   events.Class
	verdict events.Verdict
	// earliest is before when it is not tried again.
	earliest events.Instant
}

// fails books a failure; attempt 0 failed before any work was sent.
func (p *partition) fails(g *saga, f *events.Fact, b *events.StepFailed) string {
	s := g.steps[b.Step]
	switch {
	case s == nil || (b.Attempt == 0 && (s.running || s.done || s.skipped)):
		return "INV7: the failure of a step that did not wait"
	case b.Attempt > 0 && (!s.running || s.attempt != b.Attempt):
		return "INV7: the outcome of an attempt that does not run"
	}
	s.running = false
	s.touched = s.touched || (b.Attempt > 0 && b.Effect != events.EffectNone)
	return p.judged(g, f, failure{b.Step, b.Error.Class, b.Verdict, f.Time.Add(b.RetryAfter.Std())})
}

func (p *partition) timesOutIn(g *saga, f *events.Fact, b *events.Timeout) string {
	x := failure{b.Step, events.ClassTimeout, b.Verdict, f.Time}
	if b.Operation == events.Undo {
		return p.undoEnds(g, f, b.Attempt, x)
	}
	s := g.steps[b.Step]
	quiet := b.CompleteBy.Add(p.w.cfg.Settings.Grace.Std())
	switch {
	case s == nil || !s.running || s.attempt != b.Attempt:
		return "INV7: the outcome of an attempt that does not run"
	case b.QuietAt != quiet:
		return "the grace of a timed-out attempt is another than its settings say"
	}
	s.running, s.touched, g.quiet = false, true, max(g.quiet, quiet)
	return p.judged(g, f, x)
}

// judged compares the verdict about a do with what its workflow says, by a count of attempts of its own.
func (p *partition) judged(g *saga, f *events.Fact, x failure) string {
	s, v := g.steps[x.step], x.verdict
	cools := 0
	if s.def.CoolDown != nil {
		cools = s.def.CoolDown.Times
	}
	want := v.Action
	switch {
	case p.w.clients.toxic[f.Task] != "": // its policy cannot be asked for in all lives of a process
	case g.undoing:
		want = events.ActionUndo
	case hopeless(x.class):
		want = g.lastly(s)
	case s.tries < s.def.Retry.Attempts:
		want = events.ActionRetry
	case s.coolDowns < cools:
		want = events.ActionCoolDown
	default:
		want = g.lastly(s)
	}
	if v.Action != want {
		return "a failure is judged " + string(v.Action) + ", its workflow says " + string(want)
	}
	if v.At < x.earliest && (v.Action == events.ActionRetry || v.Action == events.ActionCoolDown) {
		return "an attempt is to be made again before its agent asked for it"
	}
	s.notBefore = v.At
	switch v.Action {
	case events.ActionCoolDown:
		s.tries = 0
		s.coolDowns++
	case events.ActionUndo:
		return g.turns("a verdict")
	case events.ActionPark:
		g.parkDue = !g.parked
	}
	return ""
}

// hopeless says whether no other attempt can mend it.
func hopeless(c events.Class) bool {
	return c == events.ClassPermanent || c == events.ClassExpression || c == events.ClassLimit
}

// lastly is what follows when no attempt is left: undoing, where the step asks for it and the pivot allows it.
func (g *saga) lastly(s *sagaStep) events.Action {
	if string(s.def.Retry.Then) != string(events.ActionUndo) || g.parked {
		return events.ActionPark
	}
	for _, x := range g.steps {
		if x.def.Pivot && (x.running || x.touched) {
			return events.ActionPark
		}
	}
	return events.ActionUndo
}

func (p *partition) undoFails(g *saga, f *events.Fact, b *events.UndoFailed) string {
	x := failure{b.Step, b.Error.Class, b.Verdict, f.Time.Add(b.RetryAfter.Std())}
	if s := g.steps[b.Step]; b.Attempt == 0 && s != nil && !s.undoRuns {
		return p.undoJudged(g, f, x)
	}
	return p.undoEnds(g, f, b.Attempt, x)
}

func (p *partition) undoEnds(g *saga, f *events.Fact, attempt int, x failure) string {
	s := g.steps[x.step]
	if s == nil || !s.undoRuns || s.undo != attempt {
		return "INV7: the outcome of an undo that does not run"
	}
	s.undoRuns = false
	return p.undoJudged(g, f, x)
}

// undoJudged compares the verdict about an undo with what its workflow says.
func (p *partition) undoJudged(g *saga, f *events.Fact, x failure) string {
	s := g.steps[x.step]
	want := events.ActionPark
	if !hopeless(x.class) && s.undoTries < s.def.Undo.Retry.Attempts {
		want = events.ActionRetry
	}
	if p.w.clients.toxic[f.Task] == "" && x.verdict.Action != want {
		return "a failed undo is judged " + string(x.verdict.Action) + ", its workflow says " + string(want)
	}
	s.undoNotBefore = x.verdict.At
	s.undoFailed = x.verdict.Action != events.ActionRetry
	g.parkDue = s.undoFailed && !g.parked
	if x.verdict.Action == events.ActionRetry && x.verdict.At < x.earliest {
		return "an undo is to be made again before its agent asked for it"
	}
	return ""
}
