package agent

import (
	"errors"
	"fmt"
	"time"

	"github.com/failsafe-go/failsafe-go/circuitbreaker"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/sagalog/sagalog/events"
)

// The values of the label result, besides the failure classes in package events.
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

// metrics counts the work of agents. The labels are the agent's name, do or undo, and the results above.
type metrics struct {
	attempts   *prometheus.CounterVec
	seconds    *prometheus.HistogramVec
	dropped    *prometheus.CounterVec
	running    *prometheus.GaugeVec
	capacities *prometheus.GaugeVec
	breaker    *prometheus.GaugeVec
}

func newMetrics(r prometheus.Registerer) (*metrics, error) {
	labels := []string{"agent", "operation", "result"}
	m := &metrics{
		attempts: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "sagalog_agent_attempts_total",
			Help: "Attempts by how they ended: completed, a class of failure, late (nothing reported), accepted (reported by a callback), abandoned (stopped), unreported.",
		}, labels),
		seconds: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name:    "sagalog_agent_attempt_seconds",
			Help:    "Time that an attempt took, its tries inside the agent included.",
			Buckets: prometheus.ExponentialBuckets(0.001, 2.5, 12),
		}, labels),
		dropped: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "sagalog_agent_requests_dropped_total",
			Help: "Work requests that were not worked on: expired, duplicate, invalid, revoked, undone (the undo of the step came first).",
		}, labels),
		running: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "sagalog_agent_in_flight", Help: "Attempts that run now.",
		}, []string{"agent"}),
		capacities: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "sagalog_agent_capacity", Help: "Attempts that may run at once, as published: fewer than the concurrency while calls are slow.",
		}, []string{"agent"}),
		breaker: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "sagalog_agent_breaker_state", Help: "Circuit breaker: 0 closed, 1 half open, 2 open.",
		}, []string{"agent"}),
	}
	var err error
	m.attempts = register(r, m.attempts, &err)
	m.seconds = register(r, m.seconds, &err)
	m.dropped = register(r, m.dropped, &err)
	m.running = register(r, m.running, &err)
	m.capacities = register(r, m.capacities, &err)
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

// agent returns the metrics of one agent.
func (m *metrics) agent(agent string) *agentMetrics {
	return &agentMetrics{
		all: m, agent: agent, running: m.running.WithLabelValues(agent), capacities: m.capacities.WithLabelValues(agent),
	}
}

// agentMetrics are the metrics of one agent.
type agentMetrics struct {
	all        *metrics
	agent      string
	running    prometheus.Gauge
	capacities prometheus.Gauge
}

func (m *agentMetrics) attempt(op events.Operation, result string, took time.Duration) {
	m.all.attempts.WithLabelValues(m.agent, string(op), result).Inc()
	m.all.seconds.WithLabelValues(m.agent, string(op), result).Observe(took.Seconds())
}

func (m *agentMetrics) capacity(n int) { m.capacities.Set(float64(n)) }

func (m *agentMetrics) unreported(op events.Operation) {
	m.all.attempts.WithLabelValues(m.agent, string(op), resultUnreported).Inc()
}

func (m *agentMetrics) drop(op events.Operation, why string) {
	m.all.dropped.WithLabelValues(m.agent, string(op), why).Inc()
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
