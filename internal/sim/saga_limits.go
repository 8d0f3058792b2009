package sim

import (
	"github.com/sagalog/sagalog/events"
)

// sagaStepPermit is the judge's own account of the permit of an attempt.
type sagaStepPermit struct {
	n             int
	granted, used bool
	quiet         events.Instant
}

// sagaStepPermits are those of a task, by the operation, and how many links its steps have had.
type sagaStepPermits struct {
	open  map[attemptOf]*sagaStepPermit
	links int
	// ends is the epoch in which an attempt that could start gave up its place among those that wait, because an operator terminates the task:
	// the next facts of the task say so, unless the epoch ends before.
	ends events.Epoch
}

// linkOf returns the link that a fact about the permit of a task or a step names.
func linkOf(f *events.Fact) (link events.Link) {
	switch b := f.Body.(type) {
	case *events.PermitAsked:
		return b.Link
	case *events.PermitGranted:
		return b.Link
	case *events.PermitReleased:
		return b.Link
	case *events.PermitBlocked:
		return b.Link
	}
	return link
}

// permitsOfStep adds a fact about the permit of an attempt, or says which promise it breaks.
func (g *saga) permitsOfStep(f *events.Fact) string {
	switch b := f.Body.(type) {
	case *events.PermitAsked:
		return g.asksForStep(b)
	case *events.PermitGranted:
		p := g.limits.open[attemptOf{b.Link.Path, b.Link.Operation}]
		if p == nil || p.granted || b.Link.N != p.n {
			return "an attempt gets a permit for which it has not asked"
		}
		p.granted = true
	case *events.PermitReleased:
		at := attemptOf{b.Link.Path, b.Link.Operation}
		p := g.limits.open[at]
		switch {
		case p == nil || p.n != b.Link.N || b.QuietAt != p.quiet:
			return "an attempt gives back a permit that it does not have, or too early"
		case p.used && g.runsIn(at):
			return "an attempt gives its permit back while it runs"
		case !p.used && !p.granted && g.mayTake(at): // one that was granted also goes back while its agent is paused
			g.limits.ends = f.Epoch
		}
		delete(g.limits.open, at)
	default:
		return "a fact about the permit of a step that no step has"
	}
	return ""
}

func (g *saga) asksForStep(b *events.PermitAsked) string {
	at := attemptOf{b.Link.Path, b.Link.Operation}
	s, p := g.steps[at.path], g.limits.open[at]
	switch {
	case s == nil || s.def.Limit == "" || b.Limit != "limit/"+s.def.Limit || b.Max != 0 || b.Version != 0:
		return "a step asks for a permit of a limit that it does not have"
	case b.Repeat:
		if p == nil || p.granted || p.n != b.Link.N {
			return "an attempt asks again for a permit that it has, or has not asked for"
		}
		return ""
	case p != nil || b.Link.N != g.limits.links+1:
		return "an attempt asks for two permits, or with the number of another one"
	case !g.mayTake(at):
		return "an attempt that may not start asks for a permit"
	}
	g.limits.links++
	if g.limits.open == nil {
		g.limits.open = map[attemptOf]*sagaStepPermit{}
	}
	g.limits.open[at] = &sagaStepPermit{n: b.Link.N}
	return ""
}

// runsIn says whether an attempt of the operation runs.
func (g *saga) runsIn(at attemptOf) bool {
	s := g.steps[at.path]
	if at.op == events.Undo {
		return s.undoRuns
	}
	return s.running
}

// mayTake says whether an attempt of the operation may be the next to start.
func (g *saga) mayTake(at attemptOf) bool {
	s := g.steps[at.path]
	if g.parked || g.paused || g.parkDue || g.early.until != 0 || g.undoes(s) != (at.op == events.Undo) || g.runsIn(at) {
		return false
	}
	if at.op == events.Undo {
		return s.touched && !s.undone && !s.undoFailed && !s.running
	}
	return !s.over() && !s.failed && g.permit.has() && mayBegin(g, at.path, s)
}

// takesPermit notes what a fact about an attempt does to its permit, or says that it starts without one.
func (g *saga) takesPermit(f *events.Fact, body events.Body) string {
	switch body.(type) {
	case *events.PermitReleased:
	case *events.TaskTerminated:
		g.limits.ends = events.Epoch{}
	default:
		if g.limits.ends == f.Epoch {
			return "an attempt that was to start has given its permit back"
		}
	}
	start := func(path string, op events.Operation) string {
		s, p := g.steps[path], g.limits.open[attemptOf{path, op}]
		if s == nil || s.def.Limit == "" {
			return ""
		}
		if p == nil || !p.granted || p.used {
			return "an attempt starts without the permit that its step needs"
		}
		p.used = true
		return ""
	}
	end := func(path string, op events.Operation, quiet events.Instant) {
		if p := g.limits.open[attemptOf{path, op}]; p != nil && p.used {
			p.quiet = max(p.quiet, quiet)
		}
	}
	switch b := body.(type) {
	case *events.StepStarted:
		return start(b.Step, events.Do)
	case *events.CompensationStarted:
		return start(b.Step, events.Undo)
	case *events.StepCompleted:
		end(b.Step, events.Do, b.QuietAt)
	case *events.StepFailed:
		end(b.Step, events.Do, b.QuietAt)
	case *events.Timeout:
		end(b.Step, b.Operation, b.QuietAt)
	case *events.Compensated:
		end(b.Step, events.Undo, b.QuietAt)
	case *events.CompensationFailed:
		end(b.Step, events.Undo, b.QuietAt)
	case *events.TaskProcessed, *events.TaskUndone, *events.TaskTerminated, *events.RunBegun:
		if len(g.limits.open) > 0 {
			return "a task ends, or a run of it, and its steps have permits"
		}
	}
	return ""
}

// corrects lets no permit be kept for longer than a request can land, after the times of the attempts were corrected.
func (p *sagaStepPermits) corrects(g *saga, to events.Instant, grace events.Duration) {
	latest := to.Add(grace.Std())
	for _, s := range g.steps {
		latest = max(latest, s.lastEnd().Add(grace.Std()), s.back.completeBy.Add(grace.Std()))
	}
	for _, x := range p.open {
		x.quiet = min(x.quiet, latest)
	}
}

// agrees compares them with the folded task.
func (p *sagaStepPermits) agrees(t *events.Task) bool {
	if p.links != t.StepLinks || len(p.open) != len(t.StepPermits) {
		return false
	}
	for _, x := range t.StepPermits {
		own := p.open[attemptOf{x.Path, x.Operation}]
		if own == nil || own.n != x.N || own.granted != (x.State == events.PermitStateGranted) || own.used != x.Used || own.quiet != x.QuietAt {
			return false
		}
	}
	return true
}
