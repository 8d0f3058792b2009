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

// Partitions implements api.Cluster.
func (c *clusterView) Partitions(ctx context.Context) ([]api.Partition, error) {
	of := kafka.Partitions{}
	for p := range c.n.partitions {
		of[c.n.topics.Events()] = append(of[c.n.topics.Events()], p)
	}
	ends, err := c.n.cfg.Cluster.EndOffsets(ctx, of)
	if err != nil {
		return nil, err
	}
	now := events.At(time.Now())
	var list []api.Partition
	for p := range c.n.partitions {
		i, err := c.n.store.PartitionInfo(p)
		if err != nil {
			return nil, err
		}
		due, err := c.n.store.Partition(p).Due(now, maxDueShown)
		if err != nil {
			return nil, err
		}
		list = append(list, api.Partition{
			Partition: p, Owner: i.Owner, Epoch: i.Epoch, Since: i.Since, AppliedOffset: i.Next,
			EndOffset: ends[c.n.topics.Events()][p], StateHash: i.StateHash, Live: i.Live, Due: int64(len(due)),
		})
	}
	return list, nil
}

// Agents implements api.Cluster.
func (c *clusterView) Agents(context.Context) ([]events.Presence, error) {
	return c.n.presence.agents(), nil
}
