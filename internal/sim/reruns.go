package sim

import (
	"fmt"
	"maps"
	"slices"

	"github.com/sagalog/sagalog/events"
)

// Tasks that run once more, by the saga's own account.

// attempted says whether an attempt of the step has begun in its run.
func (s *sagaStep) attempted() bool { return s.attempt > s.earlier }

// rerunning takes the two facts of a rerun.
func rerunning(a *sagas, g *saga, f *events.Fact) string {
	if b, ok := f.Body.(*events.RunBegun); ok {
		return a.runBegins(g, f, b)
	}
	return a.reruns(g, f, f.Body.(*events.TaskRerun))
}

// reruns takes an operator's decision that steps run once more.
func (a *sagas) reruns(g *saga, f *events.Fact, b *events.TaskRerun) string {
	switch {
	case !g.once(b.Request):
		return "a request is judged twice"
	case !g.ended && !g.parked || g.paused || g.parkDue || g.runs() || g.early.until != 0:
		return "a task is rerun that goes on, is paused, has a running attempt, or waits for its time"
	case events.IsItem(b.From):
		return "a task is rerun from an item"
	case !slices.Equal(slices.Sorted(slices.Values(b.Steps)), g.redone(b.From)):
		return fmt.Sprintf("the steps of a rerun from %q are wrong: %q", b.From, b.Steps)
	}
	a.seeRerun(g)
	for _, id := range redoneBy(g, b) {
		s := g.steps[id]
		if s.def.Pivot && s.touched {
			return "the pivot is done once more"
		}
		s.failed, s.wait, s.fans = s.failed || s.wait != nil || s.fans, nil, false
		s.undoTries, s.undoFailed, s.back.notBefore, s.back.startBy = 0, false, 0, 0
		s.lastUndo.corrects(f.Time) // if it ended at a wrong time
	}
	if g.ended && g.toldAt > f.Time && g.quiet > f.Time {
		g.quiet = f.Time.Add(max(0, g.quiet.Sub(g.toldAt)))
	}
	g.rerun, g.ended, g.parked, g.undoing = b, false, false, true
	g.haltedAt, g.reminders, g.remindAt, g.parkStep, g.soft = 0, 0, 0, "", sagaSoft{}
	delete(a.p.done, lifeOf(a.p, f.Task))
	return ""
}

// redone returns the steps that a rerun concerns, of those that have begun, in alphabetical order.
func (g *saga) redone(from string) (list []string) {
	again := map[string]bool{}
	for grows := true; grows; {
		grows = false
		for id, s := range g.steps {
			if s.item {
				continue
			}
			needs := slices.ContainsFunc(s.def.Needs, func(need string) bool { return again[need] })
			if !again[id] && (from == "" || id == from || needs || !s.over() || s.undone || s.undoBegan() || halfUndone(g, id)) {
				again[id], grows = true, true
			}
		}
	}
	for _, id := range slices.Sorted(maps.Keys(again)) {
		if g.steps[id].begun() {
			list = append(list, id)
		}
	}
	return list
}

// runBegins lets the steps that are done once more start as if they never had.
func (a *sagas) runBegins(g *saga, f *events.Fact, b *events.RunBegun) string {
	if g.rerun == nil || !g.undoing || g.parked || g.paused || b.Run != g.run+1 {
		return "a run begins that nobody asked for, is numbered wrong, or of a task that is held"
	}
	if b.RemindAfter != g.def.RemindAfter {
		return "a run begins with another soft limit than its workflow says"
	}
	for _, id := range redoneBy(g, g.rerun) {
		s := g.steps[id]
		switch {
		case s.running || s.undoRuns || s.def.Undo != nil && s.touched && !s.undone:
			return "a run begins before its steps are undone"
		case s.def.Undo != nil && !s.undoneByHand:
			mustBeUndone(a.p, f.Task, s)
		}
		*s = sagaStep{def: s.def, item: s.item, known: s.known, run: b.Run, attempt: s.attempt, earlier: s.attempt, undo: s.undo, earlierUndos: s.undo, left: s.left, lastUndo: s.lastUndo}
		if s.lastUndo.quiet > f.Time {
			a.w.saw(sawUndoInDoubt)
		}
		g.completed = slices.DeleteFunc(g.completed, func(done string) bool { return done == id })
	}
	if len(g.rerun.Input) > 0 {
		g.input = g.rerun.Input
	}
	if g.deadline != 0 {
		g.deadline, g.datedAt, g.expired = f.Time.Add(g.within), f.Time, false
	}
	g.soft.begin(b.RemindAfter, f.Time)
	delete(a.cancelled, f.Task)
	a.w.saw(sawRunBegun)
	g.run, g.rerun, g.undoing = b.Run, nil, false
	for _, s := range g.steps {
		if !s.known {
			s.run = b.Run
		}
	}
	return ""
}

// begun says whether the step has left not_started.
func (s *sagaStep) begun() bool { return s.known }

// meets notes that a fact is about a step.
func (g *saga) meets(body events.Body) {
	id := AttemptOf("", body).Step
	switch b := body.(type) {
	case *events.StepQueued:
		id = b.Step
	case *events.WaitStarted:
		id = b.Step
	case *events.FanOutStarted:
		id = b.Step
	case *events.StepSkipped:
		id = b.Step
	}
	if s := g.steps[id]; s != nil {
		s.known = true
	}
}

// seeRerun counts what is rerun.
func (a *sagas) seeRerun(g *saga) {
	if g.ended {
		a.w.saw(sawRerunEnded)
	} else {
		a.w.saw(sawRerunParked)
	}
	for _, s := range g.steps {
		if s.def.Undo != nil && s.touched && !s.undone {
			a.w.saw(sawRerunUndoes)
			return
		}
	}
}

// again reruns a task, in whatever state: many are refused.
func (c *clients) again() {
	w := c.w
	for _, i := range w.rng.Perm(len(c.bodies)) {
		q := events.Request{Kind: events.RequestRerun, Task: fmt.Sprintf("t%d", i)}
		t, err := w.parts[events.Home(q.Task, w.opt.Partitions)].state.Task(q.Task)
		if err != nil || t == nil || !t.State.Ended() && t.State != events.TaskStateError && w.rng.IntN(8) > 0 {
			continue
		}
		if d := definitionOf(t.Definition); d != nil && w.rng.IntN(2) == 0 {
			q.From = stepIn(w, d)
		}
		if w.rng.IntN(3) == 0 {
			q.Input = []byte(fmt.Sprintf(`{"extra":%t,"n":%d}`, w.rng.IntN(2) == 0, w.rng.IntN(9)))
		}
		c.request(q)
		return
	}
}
