package node

import (
	"errors"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// webhookMetrics counts attempts, and shows what waits.
type webhookMetrics struct {
	delivered, failed, givenUp prometheus.Counter
	outstanding, lag           atomic.Int64
	// oldest is when this node first read its oldest undelivered message, in nanoseconds; 0 without one.
	oldest atomic.Int64
}

func newWebhookMetrics(r prometheus.Registerer) (*webhookMetrics, error) {
	m := &webhookMetrics{}
	all := counter("webhook_deliveries_total", "Attempts to deliver a message to the webhook: delivered, failed (it is tried again), or given_up.", "outcome")
	m.delivered, m.failed, m.givenUp = all.WithLabelValues("delivered"), all.WithLabelValues("failed"), all.WithLabelValues("given_up")
	value := func(name, help string, of func() float64) prometheus.Collector {
		return prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "sagalog_webhook_" + name, Help: help}, of)
	}
	return m, errors.Join(r.Register(all),
		r.Register(value("outstanding", "Undelivered messages of the partitions of this node, as far as the webhook has read the log.",
			func() float64 { return float64(m.outstanding.Load()) })),
		r.Register(value("lag_records", "Records of the log that the webhook has not read, because too many messages of their partition are undelivered.",
			func() float64 { return float64(m.lag.Load()) })),
		r.Register(value("oldest_seconds", "For how long this node has tried to deliver its oldest undelivered message.", func() float64 {
			if at := m.oldest.Load(); at != 0 {
				return time.Since(time.Unix(0, at)).Seconds()
			}
			return 0
		})))
}

// show sets what waits in the streams; end returns where the log of one ends.
func (m *webhookMetrics) show(streams map[place]*webhookStream, end func(*webhookStream) int64) {
	var outstanding, lag int64
	var oldest time.Time
	for _, s := range streams {
		outstanding += int64(len(s.outstanding))
		lag += max(0, end(s)-s.next)
		for _, x := range s.outstanding {
			if oldest.IsZero() || x.since.Before(oldest) {
				oldest = x.since
			}
		}
	}
	m.outstanding.Store(outstanding)
	m.lag.Store(lag)
	m.oldest.Store(0)
	if !oldest.IsZero() {
		m.oldest.Store(oldest.UnixNano())
	}
}
