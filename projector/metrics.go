package projector

import (
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

type metrics struct {
	commits       prometheus.Counter
	commitSeconds prometheus.Histogram
	commitBytes   prometheus.Counter
	tasks         prometheus.Counter
	stalls        prometheus.Counter
	resets        prometheus.Counter
}

// newMetrics registers nothing: Open registers the metrics once it has succeeded, and Close unregisters them.
func newMetrics() *metrics {
	counter := func(name, help string) prometheus.Counter {
		return prometheus.NewCounter(prometheus.CounterOpts{Name: "sagalog_projector_" + name, Help: help})
	}
	return &metrics{
		commits: counter("commits_total", "Batches committed to the state store."),
		commitSeconds: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "sagalog_projector_commit_seconds", Help: "Time to encode and apply a batch.",
			Buckets: prometheus.ExponentialBuckets(50e-6, 4, 9),
		}),
		commitBytes: counter("commit_bytes_total", "Bytes of the committed batches."),
		tasks:       counter("committed_tasks_total", "Task rows written or deleted."),
		stalls:      counter("write_stalls_total", "Times that commits waited for Pebble's flushes."),
		resets:      counter("resets_total", "Partitions dropped to be rebuilt."),
	}
}

func (m *metrics) all() []prometheus.Collector {
	return []prometheus.Collector{m.commits, m.commitSeconds, m.commitBytes, m.tasks, m.stalls, m.resets}
}

// gauges reads the store at the time of a scrape.
type gauges struct {
	store                                               *Store
	live, due, next, age, state, free, memtables, level *prometheus.Desc
}

func newGauges(s *Store) *gauges {
	desc := func(name, help string, labels ...string) *prometheus.Desc {
		return prometheus.NewDesc("sagalog_"+name, help, labels, nil)
	}
	return &gauges{
		store:     s,
		live:      desc("projector_live_tasks", "Tasks that have not ended, also of partitions that other nodes own.", "partition"),
		due:       desc("projector_due_tasks", "Tasks that wait for an instant, also of partitions that other nodes own.", "partition"),
		next:      desc("projector_next_offset", "Offset of the first record that is not folded.", "partition"),
		age:       desc("checkpoint_age_seconds", "How long ago the state of a partition was last written to the store of this node. Absent until this process has written it. It grows while there is nothing to write: see sagalog_projection_lag_records.", "partition"),
		state:     desc("state_bytes", "Size of the state store on the disk of this node."),
		free:      desc("disk_free_bytes", "Free space of the disk that holds the state store of this node. Absent while the system does not say."),
		memtables: desc("projector_memtable_bytes", "Memory of the memtables."),
		level:     desc("projector_l0_files", "Files of the top level, which compactions have not reached."),
	}
}

// Describe sends the descriptions of the gauges.
func (g *gauges) Describe(out chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{g.live, g.due, g.next, g.age, g.state, g.free, g.memtables, g.level} {
		out <- d
	}
}

// Collect sends the gauges, and none once the store is closed.
func (g *gauges) Collect(out chan<- prometheus.Metric) {
	send := func(d *prometheus.Desc, v int64, labels ...string) {
		out <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, float64(v), labels...)
	}
	for _, p := range g.store.known() {
		m := &p.view.Load().meta
		label := strconv.Itoa(int(p.number))
		send(g.live, m.live(), label)
		send(g.due, m.Due, label)
		send(g.next, m.Next, label)
		if at := p.committed.Load(); at != 0 {
			out <- prometheus.MustNewConstMetric(g.age, prometheus.GaugeValue, max(0, time.Since(time.Unix(0, at)).Seconds()), label)
		}
	}
	if free := g.store.free(); free >= 0 {
		send(g.free, free)
	}
	g.store.open.RLock()
	defer g.store.open.RUnlock()
	if g.store.closed {
		return
	}
	db := g.store.db.Metrics()
	send(g.state, int64(db.DiskSpaceUsage()))
	send(g.memtables, int64(db.MemTable.Size))
	send(g.level, db.Levels[0].TablesCount)
}
