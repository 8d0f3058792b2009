package node

import (
	"slices"
	"strings"
	"time"

	"github.com/sagalog/sagalog/events"
	"github.com/sagalog/sagalog/internal/api"
)

// Nodes implements api.Nodes.
func (c clusterView) Nodes() []api.NodeDocument {
	list := c.liveness.nodes()
	for i := range list {
		if list[i].Node != c.liveness.self {
			continue
		}
		if ahead, known := c.liveness.brokerOffset(); known {
			list[i].BrokerAhead = new(events.Duration(ahead))
		}
		if d, ok := c.store.Disk(); ok {
			list[i].StateBytes = &d.State
			if d.Free >= 0 {
				list[i].FreeBytes = &d.Free
			}
		}
	}
	return list
}

// nodes returns the nodes that were seen lately, by name.
func (l *liveness) nodes() []api.NodeDocument {
	l.mu.Lock()
	defer l.mu.Unlock()
	list := []api.NodeDocument{}
	for key, b := range l.seen {
		if b.Kind != events.PresenceNode || b.SeenAt == 0 || time.Since(b.at) > listedFor {
			continue
		}
		d := api.NodeDocument{
			Node: b.Instance, Level: b.Level, StartedAt: b.StartedAt, LastSeen: b.SeenAt, Silent: time.Since(b.at) > silentAfter,
			Partitions: append([]int32{}, b.Partitions[ownedTopic]...), Stopped: b.Stopped,
		}
		if key != l.selfKey() {
			d.ClockAhead = new(events.Duration(b.skew))
		}
		list = append(list, d)
	}
	slices.SortFunc(list, func(a, b api.NodeDocument) int { return strings.Compare(a.Node, b.Node) })
	return list
}

// outboxOf returns the effects of a partition that this node owns which no broker has acknowledged.
func (o *owners) outboxOf(partition int32, now events.Instant) (list []api.OutboxClass) {
	for _, e := range o.status(partition).Effects {
		if e.Records == 0 {
			continue
		}
		c := api.OutboxClass{Class: e.Kind, Records: e.Records, Bytes: e.Bytes}
		if e.Since != 0 {
			c.Age = events.Duration(max(0, now.Sub(e.Since)))
		}
		list = append(list, c)
	}
	return list
}
