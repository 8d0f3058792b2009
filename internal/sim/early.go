package sim

import "github.com/sagalog/sagalog/events"

// Tasks that wait for their time, by the saga's own account.

// early is what a task waits for that may not start yet.
type early struct {
	// since is when it was accepted, and until is zero once it may start.
	since, until events.Instant
	within       events.Duration
	epoch        events.Epoch
}

// passes takes the fact that a time of the task as a whole has come.
func (a *sagas) passes(g *saga, f *events.Fact) string {
	if b, ok := f.Body.(*events.DeadlinePassed); ok {
		return g.expires(f, b)
	}
	return a.begins(g, f, f.Body.(*events.NotBeforePassed))
}

// begins takes the fact that the time of the task has come.
func (a *sagas) begins(g *saga, f *events.Fact, b *events.NotBeforePassed) string {
	switch {
	case g.early.until == 0 || b.NotBefore != g.early.until || f.Time < b.NotBefore:
		return "the time of a task comes that it does not have, comes again, or comes early"
	case g.undoing || g.parked || g.paused:
		return "the time of a task comes that is undone, parked or paused"
	}
	if a.w.saw(sawNotBefore); f.Epoch != g.early.epoch {
		a.w.saw(sawNotBeforeTakenOver)
	}
	g.early.until = 0
	return ""
}

// correctsEarly takes a correction of the time of a task that may not start yet. Its deadline is as long after its time as before.
func (a *sagas) correctsEarly(g *saga, to events.Instant) {
	if g.early.within == 0 || g.early.since <= to {
		return
	}
	a.w.saw(sawCorrectedDelay)
	was := g.early.until
	g.early.until, g.early.since = moved(was, g.early.since, to), to
	if g.deadline != 0 {
		g.deadline = g.deadline.Add(g.early.until.Sub(was))
	}
	if by := g.early.until.Sub(was); g.soft.at != 0 {
		g.soft = sagaSoft{g.soft.at.Add(by), g.soft.from.Add(by)}
	}
}

// seeEarly counts what happens to tasks that wait for their time.
func seeEarly(w *World, f *events.Fact) {
	switch b := f.Body.(type) {
	case *events.CancelRequested, *events.TaskTerminated:
		w.saw(sawNotBeforeCut)
	case *events.DeadlinePassed:
		if b.Action == events.DeadlineUndo {
			w.saw(sawNotBeforeCut)
		}
	case *events.TaskPaused:
		w.saw(sawNotBeforePaused)
	}
}
