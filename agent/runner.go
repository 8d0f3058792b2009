package agent

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sync/errgroup"

	"github.com/failsafe-go/failsafe-go/circuitbreaker"

	"github.com/sagalog/sagalog/events"
)

// Source is where the work requests of one agent come from: a member of a consumer group on <ns>.work.<agent>.
//
// Poll and Assigned are called by one goroutine, Confirm, Commit and Partitions by others, at the same time.
type Source interface {
	// Poll waits for work requests and returns at most most of them, the records of a partition in their order. It
	// returns when ctx ends. Records may come together with an error. The caller owns the slice until the next Poll,
	// and keeps the records' bytes. While it is not called, the source must hold back and stay a member of its group.
	Poll(ctx context.Context, most int) ([]events.Record, error)
	// Assigned returns what was known of a partition when it was assigned to this instance. It speaks of the records that
	// Poll returned last.
	Assigned(partition int32) Assigned
	// Confirm asks whether the partitions are still this instance's, and returns the assignment of each that was when the
	// answer was given: no other instance was given it before. It is called once at a time.
	Confirm(ctx context.Context) (map[int32]int64, error)
	// Commit stores the marks of those partitions that are still under the mark's assignment, and returns them; they are
	// durable, and no other instance was given the partition before. It is called once at a time.
	Commit(ctx context.Context, marks map[int32]Mark) (map[int32]Mark, error)
	// Partitions returns the partitions that are assigned now. It does not wait.
	Partitions() []int32
}

// Mark is how far the work of a partition is done.
type Mark struct {
	// Assignment names the assignment of the partition that the mark belongs to; no two of a Source have the same.
	Assignment int64
	// Next is the offset to read from next time.
	Next int64
	// Metadata is kept with it: at most 4096 bytes of text, which say what is finished above Next.
	Metadata string
}

// Assigned is a partition when it is assigned.
type Assigned struct {
	// Mark is what was committed, by whomever.
	Mark Mark
	// Shared is the offset below which another instance may have read before, and may still be at work on what it read.
	// It is an end of the partition that was asked for after the assignment, or 0 if no other instance had it ever.
	Shared int64
	// Lost says that the partition has lost records: those from LostFrom on may be others than the ones that were read or
	// committed before. Mark does not pass LostFrom then.
	Lost     bool
	LostFrom int64
}

// Sink is where reports and beats go.
type Sink interface {
	// Produce hands a record, with topic and partition set, to a producer and returns without waiting for the broker
	// (it may wait for room in a buffer). done is called exactly once, from any goroutine, or before Produce returns:
	// nil when the record is durable. Once ctx has ended it waits for room no longer, and a record that was not sent yet may
	// be given up.
	Produce(ctx context.Context, r events.Record, done func(error))
}

// Config says how a Runner works. The zero value of a field means its default.
type Config struct {
	// Namespace begins the names of all topics. Default "sagalog".
	Namespace string
	// Instance names this process in reports and presence; unique among the running ones. Required.
	Instance string
	// Sources holds the source of each registered agent. The caller closes them, after Run has returned.
	Sources map[string]Source
	// Sink takes reports and beats. The caller closes it, after Run has returned.
	Sink Sink
	// OutputLimit bounds an output in bytes. Default 256 KiB, the engine's own limit.
	OutputLimit int
	// Grace is what running attempts get at a stop before they are cut off, and then again to return. Default 2 s:
	// most calls end in it, and a supervisor of processes usually waits for 10 s.
	Grace time.Duration
	// CommitEvery is the interval of the commits. Default 200 ms: what is done twice after a crash is what finished in
	// it (what had no effect is committed at once), and five commits a second and agent cost a broker nothing.
	CommitEvery time.Duration
	// CommitTimeout bounds one commit. Default 2 s.
	CommitTimeout time.Duration
	// BeatEvery is the interval of presence. Default 1 s.
	BeatEvery time.Duration
	// Registerer takes the metrics. Default: none.
	Registerer prometheus.Registerer
	// Log takes what an operator should see. Default: nothing.
	Log *slog.Logger
}

// Defaults of Config and the limit that the HTTP agent shares.
const (
	DefaultNamespace   = "sagalog"
	DefaultOutputLimit = 256 << 10
)

func (c *Config) withDefaults() {
	setDefault(&c.Namespace, DefaultNamespace)
	setDefault(&c.OutputLimit, DefaultOutputLimit)
	setDefault(&c.Grace, 2*time.Second)
	setDefault(&c.CommitEvery, 200*time.Millisecond)
	setDefault(&c.CommitTimeout, 2*time.Second)
	setDefault(&c.BeatEvery, time.Second)
	if c.Log == nil {
		c.Log = slog.New(slog.NewTextHandler(io.Discard, nil))
	}
	if c.Registerer == nil {
		c.Registerer = prometheus.NewRegistry()
	}
}

func setDefault[T comparable](field *T, v T) {
	var zero T
	if *field == zero {
		*field = v
	}
}

func (c *Config) validate(r *Registry) error {
	faults := []error{r.Err()}
	if c.Instance == "" {
		faults = append(faults, errors.New("instance is empty"))
	}
	if c.Sink == nil {
		faults = append(faults, errors.New("sink is missing"))
	}
	if c.OutputLimit < 0 || c.Grace < 0 || c.CommitEvery < 0 || c.CommitTimeout < 0 || c.BeatEvery < 0 {
		faults = append(faults, errors.New("a limit or an interval is negative"))
	}
	for _, name := range r.Agents() {
		if c.Sources[name] == nil {
			faults = append(faults, fmt.Errorf("agent %s has no source", name))
		}
	}
	for name := range c.Sources {
		if r.agents[name] == nil {
			faults = append(faults, fmt.Errorf("a source is given for agent %q, which is not registered", name))
		}
	}
	if len(r.agents) == 0 {
		faults = append(faults, errors.New("no agent is registered"))
	}
	return errors.Join(faults...)
}

// Runner runs the agents of a registry.
type Runner struct {
	config  Config
	lanes   []*lane
	started time.Time
}

// NewRunner checks registry and configuration and returns a runner. Nothing starts before Run.
func NewRunner(r *Registry, c Config) (*Runner, error) {
	if err := c.validate(r); err != nil {
		return nil, fmt.Errorf("configure agents: %w", err)
	}
	c.withDefaults()
	m, err := newMetrics(c.Registerer)
	if err != nil {
		return nil, err
	}
	out := &Runner{config: c}
	for _, name := range r.Agents() {
		out.lanes = append(out.lanes, out.newLane(r.agents[name], m))
	}
	return out, nil
}

func (r *Runner) newLane(a *agent, m *metrics) *lane {
	c := &r.config
	retry := a.retry.withDefaults()
	m.breakerState(a.name, circuitbreaker.ClosedState)
	g := newGate(a.breaker, func(s circuitbreaker.State) { m.breakerState(a.name, s) })
	metrics := m.lane(a.name)
	metrics.capacity(a.concurrency)
	return &lane{
		agent: a, source: c.Sources[a.name], marks: newMarks(), config: c, metrics: metrics, log: c.Log,
		reports: newReporter(c, a.name),
		exec: &executor{
			agent: a, retry: retry, policy: retry.policy(), gate: g, limit: newLimiter(a), outputLimit: c.OutputLimit, log: c.Log,
		},
		proof:  newProof(),
		room:   make(chan struct{}, 1),
		wanted: make(chan struct{}, 1),
		flying: map[attemptID]*request{},
		spent:  map[attemptID]time.Time{},
	}
}

// Run works until ctx ends, then stops cleanly: it polls no more, gives running attempts the grace, waits for their
// reports, commits, and says in presence that it is gone. It returns nil for a clean stop, ErrStuck if a function
// did not return, and the error of a source that closed. It is called once.
func (r *Runner) Run(ctx context.Context) error {
	r.started = time.Now()
	lanes, stop := errgroup.WithContext(ctx)
	for _, l := range r.lanes {
		lanes.Go(func() error { return l.run(stop) })
	}
	ended := make(chan struct{})
	beats := make(chan struct{})
	go func() {
		defer close(beats)
		r.beatLoop(stop, ended)
	}()
	err := lanes.Wait()
	close(ended)
	<-beats
	return err
}
