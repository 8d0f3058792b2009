package verify

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/google/uuid"
	"github.com/sagalog/sagalog/events"
)

// Span is a range of offsets of a partition.
type Span struct {
	Topic     string
	Partition int32
	// From is the first offset, To the one after the last.
	From, To int64
	// Committed leaves out what transactions aborted, and markers.
	Committed bool
	// Lend says that yield does not keep the headers of a record, which are valid only during the call.
	Lend bool
}

// Bounds are the offsets that a partition holds: from Start up to but not including End.
type Bounds struct{ Start, End int64 }

// Log is the cluster as the check sees it. Nothing is written.
type Log interface {
	// Bounds returns the bounds of each partition of a topic, by number; none if there is no such topic. The end is the last
	// stable offset, requested after the call.
	Bounds(ctx context.Context, topic string) ([]Bounds, error)
	// Read calls yield with each record of the span, in order, and returns the first error of yield unchanged. A record
	// belongs to yield. A record whose batch is too large when decompressed comes without bytes, as
	// the owner sees it.
	Read(ctx context.Context, s Span, yield func(events.Record) error) error
}

// Shelf stores the state of the fold, so that a long log needs little memory.
type Shelf interface {
	Load(id string) (events.StoredTask, error)
	Commit(d *events.Delta, last *events.Record) error
}

// Topics are the names of a namespace's topics.
type Topics struct {
	Definitions, Events, Submissions, Reports, DeadSubmissions, DeadReports string
	// Work returns the work topic of an agent.
	Work func(agent string) string
}

// Stored is a state that a node stores, to compare with the fold.
type Stored struct {
	// Where is the location of the store.
	Where     string
	Partition int32
	// Offset is the first offset that is not part of the state.
	Offset int64
	Hash   events.Hash
	// Rows is the hash summed up from the stored rows, nil if nobody read them.
	Rows *events.Hash
	// Damaged says why the store cannot be trusted; "" if it could be read.
	Damaged string
}

// Config says what to check.
type Config struct {
	Log    Log
	Topics Topics
	// Partition is the only partition to check; nil means all.
	Partition *int32
	// Task is explained line by line; "" for none.
	Task string
	// Shelf returns where the fold of a partition keeps its rows; nil is memory.
	Shelf  func(partition int32) Shelf
	Stored []Stored
	// Acknowledged are submissions that a producer saw acknowledged; nil to skip the check.
	Acknowledged []Acknowledged
	// Ledgers are calls that services received; nil to skip the check.
	Ledgers *Ledgers
	// Fact is called with each record of events that can be decoded, in the order of its partition, and says whether the log
	// accepted it; nil if nobody asks.
	Fact func(f *events.Fact, r *events.Record, accepted bool)
	// AtRest says that nothing should be under way: live tasks, unjudged inputs and unacknowledged effects are
	// findings.
	AtRest bool
	// Now is the time against which delays are measured.
	Now events.Instant
	// Grace is how late something may be before it is a warning; zero is 30 s.
	Grace time.Duration
	// MaxLevel is the highest level of the log that is understood, events.FormatVersion if zero; only tests set it.
	MaxLevel int
	// Show is how many findings of each kind are kept; zero is 5.
	Show int
	// Progress is called with the progress of reading a topic; nil if nobody asks.
	Progress func(topic string, partition int32, done, end int64)
}

// Report is the result.
type Report struct {
	Verdict    string        `json:"verdict"`
	Namespace  string        `json:"namespace"`
	Checks     []CheckResult `json:"checks"`
	Findings   []Finding     `json:"findings"`
	Totals     []Count       `json:"totals,omitempty"`
	Warnings   []Finding     `json:"warnings,omitempty"`
	Warned     []Count       `json:"warned,omitempty"`
	Partitions []Extent      `json:"partitions"`
	Counts     Counts        `json:"counts"`
	// Explained describes the task in Config.Task, line by line.
	Explained []string `json:"explained,omitempty"`
	// TaskUnknown says that the log has no such task.
	TaskUnknown bool    `json:"task_unknown,omitempty"`
	Seconds     float64 `json:"seconds"`
}

// Extent says how much of a partition was read, and how far its owner has got.
type Extent struct {
	Partition int32       `json:"partition"`
	From      int64       `json:"from"`
	End       int64       `json:"end"`
	Owner     string      `json:"owner,omitempty"`
	Epoch     string      `json:"epoch,omitempty"`
	Epochs    int         `json:"epochs"`
	Hash      events.Hash `json:"hash"`
	Watermark string      `json:"watermark,omitempty"`
	// Judged is the resume point of each input topic, NotYet how many inputs come after it.
	Judged map[events.Input]int64 `json:"judged"`
	NotYet map[events.Input]int64 `json:"not_yet_judged"`
}

// Counts are the figures of all partitions.
type Counts struct {
	Records int64 `json:"records"`
	Facts   int64 `json:"facts"`
	// Void counts the records that every reader skips, by reason.
	Void         map[string]int `json:"void"`
	BrokenEpochs int            `json:"broken_epochs"`
	Epochs       int            `json:"epochs"`
	StateHashes  int            `json:"state_hashes"`
	Stores       int            `json:"stores"`
	Tasks        int            `json:"tasks"`
	Carried      int            `json:"carried"`
	Ended        map[string]int `json:"ended"`
	Live         int            `json:"live"`
	Parked       int            `json:"parked"`
	Swept        int            `json:"swept"`
	Movers       map[string]int `json:"movers"`
	Attempts     int            `json:"attempts"`
	Undos        int            `json:"undos"`
	Inputs       map[string]int `json:"inputs"`
	Work         EffectCounts   `json:"work"`
	DeadLetters  EffectCounts   `json:"dead_letters"`
	Forwards     EffectCounts   `json:"forwards"`
	Acknowledged int            `json:"acknowledged"`
	Ledgers      LedgerCounts   `json:"ledgers"`
}

// EffectCounts are the figures of one kind of effects.
type EffectCounts struct {
	Records int `json:"records"`
	// Repeats counts those that were sent again, after a crash of their owner.
	Repeats int `json:"repeats"`
	// NotYet counts effects of facts above the watermark, which need not be there yet.
	NotYet int `json:"not_yet"`
	// Unsent counts effects of attempts that timed out before a new owner could send them.
	Unsent int `json:"unsent"`
}

// ErrNothing is returned if there is nothing to check.
var ErrNothing = errors.New("nothing to check")

// check is one run.
type check struct {
	cfg       Config
	topics    Topics
	book      *book
	count     Counts
	id        uuid.UUID
	number    int32 // of partitions
	agents    map[string]bool
	bounds    map[string][]Bounds // by topic; ends requested after that of events
	early     map[string][]Bounds // ends of effects, requested before that of events
	acks      *acks
	forwards  forwards
	relatives relatives
	explained []string
	// taskUnknown says that the partition of cfg.Task has no such task.
	taskUnknown bool
	owners      map[int32]*ownership
	settled     map[int32]settled
	extents     []Extent
	// unread is set for a partition if not all of its facts could be read.
	unread bool
	// cuts says where the logs begin that were cut.
	cuts map[int32]*cut
	// forgotten is until when there may be calls of tasks of which nothing is known any more.
	forgotten events.Instant
}

// Run runs the checks. It returns an error if something cannot be read or the namespace does not exist; faults of the
// log are in the report.
func Run(ctx context.Context, cfg Config) (*Report, error) {
	begun := time.Now()
	if cfg.Grace <= 0 {
		cfg.Grace = 30 * time.Second
	}
	c := &check{
		cfg: cfg, topics: cfg.Topics, book: newBook(cfg.Show), agents: map[string]bool{},
		bounds: map[string][]Bounds{}, early: map[string][]Bounds{}, acks: newAcks(cfg.Acknowledged),
		forwards: newForwards(), relatives: newRelatives(), owners: map[int32]*ownership{}, settled: map[int32]settled{}, cuts: map[int32]*cut{},
	}
	c.count.Void, c.count.Ended, c.count.Movers, c.count.Inputs = map[string]int{}, map[string]int{}, map[string]int{}, map[string]int{}
	if err := c.begin(ctx); err != nil {
		return nil, err
	}
	for _, s := range cfg.Stored {
		if s.Damaged != "" {
			c.book.add(Finding{Check: CheckFold, Kind: "damaged", What: s.Damaged})
		}
	}
	for p := range c.number {
		if !c.wanted(p) {
			continue
		}
		if err := c.partition(ctx, p); err != nil {
			return nil, fmt.Errorf("partition %d: %w", p, err)
		}
	}
	if err := c.work(ctx); err != nil {
		return nil, err
	}
	if err := c.forwards.compare(ctx, c); err != nil {
		return nil, err
	}
	c.relatives.compare(c)
	c.acks.rest(c)
	c.ledgers()
	return c.report(begun), nil
}

// wanted says whether a partition is to be read.
func (c *check) wanted(p int32) bool {
	if c.cfg.Task != "" && events.Home(c.cfg.Task, c.number) != p {
		return false
	}
	return c.cfg.Partition == nil || *c.cfg.Partition == p
}

// partial says that not all partitions are read, so records of one partition cannot be compared with those of another.
func (c *check) partial() bool { return c.unread || c.cfg.Task != "" || c.cfg.Partition != nil }

// begin reads the namespace and asks for all ends: those of effects, then the end of events, then the ends of effects and inputs
// again. So each effect below its first end has its fact, and each cause and each effect of a fact below the watermark has its
// record below the last ends.
func (c *check) begin(ctx context.Context) error {
	if err := c.readDefinitions(ctx); err != nil {
		return err
	}
	effects := []string{c.topics.DeadSubmissions, c.topics.DeadReports, c.topics.Submissions, c.topics.Reports}
	for agent := range c.agents {
		effects = append(effects, c.topics.Work(agent))
	}
	ask := func(into map[string][]Bounds, topics ...string) error {
		for _, t := range topics {
			b, err := c.cfg.Log.Bounds(ctx, t)
			if err != nil {
				return fmt.Errorf("ask for the ends of %s: %w", t, err)
			}
			into[t] = b
		}
		return nil
	}
	if err := errors.Join(ask(c.early, effects...), ask(c.bounds, c.topics.Events), ask(c.bounds, effects...)); err != nil {
		return err
	}
	for _, t := range []string{c.topics.Events, c.topics.Submissions, c.topics.Reports, c.topics.DeadSubmissions, c.topics.DeadReports} {
		switch n := int32(len(c.bounds[t])); {
		case n == 0:
			return fmt.Errorf("%w: there is no topic %s", ErrNothing, t)
		case n != c.number:
			return fmt.Errorf("%w: %s has %d partitions, but the namespace was created with %d", ErrNothing, t, n, c.number)
		}
	}
	if p := c.cfg.Partition; p != nil && (*p < 0 || *p >= c.number) {
		return fmt.Errorf("%w: the namespace has no partition %d; it has 0 to %d", ErrNothing, *p, c.number-1)
	}
	return nil
}

func (c *check) readDefinitions(ctx context.Context) error {
	topic := c.topics.Definitions
	b, err := c.cfg.Log.Bounds(ctx, topic)
	if err != nil {
		return err
	}
	if len(b) != 1 || b[0].End == 0 || b[0].Start > 0 {
		return fmt.Errorf("%w: %s does not exist, or does not begin with the namespace's first record", ErrNothing, topic)
	}
	first := true
	return c.cfg.Log.Read(ctx, Span{Topic: topic, To: b[0].End}, func(r events.Record) error {
		if r.Control {
			return nil
		}
		if r.Header(events.HeaderType) == events.TypeCopying { // of a copy, NamespaceCreated is the last record
			return nil
		}
		if first && (r.Offset == 0 || r.Header(events.HeaderType) == namespaceCreated) {
			first = false
			n, err := readNamespace(&r)
			if err != nil {
				return fmt.Errorf("%w: %s: %w", ErrNothing, topic, err)
			}
			if n.Format > events.FormatVersion {
				return fmt.Errorf("%w: the namespace has format %d, but this program reads %d", ErrNothing, n.Format, events.FormatVersion)
			}
			c.number = n.Partitions
			c.id, err = uuid.Parse(n.ID)
			return err
		}
		_ = agentsIn(r.Value, c.agents) // a definition that cannot be read names no agent; the facts show whether a task uses it
		return nil
	})
}

func (c *check) progress(topic string, partition int32, done, end int64) {
	if c.cfg.Progress != nil {
		c.cfg.Progress(topic, partition, done, end)
	}
}

func (c *check) report(begun time.Time) *Report {
	var skipped []string
	if c.cfg.Ledgers == nil {
		skipped = append(skipped, CheckLedgers)
	}
	r := &Report{
		Namespace: c.id.String(), Findings: slices.Concat([]Finding{}, c.book.findings), Totals: counts(c.book.kinds),
		Warnings: c.book.warnings, Warned: counts(c.book.warned), Partitions: c.extents, Counts: c.count, Explained: c.explained,
		TaskUnknown: c.taskUnknown,
	}
	r.Checks, r.Verdict = c.book.results(skipped...)
	if c.count.Stores == 0 && !slices.ContainsFunc(c.cfg.Stored, func(s Stored) bool { return s.Damaged != "" }) {
		r.Checks[0].What = "the log folds, and every recorded state hash is its fold; no store was compared"
	}
	r.Seconds = time.Since(begun).Seconds()
	return r
}
