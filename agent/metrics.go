package agent

import (
	"errors"
	"fmt"
	"time"

	"github.com/failsafe-go/failsafe-go/circuitbreaker"
	"github.com/prometheus/client_golang/prometheus"
)

// The values of the label outcome, besides the failure classes in package events.
const (
	resultCompleted  = "completed"
	resultLate       = "late"
	resultAbandoned  = "abandoned"
	resultAccepted   = "accepted"
	resultUnreported = "unreported"

	dropExpired   = "expired"
	dropDuplicate = "duplicate"
	dropInvalid   = "invalid"
	dropRevoked   = "revoked"
	dropUndone    = "undone"
)

// metrics counts the work of agents. A call is one run of an agent's function, or of a binding's service, for an attempt; tries inside the agent
// are part of it.
type metrics struct {
	calls    *prometheus.CounterVec
	seconds  *prometheus.HistogramVec
	dropped  *prometheus.CounterVec
	inFlight *prometheus.GaugeVec
	limit    *prometheus.GaugeVec
	breaker  *prometheus.GaugeVec
}

func newMetrics(r prometheus.Registerer) (*metrics, error) {
	gauge := func(name, help string) *prometheus.GaugeVec {
		return prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: "sagalog_agent_" + name, Help: help}, []string{"agent"})
	}
	m := &metrics{
		calls: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "sagalog_agent_calls_total",
			Help: "Calls by outcome: completed, a class of failure, late (nothing reported), accepted (reported by a callback), abandoned (stopped).",
		}, []string{"agent", "outcome"}),
		seconds: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name:                        "sagalog_agent_call_duration_seconds",
			Help:                        "Time that a call took, its tries inside the agent included.",
			Buckets:                     []float64{.005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60, 300, 900, 3600},
			NativeHistogramBucketFactor: 1.1, NativeHistogramMaxBucketNumber: 100, NativeHistogramMinResetDuration: time.Hour,
		}, []string{"agent"}),
		dropped: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "sagalog_agent_dropped_total",
			Help: "What was dropped: work requests that were expired, duplicate, invalid, revoked or undone (the undo of the step came first), and reports that could not be delivered (unreported).",
		}, []string{"agent", "reason"}),
		inFlight: gauge("calls_in_flight", "Calls that run now in this process."),
		limit:    gauge("limit", "Calls that may run at once in this process, as published: fewer than the concurrency while calls are slow."),
		breaker:  gauge("breaker_state", "Circuit breaker: 0 closed, 1 half open, 2 open."),
	}
	var err error
	m.calls = register(r, m.calls, &err)
	m.seconds = register(r, m.seconds, &err)
	m.dropped = register(r, m.dropped, &err)
	m.inFlight = register(r, m.inFlight, &err)
	m.limit = register(r, m.limit, &err)
	m.breaker = register(r, m.breaker, &err)
	return m, err
}

// register returns the collector to use: two runners in one process (Go functions and bindings) share theirs.
func register[C prometheus.Collector](r prometheus.Registerer, c C, fail *error) C {
	err := r.Register(c)
	if err == nil {
		return c
	}
	var twice prometheus.AlreadyRegisteredError
	if errors.As(err, &twice) {
		if same, ok := twice.ExistingCollector.(C); ok {
			return same
		}
	}
	*fail = errors.Join(*fail, fmt.Errorf("register metrics: %w", err))
	return c
}

// agent returns the metrics of one agent. What may be dropped is there at 0.
func (m *metrics) agent(agent string) *agentMetrics {
	x := &agentMetrics{
		all: m, agent: agent, running: m.inFlight.WithLabelValues(agent), limit: m.limit.WithLabelValues(agent), seconds: m.seconds.WithLabelValues(agent),
		completed: m.calls.WithLabelValues(agent, resultCompleted), dropped: map[string]prometheus.Counter{},
	}
	for _, why := range []string{dropExpired, dropDuplicate, dropInvalid, dropRevoked, dropUndone, resultUnreported} {
		x.dropped[why] = m.dropped.WithLabelValues(agent, why)
	}
	return x
}

// agentMetrics are the metrics of one agent.
type agentMetrics struct {
	all       *metrics
	agent     string
	running   prometheus.Gauge
	limit     prometheus.Gauge
	seconds   prometheus.Observer
	completed prometheus.Counter
	dropped   map[string]prometheus.Counter
}

func (m *agentMetrics) call(outcome string, took time.Duration) {
	m.seconds.Observe(took.Seconds())
	if outcome == resultCompleted {
		m.completed.Inc()
		return
	}
	m.all.calls.WithLabelValues(m.agent, outcome).Inc()
}

func (m *agentMetrics) capacity(n int) { m.limit.Set(float64(n)) }

func (m *agentMetrics) unreported() { m.drop(resultUnreported) }

func (m *agentMetrics) drop(why string) {
	if c := m.dropped[why]; c != nil {
		c.Inc()
	}
}

func (m *metrics) breakerState(agent string, s circuitbreaker.State) {
	v := 0.0
	switch s {
	case circuitbreaker.HalfOpenState:
		v = 1
	case circuitbreaker.OpenState:
		v = 2
	case circuitbreaker.ClosedState:
	}
	m.breaker.WithLabelValues(agent).Set(v)
}
