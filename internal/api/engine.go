package api

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/sagalog/sagalog/events"
	"github.com/sagalog/sagalog/internal/proxy"
)

// ErrBadCursor is returned by Lists.List for a cursor that it did not issue.
var ErrBadCursor = errors.New("not a cursor of this list")

// ErrNoAnswer is wrapped in the errors of all interfaces when the brokers do not answer at the moment, for example because a
// leader moves: the same call may succeed a little later. A call that writes may have had its effect anyway.
var ErrNoAnswer = errors.New("the brokers do not answer at the moment")

// The interfaces below are how the API calls the engine; the caller of New wires them. They know the partitions that
// are here (proxy.Route.Here). Their knowledge of other partitions may be missing or long out of date. All methods are
// safe for concurrent use.

// Tasks reads single tasks.
type Tasks interface {
	// Task returns a task as of the latest commit, nil if it is not known. The task is the caller's.
	Task(ctx context.Context, id string) (*events.Task, error)
	// WatchTask returns a channel that receives after each commit that may have a fact of a task, which need not exist, or change the schedule of
	// that events.ScheduleKey. If when is given, only commits count that may change the task and leave it in a state that when chooses: it gets "" if the
	// task was forgotten. Commits that come before the channel is read are one receipt. Call it before you look, or you miss a commit in between, and
	// stop at the end.
	WatchTask(id string, when func(events.TaskState) bool) (changes <-chan struct{}, stop func())
	// Held returns a request that is held for a task that does not exist yet; nil if it is not held.
	Held(ctx context.Context, task, request string) (*events.Request, error)
	// Keys returns how the owner planned a task: the attempts that could start now and wait in the queue of their agent, when the owner looks at it
	// next, and what else it counts as waiting for. They are empty for an unknown task.
	Keys(ctx context.Context, t *events.Task) (events.Keys, error)
	// Limit returns a limit for which some task waits or of which some task has a permit; nil if no task does.
	Limit(ctx context.Context, name string) (*events.Limit, error)
}

// Lists reads lists of tasks.
type Lists interface {
	// List returns tasks by submitted_at, newest first. A walk by Page.Next sees each task that existed when the walk began and
	// still matches exactly once, whatever is written meanwhile. It returns ErrBadCursor for a foreign cursor.
	List(ctx context.Context, q Query) (Page, error)
	// Cursor returns the cursor of the page that begins with the task with that ID and submission
	// time.
	Cursor(id string, submitted events.Instant) string
	// Place returns the position at which the page of a cursor begins. Places compare bytewise in the order of the list,
	// whichever node issued the cursor. It returns ErrBadCursor for a foreign one.
	Place(cursor string) (string, error)
}

// Inputs knows how far the inputs have been judged.
type Inputs interface {
	// WaitPassed returns nil when the committed resume point of that input is after offset: the input was judged
	// and the result can be read. It returns ctx's error when ctx ends first.
	WaitPassed(ctx context.Context, in events.Input, partition int32, offset int64) error
	// CatchUp is WaitPassed for the last offset that the input held at the call.
	CatchUp(ctx context.Context, in events.Input, partition int32) error
}

// Query says which tasks to list. Zero members do not filter.
type Query struct {
	// States lists the states that a task may have to match.
	States   []events.TaskState
	Workflow string
	// Labels are the labels that a task must have, all of them.
	Labels map[string]string
	// Since and Until bound submitted_at: Since <= t < Until.
	Since, Until events.Instant
	// Match selects tasks by their steps and their last change.
	Match events.TaskMatch
	// WaitingFor is what a step, or the task as a whole, waits for, and Agent the agent that it waits for. Lists do not look at them.
	WaitingFor events.Waiting
	Agent      string
	// Partitions are the partitions whose tasks are listed; none means all.
	Partitions []int32
	// Fields are the members of the documents to return; none means all.
	Fields []string
	// Request is the ID of a request: the tasks that have not judged it are left out. Lists do not look at it.
	Request string
	// Brief leaves out the input, the output and the steps of the tasks.
	Brief bool
	// Limit is from 1 to MaxLimit. A page may be shorter and still have a next.
	Limit int
	// Cursor is Page.Next of the page before; empty for the first one.
	Cursor string
}

// Page is one page of a list; Next is empty on the last one.
type Page struct {
	Tasks []*events.Task
	Next  string
	// AsOf is how far each partition of the query was folded, in order. The page holds at least that.
	AsOf []PartitionOffset
}

// History reads the accepted facts of a task from the log.
type History interface {
	// History returns the task's facts at offsets >= from of its home partition of events, in order, at most limit.
	// It returns an empty list, and no error, for an unknown task. Void records are left out, and so are facts that were trimmed from
	// the log.
	History(ctx context.Context, task string, from int64, limit int) ([]LoggedFact, error)
}

// LoggedFact is an accepted fact as the log holds it.
type LoggedFact struct {
	Record events.Record
	// Owner is the node whose epoch the fact belongs to; empty if it is not known.
	Owner string
}

// Rejections finds out why an input was rejected.
type Rejections interface {
	// Rejection returns the fact that rejected the input at these coordinates, nil if it was not rejected, or if that is no
	// longer known, an hour later. Call it only after WaitPassed returned nil for the input.
	Rejection(ctx context.Context, in events.Input, partition int32, offset int64) (*events.InputRejected, error)
}

// Workflows reads the workflows and applies new versions.
type Workflows interface {
	// Refresh returns when the other methods know what was applied at any node before the call.
	Refresh(ctx context.Context) error
	// Workflows returns the current version of each workflow, by name.
	Workflows(ctx context.Context) ([]*Workflow, error)
	// Workflow returns a version of a workflow, the current one for version 0; nil if it does not exist. Before it returns nil it
	// reads the definitions up to their end, so it finds one that was applied before the call. The result is
	// read-only.
	Workflow(ctx context.Context, name string, version int) (*Workflow, error)
	// Check validates a draft and returns what Apply would. Nothing is written.
	Check(ctx context.Context, d Draft) (Applied, []Fault, error)
	// Apply validates a draft and appends it. On return without faults and error it is durable, current, and known to
	// Workflow. With faults nothing was written.
	Apply(ctx context.Context, d Draft) (Applied, []Fault, error)
}

// Deletions deletes workflows.
type Deletions interface {
	// Delete deletes a version of a workflow, all for version 0, and returns which it deleted. On return that is durable, and known to
	// Workflows.
	Delete(ctx context.Context, name string, version int) ([]int, error)
}

// Settings knows the settings of the namespace, and changes them.
type Settings interface {
	// Settings returns the settings as of all records that were durable before the call.
	Settings(ctx context.Context) (NamespaceSettings, error)
	// ChangeSettings records new values, which are within their ranges. On return they are durable. If all of them are recorded already,
	// nothing is written and changed is false.
	ChangeSettings(ctx context.Context, change events.SettingsChange) (now NamespaceSettings, changed bool, err error)
	// Upgrade raises the level of the namespace, up to what every live node understands if to is 0. It returns an UpgradeRefusedError
	// if a live node understands less than to. If the namespace has that level already, nothing is written and changed is false.
	Upgrade(ctx context.Context, to int, by string) (now NamespaceSettings, changed bool, err error)
}

// UpgradeRefusedError says which live node understands less than the requested level.
type UpgradeRefusedError struct {
	To int
	By NodeLevel
}

// Error implements error.
func (e *UpgradeRefusedError) Error() string {
	return fmt.Sprintf("level %d is not possible: node %s understands level %d; upgrade that node first", e.To, strconv.Quote(e.By.Node), e.By.Level)
}

// OlderNodeError names a live node whose build does not know the facts that a request leads to.
type OlderNodeError struct{ Node string }

// Error implements error.
func (e *OlderNodeError) Error() string {
	return fmt.Sprintf("node %s runs a build that stops at the fact InputLossAccepted; upgrade that node first", strconv.Quote(e.Node))
}

// Losses knows which inputs were deleted before they were judged, and records that an operator gives them up.
type Losses interface {
	// Losses returns what the inputs have lost, as of now.
	Losses(ctx context.Context) ([]*Loss, error)
	// AcceptLoss records that a loss is accepted, if it is exactly what is lost now. On return it is durable at that offset of
	// the definitions. If that loss was the last to be accepted, it is not written again. If it is not what is lost, nothing is
	// written, offset is 0, and now is what that partition has lost. It returns an OlderNodeError while a live node would stop at
	// the fact.
	AcceptLoss(ctx context.Context, a events.AcceptedLoss) (offset int64, now []*Loss, err error)
}

// Definitions provides the parts of a definition that submissions and tasks need.
type Definitions interface {
	// Definition returns the name and hash of a version, as Workflow finds it. It is called for each submission, so it returns
	// known versions from memory.
	Definition(ctx context.Context, name string, version int) (d Definition, known bool, err error)
	// Accept returns the labels and the priority that a task of the submission gets from that version, or the faults for which the submission
	// is rejected, with pointers into it.
	Accept(ctx context.Context, d Definition, sub *events.Submission) (events.Acceptance, []Fault, error)
	// Steps returns the steps of a definition in its order; none, and no error, for an unknown hash.
	Steps(ctx context.Context, hash string) ([]Step, error)
	// CheckSignal returns why no step of the task can take a signal, nil if one may.
	CheckSignal(ctx context.Context, t *events.Task, signal string, payload json.RawMessage) ([]Fault, error)
	// Preview returns what a task with a valid input would do first, for each step of a definition in its order.
	Preview(ctx context.Context, hash string, t *events.Task) ([]StepPreview, error)
}

// StepPreview is what is known about a step before its task exists.
type StepPreview struct {
	Step
	If string
	// Condition is nil if it depends on steps that are not over.
	Condition       *bool
	Skipped, Starts bool
	// Items is how many items a step with for would have; nil if that is not known, and for other steps.
	Items *int
	// With is the resolved input of a step that starts, or of its first item.
	With  json.RawMessage
	Error string
}

// Definition names one version of a workflow.
type Definition struct {
	Name    string
	Version int
	Hash    string
}

// Workflow is one version of a definition.
type Workflow struct {
	Name               string
	Version            int
	Hash               string
	Title, Description string
	// Current says that submissions without a version get this one.
	Current   bool
	AppliedAt events.Instant
	// AppliedBy is who applied it then; empty if that is not known.
	AppliedBy string
	// Versions are all versions of the workflow, ascending.
	Versions []int
	// Body is the definition as JSON, with $refs inlined.
	Body json.RawMessage
}

// Step is the part of a step's definition that a reader of a task needs.
type Step struct {
	ID                 string
	Title, Description string
	// Operation is the operation of the agent, if it has a name. Workflow is that of the task that does the step, if no agent does it.
	Agent, Operation, Workflow string
	// WorkflowVersion is the version of that workflow; zero for the current one.
	WorkflowVersion int
	// For says which items the step has, "" if it has no for.
	For     string
	Needs   []string
	HasUndo bool
	Pivot   bool
	// Calls are the operations of agents that the step may call.
	Calls []events.Call
}

// Draft is a definition as it was written, YAML or JSON.
type Draft struct {
	// Name is the name in the URL; the definition must have the same name.
	Name   string
	Source []byte
	// By is who applies it; empty if that is not known.
	By string
}

// Applied is the result of checking or applying a draft.
type Applied struct {
	Name    string
	Version int
	Hash    string
	// Changed is false if that content was current already.
	Changed bool
	Steps   []Step
	// Warnings are faults that do not stop it.
	Warnings []Fault
}

// Fault is one fault of a document and its place. Line and Column begin at 1; 0 is unknown.
type Fault struct {
	// Pointer is a JSON pointer into the document; empty for the whole.
	Pointer string
	Message string
	Line    int
	Column  int
}

// Appender appends records to topics; internal/kafka.Producer is one. It is safe for concurrent use.
type Appender interface {
	// Produce sends a record to its Topic and Partition, and calls done exactly once: with the offset when the record is
	// durable, or with an error. It may block for back-pressure until ctx ends. done must not block. The caller never
	// changes the bytes of key, value and headers; the slice of the headers is not kept.
	Produce(ctx context.Context, r events.Record, done func(partition int32, offset int64, err error))
	// ProduceBatch is Produce for each of records, in order, with one done for all of them: it is called exactly
	// once for each, with its index, from any goroutine. The slice of the records is not kept.
	ProduceBatch(ctx context.Context, records []events.Record, done func(i int, partition int32, offset int64, err error))
}

// Cluster knows which nodes own partitions and run agents.
type Cluster interface {
	proxy.Router
	// Owner returns the node that owns a partition, empty if it is not known. It is called for each task that is read.
	Owner(partition int32) string
	// Partitions returns all partitions in order.
	Partitions(ctx context.Context) ([]Partition, error)
	// TakeOvers returns the latest take-overs of a partition that this node has folded, at most TakeOversKept, the latest first.
	TakeOvers(partition int32) []PastTakeOver
	// Agents returns the instances of agents whose heartbeats were seen lately.
	Agents(ctx context.Context) ([]events.Presence, error)
}

// Offers knows which operations the agents offer, from the heartbeats of their instances.
type Offers interface {
	// Offered returns a function that says whether a live instance of an agent takes work and offers what a call asks, as of this
	// call. Call it once for a request: it goes through the heartbeats of all instances.
	Offered() func(events.Call) bool
	// Missing returns the operations that steps of any partition wait for because no live instance offers them, or because the brokers take no
	// requests for them.
	Missing() []events.Missing
}

// ErrTooManyPaused says that as many agents are paused as a namespace can remember.
var ErrTooManyPaused = errors.New("too many agents are paused")

// AgentPauses knows which agents are paused, and pauses them.
type AgentPauses interface {
	// Paused returns the paused agents by name.
	Paused() map[string]PausedAgent
	// PauseAgent records that an agent is paused or goes on; false if it is so already. Its error is ErrTooManyPaused or ErrNoAnswer.
	PauseAgent(context.Context, events.AgentPause) (changed bool, err error)
}

// PausedAgent says who paused an agent, and why.
type PausedAgent struct {
	Agent  string         `json:"agent"`
	By     string         `json:"by,omitempty"`
	Since  events.Instant `json:"since,omitzero" format:"date-time"`
	Reason string         `json:"reason,omitempty"`
}

// Partition is the state of a partition of events.
type Partition struct {
	Partition int32
	// Known says that the partition is here. If it is not, only Partition and the offsets of the topics are set.
	Known bool
	Owner string
	Epoch events.Epoch
	Since events.Instant
	// AppliedOffset is the next offset to fold, EndOffset the end of the log, negative if the brokers did not answer.
	AppliedOffset int64
	EndOffset     int64
	// Begins are the offsets of the first records that the log and the inputs still hold; nil if the brokers did not answer.
	Begins    *PartitionBegins
	StateHash events.Hash
	// Live counts tasks that have not ended, Due the timers that are due and not fired.
	Live int64
	Due  int64
	// Outbox is the effects that no broker has acknowledged, if this node is the owner.
	Outbox []OutboxClass
	// TakenOver says how its owner came by it, nil if not from another node, or if the owner does not know.
	TakenOver *TakeOver
	// Stopped says which node cannot go on with the partition; nil if none says so. It is set even if the partition is not here.
	Stopped *StoppedAt
}

// PartitionBegins says where the topics of a partition begin.
type PartitionBegins struct {
	Events      int64 `json:"events" doc:"The log: above 0 if it was cut (keep_log)"`
	Submissions int64 `json:"submissions"`
	Reports     int64 `json:"reports"`
}

// TakeOver says from whom a node took a partition over, and why.
type TakeOver struct {
	From  string          `json:"from"`
	Cause string          `json:"cause" enum:"stopped,silent,fault" doc:"stopped: it gave the partition up; silent: its heartbeats ended; fault: it said that it cannot own the partition"`
	At    events.Instant  `json:"at" format:"date-time"`
	Gap   events.Duration `json:"gap" doc:"From the last sign of that node, or from the assignment if it lives, until this node owned the partition"`
}

// DeadLetters reads the dead-letter topics.
type DeadLetters interface {
	// Ranges returns the offsets that each partition of each dead-letter topic holds, without those whose brokers do not
	// answer before ctx ends. If none answers, the error is ErrNoAnswer.
	Ranges(ctx context.Context) ([]DeadRange, error)
	// Read returns the records of the dead-letter topic of that input with from <= offset < to, in order.
	Read(ctx context.Context, in events.Input, partition int32, from, to int64) ([]events.Record, error)
	// LetterMark returns what somebody has done about a dead letter whose record has that timestamp; nil if nobody has, or if it is forgotten.
	LetterMark(letter string, written events.Instant) *DeadLetterMark
	// MarkLetter records what somebody did about a dead letter. The record is durable on return. The error may be ErrNoAnswer.
	MarkLetter(ctx context.Context, m events.DeadLetterMark) error
}

// DeadRange is what one partition of a dead-letter topic holds: Start <= offset < End.
type DeadRange struct {
	Input      events.Input
	Partition  int32
	Start, End int64
}

// Demo makes a service of the example fail.
type Demo interface {
	// Services returns the names of the services.
	Services() []string
	// Break makes a service fail in the given way for the given time.
	Break(ctx context.Context, b Breakage) error
	// Fix ends what Break began; an empty service means all.
	Fix(ctx context.Context, service string) error
}

// Breakage is how a service of the example fails.
type Breakage struct {
	Service string
	// Mode is one of BreakModes.
	Mode string
	For  time.Duration
}

// BreakModes are the ways in which a service of the example can fail.
var BreakModes = []string{"slow", "fail", "hang", "refuse"}
