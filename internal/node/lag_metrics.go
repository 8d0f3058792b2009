package node

import (
	"context"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/sagalog/sagalog/events"
	"github.com/sagalog/sagalog/internal/kafka"
	"github.com/sagalog/sagalog/supervisor"
)

// lagMetrics shows how far the owners of this node are behind their inputs, and its store behind the log. It asks the brokers for the ends when
// it is scraped, so that it costs nothing without a scrape.
type lagMetrics struct {
	ns      *namespace
	store   *stateStore
	owners  *owners
	follows func(int32) bool

	mu    sync.Mutex
	asked time.Time
	ends  map[place]*seenEnds

	inputRecords, inputSeconds, records, seconds *prometheus.Desc
}

const (
	// lagWithin is how long a scrape waits for the brokers; without an answer, it shows the ends of the last one.
	lagWithin = 2 * time.Second
	// lagAgain is how old these ends may be.
	lagAgain = time.Second
	// maxSeen bounds the ends that are remembered of a partition that does not go on.
	maxSeen = 1000
)

// seenEnds are the ends of a partition that were seen and are not passed, in order.
type seenEnds struct{ list []seenEnd }

type seenEnd struct {
	end int64
	at  time.Time
}

// see remembers an end. If there are many, every other is forgotten: only the oldest matters.
func (m *seenEnds) see(end int64, at time.Time) {
	if n := len(m.list); n > 0 && m.list[n-1].end >= end {
		return
	}
	if len(m.list) == maxSeen {
		for i := range maxSeen / 2 {
			m.list[i] = m.list[2*i]
		}
		m.list = m.list[:maxSeen/2]
	}
	m.list = append(m.list, seenEnd{end, at})
}

// behind returns by how many records, and since how long, a position is behind the ends.
func (m *seenEnds) behind(next int64, now time.Time) (records int64, since time.Duration) {
	for len(m.list) > 0 && m.list[0].end <= next {
		m.list = m.list[1:]
	}
	if len(m.list) == 0 {
		return 0, 0
	}
	return m.list[len(m.list)-1].end - next, now.Sub(m.list[0].at)
}

func newLagMetrics(n *Node) *lagMetrics {
	desc := func(name, help string, labels ...string) *prometheus.Desc {
		return prometheus.NewDesc("sagalog_"+name, help, labels, nil)
	}
	return &lagMetrics{
		ns: n.ns, store: n.store, owners: n.owners, ends: map[place]*seenEnds{},
		follows:      func(p int32) bool { return n.replica != nil && n.replica.follows[p].Load() },
		inputRecords: desc("input_lag_records", "Records of an input that its owner, this node, has not judged.", "topic", "partition"),
		inputSeconds: desc("input_lag_seconds", "For how long, at least, the oldest of them has been in the topic, as far as scrapes have seen it.", "topic", "partition"),
		records:      desc("projection_lag_records", "Records of the log that the store of this node does not have, of a partition that it owns or follows.", "partition"),
		seconds:      desc("projection_lag_seconds", "For how long, at least, the oldest of them has been in the log, as far as scrapes have seen it.", "partition"),
	}
}

// Describe implements prometheus.Collector.
func (m *lagMetrics) Describe(ch chan<- *prometheus.Desc) {
	ch <- m.inputRecords
	ch <- m.inputSeconds
	ch <- m.records
	ch <- m.seconds
}

// Collect implements prometheus.Collector.
func (m *lagMetrics) Collect(ch chan<- prometheus.Metric) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if time.Since(m.asked) >= lagAgain {
		m.ask()
	}
	now := time.Now()
	for p := range m.ns.partitions {
		if !m.owners.owns(p) && !m.follows(p) {
			continue
		}
		if e := m.ends[place{m.ns.topics.Events(), p}]; e != nil {
			records, since := e.behind(m.store.Partition(p).Next(), now)
			gauge(ch, m.records, float64(records), label(p))
			gauge(ch, m.seconds, since.Seconds(), label(p))
		}
		if !m.owners.owns(p) {
			continue
		}
		read := m.owners.status(p).Read
		for i, in := range supervisor.Inputs() {
			if e := m.ends[place{m.ns.topics.Input(in), p}]; e != nil {
				records, since := e.behind(read[i], now)
				gauge(ch, m.inputRecords, float64(records), string(in), label(p))
				gauge(ch, m.inputSeconds, since.Seconds(), string(in), label(p))
			}
		}
	}
}

// ask learns the ends.
func (m *lagMetrics) ask() {
	ctx, cancel := context.WithTimeout(context.Background(), lagWithin)
	defer cancel()
	of := kafka.Partitions{}
	for p := range m.ns.partitions {
		if m.owners.owns(p) || m.follows(p) {
			of[m.ns.topics.Events()] = append(of[m.ns.topics.Events()], p)
		}
		for _, in := range events.Inputs {
			topic := m.ns.topics.Input(in)
			if m.owners.owns(p) {
				of[topic] = append(of[topic], p)
			} else {
				delete(m.ends, place{topic, p})
			}
		}
	}
	if len(of) == 0 {
		return
	}
	ends, err := m.ns.cluster.HighWatermarks(ctx, of)
	if err != nil {
		m.ns.log.Debug("the lag in the metrics is out of date", "error", err)
		return
	}
	m.asked = time.Now()
	for topic, list := range ends {
		for p, end := range list {
			at := place{strings.Clone(topic), p}
			if m.ends[at] == nil {
				m.ends[at] = &seenEnds{}
			}
			m.ends[at].see(end, m.asked)
		}
	}
}
