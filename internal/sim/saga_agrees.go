package sim

import (
	"bytes"
	"encoding/json"
	"maps"
	"slices"

	"github.com/sagalog/sagalog/events"
)

// agrees compares the saga with the folded task.
func (a *sagas) agrees(t *events.Task) {
	g := a.byTask[t.ID]
	if g == nil {
		return
	}
	if t.State == events.TaskStateTerminated {
		return // nothing of it says how far it was, and its fact was checked
	}
	undoing := t.State == events.TaskStateUndoing || t.State == events.TaskStateUndone || t.ParkedFrom == events.TaskStateUndoing
	if g.ended != t.State.Ended() || g.parked != (t.State == events.TaskStateError) || g.paused != (t.Paused != nil) || g.undoing != undoing || g.pivotPassed != t.PivotPassed || g.parkDue != (t.ParkDue != "") ||
		g.deadline != t.Deadline || g.expired != t.DeadlinePassed || g.run != t.Run || (g.rerun != nil) != (t.Rerun != nil) || g.early.until != t.NotBefore || g.soft.at != t.SoftAt || !g.permit.agrees(t) || !g.limits.agrees(t) {
		plain := *g
		plain.fans = FanOuts{}
		plain.def, plain.steps, plain.kept, plain.permit, plain.rerun, plain.limits.open = nil, nil, nil, nil, nil, nil // a message with pointers differs when the same seed runs again
		a.w.fail("INV2: task %q is folded to %s; by its facts it is %+v", t.ID, t.State, plain)
	}
	if why := g.fans.Agrees(t); why != "" {
		a.w.fail("INV2: %s", why)
	}
	for _, id := range slices.Sorted(maps.Keys(g.steps)) {
		s := g.steps[id]
		x := t.Step(id)
		if x == nil {
			if s.known {
				a.w.fail("INV2: step %q of task %q is lost", id, t.ID)
			}
			continue
		}
		undone := x.Undo != nil && x.Undo.State == events.StepStateUndone
		runs := x.Undo != nil && x.Undo.State == events.StepStateRunning
		if s.running != (x.State == events.StepStateRunning) || s.touched != x.Touched || s.done != (x.Completion > 0) ||
			s.attempt != x.Attempt || s.run != events.RunOf(x.Run) || (undoing && x.State == events.StepStateWaiting) || (s.wait != nil) != x.Waits() || s.fans != x.Fans() || s.soft.at != x.SoftAt || s.undone != undone || s.undoRuns != runs || s.left != x.Left || s.lastUndo.quiet != x.UndoQuietAt || !bytes.Equal(s.output, x.Output) {
			folded, err := json.Marshal(x)
			plain := *s
			plain.def, plain.wait = nil, nil
			a.w.fail("INV2: step %q of task %q is folded to %s %v; by its facts it is %+v", id, t.ID, folded, err, plain)
		}
	}
}
