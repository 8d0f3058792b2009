package scheduler

import (
	"fmt"
	"slices"

	"github.com/sagalog/sagalog/events"
)

// planUndo picks the steps to be undone next: one at a time, but as many items of one fan-out as are done at a time. Nothing is undone while an
// attempt of a do is running: docs/protocol.md, "Undo".
func (s *Scheduler) planUndo(t *events.Task) (events.Plan, error) {
	if asks := events.CancelChildren(t); len(asks) > 0 {
		return events.Plan{Facts: asks}, nil
	}
	u := undoing{planner: planner{task: t}, program: s.Program(t.Definition)}
	for _, step := range t.Live() {
		if step.State == events.StepStateRunning {
			return events.Plan{}, nil
		}
		u.begun(step)
	}
	switch {
	case u.failed != "" && u.running:
		return events.Plan{}, nil
	case u.failed != "":
		return events.Plan{Facts: []events.Body{&events.TaskParked{Step: u.failed, Reason: "its undo failed"}}}, nil
	}
	//mutant:run-begins-after-undos
	if more, err := u.add(); more || err != nil {
		return u.plan, err
	}
	if t.Rerun != nil {
		p, err := s.prepared(t)
		if err != nil {
			return events.Plan{}, err
		}
		return events.Plan{Facts: []events.Body{&events.RunBegun{Run: t.Run + 1, RemindAfter: p.Definition().RemindAfter}}}, nil
	}
	return events.Plan{Facts: []events.Body{&events.TaskUndone{Reason: t.Reason, Left: events.LeftOf(t)}}}, nil
}

// undoing finds the undos of a task that go on, and those that begin next.
type undoing struct {
	planner
	// program is nil if the definition is not prepared.
	program *Program
	// under are the steps whose undo has begun and is not over, but for failed, which an operator must look at. running says that an attempt runs.
	under   []*events.Step
	failed  string
	running bool
}

// begun takes note of a step whose undo may have begun.
func (u *undoing) begun(step *events.Step) {
	if step.Undo == nil {
		return
	}
	switch step.Undo.State {
	case events.StepStateRunning:
		u.running = true
		u.under = append(u.under, step)
	case events.StepStateWaiting:
		u.under = append(u.under, step)
	case events.StepStateFailed:
		u.failed = step.Path
	}
}

// add adds the attempts that may start, and says whether anything has to be undone.
func (u *undoing) add() (more bool, _ error) {
	for _, step := range u.under {
		if err := u.ready(step); err != nil {
			return false, err
		}
	}
	more = len(u.under) > 0
	for step := range events.ToUndo(u.task) {
		if more = true; slices.Contains(u.under, step) {
			continue
		}
		if !u.begins(step) {
			break
		}
		return more, u.ready(step) // once it has begun, the next, so that they begin in their order
	}
	return more, nil
}

// begins says whether the undo of a step, which is the next one, may begin beside those that are open.
func (u *undoing) begins(step *events.Step) bool {
	if len(u.under) == 0 {
		return true
	}
	fan, _, item := events.SplitItem(step.Path)
	other := events.DefinedStep(u.under[0].Path)
	if !item || other != fan || u.program == nil {
		return false
	}
	c := u.program.compiled(step.Path)
	//mutant:undos-of-items-have-a-window
	return c != nil && len(u.under) < c.step.For.Parallel
}

// ready adds the next attempt to undo a step, unless one runs.
func (u *undoing) ready(step *events.Step) error {
	if u.program == nil {
		return fmt.Errorf("definition %s of workflow %q is not prepared", u.task.Definition, u.task.Workflow)
	}
	c := u.program.compiled(step.Path)
	if c == nil {
		return fmt.Errorf("workflow %q has no step %q to undo", u.task.Workflow, step.Path)
	}
	return u.undo(c, step)
}

// undo adds the next attempt to undo a step, unless one runs.
func (w *planner) undo(c *compiledStep, step *events.Step) error {
	notBefore := w.task.QuietAt
	if u := step.Undo; u != nil {
		if u.State == events.StepStateRunning {
			return nil
		}
		notBefore = max(notBefore, u.RetryAt)
	}
	o, err := c.kind.undo()
	if err != nil {
		return fmt.Errorf("workflow %q: %w", w.task.Workflow, err)
	}
	w.open(step.Path, o, notBefore)
	return nil
}
