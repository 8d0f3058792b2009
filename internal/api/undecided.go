package api

import (
	"fmt"
	"slices"

	"github.com/sagalog/sagalog/events"
)

// undecided says why nothing is decided in a partition: it has stopped, or its owner is silent. It returns "" if its owner is alive, and also if
// this node hears no node, not even itself: it then knows nothing of the owner.
func (s documents) undecided(partition int32, nodes []NodeDocument) string {
	if !slices.ContainsFunc(nodes, func(d NodeDocument) bool { return !d.Silent }) {
		return ""
	}
	for i := range nodes {
		for _, x := range nodes[i].Stopped {
			if x.Partition == partition && !nodes[i].Silent {
				return fmt.Sprintf("it has stopped at node %s (%s)", nodes[i].Node, x.Reason)
			}
		}
	}
	owner := s.cluster.Owner(partition)
	i := slices.IndexFunc(nodes, func(d NodeDocument) bool { return d.Node == owner })
	switch {
	case owner == s.node: // it answers
	case owner == "":
		return "it has no known owner"
	case i < 0:
		return fmt.Sprintf("its owner, node %s, was stopped, or has sent no heartbeat for a minute", owner)
	case nodes[i].Silent:
		return fmt.Sprintf("its owner, node %s, has sent no heartbeat since %s", owner, nodes[i].LastSeen)
	}
	return ""
}

// awaitsOwner says why the owner of the partition of a task has not planned it.
func (s documents) awaitsOwner(t *events.Task, nodes []NodeDocument) string {
	partition := events.Home(t.ID, s.partitions)
	if why := s.undecided(partition, nodes); why != "" {
		return fmt.Sprintf("partition %d, which is stalled: %s", partition, why)
	}
	return fmt.Sprintf("partition %d: its owner, node %s, has not planned the task since taking over, or is running late", partition, s.cluster.Owner(partition))
}

// unknownTask says that no task has this ID, and if so, that a submission of it may wait because nothing is decided in its partition.
func (s documents) unknownTask(id string) *Problem {
	p := taskNotFound()
	partition := events.Home(id, s.partitions)
	if why := s.undecided(partition, s.nodes.Nodes()); why != "" {
		p.Detail += fmt.Sprintf(" If it was submitted recently, its submission is still waiting: partition %d is stalled, because %s.", partition, why)
	}
	return p
}
