package node

import (
	"context"
	"time"

	"github.com/sagalog/sagalog/events"
	"github.com/sagalog/sagalog/internal/api"
)

// maxDueShown bounds the count of due timers: far fewer already show that an owner is behind.
const maxDueShown = 10_000

// clusterView shows the API which nodes own partitions and run agents.
type clusterView struct{ *readiness }

// Owner implements api.Cluster.
func (c clusterView) Owner(partition int32) string {
	i, err := c.store.PartitionInfo(partition)
	if err != nil {
		return ""
	}
	return i.Owner
}

// endsWithin bounds the request for the ends of the log, because people also look at the partitions while a broker is
// down.
const endsWithin = 2 * time.Second

// Partitions implements api.Cluster.
func (c clusterView) Partitions(ctx context.Context) ([]api.Partition, error) {
	ends, begins := c.ends(ctx), c.begins(ctx)
	now := events.At(time.Now())
	var list []api.Partition
	for p := range c.ns.partitions {
		part := api.Partition{Partition: p, EndOffset: -1}
		if end, ok := ends[p]; ok {
			part.EndOffset = end
		}
		part.Begins, part.Stopped = begins[p], c.stoppedAt(p)
		if c.here(p) {
			if err := c.describe(&part, now); err != nil {
				return nil, err
			}
		}
		list = append(list, part)
	}
	return list, nil
}

// stoppedAt returns the node that cannot go on with a partition, nil if none says so.
func (c clusterView) stoppedAt(p int32) *api.StoppedAt {
	node, x := c.liveness.stopped(p)
	if node == "" {
		return nil
	}
	return &api.StoppedAt{Node: node, Reason: x.Reason, Detail: x.Detail}
}

// ends returns the end of each partition of events, except those whose brokers do not answer.
func (c clusterView) ends(ctx context.Context) map[int32]int64 {
	ctx, cancel := context.WithTimeout(ctx, endsWithin)
	defer cancel()
	topic := c.ns.topics.Events()
	ends, err := c.ns.cluster.EndOffsets(ctx, c.ns.all(topic))
	if err != nil {
		c.ns.log.Warn("brokers did not return the end of the log; their partitions are shown without it", "error", err)
	}
	return ends[topic]
}

// begins returns where the topics of each partition begin; nothing if the brokers do not answer.
func (c clusterView) begins(ctx context.Context) map[int32]*api.PartitionBegins {
	ctx, cancel := context.WithTimeout(ctx, endsWithin)
	defer cancel()
	t := c.ns.topics
	of := c.ns.all(t.Events())
	of[t.Submissions()], of[t.Reports()] = of[t.Events()], of[t.Events()]
	at, err := c.ns.cluster.StartOffsets(ctx, of)
	if err != nil {
		return nil // it is logged that their ends are not known either
	}
	begins := make(map[int32]*api.PartitionBegins, c.ns.partitions)
	for p := range c.ns.partitions {
		begins[p] = &api.PartitionBegins{Events: at[t.Events()][p], Submissions: at[t.Submissions()][p], Reports: at[t.Reports()][p]}
	}
	return begins
}

func (c clusterView) describe(part *api.Partition, now events.Instant) error {
	p := c.store.Partition(part.Partition)
	i, err := p.Info()
	if err != nil {
		return err
	}
	due, err := p.Due(now, maxDueShown)
	if err != nil {
		return err
	}
	waking, err := p.Waking(now, maxDueShown)
	if err != nil {
		return err
	}
	part.Known, part.Owner, part.Epoch, part.Since = true, i.Owner, i.Epoch, i.Since
	if t := c.owners.takeovers; t != nil && i.Owner == c.liveness.self {
		if over, ok := t.latest(part.Partition); ok {
			part.TakenOver = &over
		}
	}
	part.Outbox = c.owners.outboxOf(part.Partition, now)
	part.AppliedOffset, part.StateHash, part.Live, part.Due = i.Next, i.StateHash, i.Live, int64(min(len(due)+len(waking), maxDueShown))
	return nil
}

// TakeOvers implements api.Cluster.
func (c clusterView) TakeOvers(partition int32) []api.PastTakeOver {
	return c.store.takeovers.list(partition)
}

// Agents implements api.Cluster.
func (c clusterView) Agents(context.Context) ([]events.Presence, error) {
	return c.liveness.agents(), nil
}
