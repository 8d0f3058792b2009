package node

import (
	"context"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/sagalog/sagalog/internal/kafka"
)

// logBytesMetrics shows the size of the namespace's topics. The owner of partition 0 asks the brokers for all, so that a sum over the nodes
// counts each topic once.
type logBytesMetrics struct {
	ns     *namespace
	owners *owners
	bytes  *prometheus.Desc

	mu    sync.Mutex // guards the fields below
	asked time.Time
	sizes map[string]int64
}

const (
	// logBytesAgain is how old the sizes may be: a broker looks at each of its logs to answer.
	logBytesAgain = 30 * time.Second
	// maxLogSeries bounds the topics that have their own series: the rest, among agents' topics, is summed up.
	maxLogSeries = 200
)

func newLogBytesMetrics(n *Node) *logBytesMetrics {
	return &logBytesMetrics{ns: n.ns, owners: n.owners, bytes: prometheus.NewDesc("sagalog_log_bytes", "Size of each topic on all brokers, with replicas, at most 30 s old. "+
		"Only the owner of partition 0 shows it. Absent while a broker does not report it, for example if the node may not describe the cluster. Topics beyond the first 200 by name are _other.",
		[]string{"topic"}, nil)}
}

// Describe implements prometheus.Collector.
func (m *logBytesMetrics) Describe(ch chan<- *prometheus.Desc) { ch <- m.bytes }

// Collect implements prometheus.Collector.
func (m *logBytesMetrics) Collect(ch chan<- prometheus.Metric) {
	if !m.owners.owns(0) {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if time.Since(m.asked) >= logBytesAgain {
		m.ask()
	}
	other := int64(0)
	for i, topic := range slices.Sorted(maps.Keys(m.sizes)) {
		if i < maxLogSeries {
			gauge(ch, m.bytes, float64(m.sizes[topic]), topic)
		} else {
			other += m.sizes[topic]
		}
	}
	if len(m.sizes) > maxLogSeries {
		gauge(ch, m.bytes, float64(other), "_other")
	}
}

// ask learns the sizes. Names of topics are relative to the namespace.
func (m *logBytesMetrics) ask() {
	ctx, cancel := context.WithTimeout(context.Background(), lagWithin)
	defer cancel()
	m.asked, m.sizes = time.Now(), nil
	prefix := m.ns.name + "."
	sizes, err := kafka.LogBytes(ctx, m.ns.cluster, prefix)
	if err != nil {
		m.ns.log.Debug("the sizes of the topics are not known, so their metric is absent", "error", err)
		return
	}
	m.sizes = map[string]int64{}
	for topic, n := range sizes {
		m.sizes[strings.TrimPrefix(topic, prefix)] = n
	}
}
