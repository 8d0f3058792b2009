package sim

import "github.com/sagalog/sagalog/events"

// parks checks that an operator is asked for a step that needs one.
func (g *saga) parks(f *events.Fact, b *events.TaskParked) string {
	s := g.steps[b.Step]
	switch {
	case g.parked:
		return "a parked task is parked"
	case b.Step != "" && s == nil:
		return "a task is parked for a step that it does not have"
	case b.Step != "" && g.undoes(s) != s.undoFailed && !(g.undoing && s.child.lost):
		return "a task is parked for a step that needs no operator"
	}
	g.parked, g.parkDue, g.parkedAt = true, false, f.Time
	g.halts(f)
	return ""
}

// remindsLater notes when the alert about a parked task is due again.
func (a *sagas) remindsLater(g *saga, f *events.Fact) {
	g.remindAt = 0
	if wait := a.p.state.Partition.Settings.RemindAfter.Std(); wait > 0 && g.reminders < events.MaxReminders {
		g.remindAt = f.Time.Add(wait)
	}
}

// reopens resets the counts of the steps that an operator retries.
func (g *saga) reopens(f *events.Fact, b *events.TaskReopened) {
	g.unparks(f)
	for _, id := range b.Steps {
		switch s := g.steps[id]; {
		case s == nil:
		case g.undoes(s):
			s.undoTries, s.undoFailed, s.back.notBefore, s.back.startBy = 0, false, 0, 0
		default:
			s.tries, s.coolDowns, s.notBefore, s.startBy, s.queued, s.failed = 0, 0, 0, 0, false, false
		}
	}
}

// unparks lets a parked task go on.
func (g *saga) unparks(f *events.Fact) {
	g.parked = false
	g.goesOn(f)
}
