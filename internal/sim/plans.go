package sim

import (
	"bytes"
	"slices"

	"github.com/sagalog/sagalog/events"
)

// planned checks a fact that follows from a task's state, before it is folded: that the plan asks for it (INV4, INV6), and
// that the work agrees with the workflow.
func (p *partition) planned(f *events.Fact) {
	path, op, before := "", events.Do, events.Instant(0)
	switch b := f.Body.(type) {
	case *events.StepStarted:
		path, before = b.Step, b.ReadyAt
	case *events.CompensationStarted:
		path, op, before = b.Step, events.Undo, b.ReadyAt
	case *events.TaskProcessed, *events.TaskUndone, *events.WaitStarted, *events.FanOutStarted:
	case *events.StepSkipped:
		if b.Why == events.SkipOperator {
			return
		}
	default:
		return
	}
	t, err := p.state.Task(f.Task)
	if err != nil || t == nil {
		return // the fold reports it
	}
	plan, err := planning().Plan(t)
	if err != nil {
		p.w.fail("INV4: task %q cannot be planned: %v", f.Task, err)
		return
	}
	if path == "" {
		if !slices.ContainsFunc(plan.Facts, func(b events.Body) bool { return b.Name() == f.Body.Name() }) {
			p.w.fail("INV4: %s of task %q, which its plan does not ask for", f.Body.Name(), f.Task)
		}
		return
	}
	i := slices.IndexFunc(plan.Ready, func(r events.Ready) bool { return r.Path == path && r.Operation == op })
	if i < 0 || !plan.Quiet() {
		p.w.fail("INV6: step %q of task %q starts, which its plan does not offer", path, f.Task)
		return
	}
	if r := plan.Ready[i]; r.NotBefore > f.Time || before > f.Time {
		p.w.fail("step %q of task %q starts before its time", path, f.Task)
	}
	start, err := planning().Start(t, path, op)
	if err != nil {
		p.w.fail("INV4: step %q of task %q starts, whose expressions fail: %v", path, f.Task, err)
		return
	}
	switch b := f.Body.(type) {
	case *events.StepStarted:
		if !bytes.Equal(b.Input, start.Input) {
			p.w.fail("INV4: step %q of task %q has an input that differs from its workflow's", path, f.Task)
		}
		if t.Facts >= p.w.cfg.Settings.TaskFacts {
			p.w.fail("step %q of task %q starts above the limit of facts", path, f.Task)
		}
	case *events.CompensationStarted:
		if !bytes.Equal(b.Input, start.Input) {
			p.w.fail("INV4: the undo of step %q of task %q has an input that differs from its workflow's", path, f.Task)
		}
	}
}

// moves checks INV10 at each fact of the task: something will move it, or it waits for an operator. The facts that its plan
// asks for move it too: the owner writes them in the same batch, or the next owner does.
func (p *partition) moves(t *events.Task) {
	if t.State.Ended() || t.Halted() || len(t.Timers()) > 0 {
		return
	}
	plan, err := planning().Plan(t)
	if err != nil {
		p.w.fail("INV4: task %q cannot be planned: %v", t.ID, err)
		return
	}
	if plan.Quiet() && len(plan.Ready) == 0 {
		p.w.fail("INV10: task %q, %s, has nothing that moves it", t.ID, t.State)
	}
}
