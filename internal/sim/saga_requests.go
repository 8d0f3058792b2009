package sim

import (
	"github.com/sagalog/sagalog/events"
	"github.com/sagalog/sagalog/supervisor"
)

// answers adds a fact that answers a request and is about the task as a whole, or says which promise it breaks.
func (g *saga) answers(f *events.Fact, body events.Body) string {
	switch b := body.(type) {
	case *events.CancelRequested:
		switch {
		case !g.once(b.Request):
			return "a request is judged twice"
		case g.undoing && (g.rerun == nil || b.Request != ""): // only its parent ends a rerun
			return "a cancel that changes nothing is granted"
		}
		g.paused = false
		if g.rerun != nil {
			g.rerun = nil
			g.goesOn(f)
		}
		return g.turns("a cancel")
	case *events.TaskPaused:
		if !g.once(b.Request) || g.paused {
			return "a request is judged twice, or a paused task is paused"
		}
		g.paused = true
		g.halts(f)
	case *events.TaskResumed:
		if !g.once(b.Request) || !g.paused {
			return "a request is judged twice, or a task that is not paused is resumed"
		}
		g.paused = false
		g.goesOn(f)
	case *events.TaskTerminated:
		if why := g.releases(b.Release); why != "" {
			return why
		}
		return g.terminates(b)
	case *events.RequestRefused:
		if !g.once(b.Request) {
			return "a request is judged twice"
		}
		return g.refuses(b)
	}
	return ""
}

// once says whether the request is judged for the first time. That of a parent has no ID.
func (g *saga) once(request string) bool {
	was := g.requests[request]
	g.requests[request] = request != ""
	return !was
}

// refuses checks that a refused request could not have been granted.
func (g *saga) refuses(b *events.RequestRefused) string {
	switch {
	case b.Reason == "":
		return "a request is refused without a reason"
	case b.Reason == supervisor.RefusedSchedule && b.By != "":
		return "" // what it was caused by says so
	case b.Verb == events.RequestCancel && !g.undoing && !g.irrevocable(),
		b.Verb == events.RequestPause && !g.paused, b.Verb == events.RequestResume && g.paused,
		b.Verb == events.RequestTerminate && !g.runs():
		return "a request is refused that could be granted"
	}
	return ""
}

// halts stops the clock of the deadline: the time for which a task is parked or paused is not its own.
func (g *saga) halts(f *events.Fact) {
	if g.haltedAt == 0 {
		g.haltedAt = f.Time
	}
}

func (g *saga) goesOn(f *events.Fact) {
	if g.parked || g.paused || g.haltedAt == 0 {
		return
	}
	if g.haltedAt < g.deadline {
		g.deadline, g.expired, g.datedAt = g.deadline.Add(max(0, f.Time.Sub(max(g.haltedAt, g.early.until)))), false, f.Time
	}
	g.haltedAt = 0
}

// runs says whether an attempt of the task runs.
func (g *saga) runs() bool {
	for _, s := range g.steps {
		if s.running || s.undoRuns {
			return true
		}
	}
	return false
}

// terminates checks that nothing runs, and that the fact names what is left.
func (g *saga) terminates(b *events.TaskTerminated) string {
	if !g.once(b.Request) || g.runs() {
		return "a request is judged twice, or a task is terminated while an attempt of it runs"
	}
	left := map[string]bool{}
	for id, s := range g.steps {
		if s.left || s.touched && !s.undone {
			left[id] = true
		}
	}
	for _, id := range b.NotUndone {
		if !left[id] {
			return "a terminated task names a step that has had no effect, or is undone"
		}
		delete(left, id)
	}
	if len(left) != b.MoreNotUndone {
		return "a terminated task does not name what is left"
	}
	g.rerun = nil
	g.ended, g.parked, g.paused, g.parkDue, g.haltedAt, g.early.until = true, false, false, false, 0, 0
	return ""
}

// irrevocable says whether the pivot of the task may have had an effect.
func (g *saga) irrevocable() bool {
	for _, s := range g.steps {
		if s.def.Pivot && (s.running || s.touched) {
			return true
		}
	}
	return false
}
