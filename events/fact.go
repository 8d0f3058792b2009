package events

import (
	"encoding/json"
	"slices"
)

// Name is the name of a kind of fact. In a record it is the ce_type without TypePrefix.
type Name string

// The kinds of facts. This is their only table. If a kind has the name of a struct below, this version writes and reads it, and
// go generate derives its registration, its name and its codec from this table (fact_gen.go). Reserved for a later version:
// JobOpened.
const (
	NameNamespaceCreated        Name = "NamespaceCreated"
	NamePartitionClaimed        Name = "PartitionClaimed"
	NameVersionBarrier          Name = "VersionBarrier"
	NameSettingsAdopted         Name = "SettingsAdopted"
	NameDefinitionAdopted       Name = "DefinitionAdopted"
	NameSubmitted               Name = "Submitted"
	NameNotBeforePassed         Name = "NotBeforePassed"
	NameStepQueued              Name = "StepQueued"
	NameStepStarted             Name = "StepStarted"
	NameStepProgressed          Name = "StepProgressed"
	NameWaitStarted             Name = "WaitStarted"
	NameFanOutStarted           Name = "FanOutStarted"
	NameStepCompleted           Name = "StepCompleted"
	NameStepFailed              Name = "StepFailed"
	NameTimeout                 Name = "Timeout"
	NameStepSkipped             Name = "StepSkipped"
	NameCompensationStarted     Name = "CompensationStarted"
	NameCompensated             Name = "Compensated"
	NameCompensationFailed      Name = "CompensationFailed"
	NameCancelRequested         Name = "CancelRequested"
	NameSignalReceived          Name = "SignalReceived"
	NameRequestHeld             Name = "RequestHeld"
	NameRequestRefused          Name = "RequestRefused"
	NameDeadlinePassed          Name = "DeadlinePassed"
	NameSoftLimitPassed         Name = "SoftLimitPassed"
	NameTaskProcessed           Name = "TaskProcessed"
	NameTaskUndone              Name = "TaskUndone"
	NameTaskParked              Name = "TaskParked"
	NameTaskReminded            Name = "TaskReminded"
	NameTaskReopened            Name = "TaskReopened"
	NameTaskRerun               Name = "TaskRerun"
	NameRunBegun                Name = "RunBegun"
	NameTaskPaused              Name = "TaskPaused"
	NameTaskResumed             Name = "TaskResumed"
	NameTaskTerminated          Name = "TaskTerminated"
	NameChildAsked              Name = "ChildAsked"
	NameChildAnswered           Name = "ChildAnswered"
	NameChildRefused            Name = "ChildRefused"
	NameChildUndoRequested      Name = "ChildUndoRequested"
	NameChildReleased           Name = "ChildReleased"
	NameChildReturned           Name = "ChildReturned"
	NameChildrenReleased        Name = "ChildrenReleased"
	NameTasksSwept              Name = "TasksSwept"
	NamePermitAsked             Name = "PermitAsked"
	NamePermitGranted           Name = "PermitGranted"
	NamePermitReleased          Name = "PermitReleased"
	NamePermitReturned          Name = "PermitReturned"
	NamePermitBlocked           Name = "PermitBlocked"
	NamePermitsDecided          Name = "PermitsDecided"
	NameLimitAdopted            Name = "LimitAdopted"
	NameLimitPaused             Name = "LimitPaused"
	NameLimitResumed            Name = "LimitResumed"
	NameInputRejected           Name = "InputRejected"
	NameInputForwarded          Name = "InputForwarded"
	NameInputsPassed            Name = "InputsPassed"
	NameInputLossAccepted       Name = "InputLossAccepted"
	NameEffectFailed            Name = "EffectFailed"
	NameEffectsDelayed          Name = "EffectsDelayed"
	NameEffectsCaughtUp         Name = "EffectsCaughtUp"
	NameScheduleAdopted         Name = "ScheduleAdopted"
	NameScheduleFired           Name = "ScheduleFired"
	NameSchedulePassed          Name = "SchedulePassed"
	NameScheduleTaskEnded       Name = "ScheduleTaskEnded"
	NameScheduleCancelRequested Name = "ScheduleCancelRequested"
	NameSchedulePaused          Name = "SchedulePaused"
	NameScheduleResumed         Name = "ScheduleResumed"
	NameTimeCorrected           Name = "TimeCorrected"
	NameNamespaceClosed         Name = "NamespaceClosed"
	NameStateHash               Name = "StateHash"
	NameCarryBegun              Name = "CarryBegun"
	NameEntityCarried           Name = "EntityCarried"
	NameCarryEnded              Name = "CarryEnded"

	// Reserved for later versions; this one neither writes nor reads them.
	NameStepAccepted Name = "StepAccepted"
)

// Names returns the kinds of facts that this version writes and reads, in the order of their table.
func Names() []Name { return slices.Clone(names) }

// Fact is one decided transition in <ns>.events. A claim has neither epoch nor sequence: it begins an epoch.
type Fact struct {
	Epoch    Epoch
	Sequence uint64
	Time     Instant
	// Task is the task that the fact is about; empty for a fact about the partition.
	Task  string
	Cause Cause
	// CauseID is the ce_id of the input that caused the fact, if it had one.
	CauseID string
	// CauseHash is HashInput of the input that caused the fact, empty if nobody could read it. A claimer re-reads that input and compares.
	CauseHash   string
	Traceparent string
	// Watermark is the position up to which all effects are acknowledged or belong to a delayed destination, or zero if it has not
	// changed.
	Watermark Position
	Body      Body
}

// Position returns the fact's place in its partition.
func (f *Fact) Position() Position { return Position{Epoch: f.Epoch, Sequence: f.Sequence} }

// Body is the content of a fact without its envelope. Bodies are pointers to the structs of this package.
type Body interface{ Name() Name }

// NamespaceCreated is the first record of definitions; no partition holds it.
type NamespaceCreated struct {
	ID         string `json:"id" schema:"uuid"`
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

// SettingsAdopted holds the settings that decide uses besides state, input and time. Offset is the offset of the definitions
// record that they come from, 0 if the namespace has none.
type SettingsAdopted struct {
	Settings Settings `json:"settings"`
	Offset   int64    `json:"offset,omitzero"`
}

// DefinitionAdopted brings a version of a workflow into the partition before its first use, so that the fold needs no other topic.
type DefinitionAdopted struct {
	Workflow string `json:"workflow"`
	Hash     string `json:"hash"`
	Version  int    `json:"version"`
	// Body has $refs inlined and defaults filled in.
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
	// NotBefore is the instant before which nothing of the task starts; zero if it may start at once.
	NotBefore Instant `json:"not_before,omitzero"`
	// Delay is the duration that the submission gives for it; absent if it gives an instant.
	Delay Duration `json:"delay,omitzero"`
	// Content is the content hash that distinguishes a repeat from a conflict.
	Content  string `json:"content"`
	ReplyTo  string `json:"reply_to,omitempty"`
	ReplyKey string `json:"reply_key,omitempty"`
	// Concurrency is set if the task runs only with a permit.
	Concurrency *Concurrency `json:"concurrency,omitempty"`
	// FairBy is the key by which the queues take turns; empty if its workflow gives none.
	FairBy string `json:"fair_by,omitempty"`
	// Schedule is the schedule that the task belongs to. The end of the task is reported to it. It began with the record at ScheduleBegan of the
	// definitions.
	Schedule      string `json:"schedule,omitempty"`
	ScheduleBegan int64  `json:"schedule_began,omitzero"`
	// Parent is the try of another task that started this one, which learns its end.
	Parent *ParentLink `json:"parent,omitempty"`
	// RemindAfter is the soft limit of the task; zero if its definition gives none.
	RemindAfter Duration `json:"remind_after,omitzero"`
	// RememberFor is how long the task is remembered after its end; zero if its definition does not say it, and the settings do.
	RememberFor Duration `json:"remember_for,omitzero"`
}

// StepStarted begins an attempt of a step; its effect is the work request.
type StepStarted struct {
	Step       string          `json:"step"`
	Agent      string          `json:"agent"`
	Function   string          `json:"function,omitempty"` // the operation of the agent, if it has a name
	Attempt    int             `json:"attempt"`
	CompleteBy Instant         `json:"complete_by"`
	ReadyAt    Instant         `json:"ready_at,omitzero"`
	StartBy    Instant         `json:"start_by,omitzero"` // no further attempt starts from then on
	Input      json.RawMessage `json:"input,omitempty"`
	// Run is the run to which the step belongs, from the second on.
	Run int `json:"run,omitzero"`
	// Condition is the result of the step's if. It is absent if the step has none.
	Condition *bool `json:"condition,omitempty"`
	// Pivot says that this step is the point of no return.
	Pivot bool `json:"pivot,omitzero"`
	// Undoable says that the definition names an undo for it.
	Undoable bool `json:"undoable,omitzero"`
	// Heartbeat is set if the attempt must show progress: CompleteBy is then its end unless it does, and CapBy its end in any case.
	Heartbeat Duration `json:"heartbeat,omitzero"`
	CapBy     Instant  `json:"cap_by,omitzero"`
	// Progress is the last progress of the earlier attempts.
	Progress json.RawMessage `json:"progress,omitempty"`
	// RemindAfter is the soft limit of the step, which the first attempt begins; zero if its definition gives none.
	RemindAfter Duration `json:"remind_after,omitzero"`
	// Child is set if a task does the step, and no agent: the effect is its submission then. CompleteBy is zero if it may take any time.
	Child *ChildCall `json:"child,omitempty"`
}

// Outcome describes how an attempt went. The times are for what-if replay, and could not be added later.
type Outcome struct {
	Instance   string  `json:"instance,omitempty"`
	ReadyAt    Instant `json:"ready_at,omitzero"`
	StartedAt  Instant `json:"started_at,omitzero"`
	AcceptedAt Instant `json:"accepted_at,omitzero"`
	FinishedAt Instant `json:"finished_at,omitzero"`
}

// StepCompleted is the success of an attempt, or (Attempt 0) the end of a step that waited.
type StepCompleted struct {
	Step    string          `json:"step"`
	Attempt int             `json:"attempt"`
	Output  json.RawMessage `json:"output,omitempty"`
	// Signal is the request of the signal that ended the wait.
	Signal string `json:"signal,omitempty"`
	// QuietAt is set if the attempt may also be carried out by another instance, or a second time: its complete-by time plus the
	// grace. No undo starts before it.
	QuietAt Instant `json:"quiet_at,omitzero"`
	Outcome
	Operator
}

// Action is the consequence that a verdict chooses.
type Action string

// The actions of a verdict.
const (
	ActionRetry    Action = "retry"
	ActionCoolDown Action = "cool_down"
	ActionUndo     Action = "undo"
	ActionPark     Action = "park"
	// ActionContinue is chosen if the time of a step is over and its definition says on_timeout: continue. The step is timed_out, has no
	// output, and the steps that need it may start.
	ActionContinue Action = "continue"
)

// Verdict is the supervisor's decision about a failure, with its reason. The fold carries it out and judges nothing.
type Verdict struct {
	Action Action `json:"action"`
	// At is when the next attempt may start, for retry and cool_down.
	At     Instant `json:"at,omitzero"`
	Reason string  `json:"reason"`
	// Uncounted says that the attempt does not count against its policy: the agent did not make it or was missing when it timed
	// out, or no broker had acknowledged the request by then.
	Uncounted bool `json:"uncounted,omitzero"`
}

// StepFailed is a reported failure of an attempt, or (Attempt 0) a failure before any work was sent, or of a step that waits.
type StepFailed struct {
	Step    string `json:"step"`
	Attempt int    `json:"attempt"`
	Error   Error  `json:"error"`
	Effect  Effect `json:"effect"`
	// Output is set if the attempt completed and the check of the step (fail_if) refused its result.
	Output json.RawMessage `json:"output,omitempty"`
	// Signal is the request of the signal that ended the wait, whose payload the check refused.
	Signal string `json:"signal,omitempty"`
	// QuietAt is set if the effect is in doubt: the attempt's complete-by time plus the grace in which a request in flight may still
	// land. No undo starts before it.
	QuietAt    Instant  `json:"quiet_at,omitzero"`
	RetryAfter Duration `json:"retry_after,omitzero"`
	Verdict    Verdict  `json:"verdict"`
	Outcome
	Operator
}

// StepSkipped says that a step will not run.
type StepSkipped struct {
	Step string `json:"step"`
	// Why is "condition" (its if was false), "needs" (a step that it needs was skipped) or "operator".
	Why       string `json:"why" schema:"words:Skip*"`
	Condition string `json:"condition,omitempty"`
	// Output is what later expressions see as the output of a step that an operator skipped.
	Output json.RawMessage `json:"output,omitempty"`
	// Left says that an operator skipped the undo of the step: it counts as undone, and what it did is left.
	Left bool `json:"left,omitzero"`
	// Child, if set, is the child to which the decision is limited: only what it did is left, and the children of earlier tries are still asked.
	Child string `json:"child,omitempty"`
	Operator
}

// The reasons of a skip.
const (
	SkipCondition = "condition"
	SkipNeeds     = "needs"
	SkipOperator  = "operator"
)

// CompensationStarted begins an attempt to undo a step; its effect is the work request.
type CompensationStarted struct {
	Step       string          `json:"step"`
	Agent      string          `json:"agent"`
	Function   string          `json:"function,omitempty"` // the operation of the agent, if it has a name
	Attempt    int             `json:"attempt"`
	CompleteBy Instant         `json:"complete_by"`
	ReadyAt    Instant         `json:"ready_at,omitzero"`
	StartBy    Instant         `json:"start_by,omitzero"` // no further attempt starts from then on
	Input      json.RawMessage `json:"input,omitempty"`
	Output     json.RawMessage `json:"output,omitempty"`
	// Run is the run of the do that it undoes, from the second on.
	Run int `json:"run,omitzero"`
	// Child is set if the child of the step is asked to undo itself, and no agent. It may take any time.
	Child *ChildCall `json:"child,omitempty"`
}

// CompensationFailed is a reported failure of an attempt to undo; a Timeout with operation undo is its sibling.
type CompensationFailed struct {
	Step    string `json:"step"`
	Attempt int    `json:"attempt"`
	Error   Error  `json:"error"`
	// QuietAt is set if the attempt may still act: its complete-by time plus the grace. No do of the step starts before it.
	QuietAt    Instant  `json:"quiet_at,omitzero"`
	RetryAfter Duration `json:"retry_after,omitzero"`
	Verdict    Verdict  `json:"verdict"`
	Outcome
	Operator
}

// CancelRequested turns the task to undoing.
type CancelRequested struct {
	Request string `json:"request"`
	Reason  string `json:"reason,omitempty"`
	By      string `json:"by,omitempty"`
}

// RequestHeld keeps a request for a task that does not exist yet, because reports may overtake submissions.
type RequestHeld struct {
	Request   Request `json:"request"`
	ExpiresAt Instant `json:"expires_at"`
}

// RequestRefused says why a request changes nothing. The task remembers it as it remembers a granted one, so the request
// with the same ID is answered the same.
type RequestRefused struct {
	Request string `json:"request"`
	Verb    Verb   `json:"verb"`
	// Reason says why, and what to do instead.
	Reason string `json:"reason"`
	// By is who asked; empty if nobody said.
	By string `json:"by,omitempty"`
}

// TaskParked makes a task wait for an operator.
type TaskParked struct {
	Step   string `json:"step,omitempty"`
	Reason string `json:"reason"`
}

// TaskReminded repeats the alert about a task that is still parked. Reminder counts from 1 since it was parked.
type TaskReminded struct {
	Reminder int `json:"reminder"`
	// Since is when it was parked, and Reason why.
	Since  Instant `json:"since"`
	Reason string  `json:"reason,omitempty"`
}

// TaskReopened is an operator's retry: the named steps start again.
type TaskReopened struct {
	Request string   `json:"request"`
	Steps   []string `json:"steps"`
	// With replaces the resolved input of the only step, or of its undo if that is retried, in all further attempts.
	With   json.RawMessage `json:"with,omitempty"`
	Reason string          `json:"reason,omitempty"`
	By     string          `json:"by,omitempty"`
}

// TaskPaused holds a task: its running attempts finish, and nothing else starts.
type TaskPaused struct {
	Request string `json:"request"`
	Reason  string `json:"reason,omitempty"`
	By      string `json:"by,omitempty"`
}

// TaskResumed lets a paused task go on.
type TaskResumed struct {
	Request string `json:"request"`
	Reason  string `json:"reason,omitempty"`
	By      string `json:"by,omitempty"`
}

// InputRejected judges an input unusable; its effect is the dead letter.
type InputRejected struct {
	// Reason is one of the reject reasons of FORMAT.md.
	Reason string `json:"reason" schema:"words:Reject*"`
	Detail string `json:"detail,omitempty"`
	// Held is the ID of the request, if the input is a request that was held until it expired.
	Held string `json:"held,omitempty"`
	// HeldAt names that input by its coordinates, because the cause of this fact is the timer.
	HeldAt Cause `json:"held_at,omitempty"`
	// Last is the offset of the last input that the fact rejects, if there are several: a batch that cannot be decompressed.
	Last int64 `json:"last,omitempty"`
	// Reply is set if the input is a submission that asks for replies in an allowed topic.
	Reply *ReplyTo `json:"reply,omitempty"`
	// Schedule and Submission say which task is rejected, if the input is the submission of a schedule. The rejection is reported to it.
	Schedule      string `json:"schedule,omitempty"`
	ScheduleBegan int64  `json:"schedule_began,omitzero"`
	Submission    string `json:"submission,omitempty"`
	// ScheduledForgottenBefore is later than the time of that submission, if it is refused as too old: no copy of it is accepted later.
	ScheduledForgottenBefore Instant `json:"scheduled_forgotten_before,omitzero"`
}

// The reasons of a rejection.
const (
	RejectUnreadable      = "unreadable"
	RejectInvalid         = "invalid"
	RejectUnknownWorkflow = "unknown_workflow"
	RejectSchema          = "schema"
	RejectNoKey           = "no_key"
	RejectTooLarge        = "too_large"
	RejectConflict        = "conflict"
	RejectMisplaced       = "misplaced"
	RejectTooOld          = "too_old"
	// RejectLost is that of a child about which nobody knows anything although it was asked before.
	RejectLost     = "lost"
	RejectRefused  = "refused"
	RejectExpired  = "expired"
	RejectLimit    = "limit"
	RejectInternal = "internal"
	RejectEnded    = "judging_ended_process"
)

// InputForwarded sends a misplaced input to its home partition; its effect is the marked copy.
type InputForwarded struct {
	To int32 `json:"to"`
}

// Passed says how far an input topic has been judged.
type Passed struct {
	// Next is the offset of the first input that was not judged.
	Next int64 `json:"next"`
	// Hash is HashInput of the last judged input.
	Hash string `json:"hash,omitempty"`
}

// InputsPassed moves the resume points over inputs that led to no fact. It names each topic separately: see
// docs/protocol.md, "InputsPassed carries what was judged, for each topic".
type InputsPassed struct {
	Inputs map[Input]Passed `json:"inputs,omitempty"`
}

// InputLossAccepted moves the resume point of an input to the first record that still exists, because an operator gave up those from From
// on, which were deleted before they were judged. If To equals From, only the record before them was missing, by which the topic
// is known to be the same.
type InputLossAccepted struct {
	Input Input `json:"input"`
	From  int64 `json:"from"`
	To    int64 `json:"to"`
	// Offset is the offset of the acceptance in the definitions; Reason and By are copied from it.
	Offset int64  `json:"offset"`
	Reason string `json:"reason,omitempty"`
	By     string `json:"by,omitempty"`
}

// StateHash holds the hash of the partition's state before this fact.
type StateHash struct {
	Hash Hash `json:"hash"`
}

// Unreadable replaces a body that this version cannot read. It is never written. A void record may hold one; in an accepted
// record it stops the partition.
type Unreadable struct {
	Kind Name
	// Err says what could not be read.
	Err error
}

// Name returns the kind of the unreadable fact.
func (u *Unreadable) Name() Name { return u.Kind }
