package events

import (
	"encoding/json"
	"fmt"
	"slices"
)

// A rerun does steps of a task once more, in a new run and so with new idempotency keys. TaskRerun says which; those that may have had an
// effect are undone first, and RunBegun then begins the run. All other steps stay as they are, and keep their run.

// TaskRerun decides that steps of a task that has ended or is parked run once more.
type TaskRerun struct {
	Request string `json:"request"`
	// From is the step from which the operator wants it to run again; absent for all steps.
	From string `json:"from,omitempty"`
	// Steps are the steps that run once more, of those that have left not_started, in the order in which they did.
	Steps []string `json:"steps"`
	// Input replaces the input of the task when the run begins.
	Input  json.RawMessage `json:"input,omitempty"`
	Reason string          `json:"reason,omitempty"`
	By     string          `json:"by,omitempty"`
}

// RunBegun begins the next run of a task.
type RunBegun struct {
	Run int `json:"run"`
	// RemindAfter is the soft limit of the task, which counts from this fact on; zero if its definition gives none.
	RemindAfter Duration `json:"remind_after,omitzero"`
}

// Rerun is what a task that is being undone for a rerun does afterwards.
type Rerun struct {
	Steps []string        `json:"steps"`
	Input json.RawMessage `json:"input,omitempty"`
}

// Redone says whether the step is to run once more. The items of a step do as it does.
func (r *Rerun) Redone(path string) bool {
	return slices.Contains(r.Steps, DefinedStep(path))
}

// RunOf returns the run that a fact or a step names, which leave out the first.
func RunOf(run int) int { return max(run, 1) }

// RunOf returns the run of a step of the task as facts and steps name it, which leave out the first. A step that has not started belongs to
// the latest.
func (t *Task) RunOf(path string) int {
	if s := t.Step(path); s != nil {
		return s.Run
	}
	if t.Run > 1 {
		return t.Run
	}
	return 0
}

// Attempted says whether an attempt of the step has begun in its run.
func (s *Step) Attempted() bool { return s.Attempt > s.EarlierAttempts }

// rerunning takes the two facts of a rerun.
func rerunning(t *Task, f *Fact) error {
	if b, ok := f.Body.(*TaskRerun); ok {
		return rerunTask(t, f, b)
	}
	return beginRun(t, f, f.Body.(*RunBegun))
}

// rerunTask turns the task to undoing, whether it has ended or is parked. One that ended while the clock was wrong keeps its times, so what
// was left of its quiet time then counts from now on, and its latest fact is this one.
func rerunTask(t *Task, f *Fact, b *TaskRerun) error {
	s, _ := t.RunningStep()
	if !t.State.Ended() && t.State != TaskStateError || t.Paused != nil || t.NotBefore != 0 || s != nil || t.ChildrenReleased || t.State.Ended() && t.Parent.Kept() {
		return fmt.Errorf("%w: task %q is rerun, and is %s, is paused, waits for its time, or has a running attempt", ErrImpossible, t.ID, t.State)
	}
	t.judged(RequestRerun, b.Request, "")
	for _, path := range b.Steps {
		if s := t.Step(path); s == nil || s.Pivot && s.Touched {
			return fmt.Errorf("%w: step %q is rerun, which never started or is the pivot", ErrImpossible, path)
		}
	}
	rerun := &Rerun{b.Steps, b.Input}
	for _, s := range t.Steps {
		if !rerun.Redone(s.Path) {
			continue
		}
		s.change()
		//mutant:rerun-corrects-undo-in-doubt
		s.correctQuiet(f.Time)
		if s.State == StepStateWaiting {
			s.State, s.RetryAt, s.Wait = StepStateFailed, 0, nil
		}
		if u := s.Undo; u != nil && (u.State == StepStateFailed || u.State == StepStateWaiting) {
			s.State, u.State, u.RetryAt, u.Tries = StepStateUndoing, StepStateWaiting, f.Time, 0
			u.limit(0, f.Time)
		}
	}
	if t.State.Ended() {
		t.UpdatedAt = f.Time
	}
	t.QuietAt, t.StepsQuietAt = lasting(t.QuietAt, t.EndedAt, f.Time), lasting(t.StepsQuietAt, t.EndedAt, f.Time)
	t.State, t.Reason, t.EndedAt, t.Rerun = TaskStateUndoing, reasonOr(b.Reason, "rerun"), 0, rerun
	t.replace(&t.Output, nil)
	t.ParkedFrom, t.ParkedAt, t.ParkedReason, t.ParkDue, t.ParkReason = "", 0, "", "", ""
	t.Reminders, t.RemindAt, t.HaltedAt, t.softLimit = 0, 0, 0, softLimit{}
	return nil
}

// beginRun lets the steps that are redone start as if they never had. The deadline is as far away as it was at first.
func beginRun(t *Task, f *Fact, b *RunBegun) error {
	if t.State != TaskStateUndoing || t.Rerun == nil || t.Paused != nil || b.Run != t.Run+1 {
		return fmt.Errorf("%w: run %d of task %q, which is %s, begins after run %d", ErrImpossible, b.Run, t.ID, t.State, t.Run)
	}
	for _, s := range t.Steps {
		if !t.Rerun.Redone(s.Path) {
			continue
		}
		if s.State == StepStateRunning || s.ToUndo() {
			return fmt.Errorf("%w: run %d of task %q begins before step %q is undone", ErrImpossible, b.Run, t.ID, s.Path)
		}
		undos := s.EarlierUndos
		if s.Undo != nil {
			undos = s.Undo.Attempt
		}
		//mutant:redone-step-has-new-run
		//mutant:undo-in-doubt-outlasts-its-run
		//mutant:left-outlasts-its-run
		*s = Step{Path: s.Path, State: StepStateWaiting, Run: b.Run, Attempt: s.Attempt, EarlierAttempts: s.Attempt, EarlierUndos: undos, Left: s.Left, ByChild: s.ByChild, undoQuiet: s.undoQuiet, row: s.row, place: s.place}
		if IsItem(s.Path) { // it begins when its step says that it has items
			s.State = StepStateNotStarted
		}
		s.change()
	}
	if len(t.Rerun.Input) > 0 {
		t.replace(&t.Input, t.Rerun.Input)
	}
	if t.Deadline != 0 {
		t.Deadline = min(f.Time.Add(t.DeadlineWithin.Std()), lastInstant)
		t.ReopenedAt, t.DeadlinePassed = f.Time, false
	}
	t.beginSoft(b.RemindAfter, f.Time)
	t.State, t.Run, t.Rerun, t.Reason = TaskStateProcessing, b.Run, nil, ""
	return nil
}
