package node

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"sync"
	"sync/atomic"
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
	// FS is where Dir is; nil means the disk. Tests give their own.
	FS projector.FS
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
	// voice is the producer of beats alone: one that shared its buffer with effects would fall silent with them while a
	// leader is gone, and a living node would be taken for dead.
	voice    *kafka.Producer
	store    *projector.Store
	catalog  *catalog
	presence *presence
	defs     *definitions
	tasks    *tasks
	// shells are those of all partitions where the node owns, none where it does not.
	shells []*supervisor.Shell
	// inputs is nil for a node that owns nothing.
	inputs *inputs
	// ownership is nil for a node that is alone, or owns nothing.
	ownership *ownership
	// standby is nil for a node that follows nothing.
	standby *standby
	api     *api.Server

	// goals are the ends of events at the start, by partition: a partition that was folded so far is caught up.
	goals map[int32]int64
	// settled says that every partition had an owner once; leaving that this node gives its partitions up.
	settled, leaving atomic.Bool
	// auditFound is what the last audit found, nil for nothing.
	auditFound atomic.Pointer[kafka.AuditError]

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

func (n *Node) openOwners(ctx context.Context) error {
	topic, err := n.cfg.Cluster.TopicID(ctx, n.topics.Events())
	if err != nil {
		return err
	}
	n.presence = &presence{cluster: n.cfg.Cluster, topic: n.topics.Presence(), log: n.cfg.Logger, self: n.cfg.Name}
	if n.cfg.Roles.Owner {
		if err := n.openShells(ctx, topic); err != nil {
			return err
		}
	}
	if n.cfg.Alone {
		return n.cfg.Registry.Register(newOwnerMetrics(n))
	}
	if n.cfg.Roles.Owner {
		n.ownership = newOwnership(n)
	}
	if n.cfg.Roles.Projector {
		if err := n.openStandby(ctx, topic); err != nil {
			return err
		}
	}
	return n.cfg.Registry.Register(newOwnerMetrics(n))
}

// openShells makes the owners. Each waits until its partition is assigned.
func (n *Node) openShells(ctx context.Context, topic projector.TopicID) error {
	id, err := uuid.Parse(n.namespace.ID)
	if err != nil {
		return fmt.Errorf("the ID of namespace %s: %w", n.cfg.Namespace, err)
	}
	ids := map[string]projector.TopicID{n.topics.Events(): topic}
	for _, name := range []string{n.topics.Submissions(), n.topics.Reports()} {
		if ids[name], err = n.cfg.Cluster.TopicID(ctx, name); err != nil {
			return err
		}
	}
	n.inputs = newInputs(n.cfg.Cluster)
	sched := scheduler.New()
	for p := range n.partitions {
		store := newPartitionStore(n.store, p, topic)
		store.record = n.recordAt(context.WithoutCancel(ctx), p)
		owner, err := supervisor.NewOwner(supervisor.Config{
			Partition: p, Partitions: n.partitions, Node: n.cfg.Name, Namespace: n.cfg.Namespace, NamespaceID: id, Settings: n.cfg.Settings,
			Entropy: entropy, FlushEvery: flushEvery, TailAbove: tailAbove,
		}, sched, store)
		if err != nil {
			return err
		}
		shell, err := supervisor.NewShell(owner, supervisor.ShellConfig{
			Log: mortalLog(&partitionLog{
				cluster: n.cfg.Cluster, topics: n.topics, partition: p, effects: n.producer, catalog: n.catalog, inputs: n.inputs, ids: ids,
			}),
			Committer: mortalCommitter(store), Logger: n.cfg.Logger, Tick: n.cfg.Tick, Now: n.cfg.Now,
		})
		if err != nil {
			return err
		}
		n.shells = append(n.shells, shell)
	}
	return nil
}

// openStandby follows all partitions; those that are assigned to this node leave it.
func (n *Node) openStandby(ctx context.Context, topic projector.TopicID) error {
	of := kafka.Partitions{}
	for p := range n.partitions {
		of[n.topics.Events()] = append(of[n.topics.Events()], p)
	}
	ends, err := n.cfg.Cluster.EndOffsets(ctx, of)
	if err != nil {
		return err
	}
	n.goals = ends[n.topics.Events()]
	if n.standby, err = newStandby(n, topic); err != nil {
		return err
	}
	for p := range n.partitions {
		if err := n.standby.follow(p); err != nil {
			return err
		}
	}
	return nil
}

// flushEvery is how often a busy partition writes its state: below what a person notices, and long enough that a task is
// written a few times and not once for each of its facts.
const flushEvery = 50 * time.Millisecond

// tailAbove is the facts a second above which a partition's owner does not read its own log: below it the reading costs
// nothing that one would notice, and tells of a newer owner at once.
const tailAbove = 500

func entropy() (b [16]byte) {
	_, _ = rand.Read(b[:]) // never fails: crypto/rand ends the process instead
	return b
}

func (n *Node) openAPI(context.Context) error {
	n.tasks = &tasks{store: n.store, cluster: n.cfg.Cluster, topics: n.topics, partitions: n.partitions}
	n.defs = &definitions{catalog: n.catalog, cluster: n.cfg.Cluster, topics: n.topics, partitions: n.partitions, producer: n.producer}
	if n.cfg.HTTP == "" || !n.cfg.Roles.API {
		return nil
	}
	var err error
	n.api, err = api.New(api.Config{
		Addr: n.cfg.HTTP, Hosts: n.hosts(), Namespace: n.cfg.Namespace, NamespaceID: n.namespace.ID, Node: n.cfg.Name, Version: n.cfg.Version, Partitions: n.partitions,
		SubmissionBytes: n.cfg.Settings.SubmissionBytes,
		Tasks:           n.tasks, History: &history{n.tasks}, Rejections: &rejections{n.tasks}, Definitions: n.defs,
		Appender: mortalAppender(n.producer), Cluster: &clusterView{n}, Demo: n.cfg.Demo,
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
	g.Go(func() error { return n.own(ctx) })
	if n.standby != nil {
		g.Go(func() error { return n.standby.Run(ctx) })
	}
	g.Go(func() error { return n.presence.Run(ctx) })
	g.Go(func() error { return n.beat(ctx) })
	g.Go(func() error { return n.audit(ctx) })
	g.Go(func() error { return n.watchStore(ctx) })
	if n.api != nil {
		g.Go(func() error { return n.api.Run(ctx) })
	}
	return errors.Join(g.Wait(), n.Close())
}

// own runs the owners. At the end they stop before the group hears of it: nothing is decided here any more when
// another node begins, so nothing lands behind its claim.
func (n *Node) own(ctx context.Context) error {
	g, ctx := errgroup.WithContext(ctx)
	if n.inputs != nil {
		g.Go(func() error { return n.inputs.Run(ctx) })
	}
	for _, s := range n.shells {
		if n.cfg.Alone {
			s.Assign()
		}
		g.Go(func() error { return s.Run(ctx) })
	}
	if n.ownership != nil {
		g.Go(func() error { return n.ownership.Run(ctx) })
	}
	err := g.Wait()
	n.leaving.Store(true)
	if errors.Is(err, kafka.ErrFenced) {
		return err // whoever has the name now lives: a goodbye would be taken for its own
	}
	if n.ownership != nil {
		n.ownership.leave()
	}
	n.farewell()
	return err
}

// Close ends what Open began. It may be called once after Open failed or instead of Run.
func (n *Node) Close() error {
	if n.stopCatalog != nil {
		n.stopCatalog()
		n.catalogEnd.Wait()
	}
	if n.standby != nil {
		n.standby.close()
	}
	if n.inputs != nil {
		n.inputs.close()
	}
	for _, p := range []*kafka.Producer{n.producer, n.voice} {
		if p != nil {
			p.Close()
		}
	}
	if n.store != nil {
		return n.store.Close()
	}
	return nil
}

// Addr returns where the API listens, "" if it does not.
func (n *Node) Addr() string { return n.httpAddr() }

func (n *Node) httpAddr() string {
	if n.api == nil {
		return ""
	}
	return n.api.Addr()
}

// advertised is where other nodes reach the API.
func (n *Node) advertised() string {
	if n.cfg.Advertise != "" {
		return n.cfg.Advertise
	}
	return n.httpAddr()
}

// hosts are the names by which other nodes call this one's API.
func (n *Node) hosts() []string {
	host, _, err := net.SplitHostPort(n.cfg.Advertise)
	if err != nil {
		return nil
	}
	return []string{host}
}

// Partitions returns how many partitions the namespace has.
func (n *Node) Partitions() int32 { return n.partitions }

// ApplyFile applies a workflow of a file; open gives what its $refs name.
func (n *Node) ApplyFile(ctx context.Context, name string, source []byte, open func(string) ([]byte, error)) (api.Applied, []api.Fault, error) {
	return n.defs.apply(ctx, api.Draft{Source: source, Name: ""}, open)
}
