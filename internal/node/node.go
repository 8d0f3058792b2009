package node

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/sagalog/sagalog/events"
	"github.com/sagalog/sagalog/internal/access"
	"github.com/sagalog/sagalog/internal/api"
	"github.com/sagalog/sagalog/internal/callback"
	"github.com/sagalog/sagalog/internal/kafka"
	"github.com/sagalog/sagalog/internal/pause"
	"github.com/sagalog/sagalog/internal/sealing"
	"github.com/sagalog/sagalog/internal/ui"
	"github.com/sagalog/sagalog/projector"
	"github.com/sagalog/sagalog/scheduler"
	"golang.org/x/sync/errgroup"
)

// Config configures a node. Zero values mean the defaults.
type Config struct {
	Cluster *kafka.Cluster
	// Namespace is the prefix of all topic names. Default events.DefaultNamespace.
	Namespace string
	// Name is the node's name, unique among the running nodes. Required.
	Name string
	// Dir holds the state store. Required.
	Dir string
	// Checkpoints says when and where this node copies its state store.
	Checkpoints Checkpoints
	// FS is where Dir is; nil means the disk. Tests replace it.
	FS projector.FS
	// Partitions is the number of partitions of a new namespace. Default 8: enough for the cores of one large machine,
	// and it can never change.
	Partitions int32
	// PartitionsSet says that a person asked for Partitions: another number in the log is then an error.
	PartitionsSet bool
	// Roles says what this node does; the zero value means everything.
	Roles Roles
	// Alone takes all partitions without asking a group: for a single node with an embedded broker.
	Alone bool
	// HTTP is where the API listens; empty for none.
	HTTP string
	// Listen opens HTTP; nil: TCP. Tests in virtual time listen in memory.
	Listen func(addr string) (net.Listener, error)
	// Advertise is the address by which other nodes reach the API; default the one that it listens on.
	Advertise string
	// Hosts are further names by which clients call the API, such as that of a proxy.
	Hosts []string
	// Settings are recorded for the namespace where it has recorded none yet: the members that SettingsSet names, and those that
	// are not the default. If the namespace has recorded other values, Open refuses.
	Settings    events.Settings
	SettingsSet []string
	// Tick is how often owners look at their timers: how late a timer may be noticed.
	Tick time.Duration
	// Patience is how long Open keeps retrying while brokers do not answer; the caller's steps before and after it may share
	// it. Nil tries once.
	Patience *kafka.Patience
	// Now is the owners' clock; tests replace it.
	Now  func() time.Time
	Demo api.Demo
	// Traces makes spans; nil: none.
	Traces Traces
	// Access recognizes callers of the API; nil: access is off.
	Access *access.Gate
	// TLS is that of the API, and PeerTLS returns that of the next connection to another node; nil: plain HTTP.
	TLS     *tls.Config
	PeerTLS func() *tls.Config
	// Keys seal and open what users put into tasks; nil: this node neither seals nor opens. The node runs them.
	Keys *sealing.Keys
	// Callbacks check what services report of calls that they accepted; nil refuses all.
	Callbacks *callback.Keys
	// Webhook is nil if nothing is delivered to a receiver outside. Only nodes with the role owner deliver.
	Webhook *Webhook
	Version string
	// Past is the moment that the log was copied up to, for a node that shows the past: its API reads only, and shows what was so then. Zero:
	// the present.
	Past events.Instant
	// KeepInputs leaves all records in the inputs and in the work topics, for tools that need them all. By default, those that nobody needs
	// any more are deleted.
	KeepInputs bool
	// trim is how often and how much is deleted; only tests set it.
	trim trimPace
	// maxLevel is the highest level that this build understands; only tests set it.
	maxLevel int
	Logger   *slog.Logger
	// Registry takes all metrics of the process.
	Registry *prometheus.Registry
}

// Traces makes spans of submissions and of facts.
type Traces interface {
	api.Traces
	// Facts returns a function that is called with each durable fact of a partition that this node owns, and with the current state of its
	// task, nil if it is gone. It must retain neither, and must not block.
	Facts(partition int32) func(*events.Task, *events.Fact)
}

// Roles are the parts of the engine that a node runs. (Agents are not among them: they need only the broker.)
type Roles struct {
	// Owner takes its share of the partitions: it schedules and supervises their tasks.
	Owner bool
	// API serves HTTP.
	API bool
	// Projector also follows the partitions that others own: reads of them stay here, and taking them over is quick.
	Projector bool
}

func (c *Config) setDefaults() {
	c.Namespace = cmp.Or(c.Namespace, events.DefaultNamespace)
	c.Partitions = cmp.Or(c.Partitions, 8)
	c.Roles = cmp.Or(c.Roles, Roles{Owner: true, API: true, Projector: true})
	c.Settings = cmp.Or(c.Settings, events.DefaultSettings())
	c.trim = cmp.Or(c.trim, trimPaceOfTests(), defaultTrimPace)
	c.maxLevel = cmp.Or(c.maxLevel, events.FormatVersion)
	c.Logger = cmp.Or(c.Logger, slog.New(slog.DiscardHandler))
	c.Registry = cmp.Or(c.Registry, prometheus.NewRegistry())
	if c.Now == nil {
		c.Now = time.Now
	}
}

// Node is one process of the engine. Open it, then Run it.
type Node struct {
	cfg Config
	ns  *namespace
	// producer sends what the API accepts, and the definitions.
	producer *kafka.Producer
	store    *stateStore
	owners   *owners
	liveness *liveness
	// heartbeat sends this node's heartbeats, on a connection that nothing else uses.
	heartbeat *heartbeat
	// membership is nil for a node that is alone, or owns nothing.
	membership *membership
	// replica is nil for a node that follows nothing.
	replica   *replica
	readiness *readiness
	stalls    *stalls
	// transactions notices what producers leave open.
	transactions *openTransactions
	defs         *definitions
	topics       *workTopics
	settings     *settings
	tasks        *tasks
	alerts       *alerts
	jobRuns      *jobRuns
	trimmer      *trimmer
	// webhooks is nil without a webhook.
	webhooks    *webhooks
	checkpoints *stateCheckpoints
	// api is nil for a node that serves no API.
	api *api.Server
}

// Open connects to the namespace, creates it if it does not exist, opens the store, and rebuilds partitions of it that do not fit
// the log. The caller ends the node with Run, or with Close if it never runs.
func Open(ctx context.Context, cfg Config) (*Node, error) {
	cfg.setDefaults()
	n := &Node{cfg: cfg, ns: newNamespace(&cfg), owners: &owners{}}
	n.liveness = &liveness{cluster: cfg.Cluster, topic: n.ns.topics.Presence(), log: cfg.Logger, self: cfg.Name, started: time.Now(), now: cfg.Now}
	n.owners.stats = newStats(n.liveness, time.Now())
	n.heartbeat = &heartbeat{ns: n.ns, owners: n.owners, liveness: n.liveness, log: cfg.Logger, now: cfg.Now}
	if err := n.open(ctx); err != nil {
		return nil, errors.Join(err, n.Close())
	}
	return n, nil
}

// open retries the steps that need the brokers. A step that fails leaves nothing open, so it can simply run again.
func (n *Node) open(ctx context.Context) error {
	if err := n.openProducers(); err != nil {
		return err
	}
	patience := cmp.Or(n.cfg.Patience, &kafka.Patience{})
	if err := patience.TryBriefly(ctx, n.connect); err != nil {
		return err
	}
	for _, step := range []func(context.Context) error{n.openStore, n.openOwners, n.openMembership} {
		if err := patience.Try(ctx, step); err != nil {
			return err
		}
	}
	return n.openAPI()
}

func (n *Node) openProducers() (err error) {
	if n.producer, err = kafka.NewProducer(n.cfg.Cluster); err != nil {
		return err
	}
	if n.heartbeat.producer, err = kafka.NewProducer(n.cfg.Cluster); err != nil {
		return err
	}
	n.ns.producer, n.settings = n.producer, &settings{ns: n.ns, producer: n.producer, liveness: n.liveness}
	return nil
}

// connect reaches the brokers and opens the namespace.
func (n *Node) connect(ctx context.Context) error {
	if err := n.cfg.Cluster.Ping(ctx); err != nil {
		return fmt.Errorf("reach the brokers: %w", err)
	}
	if err := n.ns.open(ctx); err != nil {
		return err
	}
	if n.cfg.PartitionsSet && n.cfg.Partitions != n.ns.partitions {
		return fmt.Errorf("namespace %s has %d partitions, fixed when it was made; --partitions %d needs another --namespace (for dev: another --data)", n.ns.name, n.ns.partitions, n.cfg.Partitions)
	}
	if err := n.openKeys(ctx); err != nil {
		return err
	}
	return n.settings.begin(ctx, n.cfg.Settings, givenSettings(&n.cfg))
}

func (n *Node) openStore(ctx context.Context) (err error) {
	if n.store, err = openStore(ctx, n.ns, &n.cfg); err != nil {
		return err
	}
	return n.openTakeovers()
}

// openMembership creates the parts that share the partitions with other nodes.
func (n *Node) openMembership(ctx context.Context) (err error) {
	if n.cfg.Roles.Projector && !n.cfg.Alone {
		if n.replica, err = newReplica(ctx, n.store); err != nil {
			return err
		}
	}
	if n.cfg.Roles.Owner && !n.cfg.Alone {
		n.membership = &membership{
			ns: n.ns, store: n.store, owners: n.owners, liveness: n.liveness, replica: n.replica,
			reach: &reach{ns: n.ns, since: map[int32]time.Time{}}, wake: make(chan struct{}, 1), assigned: map[int32]bool{}, pause: asidePause, faultyUntil: map[int32]time.Time{},
		}
		n.heartbeat.unable = func() []int32 { return n.membership.unable(unreachedAfter) }
	}
	n.stalls = newStalls(n.cfg.Logger, n.owners.shells)
	n.readiness = &readiness{
		alone: n.cfg.Alone, stalls: n.stalls, ns: n.ns, store: n.store, owners: n.owners, liveness: n.liveness, membership: n.membership, replica: n.replica,
		keys: n.cfg.Keys,
	}
	n.readiness.claims = &claims{cluster: n.cfg.Cluster, topic: n.ns.topics.Events(), readiness: n.readiness, log: n.cfg.Logger, asked: map[int32]time.Time{}, owner: map[int32]string{}}
	ignored := prometheus.NewCounterFunc(prometheus.CounterOpts{Name: "sagalog_definitions_ignored_total",
		Help: "Records of the topic definitions that this node passed over, or whose definition breaks the rules; the log says why."},
		func() float64 { return float64(n.ns.catalog.ignoredRecords()) })
	if err := n.cfg.Registry.Register(ignored); err != nil {
		return err
	}
	n.transactions = newOpenTransactions(n)
	for _, c := range []prometheus.Collector{
		newAgentMetrics(n.liveness, n.owners, n.store.Store, n.ns.catalog.Catalog), newScheduleMetrics(n), newLimitMetrics(n), newWaitingMetrics(n), n.transactions, newStateMetrics(n), newLagMetrics(n), newLogBytesMetrics(n), newDeadLetterMetrics(n), n.trimmer,
		newOwnerMetrics(n.owners, n.stalls, n.liveness, n.ns.tooOld),
	} {
		if err := n.cfg.Registry.Register(c); err != nil {
			return err
		}
	}
	if n.cfg.Keys != nil {
		return n.cfg.Registry.Register(n.cfg.Keys.Collector())
	}
	return nil
}

// shownAt returns the clock of what the API shows: that of the moment, in a copy of the past.
func (n *Node) shownAt() func() time.Time {
	if n.cfg.Past != 0 {
		return n.cfg.Past.Time
	}
	return time.Now
}

func (n *Node) openAPI() (err error) {
	n.tasks = &tasks{store: n.store.Store, ns: n.ns}
	n.defs = &definitions{ns: n.ns, applying: make(chan struct{}, 1), producer: n.producer, limits: defaultDefinitionLimits, levels: scheduler.KeyLevels(), keys: n.programKeys()}
	if !n.cfg.Alone && n.cfg.Past == 0 {
		n.tasks.plans = newPlans(n)
	}
	n.topics = &workTopics{ns: n.ns, owners: n.owners, liveness: n.liveness, limit: MaxWorkTopics, log: n.cfg.Logger, again: map[string]time.Time{}}
	n.alerts = &alerts{tasks: n.tasks, defs: n.defs, liveness: n.liveness, owners: n.owners, producer: n.producer, router: clusterView{n.readiness}}
	if n.jobRuns, err = newJobRuns(n); err != nil {
		return err
	}
	if n.checkpoints, err = newStateCheckpoints(n.store, &n.cfg); err != nil {
		return err
	}
	if n.cfg.Webhook != nil && n.cfg.Roles.Owner {
		if n.webhooks, err = newWebhooks(n); err != nil {
			return err
		}
	}
	if n.cfg.HTTP == "" || !n.cfg.Roles.API {
		return nil
	}
	page, err := ui.Handler(ui.Options{})
	if err != nil {
		return err
	}
	cfg := api.Config{
		Page: page, Changes: &changes{n.store}, Stats: n.owners.stats, Acts: n.ns.catalog.acts, Nodes: clusterView{n.readiness}, Counts: &counts{tasks: n.tasks, waiting: newWaitingMetrics(n), now: n.shownAt()},
		Addr: n.cfg.HTTP, Listen: n.cfg.Listen, Namespace: n.ns.name, NamespaceID: n.ns.record.ID, Node: n.cfg.Name, Version: n.cfg.Version, Partitions: n.ns.partitions,
		SubmissionBytes: n.settings.submissionBytes(), SubmissionLimit: n.settings.submissionBytes, ReplyTopic: n.settings.replyTopic, Settings: n.settings, Losses: &losses{n.store, n.producer, n.liveness}, Pauses: &agentPauses{n.ns, n.producer}, Jobs: &jobs{n.ns, n.producer, n.cfg.Keys}, Schedules: &schedules{n.ns, n.producer, n.store.Store, n.defs}, NamedLimits: &namedLimits{n.ns, n.producer, n.defs},
		Tasks: n.tasks, Limits: n.tasks, Lists: n.tasks, Inputs: n.tasks, History: &history{n.tasks}, Rejections: &rejections{n.tasks},
		Workflows: n.defs, Deletions: n.defs, Definitions: n.defs,
		Appender: mortalAppender(n.producer), Cluster: clusterView{n.readiness}, Offers: offersView{n.liveness, n.ns.partitions}, Demo: n.cfg.Demo, Callbacks: n.cfg.Callbacks,
		Access: n.cfg.Access, TLS: n.cfg.TLS, PeerTLS: n.cfg.PeerTLS,
		DeadLetters: &deadLetters{n.ns, n.producer}, Alerts: n.alerts, Checkpoints: n.checkpoints,
		Ready: n.Ready, Delayed: n.owners.delayed, Registerer: n.cfg.Registry, Gatherer: n.cfg.Registry, Logger: n.cfg.Logger,
	}
	if n.cfg.Traces != nil {
		cfg.Traces = n.cfg.Traces
	}
	if n.cfg.Past != 0 {
		// No partition has an owner, and the state was folded before.
		cfg.Past, cfg.Now, cfg.Ready = n.cfg.Past, n.cfg.Past.Time, func() error { return nil }
	}
	if n.cfg.Keys != nil {
		cfg.Keys = apiKeys{n.cfg.Keys}
	}
	cfg.Hosts = slices.Clone(n.cfg.Hosts)
	// Other nodes call this one's API by the host of Advertise.
	for _, addr := range []string{n.cfg.Advertise, n.cfg.HTTP} {
		if host, _, err := net.SplitHostPort(addr); err == nil && host != "" {
			cfg.Hosts = append(cfg.Hosts, host)
		}
	}
	if n.api, err = api.New(cfg); err != nil {
		return err
	}
	if err := n.api.Listen(); err != nil {
		return err
	}
	n.heartbeat.http = cmp.Or(n.cfg.Advertise, n.api.Addr())
	return nil
}

// Run works until ctx ends or an error stops it, and closes the node.
func (n *Node) Run(ctx context.Context) error {
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error { return n.own(ctx) })
	if n.replica != nil {
		g.Go(func() error { return n.replica.Run(ctx) })
	}
	g.Go(func() error { return n.settings.follow(ctx, n.owners) })
	if n.cfg.Keys != nil {
		g.Go(func() error { return n.cfg.Keys.Run(ctx) })
	}
	g.Go(func() error { return n.liveness.Run(ctx) })
	if n.cfg.Past == 0 { // a copy of the past is no node of the namespace
		g.Go(func() error { return n.heartbeat.Run(ctx) })
		g.Go(func() error { return n.ns.watchClosed(ctx) })
	}
	if n.cfg.Roles.Owner {
		m := &missingAgents{ns: n.ns, producer: n.producer, owners: n.owners, liveness: n.liveness, metrics: n.owners.metrics, log: n.cfg.Logger, said: map[events.Call]time.Time{}}
		g.Go(func() error { return every(ctx, missingEvery, func() { m.look(ctx) }) })
		g.Go(func() error { return every(ctx, missingEvery, func() { n.alerts.forget(ctx) }) })
		g.Go(func() error { return every(ctx, workTopicsEvery, func() { n.topics.look(ctx) }) })
		g.Go(func() error { return every(ctx, stalledEvery, n.stalls.look) })
		x := &unopened{n.owners, n.cfg.Logger}
		g.Go(func() error { return every(ctx, unopenedEvery, x.look) })
		g.Go(func() error { return every(ctx, transactionsEvery, func() { n.transactions.look(ctx) }) })
		g.Go(func() error { return n.jobRuns.Run(ctx) })
		if !n.cfg.KeepInputs {
			g.Go(func() error { return oftenAtFirst(ctx, trimSoonest, n.cfg.trim.every, func() { n.trimmer.look(ctx) }) })
		}
	}
	if n.webhooks != nil {
		g.Go(func() error { return n.webhooks.Run(ctx) })
	}
	g.Go(func() error { return n.ns.audit(ctx) })
	g.Go(func() error { return n.store.watch(ctx) })
	g.Go(func() error { return n.checkpoints.Run(ctx) })
	if n.api != nil {
		g.Go(func() error { return n.api.Run(ctx) })
		g.Go(func() error { return every(ctx, claimsEvery, func() { n.readiness.claims.look(ctx) }) })
	}
	return errors.Join(g.Wait(), n.Close())
}

// own runs the owners. At the end they stop before this node leaves the group: it decides nothing any more when another node
// begins, so nothing lands after that node's claim.
func (n *Node) own(ctx context.Context) error {
	if n.doubt() != nil && !n.liveness.awaitClock(ctx) {
		return nil
	}
	g, ctx := errgroup.WithContext(ctx)
	if n.owners.inputs != nil {
		g.Go(func() error { return n.owners.inputs.Run(ctx) })
	}
	for _, s := range n.owners.shells {
		if n.cfg.Alone {
			s.Assign()
		}
		g.Go(func() error { return s.Run(ctx) })
	}
	if n.membership != nil {
		g.Go(func() error { return n.membership.Run(ctx) })
	}
	err := g.Wait()
	n.owners.leaving.Store(true)
	if errors.Is(err, kafka.ErrFenced) {
		return err // another process now has the name, and a goodbye would seem to come from that process
	}
	if n.membership != nil {
		n.membership.leave()
	}
	n.heartbeat.goodbye()
	return err
}

// every calls do at each tick until ctx ends. It never returns an error.
func every(ctx context.Context, tick time.Duration, do func()) error {
	ticks := time.NewTicker(tick)
	defer ticks.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-ticks.C:
			do()
		}
	}
}

// oftenAtFirst calls do after the time soonest, and then after twice the time since the call before, at most the time latest.
func oftenAtFirst(ctx context.Context, soonest, latest time.Duration, do func()) error {
	for wait := min(soonest, latest); pause.For(ctx, wait); wait = min(2*wait, latest) {
		do()
	}
	return nil
}

// Close ends what Open began. Call it once, after Open failed or instead of Run.
func (n *Node) Close() error {
	n.ns.close()
	if n.replica != nil {
		n.replica.close()
	}
	if n.owners.inputs != nil {
		n.owners.inputs.close()
	}
	if n.webhooks != nil {
		n.webhooks.reader.Close()
	}
	// The owners have ended. Whatever they sent last is abandoned first; the next owner sends it again.
	for _, p := range []*kafka.Producer{n.owners.effects, n.producer, n.heartbeat.producer} {
		if p != nil {
			p.Close()
		}
	}
	if n.store != nil {
		return n.store.Close()
	}
	return nil
}

// Ready returns nil if the node is ready to serve, otherwise an error that says what is missing.
func (n *Node) Ready() error { return n.readiness.Ready() }

// Addr returns where the API listens, "" if it does not.
func (n *Node) Addr() string {
	if n.api == nil {
		return ""
	}
	return n.api.Addr()
}

// Partitions returns how many partitions the namespace has.
func (n *Node) Partitions() int32 { return n.ns.partitions }

// ApplyFile applies the workflow of a file if its content is not known yet, and logs what it did; open returns the files that its $refs
// name. It never makes an older version current again: then Applied.Changed is false and Applied.Version is the older one.
func (n *Node) ApplyFile(ctx context.Context, name string, source []byte, open func(string) ([]byte, error)) (api.Applied, []api.Fault, error) {
	return n.defs.applyNew(ctx, name, source, open)
}
