package supervisor

import (
	"cmp"
	"encoding/json"
	"errors"
	"time"

	"github.com/google/uuid"
	"github.com/sagalog/sagalog/events"
)

// Config configures an owner. Zero values mean the defaults.
type Config struct {
	// Partition is the partition that the owner may own, out of Partitions in the namespace.
	Partition  int32
	Partitions int32
	// Node is the node's name, as written in claims.
	Node string
	// Namespace is the first part of ce_source and of topic names.
	Namespace string
	// NamespaceID is the ID from NamespaceCreated. Identifiers sent to remote services are built from it.
	NamespaceID uuid.UUID
	// Settings are the namespace's settings, and SettingsOffset is the offset of the record that last changed them, or 0: see
	// Owner.SetSettings. The owner applies the settings that its partition has adopted.
	Settings       events.Settings
	SettingsOffset int64
	// Level is the namespace's level, as far as this process has read. MaxLevel is the highest level that this build understands;
	// only tests set it.
	Level, MaxLevel int
	// BatchFacts bounds the facts of one append. A lower bound wastes round trips; a higher one delays the first facts
	// of a batch.
	BatchFacts int
	// BatchBytes bounds the bytes of one append, and is below the topic's limit for a batch.
	BatchBytes int
	// RecordBytes bounds a fact, as a record of the log without its framing.
	RecordBytes int
	// InFlight bounds the appends without an answer: two hide the round trip; more only increase what is lost when the epoch
	// ends.
	InFlight int
	// Queue bounds the ready steps kept in memory for each agent: at most twice this many, or a few of each key if keys take turns; the
	// rest wait in the store.
	// With a smaller queue the same rows are read again and again, because the steps at the head have started and the
	// store does not know it yet.
	Queue int
	// Tasks bounds the tasks kept in memory besides those that unacknowledged facts touch, and TaskBytes the bytes of
	// their encodings. A higher bound is of little use: the tasks under way fit into the agents' windows, and the
	// oldest tasks of a backlog, which start first, have left memory already. With a lower bound, tasks that wait a few
	// seconds for a timer or an operator are read from the store for each of their steps.
	Tasks, TaskBytes int
	// Unacknowledged bounds the facts whose effects are not acknowledged; at the bound, only due timers are decided.
	Unacknowledged int
	// UnacknowledgedBytes likewise bounds the size of the records of those effects.
	UnacknowledgedBytes int
	// SlowAfter is how long a partition of an agent's topic may leave a request unacknowledged before new work avoids it.
	SlowAfter time.Duration
	// DelayAfter is how long an effect holds the watermark before its destination is delayed.
	DelayAfter time.Duration
	// ReplyFor is how long a reply is tried, from its fact on. A topic that was deleted by mistake is missed within a day.
	ReplyFor time.Duration
	// Window is how many attempts of an agent run at once in this partition if the agent publishes no capacity.
	Window int
	// Beside bounds the submissions that a batch takes while attempts are ending, in addition to those that the facts in the
	// batch allow. An owner that decides at once takes this many in a batch; one that lingers takes this many in 64 ms.
	// A higher number slows down the tasks under way; with a lower one, submissions reach the queues later, and their
	// priority counts only there.
	Beside int
	// PassEvery is the number of inputs without a fact after which InputsPassed is written.
	PassEvery int
	// FlushEvery is how often the store is written while there is something to write. Zero means with every batch; a negative
	// value, for tests, means only when nothing is in flight. It bounds how far reads of the store lag behind the
	// log, and the cost of a task that changes all the time.
	FlushEvery time.Duration
	// Awaited, if set, says whether somebody waits for a change of the store. It is then written more often while few tasks change.
	Awaited func() bool
	// Deleted, if set, says whether a content of a workflow is deleted, as far as this node has read the definitions.
	Deleted func(workflow, hash string) bool
	// Durable, if set, is called with each fact of this owner once the fact is durable, and with the current state of its
	// task, which is nil if the fact has no task or the task is gone. It must retain neither, and must not block.
	Durable func(t *events.Task, f *events.Fact)
	// Keys seals facts of sealed tasks; nil if this process has no key.
	Keys Keys
	// Marked is the mark that the process before this one left: see Mark. Mark, if set, stores a new one before it returns. No
	// decision depends on it: only the next process reads it.
	Marked Mark
	Mark   func(Mark)
	// UnknownAfter is how long an append may be without an answer before its outcome counts as unknown.
	UnknownAfter time.Duration
	// PauseLogAbove is the number of facts per second above which an owner stops reading its own log; zero means that it never
	// stops.
	PauseLogAbove int
	// LagMax is how long reading may lag behind the owner's acknowledged writes before it stops deciding.
	LagMax time.Duration
	// RetryPause bounds the random pause before a refused claim is tried again.
	RetryPause time.Duration
	// DeposedPause is added if another node's claim ended the epoch: two heartbeats of the group, after which the group
	// has said whether the partition is still assigned. An owner that woke from a long pause would otherwise depose its
	// successor before it learns that it was replaced.
	DeposedPause time.Duration
	// Entropy returns 128 random bits, for identifiers of claims and for pauses. The simulator seeds it.
	Entropy func() [16]byte
	// Off switches rules off. Only tests of the rules set it.
	Off Rule
}

func (c Config) withDefaults() Config {
	c.BatchFacts = cmp.Or(c.BatchFacts, 500)
	c.BatchBytes = cmp.Or(c.BatchBytes, 1<<20)
	c.RecordBytes = cmp.Or(c.RecordBytes, 2<<20-64<<10) // topics take 2 MiB; work requests are only slightly larger than their facts
	c.InFlight = cmp.Or(c.InFlight, 3)
	c.Queue = cmp.Or(c.Queue, 2048)
	c.Tasks = cmp.Or(c.Tasks, 2048)
	c.TaskBytes = cmp.Or(c.TaskBytes, 8<<20)
	c.Unacknowledged = cmp.Or(c.Unacknowledged, 20_000)
	c.UnacknowledgedBytes = cmp.Or(c.UnacknowledgedBytes, 64<<20)
	c.SlowAfter = cmp.Or(c.SlowAfter, 2*time.Second)
	c.DelayAfter = cmp.Or(c.DelayAfter, 10*time.Second)
	c.ReplyFor = cmp.Or(c.ReplyFor, 24*time.Hour)
	c.Window = cmp.Or(c.Window, 64)
	c.Beside = cmp.Or(c.Beside, 128)
	c.PassEvery = cmp.Or(c.PassEvery, 1000)
	c.UnknownAfter = cmp.Or(c.UnknownAfter, 10*time.Second)
	c.LagMax = cmp.Or(c.LagMax, 10*time.Second)
	c.RetryPause = cmp.Or(c.RetryPause, 500*time.Millisecond)
	c.DeposedPause = cmp.Or(c.DeposedPause, time.Second)
	c.Namespace = cmp.Or(c.Namespace, events.DefaultNamespace)
	c.Settings = cmp.Or(c.Settings, events.DefaultSettings())
	c.MaxLevel = cmp.Or(c.MaxLevel, events.FormatVersion)
	return c
}

func (c Config) validate() error {
	var faults []error
	if c.Partitions < 1 || c.Partition < 0 || c.Partition >= c.Partitions {
		faults = append(faults, errors.New("the partition is not one of the namespace's"))
	}
	if c.Node == "" {
		faults = append(faults, errors.New("the node has no name"))
	}
	if c.Entropy == nil {
		faults = append(faults, errors.New("no source of random bits"))
	}
	return errors.Join(faults...)
}

// Scheduler answers an owner's questions about definitions. It is pure: the same task gives the same answer.
type Scheduler interface {
	// Prepare makes a definition known by its hash, at least until the next one is prepared, or says why it cannot be used.
	Prepare(hash string, body []byte) error
	// Prepared says whether a definition is known, so that Prepare needs no body.
	Prepared(hash string) bool
	// Accept returns what a task gets when its submission is accepted by that version of the definition. faults says what is wrong with
	// the submission, and is "" if nothing is.
	Accept(hash string, sub *events.Submission, version int) (a events.Acceptance, faults string)
	// Deadline is the workflow's own deadline; zero if it has none.
	Deadline(hash string) events.Duration
	Plan(t *events.Task) (events.Plan, error)
	// Offers says whether a plan still offers an attempt, and from when. The task was quiet when the plan was made.
	Offers(t *events.Task, path string, op events.Operation) (notBefore events.Instant, yes bool, err error)
	Start(t *events.Task, path string, op events.Operation) (events.Start, error)
	// Limit returns the limit of which each attempt to do or undo the step needs a permit; "" if it needs none.
	Limit(t *events.Task, path string) string
	// Defined returns what the task's definition says about the step; zero if it has none of this name.
	Defined(t *events.Task, path string) events.StepTraits
	// Redone returns the steps that run once more if the task is rerun from that step, or from its beginning if path is empty.
	Redone(t *events.Task, path string) []string
	Policy(t *events.Task, path string, op events.Operation) events.Policy
	// Reset forgets what was found out from facts that may be void: an epoch ended.
	Reset()
	// Check returns why a step that completed with an output has failed all the same, nil if it has not, and the cost of finding out.
	Check(t *events.Task, path string, output json.RawMessage) (fault *events.Error, cost int, err error)
	// If a sealed value cannot be opened now, Start, Check and CheckSignal return an *events.NoKeyError, and Accept and Plan set Unopened. The owner asks
	// again later.
	//
	// CheckSignal returns why no step of the task can take a signal, or "" if one may.
	CheckSignal(t *events.Task, signal string, payload []byte) (string, error)
	// NextDue returns the first due time of a schedule after an instant, zero if none exists; FireAt when its task is submitted; and
	// Occurrence its submission. previous is the due time before it that led to a task, zero if none exists.
	NextDue(d *events.ScheduleDefinition, after events.Instant) (events.Instant, error)
	FireAt(d *events.ScheduleDefinition, due events.Instant) events.Instant
	Occurrence(d *events.ScheduleDefinition, due, previous events.Instant) (*events.Submission, error)
	Admit(ready []events.Ready, room map[string]int, now events.Instant) []events.Ready
}

// Store is the committed state of the partition. An owner only reads it; Commit is an Action. Its results do not change
// until the next Commit of this partition.
type Store interface {
	// Snapshot returns the committed snapshot, or the zero Snapshot before the first commit.
	Snapshot() (events.Snapshot, error)
	// Load finds a task: see events.Loader.
	Load(id string) (events.StoredTask, error)
	// Ready returns up to limit attempts that wait in a line, in order.
	Ready(line events.Line, limit int) ([]events.Ready, error)
	// FairKeys returns up to limit keys behind that of the line with which attempts wait in its queue, in the order of their bytes.
	FairKeys(line events.Line, limit int) ([]string, error)
	// Queues returns the queues that have rows.
	Queues() ([]string, error)
	// Due returns up to limit tasks that are due at or before the instant, the earliest first. Waking does the same for the
	// timers that do not wait for reports.
	Due(at events.Instant, limit int) ([]string, error)
	Waking(at events.Instant, limit int) ([]string, error)
	// Unplanned returns up to limit live tasks that no owner has planned since they were folded.
	Unplanned(limit int) ([]string, error)
	// Live calls yield for each live task that has a due time, which includes every task with something running.
	Live(yield func(id string) error) error
	// Unended returns up to limit live tasks behind the given one, in the order of their IDs.
	Unended(after string, limit int) ([]string, error)
	// Tasks returns up to limit tasks behind the given one, in the order of the bytes of their IDs.
	Tasks(after string, limit int) ([]string, error)
	// Ended returns up to limit tasks that ended before the instant and are remembered for as long as the settings say. Forgettable
	// returns those that may be forgotten before the instant because their workflow says so.
	Ended(before events.Instant, limit int) ([]string, error)
	Forgettable(before events.Instant, limit int) ([]string, error)
}

// Version is a version of a workflow as the definitions topic holds it.
type Version struct {
	Workflow string
	Version  int
	Hash     string
	// Body is the definition with every default filled in.
	Body json.RawMessage
	// Unusable says why the definition cannot be used, if it breaks the rules; Body is nil then.
	Unusable string
	// Unread says that the body cannot be read at the moment: the submission waits.
	Unread bool
	// Deleted says that the version was deleted, so that no new task may use it. Of a workflow without versions only this is known.
	Deleted bool
	// Offset is its offset in the definitions topic.
	Offset int64
	// Level is the level that its keys need; at most events.FirstLevel if every build knows them. Body is nil if this build's
	// level is lower.
	Level int
}

// Catalog holds the definitions of the topic, at least up to the requested end, perhaps more.
type Catalog interface {
	// Level is the namespace's level, at least as recent as the definitions that were found so far.
	Level() int
	// Settings returns the namespace's settings, at least as recent as the definitions, and the offset of their record.
	Settings() (events.Settings, int64)
	// These return false for a version that is not there, and say whether that is because it was deleted.
	Current(workflow string) (Version, bool)
	Version(workflow string, version int) (Version, bool)
	ByHash(workflow, hash string) (Version, bool)
}
