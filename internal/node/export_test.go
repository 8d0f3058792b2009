package node

import (
	"context"
	"time"

	"github.com/sagalog/sagalog/events"
	"github.com/sagalog/sagalog/internal/api"
	"github.com/sagalog/sagalog/internal/kafka"
	"github.com/sagalog/sagalog/projector"
	"github.com/sagalog/sagalog/supervisor"
)

// Store is the projection.
func (n *Node) Store() *projector.Store { return n.store }

// Status is what the owner of a partition says of itself.
func (n *Node) Status(partition int32) (supervisor.Status, supervisor.Stats, error) {
	return n.shells[partition].Status()
}

// Tasks, Facts, Refusals and Letters are what the API asks.
func (n *Node) Tasks() api.Tasks             { return n.tasks }
func (n *Node) Facts() api.History           { return &history{n.tasks} }
func (n *Node) Refusals() api.Rejections     { return &rejections{n.tasks} }
func (n *Node) ClusterView() api.Cluster     { return &clusterView{n} }
func (n *Node) Definitions() api.Definitions { return n.defs }
func (n *Node) Letters() api.DeadLetters {
	return &deadLetters{cluster: n.cfg.Cluster, topics: n.topics, partitions: n.partitions}
}

// Beats is a presence without a topic.
type Beats struct{ p presence }

// Take gives it a record, as if it had been read now.
func (b *Beats) Take(r *events.Record) { b.p.take(r) }

// Windows returns the places of each agent in each of so many partitions.
func (b *Beats) Windows(partitions int32) (list []map[string]int) {
	s := b.p.supply(partitions)
	for n := range partitions {
		list = append(list, s.windows(n, partitions))
	}
	return list
}

// Targets returns the instances of each agent that take work.
func (b *Beats) Targets(partitions int32) map[string][]supervisor.Target {
	return b.p.supply(partitions).targets
}

// Agents returns the instances seen lately.
func (b *Beats) Agents() []events.Presence { return b.p.agents() }

// Self makes it the presence of that node.
func (b *Beats) Self(name string) { b.p.self = name }

// SilentNode says whether a member that was first seen at that instant should be removed.
func (b *Beats) SilentNode(name string, since time.Time) bool {
	silent, _ := b.p.silence(events.PresenceNode+"/"+name, since)
	return silent
}

// SilentAgents are the instances that should be removed.
func (b *Beats) SilentAgents() (names []string) {
	for _, p := range b.p.silentAgents() {
		names = append(names, p.Instance)
	}
	return names
}

// OwnerOf returns the node that says it owns the partition.
func (b *Beats) OwnerOf(partition int32) string {
	p, _ := b.p.ownerOf(partition)
	return p.Instance
}

// SilentAfter is when a sender counts as gone, ListedFor how long it is shown.
const (
	SilentAfter      = silentAfter
	AgentSilentAfter = agentSilentAfter
	ListedFor        = listedFor
)

// Inputs reads inputs as the partitions of a node do.
type Inputs struct{ in *inputs }

// NewInputs returns what Run makes work.
func NewInputs(c *kafka.Cluster) Inputs { return Inputs{newInputs(c)} }

// Run works until ctx ends.
func (i Inputs) Run(ctx context.Context) error { return i.in.Run(ctx) }

// Of returns the log of a partition.
func (i Inputs) Of(topics kafka.Topics, partition int32) supervisor.Log {
	return &partitionLog{cluster: i.in.cluster, topics: topics, partition: partition, inputs: i.in}
}

// Waiting returns about how many bytes of a partition were read and not taken.
func (i Inputs) Waiting(topic string, partition int32) int {
	i.in.mu.Lock()
	defer i.in.mu.Unlock()
	if r := i.in.readings[place{topic, partition}]; r != nil {
		return r.bytes
	}
	return 0
}

// Fail closes the reader that all readings share.
func (i Inputs) Fail() {
	i.in.mu.Lock()
	r := i.in.reader
	i.in.mu.Unlock()
	r.Close()
}
