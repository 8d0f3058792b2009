package supervisor

import (
	"bytes"
	"errors"
	"fmt"

	"github.com/sagalog/sagalog/events"
)

// rerun lets steps of a task run once more that has ended or is parked. Nothing is redone that runs: its outcome would be that of the new run.
func rerun(t *events.Task, q *events.Request) (events.Body, Refusal) {
	//mutant:rerun-refuses-while-running
	if s, op := t.RunningStep(); s != nil {
		if child := s.DoneByChild(op); child != "" {
			return refused("task %q does step %q: wait for its end, or cancel it, then rerun this task", child, s.Path)
		}
		return refused("an attempt to %s step %q is running: fail it, or wait for it, then rerun the task", op, s.Path)
	}
	switch {
	case t.State == events.TaskStateRejected:
		return refused("the task was not accepted as a child of task %q: rerun step %q of that task", t.Parent.Link.Task, t.Parent.Link.Path)
	case t.Paused != nil:
		return refused("the task is paused: resume it, and rerun it when it is parked or has ended")
	case !t.State.Ended() && t.State != events.TaskStateError:
		return refused("the task is %s: rerun is for a task that has ended or is parked", t.State)
	case t.NotBefore != 0:
		return refused("the task has not begun, and may not before %s: retry it", t.NotBefore)
	case t.State.Ended() && t.Parent.Kept():
		return refused("the task is a child of task %q, which may know its end already: rerun step %q of that task", t.Parent.Link.Task, t.Parent.Link.Path)
	case t.ParkedFrom == events.TaskStateUndoing && t.Rerun == nil && t.Parent.Kept():
		return refused("the task is a child of task %q, and is being undone: retry the undo that failed, or skip it", t.Parent.Link.Task)
	case t.ChildrenReleased:
		return refused("the task is to be forgotten, and has released its children: submit it again with another ID")
	case t.ParkDue != "":
		return refused("the task is about to be parked: ask again when it is parked")
	}
	return &events.TaskRerun{Request: q.ID, From: q.From, Input: q.Input, Reason: q.Reason, By: q.By}, Refusal{}
}

// redone says which steps a rerun concerns, and checks the new input; or says why it is refused: only the definition knows.
// The error is an *events.NoKeyError.
func redone(i *inbox, t *events.Task, b *events.TaskRerun) (why string, _ error) {
	if err := i.planner.prepare(t); err != nil {
		return err.Error(), nil
	}
	if step, _, item := events.SplitItem(b.From); item {
		return fmt.Sprintf("%q is an item, and items do not run again alone: rerun the task from step %q", b.From, step), nil
	}
	if b.From != "" && !i.sched.Defined(t, b.From).Known {
		return fmt.Sprintf("workflow %q has no step %q", t.Workflow, b.From), nil
	}
	b.Steps = i.sched.Redone(t, b.From)
	for _, path := range b.Steps {
		s := t.Step(path)
		//mutant:rerun-stops-at-pivot
		if s.Pivot && s.Touched {
			return fmt.Sprintf("step %q is the pivot, and may have had its effect, which nothing undoes: %s", path, insteadOf(s)), nil
		}
	}
	if b.Input, why = given(b.Input, "input", i.settings().SubmissionBytes); why != "" || len(b.Input) == 0 {
		return why, nil
	}
	a, faults := i.sched.Accept(t.Definition, &events.Submission{ID: t.ID, Workflow: t.Workflow, Labels: t.Labels, Priority: t.Priority, Input: b.Input}, t.Version)
	if a.Unopened != nil {
		return "", a.Unopened
	}
	if faults == "" && limitOf(a.Concurrency) != permitLimit(t) {
		return "with the new input the task would have another concurrency key: submit another task", nil
	}
	if faults != "" {
		return faults, nil
	}
	return undoneOtherwise(i, t, b)
}

// insteadOf says what to do about a pivot that must not run once more. As long as it is not over, each rerun concerns it.
func insteadOf(pivot *events.Step) string {
	if pivot.Over() {
		return "rerun the task from a step behind it"
	}
	return "retry it, or complete it if it is done, and rerun the task from a step behind it"
}

// undoneOtherwise returns why a rerun is refused, or "". It is refused if a step that is kept would get another input for its undo: its do had the old
// one, so the undo might undo something else. It is also refused if it costs more than planCost to find that out. The error is an *events.NoKeyError.
func undoneOtherwise(i *inbox, t *events.Task, b *events.TaskRerun) (why string, _ error) {
	next, again := *t, events.Rerun{Steps: b.Steps}
	next.Input = b.Input
	cost, done := 0, 0
	for _, s := range t.Steps {
		if !s.ToUndo() || again.Redone(s.Path) {
			continue
		}
		was, err := i.sched.Start(t, s.Path, events.Undo)
		is, errNext := i.sched.Start(&next, s.Path, events.Undo)
		cost, done = cost+was.Cost+is.Cost, done+1
		i.planner.batch.cost += was.Cost + is.Cost
		if cost > planCost {
			return fmt.Sprintf("it takes too much work to find out whether the new input would change the inputs of the undos of the kept steps (stopped after %d undos): rerun the whole task, without from, or leave the input as it is", done), nil
		}
		if why, passes := errors.AsType[*events.NoKeyError](errors.Join(err, errNext)); passes {
			return "", why
		}
		if err == nil && (errNext != nil || !bytes.Equal(was.Input, is.Input)) {
			return fmt.Sprintf("step %q does not run again, but the new input would change the input of its undo, which could then undo something else: rerun the task from step %[1]q, or leave the input as it is", events.DefinedStep(s.Path)), nil
		}
	}
	return "", nil
}

// limitOf returns the name of the limit, "" without one.
func limitOf(c *events.Concurrency) string {
	if c == nil {
		return ""
	}
	return c.Limit
}

// permitLimit returns the limit of which the task needs a permit, "" if it needs none.
func permitLimit(t *events.Task) string {
	if t.Permit == nil {
		return ""
	}
	return t.Permit.Limit
}
