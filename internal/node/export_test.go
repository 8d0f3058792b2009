package node

import (
	"time"

	"github.com/sagalog/sagalog/events"
	"github.com/sagalog/sagalog/internal/api"
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

// Windows returns the places of each agent in one of so many partitions.
func (b *Beats) Windows(partitions int32) map[string]int { return b.p.windows(partitions) }

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
	SilentAfter = silentAfter
	ListedFor   = listedFor
)
