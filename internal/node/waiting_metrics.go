package node

import (
	"github.com/prometheus/client_golang/prometheus"
	"github.com/sagalog/sagalog/events"
	"github.com/sagalog/sagalog/projector"
	"github.com/sagalog/sagalog/scheduler"
)

// waitingMetrics counts the steps and tasks of this node's partitions that wait, by what they wait for. The store counts them as it
// commits, so a scrape reads no task.
type waitingMetrics struct {
	owners *owners
	ns     *namespace
	store  *projector.Store
	offers offersView

	waiting *prometheus.Desc
}

func newWaitingMetrics(n *Node) *waitingMetrics {
	return &waitingMetrics{
		owners: n.owners, ns: n.ns, store: n.store.Store, offers: offersView{n.liveness, n.ns.partitions},
		waiting: prometheus.NewDesc("sagalog_steps_waiting", "Steps of the partitions that this node owns that wait, by what they wait for (the kinds of waiting_for in the API); "+
			"a task that waits as a whole counts as one. After a take-over, tasks count as waiting for their owner until it has planned them.", []string{"waiting_for"}, nil),
	}
}

// Describe implements prometheus.Collector.
func (m *waitingMetrics) Describe(ch chan<- *prometheus.Desc) { ch <- m.waiting }

// Collect implements prometheus.Collector.
func (m *waitingMetrics) Collect(ch chan<- prometheus.Metric) {
	counts := m.count(m.owners.owned())
	for _, kind := range events.Waitings() {
		ch <- prometheus.MustNewConstMetric(m.waiting, prometheus.GaugeValue, float64(counts[kind]), string(kind))
	}
}

// count counts what the steps of partitions wait for.
func (m *waitingMetrics) count(partitions []int32) map[events.Waiting]int64 {
	agents := m.agents()
	counts := map[events.Waiting]int64{}
	for _, p := range partitions {
		partition := m.store.Partition(p)
		for kind, n := range partition.Waits() {
			counts[kind] += n
		}
		if n := projector.UnplannedCount(partition); n > 0 {
			counts[events.WaitingOwner] += n
		}
		for _, q := range partition.QueueLengths() {
			kind, _ := agents.QueuedFor(q.Call)
			counts[kind] += q.Steps
		}
	}
	return counts
}

// agents returns what is known of the agents for which steps are queued.
func (m *waitingMetrics) agents() events.Availability {
	return availability(m.offers.liveness, m.offers.partitions, m.ns.catalog.Catalog)
}

// availability returns what a node knows of the agents for which steps are queued.
func availability(l *liveness, partitions int32, c *scheduler.Catalog) events.Availability {
	paused, v := c.Paused(), offersView{l, partitions}
	return events.Availability{Offered: v.Offered(), Missing: v.Missing(), Paused: func(agent string) bool { _, held := paused[agent]; return held }}
}
