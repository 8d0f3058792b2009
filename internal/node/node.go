package node

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/google/uuid"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/sagalog/sagalog/events"
	"github.com/sagalog/sagalog/internal/api"
	"github.com/sagalog/sagalog/internal/kafka"
	"github.com/sagalog/sagalog/projector"
	"github.com/sagalog/sagalog/scheduler"
	"github.com/sagalog/sagalog/supervisor"
	"golang.org/x/sync/errgroup"
)

// Config is what a node is told once. Zero values mean the defaults.
type Config struct {
	Cluster *kafka.Cluster
	// Namespace begins the names of all topics. Default "sagalog".
	Namespace string
	// Name is the node's, unique among the running ones. Required.
	Name string
	// Dir holds the state store. Required.
	Dir string
	// Partitions is the number of partitions of a new namespace. Default 8: enough for the cores of one large machine,
	// and it can never change.
	Partitions int32
	// PartitionsSet says that a person asked for Partitions: another number in the log is then an error.
	PartitionsSet bool
	// Roles says what this node does; the zero value means everything.
	Roles Roles
	// Alone takes all partitions without asking a group: for the only node there is, on a broker of its own.
	Alone bool
	// HTTP is where the API listens; empty for none.
	HTTP string
	// Advertise is the address by which other nodes reach the API; default the one that it listens on.
	Advertise string
	Settings  events.Settings
	// Tick is the sweep interval: how late a timer may be noticed.
	Tick time.Duration
	// Now is the owners' clock; tests give their own.
	Now     func() time.Time
	Demo    api.Demo
	Version string
	Logger  *slog.Logger
	// Registry takes all metrics of the process.
	Registry *prometheus.Registry
}

// Roles are the parts of the engine that a node runs. (Agents are no part of it: they need nothing but the broker.)
type Roles struct {
	// Owner takes its share of the partitions: it schedules and supervises their tasks.
	Owner bool
	// API serves HTTP.
	API bool
	// Projector follows the partitions that others own too: reads of them stay here, and taking them over is quick.
	Projector bool
}

// Node is one process of the engine. Open it, then Run it.
type Node struct {
	cfg        Config
	topics     kafka.Topics
	partitions int32
	namespace  scheduler.Namespace
	startedAt  events.Instant

	producer *kafka.Producer
	store    *projector.Store
	catalog  *catalog
	presence *presence
	defs     *definitions
	tasks    *tasks
	shells   []*supervisor.Shell
	api      *api.Server

	// catalogDone ends the follower that Open started.
	stopCatalog context.CancelFunc
	catalogEnd  sync.WaitGroup
}

// Open connects to the namespace, makes it if there is none, opens the store and rebuilds what does not fit the log.
// The caller ends the node with Run, or with Close if it never runs.
func Open(ctx context.Context, cfg Config) (*Node, error) {
	cfg.setDefaults()
	n := &Node{cfg: cfg, topics: kafka.Topics{Namespace: cfg.Namespace}, startedAt: events.At(time.Now())}
	for _, step := range []func(context.Context) error{n.openNamespace, n.openStore, n.openOwners, n.openAPI} {
		if err := step(ctx); err != nil {
			return nil, errors.Join(err, n.Close())
		}
	}
	return n, nil
}

func (c *Config) setDefaults() {
	if c.Namespace == "" {
		c.Namespace = "sagalog"
	}
	if c.Partitions == 0 {
		c.Partitions = 8
	}
	if c.Roles == (Roles{}) {
		c.Roles = Roles{Owner: true, API: true, Projector: true}
	}
	if c.Settings == (events.Settings{}) {
		c.Settings = events.DefaultSettings()
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	if c.Registry == nil {
		c.Registry = prometheus.NewRegistry()
	}
}

// openNamespace makes or reads the namespace's first record and audits its topics.
func (n *Node) openNamespace(ctx context.Context) error {
	if err := n.cfg.Cluster.Ping(ctx); err != nil {
		return fmt.Errorf("reach the brokers: %w", err)
	}
	var err error
	if n.producer, err = kafka.NewProducer(n.cfg.Cluster); err != nil {
		return err
	}
	specs := n.topics.Base(n.cfg.Partitions)
	if err := kafka.EnsureTopics(ctx, n.cfg.Cluster, specs...); err != nil {
		return fmt.Errorf("make the topics of namespace %s: %w", n.cfg.Namespace, err)
	}
	n.catalog = newCatalog(n.cfg.Cluster, n.topics.Definitions(), n.cfg.Logger)
	followCtx, stop := context.WithCancel(context.WithoutCancel(ctx))
	n.stopCatalog = stop
	n.catalogEnd.Go(func() { _ = n.catalog.Run(followCtx) })
	if err := n.catalog.upToNow(ctx); err != nil {
		return err
	}
	if err := n.createNamespace(ctx); err != nil {
		return err
	}
	n.partitions = n.namespace.Partitions
	if n.cfg.PartitionsSet && n.cfg.Partitions != n.partitions {
		return fmt.Errorf("namespace %s has %d partitions, fixed when it was made; --partitions %d needs another data directory or namespace", n.cfg.Namespace, n.partitions, n.cfg.Partitions)
	}
	return kafka.Audit(ctx, n.cfg.Cluster, n.topics.Base(n.partitions)...)
}

func (n *Node) createNamespace(ctx context.Context) error {
	var ok bool
	if n.namespace, ok = n.catalog.Namespace(); ok {
		if n.namespace.Format > events.FormatVersion {
			return fmt.Errorf("namespace %s has format %d: %w", n.cfg.Namespace, n.namespace.Format, events.ErrReaderTooOld)
		}
		return nil
	}
	ns := scheduler.Namespace{ID: uuid.NewString(), Partitions: n.cfg.Partitions, Format: events.FormatVersion}
	r, err := scheduler.EncodeNamespace(ns, events.Subject{ID: ns.ID, Source: "/" + n.cfg.Namespace, Time: events.At(time.Now())})
	if err != nil {
		return err
	}
	r.Topic = n.topics.Definitions()
	if _, err := n.producer.ProduceSync(ctx, r); err != nil {
		return fmt.Errorf("write the namespace's first record: %w", err)
	}
	if err := n.catalog.upToNow(ctx); err != nil {
		return err
	}
	if n.namespace, ok = n.catalog.Namespace(); !ok { // another node's may be the first: that one counts
		return fmt.Errorf("the definitions topic of namespace %s does not begin with its first record", n.cfg.Namespace)
	}
	return nil
}

// openStore opens the projection. One of another format, or a damaged one, is set aside and folded anew: the log is
// the truth.
func (n *Node) openStore(ctx context.Context) error {
	dir := filepath.Join(n.cfg.Dir, "state")
	open := func() (err error) {
		n.store, err = projector.Open(dir, projector.Options{Namespace: n.namespace.ID, Logger: n.cfg.Logger, Registerer: n.cfg.Registry})
		return err
	}
	err := open()
	if errors.Is(err, projector.ErrFormat) || errors.Is(err, projector.ErrDamaged) {
		n.cfg.Logger.Warn("the state store cannot be used; it is rebuilt from the log", "error", err)
		if err := os.RemoveAll(dir); err != nil {
			return err
		}
		err = open()
	}
	if err != nil {
		return fmt.Errorf("open the state store: %w", err)
	}
	return n.checkAnchors(ctx)
}

// checkAnchors resets each partition whose last folded record is not in the log any more, and says so loudly.
func (n *Node) checkAnchors(ctx context.Context) error {
	topic, err := n.cfg.Cluster.TopicID(ctx, n.topics.Events())
	if err != nil {
		return err
	}
	for p := range n.partitions {
		_, anchor, exists, err := n.store.Partition(p).Snapshot()
		if err != nil {
			return err
		}
		if !exists || anchor.IsZero() {
			continue
		}
		err = projector.Check(anchor, topic, n.recordAt(ctx, p))
		if errors.Is(err, projector.ErrAnchor) {
			n.cfg.Logger.Warn("the log is not the one that the state was folded from; the partition is rebuilt from the log", "partition", p, "error", err)
			err = n.store.Reset(p)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// anchorWait bounds the reading of an anchor's record at a change of epoch, where the owner waits for it.
const anchorWait = 2 * time.Second

// recordAt reads a record of a partition of events; false says that the log does not hold it.
func (n *Node) recordAt(ctx context.Context, partition int32) func(int64) (events.Record, bool, error) {
	return func(offset int64) (events.Record, bool, error) {
		ctx, cancel := context.WithTimeout(ctx, anchorWait)
		defer cancel()
		r, err := n.cfg.Cluster.ReadAt(ctx, n.topics.Events(), partition, offset)
		var out *kafka.OutOfRangeError
		if errors.As(err, &out) || errors.Is(err, kafka.ErrNoRecord) {
			return r, false, nil
		}
		return r, err == nil, err
	}
}

func (n *Node) openOwners(ctx context.Context) error {
	topic, err := n.cfg.Cluster.TopicID(ctx, n.topics.Events())
	if err != nil {
		return err
	}
	id, err := uuid.Parse(n.namespace.ID)
	if err != nil {
		return fmt.Errorf("the ID of namespace %s: %w", n.cfg.Namespace, err)
	}
	n.presence = &presence{cluster: n.cfg.Cluster, topic: n.topics.Presence(), log: n.cfg.Logger}
	sched := scheduler.New()
	for p := range n.partitions {
		store := newPartitionStore(n.store, p, topic)
		store.record = n.recordAt(context.WithoutCancel(ctx), p)
		owner, err := supervisor.NewOwner(supervisor.Config{
			Partition: p, Partitions: n.partitions, Node: n.cfg.Name, Namespace: n.cfg.Namespace, NamespaceID: id, Settings: n.cfg.Settings,
			Entropy: entropy,
		}, sched, store)
		if err != nil {
			return err
		}
		shell, err := supervisor.NewShell(owner, supervisor.ShellConfig{
			Log:       &partitionLog{cluster: n.cfg.Cluster, topics: n.topics, partition: p, effects: n.producer, catalog: n.catalog},
			Committer: store, Logger: n.cfg.Logger, Tick: n.cfg.Tick, Now: n.cfg.Now,
		})
		if err != nil {
			return err
		}
		n.shells = append(n.shells, shell)
	}
	return n.cfg.Registry.Register(newOwnerMetrics(n))
}

func entropy() (b [16]byte) {
	_, _ = rand.Read(b[:]) // never fails: crypto/rand ends the process instead
	return b
}

func (n *Node) openAPI(context.Context) error {
	n.tasks = &tasks{store: n.store, cluster: n.cfg.Cluster, topics: n.topics, partitions: n.partitions}
	n.defs = &definitions{catalog: n.catalog, cluster: n.cfg.Cluster, topics: n.topics, partitions: n.partitions, producer: n.producer}
	if n.cfg.HTTP == "" {
		return nil
	}
	var err error
	n.api, err = api.New(api.Config{
		Addr: n.cfg.HTTP, Namespace: n.cfg.Namespace, Node: n.cfg.Name, Version: n.cfg.Version, Partitions: n.partitions,
		SubmissionBytes: n.cfg.Settings.SubmissionBytes,
		Tasks:           n.tasks, History: &history{n.tasks}, Rejections: &rejections{n.tasks}, Definitions: n.defs,
		Appender: n.producer, Cluster: &clusterView{n}, Demo: n.cfg.Demo,
		DeadLetters: &deadLetters{cluster: n.cfg.Cluster, topics: n.topics, partitions: n.partitions},
		Ready:       n.Ready, Registerer: n.cfg.Registry, Gatherer: n.cfg.Registry, Logger: n.cfg.Logger,
	})
	if err != nil {
		return err
	}
	return n.api.Listen()
}

// Run works until ctx ends or something cannot go on, and closes the node.
func (n *Node) Run(ctx context.Context) error {
	g, ctx := errgroup.WithContext(ctx)
	for _, s := range n.shells {
		s.Assign()
		g.Go(func() error { return s.Run(ctx) })
	}
	g.Go(func() error { return n.presence.Run(ctx) })
	g.Go(func() error { return n.beat(ctx) })
	if n.api != nil {
		g.Go(func() error { return n.api.Run(ctx) })
	}
	return errors.Join(g.Wait(), n.Close())
}

// Close ends what Open began. It may be called once after Open failed or instead of Run.
func (n *Node) Close() error {
	if n.stopCatalog != nil {
		n.stopCatalog()
		n.catalogEnd.Wait()
	}
	if n.producer != nil {
		n.producer.Close()
	}
	if n.store != nil {
		return n.store.Close()
	}
	return nil
}

// Ready returns nil when every partition is owned here and has caught up, else what is missing.
func (n *Node) Ready() error {
	var missing []error
	for p, s := range n.shells {
		status, _, err := s.Status()
		switch {
		case err != nil:
			missing = append(missing, err)
		case status.Phase != "owning":
			missing = append(missing, fmt.Errorf("partition %d is %s", p, status.Phase))
		}
	}
	return errors.Join(missing...)
}

// Addr returns where the API listens, "" if it does not.
func (n *Node) Addr() string { return n.httpAddr() }

func (n *Node) httpAddr() string {
	if n.api == nil {
		return ""
	}
	return n.api.Addr()
}

func (n *Node) owned() []int32 {
	var list []int32
	for p, s := range n.shells {
		if status, _, _ := s.Status(); status.Phase == "owning" {
			list = append(list, int32(p))
		}
	}
	return list
}

// local says whether a partition can be read from this node's store: it is owned here, or followed and caught up.
func (n *Node) local(int32) bool { return true }

// Partitions returns how many partitions the namespace has.
func (n *Node) Partitions() int32 { return n.partitions }

// ApplyFile applies a workflow of a file; open gives what its $refs name.
func (n *Node) ApplyFile(ctx context.Context, name string, source []byte, open func(string) ([]byte, error)) (api.Applied, []api.Fault, error) {
	return n.defs.apply(ctx, api.Draft{Source: source, Name: ""}, open)
}
