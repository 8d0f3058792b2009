package node

import (
	"context"
	"time"

	"github.com/sagalog/sagalog/events"
	"github.com/sagalog/sagalog/internal/api"
	"github.com/sagalog/sagalog/internal/kafka"
)

// maxDueShown bounds the count of due timers: a person sees from far fewer that an owner is behind.
const maxDueShown = 10_000

// clusterView tells the API who runs what.
type clusterView struct{ n *Node }

// Owner implements api.Cluster.
func (c *clusterView) Owner(partition int32) string {
	i, err := c.n.store.PartitionInfo(partition)
	if err != nil {
		return ""
	}
	return i.Owner
}

// Route implements api.Cluster. What a node's beat says is believed for as long as the node is heard; a node that says
// that it owns what the log gave to another refuses what it is asked, and the other's beat is the newer one soon.
func (c *clusterView) Route(partition int32) api.Route {
	if c.n.local(partition) {
		return api.Route{Here: true}
	}
	owner, ok := c.n.presence.ownerOf(partition)
	if !ok || owner.Node == c.n.cfg.Name { // our own beat may be older than what we know of ourselves
		return api.Route{Stopped: c.n.stopped(partition)}
	}
	return api.Route{Node: owner.Node, Addr: owner.HTTP}
}

// endsWait bounds the asking for the ends of the log: the partitions are looked at when a broker is down, too.
const endsWait = 2 * time.Second

// Partitions implements api.Cluster.
func (c *clusterView) Partitions(ctx context.Context) ([]api.Partition, error) {
	ends := c.ends(ctx)
	now := events.At(time.Now())
	var list []api.Partition
	for p := range c.n.partitions {
		part := api.Partition{Partition: p, EndOffset: -1}
		if end, ok := ends[p]; ok {
			part.EndOffset = end
		}
		if c.n.local(p) {
			if err := c.describe(&part, now); err != nil {
				return nil, err
			}
		}
		list = append(list, part)
	}
	return list, nil
}

// ends returns the end of each partition of events; none where the brokers do not tell.
func (c *clusterView) ends(ctx context.Context) map[int32]int64 {
	ctx, cancel := context.WithTimeout(ctx, endsWait)
	defer cancel()
	of := kafka.Partitions{}
	for p := range c.n.partitions {
		of[c.n.topics.Events()] = append(of[c.n.topics.Events()], p)
	}
	ends, err := c.n.cfg.Cluster.EndOffsets(ctx, of)
	if err != nil {
		c.n.cfg.Logger.Warn("the brokers do not tell the ends of the log; the partitions are shown without", "error", err)
		return nil
	}
	return ends[c.n.topics.Events()]
}

func (c *clusterView) describe(part *api.Partition, now events.Instant) error {
	p := c.n.store.Partition(part.Partition)
	i, err := p.Info()
	if err != nil {
		return err
	}
	due, err := p.Due(now, maxDueShown)
	if err != nil {
		return err
	}
	part.Known, part.Owner, part.Epoch, part.Since = true, i.Owner, i.Epoch, i.Since
	part.AppliedOffset, part.StateHash, part.Live, part.Due = i.Next, i.StateHash, i.Live, int64(len(due))
	return nil
}

// Agents implements api.Cluster.
func (c *clusterView) Agents(context.Context) ([]events.Presence, error) {
	return c.n.presence.agents(), nil
}
