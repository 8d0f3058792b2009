package api

import (
	"context"
	"encoding/json"
	"errors"
	"time"

	"github.com/sagalog/sagalog/events"
)

// ErrBadCursor is returned by Tasks.List for a cursor that it did not give.
var ErrBadCursor = errors.New("not a cursor of this list")

// Tasks reads the projection of the partitions that are here (Route.Here); of others it may know nothing, or what was
// long ago. All methods are safe for concurrent use.
type Tasks interface {
	// Task returns a task as of the latest commit, nil if it is not known. The task is the caller's.
	Task(ctx context.Context, id string) (*events.Task, error)
	// List returns tasks by submitted_at, the newest first. A walk by Page.Next sees each task that was there when it
	// began and still matches exactly once, whatever is written meanwhile. It returns ErrBadCursor for a foreign cursor.
	List(ctx context.Context, q Query) (Page, error)
	// Cursor returns the cursor of the page that begins with the task of that ID, submitted then.
	Cursor(id string, submitted events.Instant) string
	// Place returns where the page of a cursor begins. Places compare bytewise in the order of the list, whichever node
	// gave the cursor. It returns ErrBadCursor for a foreign one.
	Place(cursor string) (string, error)
	// Changed returns a channel that is closed by the next commit that may have changed the task, which need not exist.
	// It is taken before looking at the task, or a commit in between is missed.
	Changed(id string) <-chan struct{}
	// WaitPassed returns nil when the committed resume point of that input lies behind offset: the input was judged
	// and what came of it can be read. It returns ctx's error when ctx ends first.
	WaitPassed(ctx context.Context, in events.Input, partition int32, offset int64) error
	// CatchUp is WaitPassed for the last offset that the input held when it was called.
	CatchUp(ctx context.Context, in events.Input, partition int32) error
}

// Query says which tasks to list. Zero members do not filter.
type Query struct {
	State    events.TaskState
	Workflow string
	// Labels must all be there.
	Labels map[string]string
	// Since and Until bound submitted_at: Since <= t < Until.
	Since, Until events.Instant
	// Partitions are those whose tasks are listed; none means all.
	Partitions []int32
	// Limit is from 1 to MaxLimit. A page may be shorter and still have a next.
	Limit int
	// Cursor is Page.Next of the page before; empty for the first one.
	Cursor string
}

// Page is one page of a list; Next is empty on the last one.
type Page struct {
	Tasks []*events.Task
	Next  string
}

// History reads the accepted facts of a task from the log.
type History interface {
	// History returns the task's facts at offsets >= from of its home partition of events, in order, at most limit.
	// It returns none, and no error, for an unknown task. Void records are left out.
	History(ctx context.Context, task string, from int64, limit int) ([]LoggedFact, error)
}

// LoggedFact is an accepted fact as the log holds it.
type LoggedFact struct {
	Record events.Record
	// Owner is the node whose epoch the fact belongs to; empty where that is not known.
	Owner string
}

// Rejections tells why an input became no fact of a task.
type Rejections interface {
	// Rejection returns what rejected the input at these coordinates, nil if nothing did or that is not known. It is
	// called only after WaitPassed returned nil for it.
	Rejection(ctx context.Context, in events.Input, partition int32, offset int64) (*events.InputRejected, error)
}

// Definitions knows the workflows and applies new versions. All methods are safe for concurrent use.
type Definitions interface {
	// Refresh returns when the methods below know what was applied at any node before the call.
	Refresh(ctx context.Context) error
	// Workflows returns the current version of each workflow, by name.
	Workflows(ctx context.Context) ([]*Workflow, error)
	// Workflow returns a version of a workflow, the current one for version 0; nil if there is none. Before it returns
	// nil it has read the definitions up to an end asked for after the call, so that one applied before is found. The
	// caller does not change what it gets.
	Workflow(ctx context.Context, name string, version int) (*Workflow, error)
	// Definition is Workflow for those who need no more of it than its name. It is called for each submission: a known
	// one must come from memory.
	Definition(ctx context.Context, name string, version int) (d Definition, known bool, err error)
	// CheckInput validates a submission's input against the schema of that definition.
	CheckInput(ctx context.Context, hash string, input json.RawMessage) ([]Fault, error)
	// Steps returns the steps of a definition in its order; none, and no error, for an unknown hash.
	Steps(ctx context.Context, hash string) ([]Step, error)
	// Check validates a draft and returns what Apply would. Nothing is written.
	Check(ctx context.Context, d Draft) (Applied, []Fault, error)
	// Apply validates a draft and appends it. On return without faults and error it is durable, current, and known to
	// Workflow. With faults nothing was written.
	Apply(ctx context.Context, d Draft) (Applied, []Fault, error)
}

// Definition names one version of a workflow.
type Definition struct {
	Name    string
	Version int
	Hash    string
}

// Workflow is one version of a definition.
type Workflow struct {
	Name        string
	Version     int
	Hash        string
	Description string
	// Current says that submissions without a version get this one.
	Current   bool
	AppliedAt events.Instant
	// Versions are all versions of the workflow, ascending.
	Versions []int
	// Body is the definition as JSON, with $refs inlined.
	Body json.RawMessage
}

// Step is what a reader of a task needs of a step's definition.
type Step struct {
	ID      string
	Agent   string
	Needs   []string
	HasUndo bool
	Pivot   bool
}

// Draft is a definition as it was written, YAML or JSON.
type Draft struct {
	// Name is that of the URL; the definition must name the same.
	Name   string
	Source []byte
}

// Applied is what became of a draft.
type Applied struct {
	Name    string
	Version int
	Hash    string
	// Changed is false where that content was current already.
	Changed bool
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
	// durable, or with an error. It may block for back-pressure until ctx ends. done must not block. The bytes of key,
	// value and headers must never change; the slice of the headers is not kept.
	Produce(ctx context.Context, r events.Record, done func(partition int32, offset int64, err error))
	// ProduceBatch is Produce for each of records, in their order, with one done for all of them: it is called exactly
	// once for each, with its index, from any goroutine. The slice of the records is not kept.
	ProduceBatch(ctx context.Context, records []events.Record, done func(i int, partition int32, offset int64, err error))
}

// Cluster knows who runs what.
type Cluster interface {
	// Owner returns the node that owns a partition, empty if none is known. It is called for each task that is read.
	Owner(partition int32) string
	// Route returns where reads of a partition are answered now. It is called for each request and submission, and again
	// and again while one waits, so it answers from memory.
	Route(partition int32) Route
	// Partitions returns all partitions in order.
	Partitions(ctx context.Context) ([]Partition, error)
	// Agents returns the instances whose beats were seen lately, of agents only.
	Agents(ctx context.Context) ([]events.Presence, error)
}

// Route is where reads of a partition are answered.
type Route struct {
	// Here says that this node's store has the partition and has caught up.
	Here bool
	// Node is the owner where it is another node that lives, empty where no such one is known.
	Node string
	// Addr is the host:port of that node's API, empty where it serves none.
	Addr string
	// Stopped says why this node, whose partition it is, does not go on with it; empty where it does, or nobody knows.
	Stopped string
}

// Partition is the state of a partition of events.
type Partition struct {
	Partition int32
	// Known says that the partition is here. Where it is not, only Partition and EndOffset are set.
	Known bool
	Owner string
	Epoch events.Epoch
	Since events.Instant
	// AppliedOffset is the next offset to fold, EndOffset the end of the log, negative where the log does not tell it.
	AppliedOffset int64
	EndOffset     int64
	StateHash     events.Hash
	// Live counts tasks that have not ended, Due the timers that are due and not fired.
	Live int64
	Due  int64
}

// DeadLetters reads the dead-letter topics.
type DeadLetters interface {
	// Ranges returns the offsets that each partition of each dead-letter topic holds.
	Ranges(ctx context.Context) ([]DeadRange, error)
	// Read returns the records of the dead-letter topic of that input with from <= offset < to, in order.
	Read(ctx context.Context, in events.Input, partition int32, from, to int64) ([]events.Record, error)
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
	// Break has a service fail in that way for that long.
	Break(ctx context.Context, b Breakage) error
	// Mend ends what Break began; an empty service means all.
	Mend(ctx context.Context, service string) error
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
