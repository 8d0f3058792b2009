package supervisor

import (
	"encoding/json"
	"errors"
	"time"

	"github.com/google/uuid"
	"github.com/sagalog/sagalog/events"
)

// Config is what an owner is told once. Zero values mean the defaults.
type Config struct {
	// Partition is the one that it may own, of Partitions in the namespace.
	Partition  int32
	Partitions int32
	// Node is the name that stands in claims.
	Node string
	// Namespace is the first part of ce_source and of topic names.
	Namespace string
	// NamespaceID is that of NamespaceCreated: remote services see identifiers within it.
	NamespaceID uuid.UUID
	Settings    events.Settings
	// BatchFacts bounds the facts of one append. Less wastes round trips; more delays the first of them.
	BatchFacts int
	// BatchBytes bounds their bytes, below what the topic takes in one batch.
	BatchBytes int
	// InFlight bounds the appends without an answer: two hide the round trip, more only adds to what is lost when
	// the epoch ends.
	InFlight int
	// Queue bounds the ready steps kept in memory for each agent, to twice as many; what is over it waits in the store. Fewer
	// are read again and again while those at their head have started and the store does not know it yet.
	Queue int
	// Tasks bounds the tasks kept in memory beside those that unacknowledged facts touch, and TaskBytes the bytes of their
	// encodings. More are of little use: what is under way is within the agents' windows, and of a backlog the oldest start
	// first, which have left memory already. With fewer, the tasks that wait for a timer or an operator for seconds are read
	// from the store for each of their steps.
	Tasks, TaskBytes int
	// Unsettled bounds the facts whose effects are not acknowledged; at the bound nothing is decided.
	Unsettled int
	// Window is the attempts of an agent that run at once in this partition where nobody publishes a capacity.
	Window int
	// Beside is how many submissions a batch takes at least while attempts end, where the owner decides at once; in beats, it is
	// so many in 64 ms. More delays the tasks under way, less the moment from which the priority of a submission counts.
	Beside int
	// PassEvery is the number of inputs without a fact after which InputsPassed is written.
	PassEvery int
	// FlushEvery is how often the store is written while there is something to write; zero is with each batch, and less only
	// when nothing is on its way (for tests). It bounds how far reads of the store lag behind the log, and what a task that
	// changes all the time costs.
	FlushEvery time.Duration
	// UnknownAfter is how long an append may be without an answer before its outcome counts as unknown.
	UnknownAfter time.Duration
	// TailAbove is the facts a second above which an owner does not read what it writes; zero reads always.
	TailAbove int
	// LagMax is how long reading may lag behind one's own acknowledged writes before deciding stops.
	LagMax time.Duration
	// RetryPause bounds the random pause before a refused claim is tried again.
	RetryPause time.Duration
	// DeposedPause comes on top where another node's claim ended the epoch: two heartbeats of the group, which then says
	// whether the partition is still assigned. An owner that woke from a long pause would otherwise depose its successor
	// before it learns that it was replaced.
	DeposedPause time.Duration
	// Entropy gives 128 random bits: identifiers of claims, and pauses. The simulator seeds it.
	Entropy func() [16]byte
	// Off switches rules off; set by tests of the rules only.
	Off Rule
}

func (c Config) withDefaults() Config {
	set := func(v *int, otherwise int) {
		if *v == 0 {
			*v = otherwise
		}
	}
	set(&c.BatchFacts, 500)
	set(&c.BatchBytes, 1<<20)
	set(&c.InFlight, 3)
	set(&c.Queue, 2048)
	set(&c.Tasks, 2048)
	set(&c.TaskBytes, 8<<20)
	set(&c.Unsettled, 20_000)
	set(&c.Window, 64)
	set(&c.Beside, 128)
	set(&c.PassEvery, 1000)
	if c.UnknownAfter == 0 {
		c.UnknownAfter = 10 * time.Second
	}
	if c.LagMax == 0 {
		c.LagMax = 10 * time.Second
	}
	if c.RetryPause == 0 {
		c.RetryPause = 500 * time.Millisecond
	}
	if c.DeposedPause == 0 {
		c.DeposedPause = time.Second
	}
	if c.Namespace == "" {
		c.Namespace = "sagalog"
	}
	if c.Settings == (events.Settings{}) {
		c.Settings = events.DefaultSettings()
	}
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

// Scheduler is what an owner asks of definitions. It is pure: the same task gives the same answer.
type Scheduler interface {
	// Prepare makes a definition known by its hash, or says why it cannot be used.
	Prepare(hash string, body []byte) error
	// CheckInput returns what is wrong with a task's input; empty if nothing is.
	CheckInput(hash string, input []byte) string
	// Deadline is the workflow's own deadline; zero is none.
	Deadline(hash string) events.Duration
	Plan(t *events.Task) (events.Plan, error)
	Start(t *events.Task, path string, op events.Operation) (events.Start, error)
	Policy(t *events.Task, path string, op events.Operation) events.Policy
	Admit(ready []events.Ready, room map[string]int, now events.Instant) []events.Ready
}

// Store is the committed state of the partition. An owner only reads it; Commit is an Action. What it returns does
// not change until the next Commit of this partition.
type Store interface {
	// Snapshot returns what is committed; the zero Snapshot before the first commit.
	Snapshot() (events.Snapshot, error)
	// Load finds a task: see events.Loader.
	Load(id string) (encoding, keys []byte, err error)
	// Ready returns up to limit rows of an agent's queue, the first in order.
	Ready(agent string, limit int) ([]events.Ready, error)
	// Queues returns the agents that have rows in the queue.
	Queues() ([]string, error)
	// Due returns up to limit tasks that are due at or before the instant, the first due first.
	Due(at events.Instant, limit int) ([]string, error)
	// Unplanned returns up to limit live tasks that no owner planned since they were folded.
	Unplanned(limit int) ([]string, error)
	// Live calls yield for each live task that has something running or a timer.
	Live(yield func(id string) error) error
	// Ended returns up to limit tasks that ended before the instant.
	Ended(before events.Instant, limit int) ([]string, error)
}

// Version is a version of a workflow as the definitions topic holds it.
type Version struct {
	Workflow string
	Version  int
	Hash     string
	// Body has every default filled.
	Body json.RawMessage
	// Offset is where it stands in definitions.
	Offset int64
}

// Catalog is a snapshot of the definitions topic.
type Catalog interface {
	Current(workflow string) (Version, bool)
	Version(workflow string, version int) (Version, bool)
	ByHash(workflow, hash string) (Version, bool)
}
