package events

import (
	"encoding/json"
	"slices"
	"strings"
)

// TaskState is the process state of a task.
type TaskState string

// The process states. TaskStateError is "error" on the wire: the task waits for an operator.
const (
	TaskStatePending    TaskState = "pending"
	TaskStateProcessing TaskState = "processing"
	TaskStateProcessed  TaskState = "processed"
	TaskStateUndoing    TaskState = "undoing"
	TaskStateUndone     TaskState = "undone"
	TaskStateError      TaskState = "error"
	TaskStateTerminated TaskState = "terminated"
	// TaskStateRejected is that of a child that was never accepted: see ChildRefused.
	TaskStateRejected TaskState = "rejected"
)

// Ended says whether the state is final.
func (s TaskState) Ended() bool {
	return s == TaskStateProcessed || s == TaskStateUndone || s == TaskStateTerminated || s == TaskStateRejected
}

// StepState is the state of a step.
type StepState string

// The states of a step.
const (
	StepStateNotStarted StepState = "not_started"
	StepStateRunning    StepState = "running"
	StepStateWaiting    StepState = "waiting"
	StepStateCompleted  StepState = "completed"
	StepStateFailed     StepState = "failed"
	// StepStateTimedOut is the state of a step that failed because its time was over. If Step.Continued is set, the task goes on without it.
	StepStateTimedOut   StepState = "timed_out"
	StepStateSkipped    StepState = "skipped"
	StepStateUndoing    StepState = "undoing"
	StepStateUndone     StepState = "undone"
	StepStateUndoFailed StepState = "undo_failed"
)

// Task is the state of one task: several entities of its partition, see "The rows of a task" in the package comment. Its JSON,
// without the parts in other rows, is the canonical encoding of its head. So the order of the fields is part of the format, and
// an absent field does not change the hash.
type Task struct {
	ID string `json:"id"`
	// Incarnation is the position of the task's Submitted. It distinguishes the task from a forgotten one with the same ID.
	Incarnation string    `json:"incarnation"`
	Run         int       `json:"run"`
	Workflow    string    `json:"workflow"`
	Version     int       `json:"version"`
	Definition  string    `json:"definition"`
	State       TaskState `json:"state"`
	Priority    int       `json:"priority,omitzero"`
	// FairBy is the key of the task in the queues of agents: of equal priority, keys take turns. Tasks without one share a turn.
	FairBy  string            `json:"fair_by,omitempty"`
	Labels  map[string]string `json:"labels,omitempty"`
	Input   json.RawMessage   `json:"input,omitempty"`
	Output  json.RawMessage   `json:"output,omitempty"`
	Content string            `json:"content"`

	SubmittedAt Instant `json:"submitted_at"`
	UpdatedAt   Instant `json:"updated_at"`
	EndedAt     Instant `json:"ended_at,omitzero"`
	Deadline    Instant `json:"deadline,omitzero"`
	// DeadlineWithin is how long the task had until its deadline when it was accepted, or when it could begin, at most MaxDelay. Each run
	// has as long.
	DeadlineWithin Duration `json:"deadline_within,omitzero"`
	// NotBefore is set while nothing of the task may start, because that instant has not come. Delay is the duration that the submission
	// gives for it; zero if it gives an instant.
	NotBefore Instant  `json:"not_before,omitzero"`
	Delay     Duration `json:"delay,omitzero"`

	FailureCount int `json:"failure_count,omitzero"`
	// Reason says why the task was last parked, or why it is or was undone. A task that continued and ended well has none.
	Reason string `json:"reason,omitempty"`
	// Facts counts the facts of the task. It is limited by Settings.TaskFacts.
	Facts int `json:"facts"`

	// ParkDue and ParkReason are set by a verdict and cleared by TaskParked.
	ParkDue    string `json:"park_due,omitempty"`
	ParkReason string `json:"park_reason,omitempty"`
	// ParkedFrom is the state that TaskReopened restores.
	ParkedFrom TaskState `json:"parked_from,omitempty"`
	// ParkedAt is since when the task is parked.
	ParkedAt Instant `json:"parked_at,omitzero"`
	// ReopenedAt is when the deadline was last moved because the task was reopened or resumed.
	ReopenedAt Instant `json:"reopened_at,omitzero"`
	// Paused is set while an operator holds the task.
	Paused *Paused `json:"paused,omitempty"`
	// HaltedAt is since when the task is parked or paused, or first the one and then the other: its deadline counts on from there.
	HaltedAt Instant `json:"halted_at,omitzero"`
	// ParkedReason is the reason why the task is undone, while it is parked in that: TaskReopened restores it.
	ParkedReason string `json:"parked_reason,omitempty"`

	// Rerun is set while steps are undone because they are to run once more.
	Rerun *Rerun `json:"rerun,omitempty"`

	// Reminders is how often the alert was repeated since the task was parked, and RemindAt when it is to be repeated; zero unless the
	// task is parked.
	Reminders int     `json:"reminders,omitzero"`
	RemindAt  Instant `json:"remind_at,omitzero"`
	softLimit

	// RememberFor is how long the task is remembered after its end; zero if the settings say it.
	RememberFor Duration `json:"remember_for,omitzero"`

	// Permit is set if the workflow limits how many of its tasks run at a time.
	Permit *TaskPermit `json:"permit,omitempty"`
	stepPermits

	// PivotPassed says that the task is past its point of no return.
	PivotPassed    bool `json:"pivot_passed,omitzero"`
	DeadlinePassed bool `json:"deadline_passed,omitzero"`
	// QuietAt is when no request of any attempt in doubt can land any more; no undo starts before it.
	QuietAt Instant `json:"quiet_at,omitzero"`
	// Completions counts completed steps. Undo goes through them in reverse order.
	Completions int `json:"completions,omitzero"`

	// Held are requests that arrived before the task. Plan turns them into facts before any start.
	Held []Request `json:"held,omitempty"`
	// Kept are the signals that no step has taken, in the order in which they came.
	Kept []KeptSignal `json:"kept,omitempty"`
	// Requests are the requests already judged, sorted by their IDs.
	Requests []JudgedRequest `json:"requests,omitempty"`

	// Schedule is the schedule that the task belongs to, and that learns its end. It began with the record at ScheduleBegan of the definitions.
	Schedule      string `json:"schedule,omitempty"`
	ScheduleBegan int64  `json:"schedule_began,omitzero"`

	// Parent is set if another task started this one. ChildrenReleased says that this one, which is to be forgotten, needs its children no more.
	Parent           *Parent `json:"parent,omitempty"`
	ChildrenReleased bool    `json:"children_released,omitzero"`

	Traceparent string `json:"traceparent,omitempty"`
	// ReplyTo and ReplyKey are those of the submission. ReplyBegan is the position of the fact by which the first step began, if ReplyTo is set.
	ReplyTo    string   `json:"reply_to,omitempty"`
	ReplyKey   string   `json:"reply_key,omitempty"`
	ReplyBegan Position `json:"reply_began,omitzero"`
	// Last is the position of the task's latest fact: the cause of what follows from its state.
	Last Position `json:"last,omitzero"`

	// Steps holds the steps that have left not_started, in the order in which they did.
	Steps []*Step `json:"steps,omitempty"`
	// Rows is set in a head only.
	Rows *TaskRows `json:"rows,omitempty"`

	hash Hash // the sum over its rows that State.Sum includes; zero if none.
	// now is the current hash of the task, if hashed is true. The state hash may be compared often between two Flushes, and each
	// comparison would otherwise encode every changed task again.
	now    Hash
	hashed bool
	keys   *Keys // of the last flushed row; nil if none.
	// rows are the rows besides the head and the steps; nil if the task never had one.
	rows *valueRows
	// index finds the steps of a task that has many; nil if it has few, or until it is needed.
	index *stepIndex
	// dirty says that the task changed since the last Flush, and is in State.dirtyTasks.
	dirty bool
}

// Paused says who paused a task, and why.
type Paused struct {
	By     string  `json:"by,omitempty"`
	Since  Instant `json:"since"`
	Reason string  `json:"reason,omitempty"`
}

// Step is the state of one step of a task.
type Step struct {
	Path  string `json:"path"`
	Agent string `json:"agent,omitempty"`
	// Function is the operation of the agent, if it has a name.
	Function string    `json:"function,omitempty"`
	State    StepState `json:"state"`
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
	// FailureCount counts all failures. Tries counts attempts since the last cool-down or reopening.
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
	// changed says that the step has changed since the last Flush: see change.
	changed bool

	Undo *UndoState `json:"undo,omitempty"`
	// ByChild is set if a child did an attempt of the step.
	ByChild *ChildState `json:"by_child,omitempty"`
	// Fan is set if the step has items.
	Fan *FanOut `json:"fan_out,omitempty"`
	// Wait is set while the step, which no agent does, is under way.
	Wait *Wait `json:"wait,omitempty"`
	// With is the input that an operator gave for all further attempts, instead of the one that the definition leads to.
	With json.RawMessage `json:"with,omitempty"`
	// Heartbeat and CapBy are those of the latest attempt: see StepStarted.
	Heartbeat Duration `json:"heartbeat,omitzero"`
	CapBy     Instant  `json:"cap_by,omitzero"`
	// Progress is the last progress of any attempt, and ProgressedAt the time of the last fact about progress.
	Progress     json.RawMessage `json:"progress,omitempty"`
	ProgressedAt Instant         `json:"progressed_at,omitzero"`
	// Run is the run to which the step belongs; zero in the first. Its attempts, and those to undo it, count on from the earlier runs, so
	// that no number occurs twice: EarlierAttempts and EarlierUndos are how many those had.
	Run             int `json:"run,omitzero"`
	EarlierAttempts int `json:"earlier_attempts,omitzero"`
	EarlierUndos    int `json:"earlier_undos,omitzero"`
	// Left says that an operator left something of what the step did, in this run or an earlier one: the undo of the step, of one of its children, or of a
	// step inside a child was skipped. That counts as undone.
	Left bool `json:"left,omitzero"`
	// Continued says that the step timed out and the task went on without it.
	Continued bool `json:"continued,omitzero"`
	startLimit
	softLimit
	undoQuiet

	// place is that of the step in Task.Steps, if the task has an index.
	place int
	// row is the step's own row as of the last Flush; nil if the step was in the head, or is new.
	row *rowState
}

// UndoState is the state of the undo of one step.
type UndoState struct {
	State        StepState `json:"state"`
	Agent        string    `json:"agent,omitempty"`
	Function     string    `json:"function,omitempty"`
	Attempt      int       `json:"attempt,omitzero"`
	StartedAt    Instant   `json:"started_at,omitzero"`
	CompleteBy   Instant   `json:"complete_by,omitzero"`
	EndedAt      Instant   `json:"ended_at,omitzero"`
	RetryAt      Instant   `json:"retry_at,omitzero"`
	Error        *Error    `json:"error,omitempty"`
	FailureCount int       `json:"failure_count,omitzero"`
	Tries        int       `json:"tries,omitzero"`
	// With is the input that an operator gave for all further attempts to undo.
	With json.RawMessage `json:"with,omitempty"`
	// Skipped says that an operator skipped it, in this run: what the step did is left.
	Skipped bool `json:"skipped,omitzero"`
	startLimit
}

// usualSteps is the room for the steps of a new task. Most workflows have fewer, and a slice that grows to it from one costs four
// allocations.
const usualSteps = headSteps

// MaxRequests bounds the requests that a task remembers, so that no sender can make loading a task slow. An owner refuses more.
const MaxRequests = 10_000

// Step returns the state of a step, and nil if it has not started.
func (t *Task) Step(path string) *Step {
	if x := indexOf(t); x != nil {
		return x.byPath[path]
	}
	for _, s := range t.Steps {
		if s.Path == path {
			return s
		}
	}
	return nil
}

// Over says whether the steps that need this one may start: it completed, was skipped, or timed out and the task goes on without it. A step of which
// items are undone is not over any more.
func (s *Step) Over() bool {
	return s.State == StepStateCompleted && (s.Fan == nil || s.Fan.Undone == 0 && s.Fan.Open() == 0) || s.State == StepStateSkipped || s.Continued && (s.State == StepStateTimedOut || s.State == StepStateFailed)
}

// Failed says whether the step failed and neither waits for another attempt nor is over.
func (s *Step) Failed() bool {
	return (s.State == StepStateFailed || s.State == StepStateTimedOut) && !s.Continued
}

// Request returns what became of the request with this ID, and whether it was judged for the task.
func (t *Task) Request(id string) (JudgedRequest, bool) {
	i, ok := slices.BinarySearchFunc(t.Requests, id, func(r JudgedRequest, id string) int { return strings.Compare(r.ID, id) })
	if !ok {
		return JudgedRequest{}, false
	}
	return t.Requests[i], true
}

// HasRequest says whether a request with this ID was judged for the task.
func (t *Task) HasRequest(id string) bool {
	_, ok := t.Request(id)
	return ok
}

// Running says whether the given attempt of a step is running. An outcome of any other attempt does not become a fact (INV7).
func (t *Task) Running(path string, op Operation, attempt int) bool {
	s := t.Step(path)
	if s == nil || t.State.Ended() {
		return false
	}
	if op == Undo {
		return s.Undo != nil && s.Undo.State == StepStateRunning && s.Undo.Attempt == attempt
	}
	return s.State == StepStateRunning && s.Attempt == attempt
}

// Irrevocable says whether the task may be past its point of no return: its pivot completed, or an attempt of it is
// under way or left an unknown outcome. Such a task is never undone.
func (t *Task) Irrevocable() bool {
	if t.PivotPassed {
		return true
	}
	for _, s := range t.Live() {
		if s.Pivot && (s.State == StepStateRunning || s.Touched) {
			return true
		}
	}
	return false
}

// Halted says that an operator must act before the task goes on: it is parked or paused. Its deadline only raises an alert meanwhile.
func (t *Task) Halted() bool { return t.State == TaskStateError || t.Paused != nil }

// Starts says whether an attempt of the task may start, of a step or of its undo.
func (t *Task) Starts() bool {
	//mutant:nothing-starts-before
	early := t.NotBefore != 0
	//mutant:paused-starts-nothing
	return !t.State.Ended() && !t.Halted() && !early
}

// RunningStep returns the first step with a running attempt, and the attempt's operation; nil if no attempt runs.
func (t *Task) RunningStep() (*Step, Operation) {
	for _, s := range t.Live() {
		switch {
		case s.State == StepStateRunning:
			return s, Do
		case s.Undo != nil && s.Undo.State == StepStateRunning:
			return s, Undo
		}
	}
	return nil, ""
}

// ToUndo says whether the step must be undone if the task is: it has an undo, and at least one attempt may have had an effect.
func (s *Step) ToUndo() bool {
	//mutant:left-is-not-undone
	return s.Undoable && s.Touched && (s.Undo == nil || s.Undo.State != StepStateUndone)
}

// NotUndone returns the steps that may have had an effect and are not undone, in the order in which they started. A step whose undo an
// operator skipped, in any run, is one of them: it counts as undone for the order of undos only.
func (t *Task) NotUndone() (paths []string) {
	for _, s := range t.Steps {
		if s.Left || s.Touched && s.State != StepStateUndone {
			paths = append(paths, s.Path)
		}
	}
	return paths
}

// LeftOf returns the steps of which an operator left something, in any run, in the order in which they started: see Step.Left.
func LeftOf(t *Task) (paths []string) {
	for _, s := range t.Steps {
		if s.Left {
			paths = append(paths, s.Path)
		}
	}
	return paths
}

// Undoing says whether the task is being undone. Parking only interrupts that.
func (t *Task) Undoing() bool {
	return t.State == TaskStateUndoing || (t.State == TaskStateError && t.ParkedFrom == TaskStateUndoing)
}

// CompleteBy returns the earliest complete-by time of the running attempts.
func (t *Task) CompleteBy() Instant {
	var least Instant
	for _, s := range t.Live() {
		if s.State == StepStateRunning {
			least = earliest(least, s.CompleteBy)
		}
		if s.Undo != nil && s.Undo.State == StepStateRunning {
			least = earliest(least, s.Undo.CompleteBy)
		}
	}
	return least
}

// RunningBy adds the running attempts of each agent, times delta, to counts. Windows are compared with them.
func (t *Task) RunningBy(counts map[string]int, delta int) {
	for _, s := range t.Live() {
		if s.State == StepStateRunning {
			counts[s.Agent] += delta
		}
		if s.Undo != nil && s.Undo.State == StepStateRunning {
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
