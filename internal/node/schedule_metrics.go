package node

import (
	"github.com/prometheus/client_golang/prometheus"
	"github.com/sagalog/sagalog/events"
	"github.com/sagalog/sagalog/projector"
)

// scheduleMetrics shows the schedules whose home is a partition that this node owns, as the store has them. Up to maxScheduleSeries of them
// have series with their names; the due times of the rest are summed up as otherLabel.
type scheduleMetrics struct {
	owners *owners
	ns     *namespace
	store  *projector.Store

	fires, next, lag *prometheus.Desc
}

// maxScheduleSeries is that of all names from outside (see taskMetrics).
const maxScheduleSeries = 200

func newScheduleMetrics(n *Node) *scheduleMetrics {
	label := []string{"schedule"}
	return &scheduleMetrics{
		owners: n.owners, ns: n.ns, store: n.store.Store,
		fires: prometheus.NewDesc("sagalog_schedule_fires_total", "Due times of the schedules in the partitions that this node owns, by what became of them: fired (led to a task), skipped (a task had not ended), "+
			"missed (older than catch_up), failed (no submission could be made, or it was rejected; the latter are in fired, too). Names beyond the first 200 on a node are counted as _other.", append(label, "result"), nil),
		next: prometheus.NewDesc("sagalog_schedule_next_timestamp_seconds", "The next due time of each schedule; absent if nothing is due any more, or the schedule is paused, and beyond 200 schedules on a node.", label, nil),
		lag:  prometheus.NewDesc("sagalog_schedule_lag_seconds", "How long after its due time the latest task of each schedule was submitted, jitter included. Absent beyond 200 schedules on a node.", label, nil),
	}
}

// Describe implements prometheus.Collector.
func (m *scheduleMetrics) Describe(ch chan<- *prometheus.Desc) {
	ch <- m.fires
	ch <- m.next
	ch <- m.lag
}

// Collect implements prometheus.Collector.
func (m *scheduleMetrics) Collect(ch chan<- prometheus.Metric) {
	named, other := 0, map[string]int64{}
	for _, p := range m.owners.owned() {
		for _, r := range m.ns.catalog.SchedulesOf(p, m.ns.partitions) {
			if r.Body == nil {
				continue
			}
			x, err := m.store.Partition(p).Schedule(r.Schedule)
			if err != nil || x == nil {
				continue // it is not adopted yet
			}
			counts := map[string]int64{"fired": x.Fired, "skipped": x.Skipped, "missed": x.Missed, "failed": x.Failed}
			if named++; named > maxScheduleSeries {
				for result, n := range counts {
					other[result] += n
				}
				continue
			}
			m.one(ch, x, counts)
		}
	}
	m.counted(ch, otherLabel, other)
}

// one sends the series of a schedule.
func (m *scheduleMetrics) one(ch chan<- prometheus.Metric, x *events.Schedule, counts map[string]int64) {
	m.counted(ch, x.Name, counts)
	if x.Next != 0 && x.Paused == nil {
		ch <- prometheus.MustNewConstMetric(m.next, prometheus.GaugeValue, float64(x.Next)/1000, x.Name)
	}
	for i := len(x.Fires) - 1; i >= 0; i-- {
		if f := x.Fires[i]; f.Request == "" { // the due time of a request may be long ago
			ch <- prometheus.MustNewConstMetric(m.lag, prometheus.GaugeValue, f.At.Sub(f.Due).Seconds(), x.Name)
			return
		}
	}
}

func (m *scheduleMetrics) counted(ch chan<- prometheus.Metric, name string, counts map[string]int64) {
	for result, n := range counts {
		ch <- prometheus.MustNewConstMetric(m.fires, prometheus.CounterValue, float64(n), name, result)
	}
}
