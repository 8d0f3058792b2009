package node

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/sagalog/sagalog/events"
	"github.com/sagalog/sagalog/internal/api"
	"github.com/sagalog/sagalog/projector"
)

// Checkpoints says where a node keeps copies of its state store, and when it makes them by itself.
type Checkpoints struct {
	// Dir is where all of them are; default "checkpoints" in the node's directory. On the same file system they are hard links.
	Dir string
	// Every and Records are the time, and the records of the log folded, after which the next one is made; whichever comes first. Zero: not by this.
	Every   time.Duration
	Records int64
	// Keep is how many of those that the node made by itself are kept; default 3. Those that a person asked for stay.
	Keep int
}

const (
	// CheckpointsDir is where a node keeps its checkpoints in its directory.
	CheckpointsDir = "checkpoints"
	// DefaultCheckpointsKept leaves two if the last one turns out to be of no use. Each keeps the tables that the store has replaced since.
	DefaultCheckpointsKept = 3
	// checkpointsEvery is how often a node looks whether a checkpoint is due.
	checkpointsEvery = time.Second
	// checkpointAgain is the pause after one that failed.
	checkpointAgain = time.Minute
	// ownCheckpoint begins the names of those that the node makes by itself.
	ownCheckpoint   = "auto-"
	askedCheckpoint = "asked-"
	checkpointTime  = "20060102T150405.000Z"
	// maxCheckpoints is how many entries a directory may hold when a checkpoint is asked for: whoever asks in a loop does not fill the disk.
	maxCheckpoints = 1000
)

// checkpointName is one element of a path, that is neither hidden nor taken for something half made.
var checkpointName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,99}$`)

// stateCheckpoints makes checkpoints of the store of a node. A failed one is logged and counted, and stops nothing.
type stateCheckpoints struct {
	Checkpoints
	store *stateStore
	// node is the name of this node: a directory of checkpoints may hold those of other nodes.
	node    string
	version string
	now     func() time.Time
	log     *slog.Logger
	metrics *checkpointMetrics
	// making holds a value while a checkpoint is made.
	making chan struct{}

	mu sync.Mutex // guards the fields below
	// last is the time of the newest one of this node, zero without any. since is that time, or when this process began.
	last          events.Instant
	since, failed time.Time
	// base is how many records were folded in the last one; of a state that was emptied, how many it had when that was noticed.
	base int64
}

func newStateCheckpoints(s *stateStore, cfg *Config) (*stateCheckpoints, error) {
	c := &stateCheckpoints{
		Checkpoints: s.checkpoints, store: s, node: cfg.Name, version: cfg.Version, now: cfg.Now, log: cfg.Logger, making: make(chan struct{}, 1),
		since: cfg.Now(),
	}
	c.clear()
	found, err := projector.FindCheckpoints(s.files(), c.Dir)
	if err != nil { // making one will say so again, and count it
		c.log.Warn("the checkpoints cannot be looked at", "error", err)
	}
	for i := range found {
		if f := &found[i]; f.Err == nil && c.own(f) {
			c.last, c.base = f.Time, f.Records()
			if at := f.Time.Time(); at.Before(c.since) { // a clock may have been wrong
				c.since = at
			}
			break
		}
	}
	c.metrics = newCheckpointMetrics(c)
	return c, cfg.Registry.Register(c.metrics)
}

// own says whether this node made a checkpoint. Its directory may hold copies of those of other nodes, or be shared with them.
func (c *stateCheckpoints) own(f *projector.FoundCheckpoint) bool {
	return f.NamespaceID == c.store.ns.record.ID && f.Node == c.node
}

// Run makes the checkpoints that are due, until ctx ends.
func (c *stateCheckpoints) Run(ctx context.Context) error {
	if c.Every == 0 && c.Records == 0 {
		return nil
	}
	return every(ctx, checkpointsEvery, func() { c.look(ctx) })
}

// look makes a checkpoint if one is due.
func (c *stateCheckpoints) look(ctx context.Context) {
	if !c.due() {
		return
	}
	name := ownCheckpoint + c.now().UTC().Format(checkpointTime)
	made, err := c.make(ctx, name)
	switch {
	case err == nil:
		c.log.Info("a checkpoint of the state was made", "checkpoint", filepath.Join(c.Dir, name), "records", made.Records(), "bytes", made.Bytes())
		c.prune()
	case ctx.Err() == nil && !errors.Is(err, api.ErrCheckpointBusy):
		c.log.Warn("a checkpoint of the state could not be made; the next attempt follows in a minute. Tasks are not affected", "error", err)
	}
}

// due says whether enough time has passed, or enough was folded. While nothing is folded, none is due.
func (c *stateCheckpoints) due() bool {
	records := c.records()
	c.mu.Lock()
	defer c.mu.Unlock()
	c.base = min(c.base, records)
	now, since := c.now(), records-c.base
	if since == 0 || now.Sub(c.failed) < checkpointAgain {
		return false
	}
	return c.Every > 0 && now.Sub(c.since) >= c.Every || c.Records > 0 && since >= c.Records
}

func (c *stateCheckpoints) records() (n int64) {
	for p := range c.store.ns.partitions {
		n += c.store.Partition(p).Next()
	}
	return n
}

// make makes the checkpoint of a name.
func (c *stateCheckpoints) make(ctx context.Context, name string) (made projector.Checkpoint, err error) {
	select {
	case c.making <- struct{}{}:
		defer func() { <-c.making }()
	default:
		return made, api.ErrCheckpointBusy
	}
	begun := c.now()
	about := projector.About{Namespace: c.store.ns.name, NamespaceID: c.store.ns.record.ID, Node: c.node, Version: c.version, Time: events.At(begun),
		Definitions: func(ctx context.Context, yield func(events.Record) error) error {
			return c.store.ns.cluster.ReadRange(ctx, c.store.ns.topics.Definitions(), 0, 0, -1, yield)
		},
		Keys: c.store.ns.readKeys,
	}
	fs := c.store.files()
	lock, err := projector.LockCheckpoints(fs, c.Dir)
	if errors.Is(err, projector.ErrCheckpointsLocked) {
		return made, api.ErrCheckpointBusy
	}
	if err == nil {
		made, err = projector.MakeCheckpoint(ctx, c.store.Store, fs.PathJoin(c.Dir, name), about)
		err = errors.Join(err, lock.Close())
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if err != nil {
		c.failed = c.now()
		c.metrics.failed.Inc()
		return made, err
	}
	if c.lacksKeys(&made) {
		c.log.Warn("the checkpoint of the state holds no keys, although the namespace encrypts: the topic of keys is gone or empty, or this node may not read it", "checkpoint", filepath.Join(c.Dir, name))
	}
	c.last, c.since, c.base = about.Time, begun, made.Records()
	c.metrics.made.Inc()
	c.metrics.seconds.Set(c.now().Sub(begun).Seconds())
	return made, nil
}

// prune removes what this node made by itself beyond what is kept, the oldest first. Nothing else is touched: neither what has no manifest, nor
// those of other nodes.
func (c *stateCheckpoints) prune() {
	fs := c.store.files()
	found, err := projector.FindCheckpoints(fs, c.Dir)
	kept := 0
	for _, f := range found {
		if !strings.HasPrefix(f.Name, ownCheckpoint) || !c.own(&f) {
			continue
		}
		if kept++; kept > c.Keep {
			err = errors.Join(err, fs.RemoveAll(f.Dir))
		}
	}
	if err != nil {
		c.log.Warn("old checkpoints could not be removed", "dir", c.Dir, "error", err)
	}
}

// clear removes what a process that was killed left half made: it would keep tables from being deleted. It runs before this process makes any. If
// another process makes one in the same directory, nothing is removed, since it may be that one.
func (c *stateCheckpoints) clear() {
	fs := c.store.files()
	names, err := fs.List(c.Dir)
	names = slices.DeleteFunc(names, func(name string) bool { return !strings.HasSuffix(name, projector.PartialSuffix) })
	if err != nil || len(names) == 0 {
		return // FindCheckpoints says the error
	}
	lock, err := projector.LockCheckpoints(fs, c.Dir)
	if errors.Is(err, projector.ErrCheckpointsLocked) {
		return
	}
	if err == nil {
		for _, name := range names {
			if removed := projector.RemovePartial(fs, fs.PathJoin(c.Dir, name)); !errors.Is(removed, projector.ErrNotOurs) {
				err = errors.Join(err, removed)
			}
		}
		err = errors.Join(err, lock.Close())
	}
	if err != nil {
		c.log.Warn("checkpoints that are half made could not be removed", "dir", c.Dir, "error", err)
	}
}

// MakeCheckpoint implements api.Checkpoints.
func (c *stateCheckpoints) MakeCheckpoint(ctx context.Context, to string) (d api.CheckpointDocument, err error) {
	name := askedCheckpoint + c.now().UTC().Format(checkpointTime)
	if to != "" {
		if name, err = c.nameOf(to); err != nil {
			return d, err
		}
	}
	names, err := c.store.files().List(c.Dir)
	if err == nil && len(names) >= maxCheckpoints {
		return d, fmt.Errorf("%w: %s holds %d of %d", api.ErrCheckpointMany, c.Dir, len(names), maxCheckpoints)
	}
	made, err := c.make(ctx, name)
	switch {
	case errors.Is(err, os.ErrExist):
		return d, fmt.Errorf("%w: %s", api.ErrCheckpointExists, filepath.Join(c.Dir, name))
	case err != nil:
		return d, err
	}
	d = DescribeCheckpoint(filepath.Join(c.Dir, name), &made)
	d.KeysMissing = c.lacksKeys(&made)
	return d, nil
}

// lacksKeys says whether a checkpoint holds no keys although the namespace encrypts.
func (c *stateCheckpoints) lacksKeys(made *projector.Checkpoint) bool {
	return made.KeysFile.Name == "" && c.store.ns.catalog.KeysMade()
}

// nameOf returns the name of a checkpoint that is asked for by its name or path. A caller of the API can make none elsewhere.
func (c *stateCheckpoints) nameOf(to string) (string, error) {
	name := to
	if filepath.IsAbs(to) {
		dir, err := filepath.Abs(c.Dir)
		if err != nil {
			return "", err
		}
		if filepath.Dir(filepath.Clean(to)) != dir {
			return "", fmt.Errorf("%w: %s", api.ErrCheckpointPlace, dir)
		}
		name = filepath.Base(to)
	}
	if !checkpointName.MatchString(name) || strings.HasSuffix(name, projector.PartialSuffix) || strings.HasPrefix(name, ownCheckpoint) {
		return "", fmt.Errorf("%w: %s", api.ErrCheckpointPlace, c.Dir)
	}
	return name, nil
}

// DescribeCheckpoint returns a checkpoint as the API describes it.
func DescribeCheckpoint(path string, c *projector.Checkpoint) api.CheckpointDocument {
	d := api.CheckpointDocument{Path: path, Namespace: c.Namespace, NamespaceID: c.NamespaceID, Time: c.Time, Bytes: c.Bytes(), Files: len(c.Files), Partitions: []api.CheckpointPartition{}}
	for _, p := range c.Partitions {
		d.Partitions = append(d.Partitions, api.CheckpointPartition{Partition: p.Partition, Offset: p.Offset, Hash: p.Hash.String()})
	}
	return d
}

// checkpointMetrics shows when the last checkpoint was made, and whether they succeed.
type checkpointMetrics struct {
	of           *stateCheckpoints
	total        *prometheus.CounterVec
	made, failed prometheus.Counter
	seconds      prometheus.Gauge
	age          *prometheus.Desc
}

func newCheckpointMetrics(c *stateCheckpoints) *checkpointMetrics {
	total := prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "sagalog_state_checkpoints_total", Help: "Checkpoints of the state store that this process made, or failed to make (result).",
	}, []string{"result"})
	return &checkpointMetrics{
		of: c, total: total, made: total.WithLabelValues("made"), failed: total.WithLabelValues("failed"),
		seconds: prometheus.NewGauge(prometheus.GaugeOpts{Name: "sagalog_state_checkpoint_seconds", Help: "How long the last checkpoint of the state store took; 0 before the first."}),
		age:     prometheus.NewDesc("sagalog_state_checkpoint_age_seconds", "How long ago the newest checkpoint of the state store was made. Absent without any.", nil, nil),
	}
}

// Describe implements prometheus.Collector.
func (m *checkpointMetrics) Describe(ch chan<- *prometheus.Desc) {
	m.total.Describe(ch)
	m.seconds.Describe(ch)
	ch <- m.age
}

// Collect implements prometheus.Collector.
func (m *checkpointMetrics) Collect(ch chan<- prometheus.Metric) {
	m.total.Collect(ch)
	m.seconds.Collect(ch)
	m.of.mu.Lock()
	at := m.of.last
	m.of.mu.Unlock()
	if at != 0 {
		gauge(ch, m.age, max(0, m.of.now().Sub(at.Time()).Seconds()))
	}
}
