package node

import (
	"slices"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/sagalog/sagalog/events"
	"github.com/sagalog/sagalog/internal/api"
	"github.com/sagalog/sagalog/supervisor"
)

// takeoverMetrics counts the partitions that this node took over from others, and how long nobody decided meanwhile. It also measures appends.
type takeoverMetrics struct {
	liveness  *liveness
	took      func(partition int32, over api.TakeOver)
	takeovers *prometheus.CounterVec
	seconds   *prometheus.HistogramVec
	appends   prometheus.Histogram

	mu   sync.Mutex // guards last
	last map[int32]api.TakeOver
}

// The causes of a take-over.
const (
	causeStopped = "stopped"
	causeSilent  = "silent"
	causeFault   = "fault"
)

func newTakeoverMetrics(r prometheus.Registerer, l *liveness, took func(partition int32, over api.TakeOver)) (*takeoverMetrics, error) {
	m := &takeoverMetrics{
		liveness:  l,
		took:      took,
		last:      map[int32]api.TakeOver{},
		takeovers: counter("takeovers_total", "Partitions that this node took over from another node, by cause: stopped (it gave them up), silent (its heartbeats ended) or fault (it said that it cannot own them).", "cause"),
		seconds:   histogram("takeover_seconds", "Time from the last sign of the earlier owner, or from the assignment to this node if the earlier owner lives, until this node owned the partition.", "cause"),
		appends: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "sagalog_append_seconds", Help: "Time from sending a batch of facts to the broker's answer.", Buckets: durationBuckets,
			NativeHistogramBucketFactor: 1.1, NativeHistogramMaxBucketNumber: 100, NativeHistogramMinResetDuration: time.Hour,
		}),
	}
	for _, cause := range []string{causeStopped, causeSilent, causeFault} {
		m.takeovers.WithLabelValues(cause)
		m.seconds.WithLabelValues(cause)
	}
	for _, c := range []prometheus.Collector{m.takeovers, m.seconds, m.appends} {
		if err := r.Register(c); err != nil {
			return nil, err
		}
	}
	return m, nil
}

// tookOver returns what a shell calls when it owns the partition.
func (m *takeoverMetrics) tookOver(partition int32) func(before string, assigned time.Time) {
	return func(before string, assigned time.Time) {
		cause, last := m.liveness.lastSign(before, partition)
		if last.IsZero() {
			last = assigned
		}
		m.takeovers.WithLabelValues(cause).Inc()
		now := time.Now()
		gap := max(0, now.Sub(last))
		m.seconds.WithLabelValues(cause).Observe(gap.Seconds())
		over := api.TakeOver{From: before, Cause: cause, At: events.At(now), Gap: events.Duration(gap.Round(time.Millisecond))}
		m.took(partition, over)
		m.mu.Lock()
		defer m.mu.Unlock()
		m.last[partition] = over
	}
}

// latest returns the latest take-over of a partition by this node since it started.
func (m *takeoverMetrics) latest(partition int32) (api.TakeOver, bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	t, ok := m.last[partition]
	return t, ok
}

// lastSign says why a node does not own a partition any more, and when it was last heard. The time is zero if the node lives, or if
// nothing is known of it.
func (l *liveness) lastSign(node string, partition int32) (cause string, at time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	b, known := l.seen[events.PresenceNode+"/"+node]
	switch {
	case known && b.StartedAt == 0: // it said goodbye
		return causeStopped, b.at
	case !known || time.Since(b.at) > silentAfter:
		return causeSilent, b.at
	case slices.Contains(b.Unable, partition):
		return causeFault, time.Time{}
	}
	return causeStopped, time.Time{}
}

// brokerOffset returns how far the clock of the presence topic's leader is ahead of this node's; false if that is not known.
func (l *liveness) brokerOffset() (offset time.Duration, known bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	b, ok := l.seen[l.selfKey()]
	return b.broker, ok && b.stamped
}

// timedProducer measures how long appends take, and tells of those that the cluster does not permit.
type timedProducer struct {
	supervisor.Producer
	seconds prometheus.Observer
	denied  func(error)
}

// Append implements supervisor.Producer.
func (p timedProducer) Append(records []events.Record, done func([]int64, error)) {
	sent := time.Now()
	p.Producer.Append(records, func(offsets []int64, err error) {
		if err == nil {
			p.seconds.Observe(time.Since(sent).Seconds())
		} else {
			p.denied(err)
		}
		done(offsets, err)
	})
}
