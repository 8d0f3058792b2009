package node

import (
	"context"
	"log/slog"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/sagalog/sagalog/events"
	"github.com/sagalog/sagalog/internal/api"
	"github.com/sagalog/sagalog/internal/kafka"
	"github.com/sagalog/sagalog/projector"
	"github.com/sagalog/sagalog/scheduler"
	"github.com/sagalog/sagalog/supervisor"
)

// Store is the projection.
func (n *Node) Store() *projector.Store { return n.store.Store }

// Repair repairs the state of a partition; Failed returns why the node must end.
func (n *Node) Repair(partition int32, cause error) error {
	return n.store.repair(context.Background(), partition, cause)
}

func (n *Node) Failed() error {
	select {
	case err := <-n.store.failed:
		return err
	default:
		return nil
	}
}

// Losses gives up lost inputs.
func (n *Node) Losses() api.Losses { return &losses{n.store, n.producer, n.liveness} }

// Checkpoints makes checkpoints.
func (n *Node) Checkpoints() api.Checkpoints { return n.checkpoints }

func (n *Node) Pauses() api.AgentPauses { return &agentPauses{n.ns, n.producer} }

// Jobs opens and stops jobs.
func (n *Node) Jobs() api.Jobs { return &jobs{n.ns, n.producer, n.cfg.Keys} }

// Schedules applies and reads schedules.
func (n *Node) Schedules() api.Schedules { return &schedules{n.ns, n.producer, n.store.Store, n.defs} }

// NamedLimits applies and deletes named limits.
func (n *Node) NamedLimits() api.NamedLimits { return &namedLimits{n.ns, n.producer, n.defs} }

// Outdate makes this node's shell of a partition one that cannot own it, for good, though other nodes can.
func (n *Node) Outdate(partition int32) {
	n.owners.shells[partition].SetSettings(events.Settings{}, 0, n.cfg.maxLevel+1)
}

// Unable are the partitions that the node says it cannot own.
func (n *Node) Unable() []int32 { return n.membership.unable(unreachedAfter) }

// IsEverywhere is isEverywhere.
func IsEverywhere(err error) bool { return isEverywhere(err) }

// Passed are the resume points of a partition at the end of its log.
func (n *Node) Passed(ctx context.Context, partition int32) (map[events.Input]events.Passed, error) {
	return n.store.passed(ctx, partition)
}

// Effects sends what the owners send, and Appender what the API accepts.
func (n *Node) Effects() *kafka.Producer { return n.owners.effects }
func (n *Node) Appender() api.Appender   { return n.producer }

// Status is the state that a partition's owner reports.
func (n *Node) Status(partition int32) (supervisor.Status, error) {
	return n.owners.shells[partition].Status()
}

// GiveUp makes this node's shell give a partition up, and returns before anybody folds it again.
func (n *Node) GiveUp(partition int32) { <-n.owners.shells[partition].Revoke() }

// TaskMetrics counts facts.
type TaskMetrics struct{ *taskMetrics }

// NewTaskMetrics is newTaskMetrics.
func NewTaskMetrics(r prometheus.Registerer) (TaskMetrics, error) {
	m, err := newTaskMetrics(r, nil)
	return TaskMetrics{m}, err
}

// Count is count.
func (m TaskMetrics) Count(t *events.Task, f *events.Fact) { m.count(t, f) }

// RegisterAgents registers the metrics of the agents that the heartbeats show.
func (b *Heartbeats) RegisterAgents(r prometheus.Registerer) error {
	return r.Register(newAgentMetrics(&b.l, &owners{}, nil, nil))
}

// Tasks, Facts, Refusals and Letters are the reads that the API uses.
func (n *Node) Tasks() api.Tasks           { return n.tasks }
func (n *Node) Lists() api.Lists           { return n.tasks }
func (n *Node) Inputs() api.Inputs         { return n.tasks }
func (n *Node) Facts() api.History         { return &history{n.tasks} }
func (n *Node) Refusals() api.Rejections   { return &rejections{n.tasks} }
func (n *Node) ClusterView() api.Cluster   { return clusterView{n.readiness} }
func (n *Node) Definitions() api.Workflows { return n.defs }
func (n *Node) Deletions() api.Deletions   { return n.defs }
func (n *Node) Checked() api.Definitions   { return n.defs }

// BeginsWithCarry says whether a partition of the log begins with a carry, for a node that saw it begin at an offset.
func (n *Node) BeginsWithCarry(ctx context.Context, partition int32, seen int64) (bool, error) {
	return n.store.beginsWithCarry(ctx, partition, seen)
}

// LimitDefinitions sets how many work topics, versions and bytes definitions may leave behind.
func (n *Node) LimitDefinitions(topics, versions, bytes int) {
	n.defs.limits, n.topics.limit = definitionLimits{topics: topics, versions: versions, bytes: bytes}, topics
}

// KeptPrograms keeps n programs of definitions of a size, and returns how many bytes are kept then.
func KeptPrograms(n, bytes int) int {
	var c programs
	for i := range n {
		c.keep(strconv.Itoa(i), &scheduler.Program{}, bytes)
		c.keep(strconv.Itoa(i), &scheduler.Program{}, bytes)
		if c.find(strconv.Itoa(i)) == nil {
			return -1
		}
	}
	return len(c.recent.kept) * bytes
}

// Catalog completes definitions that no topic holds.
type Catalog struct{ c *catalog }

// NewCatalog is newCatalog with room for some bytes of completed definitions.
func NewCatalog(log *slog.Logger, room int) Catalog {
	c := newCatalog(nil, "", log, nil)
	c.full.room = room
	return Catalog{c}
}

// Complete completes a definition, and says whether it can be used.
func (c Catalog) Complete(hash, body string) bool {
	v, _ := c.c.complete(scheduler.Version{Workflow: "w", Hash: hash, Body: []byte(body)}, true)
	return v.Unusable == "" && len(v.Body) >= len(body)
}

// Kept says whether the completed definition is in memory. Bytes is the size of all, and Ignored is ignoredRecords.
func (c Catalog) Kept(hash string) bool { return c.c.full.kept[hash] != nil }
func (c Catalog) Bytes() int            { return c.c.full.bytes }
func (c Catalog) Ignored() int          { return c.c.ignoredRecords() }

// DefinitionBytes returns how many bytes of bodies of definitions are in memory.
func (n *Node) DefinitionBytes() (bytes int) {
	for _, w := range n.ns.catalog.List() {
		for _, v := range n.ns.catalog.Versions(w.Workflow) {
			bytes += len(v.Body)
		}
	}
	n.ns.catalog.mu.Lock()
	defer n.ns.catalog.mu.Unlock()
	return bytes + n.ns.catalog.full.bytes
}

// Missing returns what steps wait for, from the heartbeats of the nodes.
func (n *Node) Missing() []events.Missing { return n.liveness.missing() }

// IgnoredDefinitions is ignoredRecords.
func (n *Node) IgnoredDefinitions() int { return n.ns.catalog.ignoredRecords() }

func (n *Node) Letters() api.DeadLetters {
	return &deadLetters{n.ns, n.producer}
}

// Heartbeats returns a liveness that has no topic.
type Heartbeats struct{ l liveness }

// Record passes a record to the liveness, as if it had just been read.
func (b *Heartbeats) Record(r *events.Record) {
	b.l.now = time.Now
	b.l.record(r)
}

// Windows returns the windows of each agent in each of the partitions.
func (b *Heartbeats) Windows(partitions int32) (list []map[string]int) {
	all := b.l.offers(partitions)
	for n := range partitions {
		windows := map[string]int{}
		for name, o := range all.to(n, partitions) {
			windows[name] = o.Window
		}
		list = append(list, windows)
	}
	return list
}

// Offered says which operations of an agent are offered.
func (b *Heartbeats) Offered(agent string) (do, undo bool) {
	o := b.l.offers(1)[agent]
	return o.Do, o.Undo
}

// Targets returns the instances of each agent that can take work.
func (b *Heartbeats) Targets(partitions int32, agent string) []supervisor.Target {
	return b.l.offers(partitions)[agent].Targets
}

// Agents returns the instances seen lately.
func (b *Heartbeats) Agents() []events.Presence { return b.l.agents() }

// Self sets the node that the liveness belongs to.
func (b *Heartbeats) Self(name string) { b.l.self = name }

// SilentNode says whether a member that was first seen at that instant should be removed.
func (b *Heartbeats) SilentNode(name string, since time.Time) bool {
	silent, _ := b.l.silence(events.PresenceNode+"/"+name, since)
	return silent
}

// SilentAgents are the instances that should be removed.
func (b *Heartbeats) SilentAgents() (names []string) {
	for _, p := range b.l.silentAgents() {
		names = append(names, p.Instance)
	}
	return names
}

// OwnerOf returns the node whose heartbeat claims the partition.
func (b *Heartbeats) OwnerOf(partition int32) string {
	p, _ := b.l.ownerOf(partition)
	return p.Instance
}

// SilentAfter is the silence after which a sender counts as gone, and ListedFor the silence after which it is no longer listed.
const (
	SilentAfter      = silentAfter
	AgentSilentAfter = agentSilentAfter
	ListedFor        = listedFor
)

// Inputs reads inputs as a node's partitions do.
type Inputs struct{ in *inputs }

// NewInputs returns inputs that read nothing before Run.
func NewInputs(c *kafka.Cluster) Inputs { return Inputs{newInputs(c)} }

// Run reads until ctx ends.
func (i Inputs) Run(ctx context.Context) error { return i.in.Run(ctx) }

// Of returns the log of a partition.
func (i Inputs) Of(topics kafka.Topics, partition int32) supervisor.Log {
	return &partitionLog{cluster: i.in.cluster, topics: topics, partition: partition, inputs: i.in}
}

// Waiting returns approximately how many bytes of a partition were read but not taken yet.
func (i Inputs) Waiting(topic string, partition int32) int {
	i.in.mu.Lock()
	defer i.in.mu.Unlock()
	if r := i.in.readings[place{topic, partition}]; r != nil {
		return r.bytes
	}
	return 0
}

// Fail closes the reader that all reads share.
func (i Inputs) Fail() {
	i.in.mu.Lock()
	r := i.in.reader
	i.in.mu.Unlock()
	r.Close()
}

// Clock says why this node's clock is not to be trusted.
func (b *Heartbeats) Clock() error {
	_, err := b.l.compareClock()
	return err
}

// Agreed says whether the clock is known to be right.
func (b *Heartbeats) Agreed() bool {
	agreed, _ := b.l.compareClock()
	return agreed
}

// StopReason is stopReason.
func StopReason(err error) string { return stopReason(err) }

// MaxLevel makes a node one of a build that understands levels up to the given one.
func MaxLevel(level int) func(*Config) { return func(c *Config) { c.maxLevel = level } }

// SetKeyLevels replaces the levels that the keys of definitions need.
func (n *Node) SetKeyLevels(l scheduler.Levels) { n.defs.levels = l }

// Applying makes it look as if a definition is being applied until release is called.
func (n *Node) Applying() (release func()) {
	n.defs.applying <- struct{}{}
	return n.defs.end
}

// Upgrade raises the level of the namespace.
func (n *Node) Upgrade(ctx context.Context, to int) (api.NamespaceSettings, bool, error) {
	return n.settings.Upgrade(ctx, to, "anna")
}

// Stalls looks at partitions whose owners are fakes.
type Stalls struct{ s stalls }

// NewStalls is newStalls.
func NewStalls(log *slog.Logger, owners ...interface {
	Status() (supervisor.Status, error)
	Busy() time.Duration
}) *Stalls {
	s := &Stalls{stalls{log: log, spells: make([]spell, len(owners))}}
	for _, o := range owners {
		s.s.partitions = append(s.s.partitions, o)
	}
	return s
}

// Wait looks as often as a node does, for that time. Of returns the error of a partition.
func (s *Stalls) Wait(d time.Duration) {
	for ; d > 0; d -= stalledEvery {
		<-time.After(stalledEvery)
		s.s.look()
	}
}

func (s *Stalls) Of(partition int32) error { return s.s.of(partition) }

// Alerts finds open alerts and acknowledges them.
func (n *Node) Alerts() api.Alerts { return n.alerts }

// Acts returns what operators did.
func (n *Node) Acts() api.Acts { return n.ns.catalog.acts }

// Trims makes a node delete at once what nobody needs any more.
func Trims(c *Config) { c.trim = trimPace{every: time.Second, records: 1, after: time.Second} }

// Expired returns the first request for work at or behind an offset whose time is not over.
func (n *Node) Expired(topic string, partition int32, from, to int64) (int64, error) {
	return n.trimmer.expired(context.Background(), place{topic, partition}, from, to)
}
