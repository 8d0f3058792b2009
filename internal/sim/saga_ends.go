package sim

import (
	"bytes"

	"github.com/sagalog/sagalog/events"
)

// How tasks turn back and end, by the saga's own account.

// turns makes the task undo, unless it is undoing already.
func (g *saga) turns(why string) string {
	if g.undoing {
		return ""
	}
	if g.irrevocable() {
		return why + " undoes a task that may be past its pivot"
	}
	g.undoing, g.parked, g.parkDue, g.early.until = true, false, false, 0
	for _, s := range g.steps {
		s.failed, s.wait, s.fans = s.failed || s.wait != nil || s.fans, nil, false
	}
	if !g.paused {
		g.haltedAt = 0
	}
	return ""
}

// expires checks that a deadline acts once, and that it undoes the task if it can.
func (g *saga) expires(f *events.Fact, b *events.DeadlinePassed) string {
	switch {
	case b.Deadline != g.deadline || f.Time < g.deadline:
		return "a deadline passes that the task does not have, or before its time"
	case g.expired:
		return "a deadline passes twice"
	case b.Action != events.DeadlineUndo && !g.parked && !g.paused && !g.irrevocable():
		return "a deadline does not undo a task that it could undo"
	}
	g.expired = true
	if b.Action == events.DeadlineUndo && g.paused {
		return "a deadline undoes a paused task"
	}
	if b.Action == events.DeadlineUndo {
		return g.turns("a deadline")
	}
	return ""
}

// undoes takes the success of an attempt to undo.
func (a *sagas) undoes(g *saga, f *events.Fact, b *events.Compensated) string {
	s := g.steps[b.Step]
	if s == nil || !s.undoRuns || s.undo != b.Attempt {
		return "INV7: the outcome of an undo that does not run"
	}
	s.undoRuns, s.undone, s.left = false, !s.childUndone(a.w), s.left || b.Left
	return a.doubts(s, f, b.QuietAt, a.reported(f) == events.EffectInDoubt)
}

func (g *saga) ends(b *events.TaskProcessed) string {
	if g.undoing || g.parked || g.paused {
		return "a task that is undone or parked ends processed"
	}
	for _, s := range g.steps {
		if !s.item && !s.over() {
			return "a task ends processed before all its steps"
		}
	}
	if only := g.steps["only"]; only != nil && !bytes.Equal(b.Output, only.output) && !(len(only.output) == 0 && string(b.Output) == "null") {
		return "the output of a task differs from its workflow's"
	}
	g.ended = true
	return ""
}

func (g *saga) endsUndone() string {
	if !g.undoing || g.parked || g.paused || g.rerun != nil {
		return "a task that was not being undone ends undone"
	}
	for _, s := range g.steps {
		switch {
		case s.running || s.undoRuns:
			return "a task ends undone while an attempt of it runs"
		case s.def.Undo != nil && s.touched && !s.undone:
			return "a task ends undone, but one of its steps is not"
		}
	}
	g.ended = true
	return ""
}
