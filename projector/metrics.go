package projector

import (
	"strconv"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/sagalog/sagalog/events"
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
	store                                                 *Store
	live, due, next, ready, tasks, disk, memtables, level *prometheus.Desc
}

func newGauges(s *Store) *gauges {
	desc := func(name, help string, labels ...string) *prometheus.Desc {
		return prometheus.NewDesc("sagalog_projector_"+name, help, labels, nil)
	}
	return &gauges{
		store:     s,
		live:      desc("live_tasks", "Tasks that have not ended.", "partition"),
		due:       desc("due_tasks", "Tasks that wait for an instant.", "partition"),
		next:      desc("next_offset", "Offset of the first record that is not folded.", "partition"),
		ready:     desc("ready_steps", "Steps in the queue of their agent.", "agent"),
		tasks:     desc("tasks", "Tasks by state.", "state"),
		disk:      desc("disk_bytes", "Size of the state store on disk."),
		memtables: desc("memtable_bytes", "Memory of the memtables."),
		level:     desc("l0_files", "Files of the top level, which compactions have not reached."),
	}
}

// Describe sends the descriptions of the gauges.
func (g *gauges) Describe(out chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{g.live, g.due, g.next, g.ready, g.tasks, g.disk, g.memtables, g.level} {
		out <- d
	}
}

// Collect sends the gauges, and none once the store is closed.
func (g *gauges) Collect(out chan<- prometheus.Metric) {
	send := func(d *prometheus.Desc, v int64, labels ...string) {
		out <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, float64(v), labels...)
	}
	ready := map[string]int64{}
	for _, p := range g.store.known() {
		m := &p.view.Load().meta
		label := strconv.Itoa(int(p.number))
		send(g.live, m.live(), label)
		send(g.due, m.Due, label)
		send(g.next, m.Next, label)
		for _, c := range m.Ready {
			agent, _ := events.SplitQueue(c.name)
			ready[agent] += c.n
		}
	}
	for agent, n := range ready {
		send(g.ready, n, agent)
	}
	for state, n := range g.store.States() {
		send(g.tasks, n, string(state))
	}
	g.store.open.RLock()
	defer g.store.open.RUnlock()
	if g.store.closed {
		return
	}
	db := g.store.db.Metrics()
	send(g.disk, int64(db.DiskSpaceUsage()))
	send(g.memtables, int64(db.MemTable.Size))
	send(g.level, db.Levels[0].TablesCount)
}
