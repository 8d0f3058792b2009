package events

import (
	"encoding/json"
	"errors"
	"fmt"
)

// TaskProcessed ends a task that succeeded.
type TaskProcessed struct {
	Output json.RawMessage `json:"output,omitempty"`
	// Release is that of its permit, and Schedule the schedule that started it.
	Release  *PermitReleased `json:"release,omitempty"`
	Schedule string          `json:"schedule,omitempty"`
	// ScheduleBegan is where that schedule began: one of the same name may have been deleted before it.
	ScheduleBegan int64 `json:"schedule_began,omitzero"`
	// Answers is the link of the parent that learns of it; absent if none does.
	Answers *Link `json:"answers,omitempty"`
}

// TaskUndone ends a task all of whose effects are undone.
type TaskUndone struct {
	Reason string `json:"reason,omitempty"`
	// Left lists the steps that an operator left as they are, although their undo did not succeed.
	Left []string `json:"left,omitempty"`
	// Release is that of its permit, and Schedule the schedule that started it.
	Release  *PermitReleased `json:"release,omitempty"`
	Schedule string          `json:"schedule,omitempty"`
	// ScheduleBegan is where that schedule began: one of the same name may have been deleted before it.
	ScheduleBegan int64 `json:"schedule_began,omitzero"`
	// Answers is the link of the parent that learns of it; absent if none does.
	Answers *Link `json:"answers,omitempty"`
}

// TaskTerminated ends a task where it stands.
type TaskTerminated struct {
	Request string `json:"request"`
	Reason  string `json:"reason,omitempty"`
	By      string `json:"by,omitempty"`
	// NotUndone are the steps that may have had an effect and are not undone, in the order in which they started: the first MaxNamed.
	// Those whose undo an operator skipped are among them.
	NotUndone []string `json:"not_undone,omitempty"`
	// MoreNotUndone is how many more of them there are.
	MoreNotUndone int `json:"more_not_undone,omitzero"`
	// Release is that of its permit, and Schedule the schedule that started it.
	Release  *PermitReleased `json:"release,omitempty"`
	Schedule string          `json:"schedule,omitempty"`
	// ScheduleBegan is where that schedule began: one of the same name may have been deleted before it.
	ScheduleBegan int64 `json:"schedule_began,omitzero"`
	// Answers is the link of the parent that learns of it; absent if none does.
	Answers *Link `json:"answers,omitempty"`
}

// MaxNamed bounds the steps that a fact names. Some tasks have more items than a record has room for.
const MaxNamed = 10_000

// Terminated returns the fact that ends the task where it stands, at the request of an operator.
func Terminated(t *Task, q *Request) *TaskTerminated {
	left := t.NotUndone()
	named := left[:min(len(left), MaxNamed)]
	b := &TaskTerminated{Request: q.ID, Reason: q.Reason, By: q.By, NotUndone: named, MoreNotUndone: len(left) - len(named)}
	End(t, b)
	return b
}

// End completes a fact that ends the task with what others wait for: the release of its permit, and the schedule that started it.
func End(t *Task, b Body) {
	switch b := b.(type) {
	case *TaskProcessed:
		b.Release, b.Schedule, b.ScheduleBegan, b.Answers = OpenPermit(t), t.Schedule, t.ScheduleBegan, OpenParent(t)
	case *TaskUndone:
		b.Release, b.Schedule, b.ScheduleBegan, b.Answers = OpenPermit(t), t.Schedule, t.ScheduleBegan, OpenParent(t)
	case *TaskTerminated:
		b.Release, b.Schedule, b.ScheduleBegan, b.Answers = OpenPermit(t), t.Schedule, t.ScheduleBegan, OpenParent(t)
	}
}

// TaskEndOf returns what the schedule of a task learns from a fact that ends the task. Nothing else is needed for that: the task may be
// forgotten before its schedule learns it.
func TaskEndOf(f *Fact) (end TaskEnd, ok bool) {
	end.Task = f.Task
	switch b := f.Body.(type) {
	case *TaskProcessed:
		end.Schedule, end.Began, end.State = b.Schedule, b.ScheduleBegan, string(TaskStateProcessed)
	case *TaskUndone:
		end.Schedule, end.Began, end.State, end.Reason = b.Schedule, b.ScheduleBegan, string(TaskStateUndone), b.Reason
	case *TaskTerminated:
		end.Schedule, end.Began, end.State, end.Reason = b.Schedule, b.ScheduleBegan, string(TaskStateTerminated), reasonOr(b.Reason, "terminated")
	}
	return end, end.Schedule != ""
}

// namesSchedule checks that a fact that ends a task names the schedule that started it.
func namesSchedule(t *Task, f *Fact) error {
	if end, _ := TaskEndOf(f); end.State != "" && (end.Schedule != t.Schedule || end.Began != t.ScheduleBegan) {
		return fmt.Errorf("%w: %s of task %q names the schedule %q, and %q started it", ErrImpossible, f.Body.Name(), t.ID, end.Schedule, t.Schedule)
	}
	return nil
}

// namesParent checks that a fact that ends a task answers its parent.
func namesParent(t *Task, f *Fact) error {
	a, ok := ChildAnswerOf(f)
	if l := OpenParent(t); ok != (l != nil) || ok && a.Link != *l {
		return fmt.Errorf("%w: %s of task %q does not answer its parent, or another", ErrImpossible, f.Body.Name(), t.ID)
	}
	return nil
}

// ended ends the task.
func (t *Task) ended(f *Fact) error {
	if err := errors.Join(releasePermit(t, f, releaseOf(f.Body)), namesSchedule(t, f), namesParent(t, f)); err != nil {
		return err
	}
	if b, ok := f.Body.(*TaskTerminated); ok {
		if s, op := t.RunningStep(); s != nil {
			return fmt.Errorf("%w: task %q is terminated while the %s of step %q runs", ErrImpossible, t.ID, op, s.Path)
		}
		t.judged(RequestTerminate, b.Request, "")
		t.State, t.EndedAt, t.Reason = TaskStateTerminated, f.Time, reasonOr(b.Reason, "terminated")
		t.Rerun, t.Paused, t.HaltedAt, t.ParkedFrom, t.ParkedAt, t.ParkedReason = nil, nil, 0, "", 0, ""
		t.ParkDue, t.ParkReason, t.Reminders, t.RemindAt = "", "", 0, 0
		mayStart(t)
		return nil
	}
	if t.Paused != nil || t.NotBefore != 0 || t.Rerun != nil {
		return fmt.Errorf("%w: %s of task %q, which is paused, being rerun, or waits until %q", ErrImpossible, f.Body.Name(), t.ID, t.NotBefore.String())
	}
	switch b := f.Body.(type) {
	case *TaskProcessed:
		t.State, t.EndedAt, t.Output, t.Reason = TaskStateProcessed, f.Time, b.Output, ""
	case *TaskUndone:
		t.State, t.EndedAt, t.Reason = TaskStateUndone, f.Time, reasonOr(b.Reason, t.Reason)
	}
	return nil
}
