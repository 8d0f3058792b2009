package events

import "encoding/json"

// TaskState is the process state of a task.
type TaskState string

// The process states. Parked is "error" on the wire: it waits in front of an operator.
const (
	Pending    TaskState = "pending"
	Processing TaskState = "processing"
	Processed  TaskState = "processed"
	Undoing    TaskState = "undoing"
	Undone     TaskState = "undone"
	Parked     TaskState = "error"
)

// Ended says whether the state is final.
func (s TaskState) Ended() bool { return s == Processed || s == Undone }

// StepState is the state of a step.
type StepState string

// The states of a step.
const (
	StepNotStarted StepState = "not_started"
	StepRunning    StepState = "running"
	StepWaiting    StepState = "waiting"
	StepDone       StepState = "completed"
	StepBroken     StepState = "failed"
	StepTimedOut   StepState = "timed_out"
	StepSkippedOff StepState = "skipped"
	StepUndoing    StepState = "undoing"
	StepUndone     StepState = "undone"
	StepUndoFailed StepState = "undo_failed"
)

// Task is the state of one task: an entity of its partition. Its JSON is the canonical encoding of the entity, so
// the order of the fields is part of the format, and an absent field weighs nothing.
type Task struct {
	ID         string            `json:"id"`
	Run        int               `json:"run"`
	Workflow   string            `json:"workflow"`
	Version    int               `json:"version"`
	Definition string            `json:"definition"`
	State      TaskState         `json:"state"`
	Priority   int               `json:"priority,omitzero"`
	Labels     map[string]string `json:"labels,omitempty"`
	Input      json.RawMessage   `json:"input,omitempty"`
	Output     json.RawMessage   `json:"output,omitempty"`
	Content    string            `json:"content"`

	SubmittedAt Instant `json:"submitted_at"`
	UpdatedAt   Instant `json:"updated_at"`
	EndedAt     Instant `json:"ended_at,omitzero"`
	Deadline    Instant `json:"deadline,omitzero"`

	FailureCount int    `json:"failure_count,omitzero"`
	Reason       string `json:"reason,omitempty"`
	// Facts counts the facts of the task, against Settings.TaskFacts.
	Facts int `json:"facts"`

	// ParkDue and ParkReason are set by a verdict and taken by TaskParked.
	ParkDue    string `json:"park_due,omitempty"`
	ParkReason string `json:"park_reason,omitempty"`
	// ParkedFrom is the state to which TaskReopened returns.
	ParkedFrom TaskState `json:"parked_from,omitempty"`

	// PivotPassed is the point of no return.
	PivotPassed    bool `json:"pivot_passed,omitzero"`
	DeadlinePassed bool `json:"deadline_passed,omitzero"`
	// QuietAt is when the last request of a timed-out attempt can no longer land; no undo starts before it.
	QuietAt Instant `json:"quiet_at,omitzero"`
	// Completions counts completed steps; undo runs them backwards.
	Completions int `json:"completions,omitzero"`

	// Held are requests that came before the task; Plan turns them into facts before any start.
	Held []Request `json:"held,omitempty"`
	// Requests are the IDs of the requests already judged, the newest last, at most maxRequests.
	Requests []string `json:"requests,omitempty"`
	// Steps are those that left not_started, in the order in which they did.
	Steps []*Step `json:"steps,omitempty"`

	Traceparent string `json:"traceparent,omitempty"`
	// Last is the position of the task's latest fact: the cause of what follows from its state.
	Last Position `json:"last,omitzero"`

	hash Hash // of the last encoding that State.Sum counts; zero if none.
	// now is the hash of the task as it is, where hashed says so: a long time without a Flush has many comparisons of the
	// state hash, and each would encode again all that changed.
	now    Hash
	hashed bool
	keys   *Keys // of the last flushed row; nil if none.
	// dirty says that it changed since the last Flush, and stands in State.dirtyTasks.
	dirty bool
}

// Step is the state of one step of a task.
type Step struct {
	Path  string    `json:"path"`
	Agent string    `json:"agent,omitempty"`
	State StepState `json:"state"`
	// Attempt is the number of the latest attempt, from 1.
	Attempt    int             `json:"attempt,omitzero"`
	StartedAt  Instant         `json:"started_at,omitzero"`
	CompleteBy Instant         `json:"complete_by,omitzero"`
	EndedAt    Instant         `json:"ended_at,omitzero"`
	RetryAt    Instant         `json:"retry_at,omitzero"`
	Input      json.RawMessage `json:"input,omitempty"`
	Output     json.RawMessage `json:"output,omitempty"`
	Error      *Error          `json:"error,omitempty"`
	Reason     string          `json:"reason,omitempty"`
	// FailureCount counts failures in all; Tries counts attempts since the last cool-down or reopening.
	FailureCount int `json:"failure_count,omitzero"`
	Tries        int `json:"tries,omitzero"`
	CoolDowns    int `json:"cool_downs,omitzero"`
	// Touched says that some attempt may have changed something outside: it completed, timed out, or failed without
	// reporting effect none.
	Touched bool `json:"touched,omitzero"`
	// Completion is the ordinal of the step's completion in its task, from 1; zero means that it did not complete.
	Completion int  `json:"completion,omitzero"`
	Pivot      bool `json:"pivot,omitzero"`
	Undoable   bool `json:"undoable,omitzero"`

	Undo *UndoState `json:"undo,omitempty"`
}

// UndoState is the state of the undoing of one step.
type UndoState struct {
	State        StepState `json:"state"`
	Agent        string    `json:"agent,omitempty"`
	Attempt      int       `json:"attempt,omitzero"`
	StartedAt    Instant   `json:"started_at,omitzero"`
	CompleteBy   Instant   `json:"complete_by,omitzero"`
	EndedAt      Instant   `json:"ended_at,omitzero"`
	RetryAt      Instant   `json:"retry_at,omitzero"`
	Error        *Error    `json:"error,omitempty"`
	FailureCount int       `json:"failure_count,omitzero"`
	Tries        int       `json:"tries,omitzero"`
}

// usualSteps is the room for the steps of a new task. Most workflows have fewer, and a slice that grows from one costs four
// allocations on its way there.
const usualSteps = 8

// maxRequests bounds the remembered request IDs of a task: an operator rarely sends more than a few, and a retry
// of the sender comes within seconds.
const maxRequests = 64

// Step returns the state of a step, and nil while it has not started.
func (t *Task) Step(path string) *Step {
	for _, s := range t.Steps {
		if s.Path == path {
			return s
		}
	}
	return nil
}

// HasRequest says whether a request of that ID was judged for the task.
func (t *Task) HasRequest(id string) bool {
	for _, r := range t.Requests {
		if r == id {
			return true
		}
	}
	return false
}

// Running says whether that attempt of a step is running: an outcome for any other is no fact (INV7).
func (t *Task) Running(path string, op Operation, attempt int) bool {
	s := t.Step(path)
	if s == nil || t.State.Ended() {
		return false
	}
	if op == Undo {
		return s.Undo != nil && s.Undo.State == StepRunning && s.Undo.Attempt == attempt
	}
	return s.State == StepRunning && s.Attempt == attempt
}

// Irrevocable says whether the task may be past its point of no return: its pivot completed, or an attempt of it is
// under way or left an unknown outcome. Such a task is never undone (DESIGN 5).
func (t *Task) Irrevocable() bool {
	if t.PivotPassed {
		return true
	}
	for _, s := range t.Steps {
		if s.Pivot && (s.State == StepRunning || s.Touched) {
			return true
		}
	}
	return false
}

// undoing says whether the task is on its way back, which a parking only interrupts.
func (t *Task) undoing() bool {
	return t.State == Undoing || (t.State == Parked && t.ParkedFrom == Undoing)
}

// CompleteBy returns the earliest complete-by time of the running attempts.
func (t *Task) CompleteBy() Instant {
	var least Instant
	for _, s := range t.Steps {
		if s.State == StepRunning {
			least = earliest(least, s.CompleteBy)
		}
		if s.Undo != nil && s.Undo.State == StepRunning {
			least = earliest(least, s.Undo.CompleteBy)
		}
	}
	return least
}

// RunningBy counts the running attempts of each agent into counts: what a window is compared with.
func (t *Task) RunningBy(counts map[string]int, delta int) {
	for _, s := range t.Steps {
		if s.State == StepRunning {
			counts[s.Agent] += delta
		}
		if s.Undo != nil && s.Undo.State == StepRunning {
			counts[s.Undo.Agent] += delta
		}
	}
}

func earliest(a, b Instant) Instant {
	if a == 0 || (b != 0 && b < a) {
		return b
	}
	return a
}
