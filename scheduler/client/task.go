package client

import (
	"encoding/json"
	"time"
)

// State is the state of a task.
type State string

// The states of a task.
const (
	// StatePending is a task of which nothing has begun.
	StatePending State = "pending"
	// StateProcessing is a task whose steps run or wait.
	StateProcessing State = "processing"
	// StateProcessed is the end of a task of which everything is done.
	StateProcessed State = "processed"
	// StateUndoing is a task whose completed steps are being undone.
	StateUndoing State = "undoing"
	// StateUndone is the end of a task of which everything is undone.
	StateUndone State = "undone"
	// StateParked is a task that waits for an operator, who retries it, goes on without a step, cancels or terminates it. Its word on the
	// wire is "error".
	StateParked State = "error"
	// StateTerminated is the end of a task that an operator ended where it stood.
	StateTerminated State = "terminated"
	// StateRejected is the end of a task that a step of another task started, and that was not accepted.
	StateRejected State = "rejected"
)

// Ended says whether the state is final. Only Rerun, or an undo of the parent, changes such a task.
func (s State) Ended() bool {
	switch s {
	case StateProcessed, StateUndone, StateTerminated, StateRejected:
		return true
	}
	return false
}

// Task is a task as the engine saw it a moment ago. Members that do not apply are zero. All times are in UTC, with milliseconds.
type Task struct {
	ID string `json:"id"`
	// Run counts from 1; each Rerun adds one.
	Run      int    `json:"run"`
	Workflow string `json:"workflow"`
	// Version is the version of the workflow that the task was accepted with, and keeps.
	Version  int               `json:"version"`
	State    State             `json:"state"`
	Priority int               `json:"priority"`
	FairBy   string            `json:"fair_by"`
	Labels   map[string]string `json:"labels"`
	// Input and Output are JSON. The output is that of the workflow, once the task is processed.
	Input  json.RawMessage `json:"input"`
	Output json.RawMessage `json:"output"`

	SubmittedAt time.Time `json:"submitted_at"`
	UpdatedAt   time.Time `json:"updated_at"`
	EndedAt     time.Time `json:"ended_at"`
	// Deadline is when completed steps are undone, unless the task is past its pivot by then.
	Deadline time.Time `json:"deadline"`
	ParkedAt time.Time `json:"parked_at"`
	// NotBefore is when the first step may start. It is zero once that time has come.
	NotBefore time.Time `json:"not_before"`

	// Schedule is the schedule that started the task.
	Schedule string `json:"schedule"`
	// Parent is the task that started this one to do one of its steps.
	Parent *Parent `json:"parent"`
	// Paused is nil unless the task is paused.
	Paused *Paused `json:"paused"`
	// LockedBy is the node that owns the task while it is live.
	LockedBy string `json:"locked_by"`
	// CompleteBy is the earliest end of the running attempts.
	CompleteBy time.Time `json:"complete_by"`
	// FailureCount counts the failed attempts of all steps.
	FailureCount int `json:"failure_count"`
	// Reason is a sentence that says why the task is parked, undoing, undone or terminated, or was not accepted.
	Reason string `json:"reason"`
	// Steps are all steps of the workflow in its order, those that have not started too. The items of a step with `for` are not in it.
	Steps []Step `json:"steps"`
	// WaitingFor says what the task and its steps wait for. List leaves it out.
	WaitingFor []Waiting `json:"waiting_for"`
	// Left says that an operator skipped the undo of a step, so that what it did stays: Left of the steps says of which. List leaves it out.
	Left bool `json:"left"`
	// Signals have come, and no step has taken them yet. List leaves them out.
	Signals []KeptSignal `json:"signals"`
}

// KeptSignal is a signal that no step has taken yet.
type KeptSignal struct {
	// Signal is its name, and Request the ID of its request.
	Signal  string `json:"signal"`
	Request string `json:"request"`
	// Fact is the position of the fact that keeps it. The history shows it with its time, its payload and who sent it.
	Fact string `json:"fact"`
	// PayloadBytes is how long the payload is in the log; 0 without one.
	PayloadBytes int `json:"payload_bytes"`
}

// Step returns a step by its ID, or nil.
func (t *Task) Step(id string) *Step {
	for i := range t.Steps {
		if t.Steps[i].ID == id {
			return &t.Steps[i]
		}
	}
	return nil
}

// StepState is the state of a step.
type StepState string

// The states of a step.
const (
	StepNotStarted StepState = "not_started"
	StepRunning    StepState = "running"
	// StepWaiting is a step between two attempts, one that sleeps, or one that waits for a signal or another task.
	StepWaiting   StepState = "waiting"
	StepCompleted StepState = "completed"
	StepFailed    StepState = "failed"
	// StepTimedOut is a step that was not done in time.
	StepTimedOut StepState = "timed_out"
	// StepSkipped is a step whose condition was false, or without which an operator went on.
	StepSkipped    StepState = "skipped"
	StepUndoing    StepState = "undoing"
	StepUndone     StepState = "undone"
	StepUndoFailed StepState = "undo_failed"
)

// Step is a step of a task.
type Step struct {
	// ID is the name of the step in its workflow.
	ID string `json:"id"`
	// Agent and Operation say who does the step; Child is the task that does it, and Workflow that of the child.
	Agent     string    `json:"agent"`
	Operation string    `json:"operation"`
	Child     string    `json:"child"`
	Workflow  string    `json:"workflow"`
	State     StepState `json:"state"`
	// Attempt is the number of the latest attempt, from 1; 0 if there was none.
	Attempt int `json:"attempt"`
	// StartedAt and EndedAt are those of the latest attempt; CompleteBy is when it ends without a result.
	StartedAt  time.Time `json:"started_at"`
	EndedAt    time.Time `json:"ended_at"`
	CompleteBy time.Time `json:"complete_by"`
	// RetryAt is when the next attempt starts, and StartBy is the time from which on no other starts.
	RetryAt      time.Time `json:"retry_at"`
	StartBy      time.Time `json:"start_by"`
	FailureCount int       `json:"failure_count"`
	// Input is what the agent got, and Output what it returned. Both are JSON.
	Input  json.RawMessage `json:"input"`
	Output json.RawMessage `json:"output"`
	// Error is that of the latest attempt, if it failed.
	Error *StepError `json:"error"`
	// Reason is a sentence that says why the step is in its state.
	Reason string `json:"reason"`
	// With is the input that an operator gave for all further attempts, as JSON.
	With json.RawMessage `json:"with"`
	// Left says that an operator skipped an undo of the step, or of one of its children: what that did stays.
	Left bool `json:"left"`
	// Continued says that the step timed out, or is an item whose failure is tolerated, and the task went on without it.
	Continued bool `json:"continued"`
	// Progress is the last progress that the agent reported, as JSON. CapBy is when the running attempt ends whatever progress it shows.
	Progress     json.RawMessage `json:"progress"`
	ProgressedAt time.Time       `json:"progressed_at"`
	CapBy        time.Time       `json:"cap_by"`
	// Undo is nil if no undo of the step has begun.
	Undo *StepUndo `json:"undo"`
	// FanOut counts the items of a step with `for`, once they have begun.
	FanOut *FanOut `json:"fan_out"`
}

// StepUndo is the undo of a step.
type StepUndo struct {
	State        StepState  `json:"state"`
	Attempt      int        `json:"attempt"`
	StartedAt    time.Time  `json:"started_at"`
	EndedAt      time.Time  `json:"ended_at"`
	CompleteBy   time.Time  `json:"complete_by"`
	RetryAt      time.Time  `json:"retry_at"`
	StartBy      time.Time  `json:"start_by"`
	FailureCount int        `json:"failure_count"`
	Error        *StepError `json:"error"`
	// Skipped says that an operator skipped it: what the step did stays.
	Skipped bool `json:"skipped"`
}

// StepError says why an attempt failed.
type StepError struct {
	// Class is retryable, permanent, timeout, internal or another class of events.Class.
	Class string `json:"class"`
	// Code is the agent's code of the failure, such as http_503.
	Code    string `json:"code"`
	Message string `json:"message"`
	// Detail is what the service answered, as JSON.
	Detail json.RawMessage `json:"detail"`
}

// FanOut counts the items of a step with `for`.
type FanOut struct {
	Count int `json:"count"`
	// Tolerate is how many of them may fail.
	Tolerate int `json:"tolerate"`
	// Collect is what the output of the step is made of: outputs, failures or none.
	Collect string `json:"collect"`
	// Begun are those that have begun, and Running those of them that are not over.
	Begun     int `json:"begun"`
	Running   int `json:"running"`
	Completed int `json:"completed"`
	Failed    int `json:"failed"`
	Skipped   int `json:"skipped"`
	Undone    int `json:"undone"`
	// Left are those that count as undone, but of which an operator left something.
	Left int `json:"left"`
}

// Parent is the step of another task that a task does.
type Parent struct {
	Task string `json:"task"`
	Step string `json:"step"`
	// Depth is how many ancestors the task has.
	Depth int `json:"depth"`
	// Released says that the parent no longer needs the task.
	Released bool `json:"released"`
}

// Paused says who paused a task.
type Paused struct {
	By     string    `json:"by"`
	Since  time.Time `json:"since"`
	Reason string    `json:"reason"`
}

// Waiting is one thing that a task waits for.
type Waiting struct {
	// Step is empty if the task as a whole waits.
	Step string `json:"step"`
	// Kind is agent, capacity, limit, concurrency, signal, child, sleep, retry, cool_down, quiet, paused, not_before or operator.
	Kind string `json:"kind"`
	// For names it: the agent, the signals, the task that does the step, or the reason why the task is parked.
	For   string    `json:"for"`
	Since time.Time `json:"since"`
	Until time.Time `json:"until"`
}
