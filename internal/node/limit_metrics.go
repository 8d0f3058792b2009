package node

import (
	"github.com/prometheus/client_golang/prometheus"
	"github.com/sagalog/sagalog/events"
	"github.com/sagalog/sagalog/projector"
)

// limitMetrics shows the named limits whose home is a partition that this node owns, as the store has them. Up to maxLimitSeries of them have
// series with their names, the oldest by their objects; the rest is summed up as _other.
type limitMetrics struct {
	owners *owners
	ns     *namespace
	store  *projector.Store

	inUse, size, waiting *prometheus.Desc
}

// maxLimitSeries is that of all names from outside (see taskMetrics).
const maxLimitSeries = 200

func newLimitMetrics(n *Node) *limitMetrics {
	label := []string{"limit"}
	return &limitMetrics{
		owners: n.owners, ns: n.ns, store: n.store.Store,
		inUse:   prometheus.NewDesc("sagalog_limit_in_use", "Permits of each named limit that are not free, of the limits whose home is a partition that this node owns.", label, nil),
		size:    prometheus.NewDesc("sagalog_limit_max", "Permits that each named limit has.", label, nil),
		waiting: prometheus.NewDesc("sagalog_limit_waiting", "Attempts that wait for a permit of each named limit.", label, nil),
	}
}

// Describe implements prometheus.Collector.
func (m *limitMetrics) Describe(ch chan<- *prometheus.Desc) {
	ch <- m.inUse
	ch <- m.size
	ch <- m.waiting
}

// use is how much of a limit is in use.
type use struct{ held, max, waiting int }

// Collect implements prometheus.Collector.
func (m *limitMetrics) Collect(ch chan<- prometheus.Metric) {
	named, other := 0, use{}
	for _, p := range m.owners.owned() {
		for _, r := range m.ns.catalog.LimitsOf(p, m.ns.partitions) {
			l, err := m.store.Partition(p).Limit(events.LimitKey(r.Limit))
			if err != nil || l == nil {
				continue // it is not adopted yet, or deleted
			}
			u := use{max: l.Max, waiting: len(l.Waiting())}
			for x := range l.Permits() {
				if x.Held() {
					u.held++
				}
			}
			if named++; named > maxLimitSeries {
				other = use{other.held + u.held, other.max + u.max, other.waiting + u.waiting}
				continue
			}
			m.one(ch, r.Limit, u)
		}
	}
	if named > maxLimitSeries {
		m.one(ch, "_other", other)
	}
}

// one sends the series of a limit.
func (m *limitMetrics) one(ch chan<- prometheus.Metric, name string, u use) {
	ch <- prometheus.MustNewConstMetric(m.inUse, prometheus.GaugeValue, float64(u.held), name)
	if u.max > 0 { // otherwise only a rate bounds it
		ch <- prometheus.MustNewConstMetric(m.size, prometheus.GaugeValue, float64(u.max), name)
	}
	ch <- prometheus.MustNewConstMetric(m.waiting, prometheus.GaugeValue, float64(u.waiting), name)
}
