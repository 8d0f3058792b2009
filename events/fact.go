package events

import (
	"encoding/json"
	"fmt"
)

// Name is the name of a kind of fact. In a record it is the ce_type without TypePrefix.
type Name string

// The facts. Reserved for later versions: CarryBegun, EntityCarried, CarryEnded, JobOpened.
const (
	NameNamespaceCreated  Name = "NamespaceCreated"
	NamePartitionClaimed  Name = "PartitionClaimed"
	NameVersionBarrier    Name = "VersionBarrier"
	NameSettingsAdopted   Name = "SettingsAdopted"
	NameDefinitionAdopted Name = "DefinitionAdopted"
	NameSubmitted         Name = "Submitted"
	NameStepStarted       Name = "StepStarted"
	NameStepCompleted     Name = "StepCompleted"
	NameStepFailed        Name = "StepFailed"
	NameTimeout           Name = "Timeout"
	NameStepSkipped       Name = "StepSkipped"
	NameUndoStarted       Name = "UndoStarted"
	NameCompensated       Name = "Compensated"
	NameUndoFailed        Name = "UndoFailed"
	NameCancelRequested   Name = "CancelRequested"
	NameRequestHeld       Name = "RequestHeld"
	NameDeadlinePassed    Name = "DeadlinePassed"
	NameTaskProcessed     Name = "TaskProcessed"
	NameTaskUndone        Name = "TaskUndone"
	NameTaskParked        Name = "TaskParked"
	NameTaskReopened      Name = "TaskReopened"
	NameTasksSwept        Name = "TasksSwept"
	NameInputRejected     Name = "InputRejected"
	NameInputForwarded    Name = "InputForwarded"
	NameInputsPassed      Name = "InputsPassed"
	NameEffectFailed      Name = "EffectFailed"
	NameStateHash         Name = "StateHash"

	// Named for the rows to come; this version neither writes nor reads them.
	NameStepAccepted   Name = "StepAccepted"
	NameStepExtended   Name = "StepExtended"
	NameSignalReceived Name = "SignalReceived"
	NameTaskPaused     Name = "TaskPaused"
	NameTaskResumed    Name = "TaskResumed"
)

// Fact is one decided transition, as it stands in <ns>.events. A claim has neither epoch nor sequence: it makes the
// epoch.
type Fact struct {
	Epoch    Epoch
	Sequence uint64
	Time     Instant
	// Task is the task that the fact is about; empty for a fact about the partition.
	Task  string
	Cause Cause
	// CauseID is the ce_id of the input that caused the fact, if it had one.
	CauseID string
	// CauseHash is HashInput of the input that caused the fact. A claimer re-reads that input and compares.
	CauseHash   string
	Traceparent string
	// Settled is the position up to which all effects are acknowledged; zero says nothing new.
	Settled Position
	Body    Body
}

// Position returns the fact's place in its partition.
func (f *Fact) Position() Position { return Position{Epoch: f.Epoch, Sequence: f.Sequence} }

// Body is what a fact says beside its envelope. Bodies are pointers to the structs of this package.
type Body interface{ Name() Name }

// NamespaceCreated is the first record of definitions; no partition holds it.
type NamespaceCreated struct {
	ID         string `json:"id"`
	Partitions int32  `json:"partitions"`
	Format     int    `json:"format"`
}

// PartitionClaimed asks for ownership: it is valid only if Prev is the identifier of the current claim at the
// claim's own position in the log.
type PartitionClaimed struct {
	ID    string `json:"id"`
	Prev  string `json:"prev"`
	Owner string `json:"owner"`
	// Reader is the format version that the claimant writes and reads.
	Reader int `json:"reader"`
}

// VersionBarrier stops readers whose format version is less than Reader.
type VersionBarrier struct {
	Reader int `json:"reader"`
}

// SettingsAdopted holds what decide uses beside state, input and time.
type SettingsAdopted struct {
	Settings Settings `json:"settings"`
}

// DefinitionAdopted brings a version of a workflow into the partition before its first use there, so that the fold
// needs no other topic.
type DefinitionAdopted struct {
	Workflow string `json:"workflow"`
	Hash     string `json:"hash"`
	Version  int    `json:"version"`
	// Body has $refs inlined and defaults filled.
	Body json.RawMessage `json:"body"`
}

// Submitted accepts a task.
type Submitted struct {
	Workflow string            `json:"workflow"`
	Version  int               `json:"version"`
	Hash     string            `json:"hash"`
	Input    json.RawMessage   `json:"input,omitempty"`
	Priority int               `json:"priority,omitzero"`
	Labels   map[string]string `json:"labels,omitempty"`
	// Deadline is absolute.
	Deadline Instant `json:"deadline,omitzero"`
	// Content is the content hash by which a repeat is told from a conflict.
	Content string `json:"content"`
}

// StepStarted begins an attempt of a step; its effect is the work request.
type StepStarted struct {
	Step       string          `json:"step"`
	Agent      string          `json:"agent"`
	Attempt    int             `json:"attempt"`
	CompleteBy Instant         `json:"complete_by"`
	ReadyAt    Instant         `json:"ready_at,omitzero"`
	Input      json.RawMessage `json:"input,omitempty"`
	// Condition is the result of the step's if; absent where it has none.
	Condition *bool `json:"condition,omitempty"`
	// Pivot says that this step is the point of no return.
	Pivot bool `json:"pivot,omitzero"`
	// Undoable says that the definition names an undo for it.
	Undoable bool `json:"undoable,omitzero"`
}

// Outcome is what is known of how an attempt went; the times serve what-if replay, which nothing can add later.
type Outcome struct {
	Instance   string  `json:"instance,omitempty"`
	ReadyAt    Instant `json:"ready_at,omitzero"`
	StartedAt  Instant `json:"started_at,omitzero"`
	AcceptedAt Instant `json:"accepted_at,omitzero"`
	FinishedAt Instant `json:"finished_at,omitzero"`
}

// StepCompleted is the success of an attempt.
type StepCompleted struct {
	Step    string          `json:"step"`
	Attempt int             `json:"attempt"`
	Output  json.RawMessage `json:"output,omitempty"`
	Outcome
}

// Action is what a verdict does.
type Action string

// The actions of a verdict.
const (
	ActionRetry    Action = "retry"
	ActionCoolDown Action = "cool_down"
	ActionUndo     Action = "undo"
	ActionPark     Action = "park"
)

// Verdict is the supervisor's decision about a failure, with its reason. The fold obeys it and judges nothing.
type Verdict struct {
	Action Action `json:"action"`
	// At is when the next attempt may start, for retry and cool_down.
	At     Instant `json:"at,omitzero"`
	Reason string  `json:"reason"`
}

// StepFailed is a reported failure of an attempt, or (Attempt 0) a failure before any work was sent.
type StepFailed struct {
	Step       string   `json:"step"`
	Attempt    int      `json:"attempt"`
	Error      Error    `json:"error"`
	Effect     Effect   `json:"effect"`
	RetryAfter Duration `json:"retry_after,omitzero"`
	Verdict    Verdict  `json:"verdict"`
	Outcome
}

// Timeout says that the complete-by time of an attempt passed without an outcome.
type Timeout struct {
	Step       string    `json:"step"`
	Operation  Operation `json:"operation"`
	Attempt    int       `json:"attempt"`
	CompleteBy Instant   `json:"complete_by"`
	// QuietAt is complete-by plus the grace in which a request in flight may still land; no undo starts before it.
	QuietAt Instant `json:"quiet_at,omitzero"`
	Verdict Verdict `json:"verdict"`
}

// StepSkipped says that a step will not run.
type StepSkipped struct {
	Step string `json:"step"`
	// Why is "condition" (its if was false) or "needs" (a step that it needs was skipped).
	Why       string `json:"why"`
	Condition string `json:"condition,omitempty"`
}

// The reasons of a skip.
const (
	SkipCondition = "condition"
	SkipNeeds     = "needs"
)

// UndoStarted begins an attempt to undo a step; its effect is the work request.
type UndoStarted struct {
	Step       string          `json:"step"`
	Agent      string          `json:"agent"`
	Attempt    int             `json:"attempt"`
	CompleteBy Instant         `json:"complete_by"`
	ReadyAt    Instant         `json:"ready_at,omitzero"`
	Input      json.RawMessage `json:"input,omitempty"`
	Output     json.RawMessage `json:"output,omitempty"`
}

// Compensated says that the undo of one step succeeded.
type Compensated struct {
	Step    string `json:"step"`
	Attempt int    `json:"attempt"`
	Outcome
}

// UndoFailed is a reported failure of an attempt to undo; a Timeout with operation undo is its sibling.
type UndoFailed struct {
	Step       string   `json:"step"`
	Attempt    int      `json:"attempt"`
	Error      Error    `json:"error"`
	RetryAfter Duration `json:"retry_after,omitzero"`
	Verdict    Verdict  `json:"verdict"`
	Outcome
}

// CancelRequested turns the task to undoing.
type CancelRequested struct {
	Request string `json:"request"`
	Reason  string `json:"reason,omitempty"`
	By      string `json:"by,omitempty"`
}

// RequestHeld keeps a request for a task that is not there yet, because reports overtake submissions.
type RequestHeld struct {
	Request   Request `json:"request"`
	ExpiresAt Instant `json:"expires_at"`
}

// DeadlinePassed says that a task's deadline passed. Action is "undo", or "alert" behind the pivot.
type DeadlinePassed struct {
	Deadline Instant `json:"deadline"`
	Action   string  `json:"action"`
}

// The actions of DeadlinePassed.
const (
	DeadlineUndo  = "undo"
	DeadlineAlert = "alert"
)

// TaskProcessed ends a task well.
type TaskProcessed struct {
	Output json.RawMessage `json:"output,omitempty"`
}

// TaskUndone ends a task all of whose effects are undone.
type TaskUndone struct {
	Reason string `json:"reason,omitempty"`
}

// TaskParked puts a task in front of an operator.
type TaskParked struct {
	Step   string `json:"step,omitempty"`
	Reason string `json:"reason"`
}

// TaskReopened is an operator's retry: the named steps begin anew.
type TaskReopened struct {
	Request string   `json:"request"`
	Steps   []string `json:"steps"`
	Reason  string   `json:"reason,omitempty"`
	By      string   `json:"by,omitempty"`
}

// TasksSwept forgets finished tasks whose horizon passed.
type TasksSwept struct {
	Tasks []string `json:"tasks"`
	// EndedBefore bounds the fact times of their ends.
	EndedBefore Instant `json:"ended_before"`
}

// InputRejected judges an input unusable; its effect is the dead letter.
type InputRejected struct {
	// Reason is one of the reject reasons of FORMAT.md.
	Reason string `json:"reason"`
	Detail string `json:"detail,omitempty"`
	// Held names the request that expired, where the input had been held.
	Held string `json:"held,omitempty"`
	// HeldAt is that input's own cause, since this fact's is a timer.
	HeldAt Cause `json:"held_at,omitempty"`
}

// The reasons of a rejection.
const (
	RejectUnreadable = "unreadable"
	RejectInvalid    = "invalid"
	RejectWorkflow   = "unknown_workflow"
	RejectSchema     = "schema"
	RejectTooLarge   = "too_large"
	RejectConflict   = "conflict"
	RejectMisplaced  = "misplaced"
	RejectRefused    = "refused"
	RejectExpired    = "expired"
	RejectLimit      = "limit"
	RejectInternal   = "internal"
)

// InputForwarded sends a misplaced input to its home partition; its effect is the marked copy.
type InputForwarded struct {
	To int32 `json:"to"`
}

// Passed is how far an input topic was judged.
type Passed struct {
	// Next is the offset of the first input that was not judged.
	Next int64 `json:"next"`
	// Hash is HashInput of the last judged input.
	Hash string `json:"hash,omitempty"`
}

// InputsPassed moves the resume points over inputs that made no fact. It names each topic separately
// (reading/traces.md, Fm1).
type InputsPassed struct {
	Inputs map[Input]Passed `json:"inputs,omitempty"`
}

// EffectFailed says that the broker refused an effect for good.
type EffectFailed struct {
	// Of is the position of the fact whose effect it was.
	Of Position `json:"of"`
	// Kind is one of the effect kinds.
	Kind  string `json:"kind"`
	Error string `json:"error"`
	// Failed is the failure of the attempt whose work request it was.
	Failed *StepFailed `json:"failed,omitempty"`
	// UndoFailed is the same for an undo.
	UndoFailed *UndoFailed `json:"undo_failed,omitempty"`
	// Input is the input whose forward it was: its dead letter is the effect of this fact.
	Input Cause `json:"input,omitempty"`
}

// The kinds of effects.
const (
	EffectWork       = "work"
	EffectDeadLetter = "dead_letter"
	EffectForward    = "forward"
	EffectAlert      = "alert"
)

// StateHash holds the hash of the partition's state before this fact.
type StateHash struct {
	Hash Hash `json:"hash"`
}

// Unreadable stands for a body that this version cannot read. It is never written. A void record may hold one; in an
// accepted record it stops the partition.
type Unreadable struct {
	Kind Name
	// Err says what could not be read.
	Err error
}

// The names of the bodies.
func (u *Unreadable) Name() Name      { return u.Kind }
func (*NamespaceCreated) Name() Name  { return NameNamespaceCreated }
func (*PartitionClaimed) Name() Name  { return NamePartitionClaimed }
func (*VersionBarrier) Name() Name    { return NameVersionBarrier }
func (*SettingsAdopted) Name() Name   { return NameSettingsAdopted }
func (*DefinitionAdopted) Name() Name { return NameDefinitionAdopted }
func (*Submitted) Name() Name         { return NameSubmitted }
func (*StepStarted) Name() Name       { return NameStepStarted }
func (*StepCompleted) Name() Name     { return NameStepCompleted }
func (*StepFailed) Name() Name        { return NameStepFailed }
func (*Timeout) Name() Name           { return NameTimeout }
func (*StepSkipped) Name() Name       { return NameStepSkipped }
func (*UndoStarted) Name() Name       { return NameUndoStarted }
func (*Compensated) Name() Name       { return NameCompensated }
func (*UndoFailed) Name() Name        { return NameUndoFailed }
func (*CancelRequested) Name() Name   { return NameCancelRequested }
func (*RequestHeld) Name() Name       { return NameRequestHeld }
func (*DeadlinePassed) Name() Name    { return NameDeadlinePassed }
func (*TaskProcessed) Name() Name     { return NameTaskProcessed }
func (*TaskUndone) Name() Name        { return NameTaskUndone }
func (*TaskParked) Name() Name        { return NameTaskParked }
func (*TaskReopened) Name() Name      { return NameTaskReopened }
func (*TasksSwept) Name() Name        { return NameTasksSwept }
func (*InputRejected) Name() Name     { return NameInputRejected }
func (*InputForwarded) Name() Name    { return NameInputForwarded }
func (*InputsPassed) Name() Name      { return NameInputsPassed }
func (*EffectFailed) Name() Name      { return NameEffectFailed }
func (*StateHash) Name() Name         { return NameStateHash }

// NewBody returns an empty body of that name, to decode into.
func NewBody(n Name) (Body, error) {
	make, ok := bodies[n]
	if !ok {
		return nil, fmt.Errorf("%w: %q", ErrUnknownFact, n)
	}
	return make(), nil
}

var bodies = map[Name]func() Body{
	NameNamespaceCreated:  func() Body { return new(NamespaceCreated) },
	NamePartitionClaimed:  func() Body { return new(PartitionClaimed) },
	NameVersionBarrier:    func() Body { return new(VersionBarrier) },
	NameSettingsAdopted:   func() Body { return new(SettingsAdopted) },
	NameDefinitionAdopted: func() Body { return new(DefinitionAdopted) },
	NameSubmitted:         func() Body { return new(Submitted) },
	NameStepStarted:       func() Body { return new(StepStarted) },
	NameStepCompleted:     func() Body { return new(StepCompleted) },
	NameStepFailed:        func() Body { return new(StepFailed) },
	NameTimeout:           func() Body { return new(Timeout) },
	NameStepSkipped:       func() Body { return new(StepSkipped) },
	NameUndoStarted:       func() Body { return new(UndoStarted) },
	NameCompensated:       func() Body { return new(Compensated) },
	NameUndoFailed:        func() Body { return new(UndoFailed) },
	NameCancelRequested:   func() Body { return new(CancelRequested) },
	NameRequestHeld:       func() Body { return new(RequestHeld) },
	NameDeadlinePassed:    func() Body { return new(DeadlinePassed) },
	NameTaskProcessed:     func() Body { return new(TaskProcessed) },
	NameTaskUndone:        func() Body { return new(TaskUndone) },
	NameTaskParked:        func() Body { return new(TaskParked) },
	NameTaskReopened:      func() Body { return new(TaskReopened) },
	NameTasksSwept:        func() Body { return new(TasksSwept) },
	NameInputRejected:     func() Body { return new(InputRejected) },
	NameInputForwarded:    func() Body { return new(InputForwarded) },
	NameInputsPassed:      func() Body { return new(InputsPassed) },
	NameEffectFailed:      func() Body { return new(EffectFailed) },
	NameStateHash:         func() Body { return new(StateHash) },
}
