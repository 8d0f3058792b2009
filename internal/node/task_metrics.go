package node

import (
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/sagalog/sagalog/events"
)

// maxLabels bounds the pairs of workflow and step that have series of their own; all others share one.
const (
	maxLabels  = 200
	otherLabel = "_other"
)

// durationBuckets reach from the shortest task to one that waits for people, in seconds.
var durationBuckets = []float64{.005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60, 300, 900, 3600, 14_400, 86_400}

// taskMetrics count what becomes of tasks, by the durable facts of this node's owners. A fact is counted by the node that
// decided it, so sums over the nodes are right.
type taskMetrics struct {
	accepted, ended, attempts, dead, alerts *prometheus.CounterVec
	duration                                *prometheus.HistogramVec

	labels sync.Map
	known  atomic.Int64
}

func newTaskMetrics(r prometheus.Registerer) (*taskMetrics, error) {
	counter := func(name, help string, labels ...string) *prometheus.CounterVec {
		return prometheus.NewCounterVec(prometheus.CounterOpts{Name: "sagalog_" + name, Help: help}, labels)
	}
	m := &taskMetrics{
		accepted: counter("tasks_accepted_total", "Tasks accepted.", "workflow"),
		ended:    counter("tasks_ended_total", "Tasks that ended, by the state in which they did.", "workflow", "state"),
		attempts: counter("attempts_total", "Attempts that have an outcome: completed, failed, timed_out or refused (by the brokers).", "workflow", "step", "agent", "operation", "outcome"),
		dead:     counter("dead_letters_total", "Inputs that could not be used.", "topic", "reason"),
		alerts:   counter("alerts_total", "Alerts sent. One that is sent again after a crash counts again.", "kind"),
		duration: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "sagalog_task_duration_seconds", Help: "From the acceptance of a task to its end.", Buckets: durationBuckets,
		}, []string{"workflow", "state"}),
	}
	for _, c := range []prometheus.Collector{m.accepted, m.ended, m.attempts, m.dead, m.alerts, m.duration} {
		if err := r.Register(c); err != nil {
			return nil, err
		}
	}
	return m, nil
}

// label returns the workflow and the step as they are shown.
func (m *taskMetrics) label(workflow, path string) (string, string) {
	step, _, _ := strings.Cut(path, "[")
	key := [2]string{workflow, step}
	if _, ok := m.labels.Load(key); ok {
		return workflow, step
	}
	if m.known.Load() >= maxLabels {
		return otherLabel, otherLabel
	}
	if _, old := m.labels.LoadOrStore(key, true); !old {
		m.known.Add(1)
	}
	return workflow, step
}

// count counts a durable fact. t is its task, nil if it has none or is gone.
func (m *taskMetrics) count(t *events.Task, f *events.Fact) {
	switch b := f.Body.(type) {
	case *events.Submitted:
		workflow, _ := m.label(b.Workflow, "")
		m.accepted.WithLabelValues(workflow).Inc()
	case *events.TaskProcessed:
		m.end(t, f, events.TaskStateProcessed)
	case *events.TaskUndone:
		m.end(t, f, events.TaskStateUndone)
	case *events.InputRejected:
		topic := string(events.Reports) // a held request comes from there
		if in, _, _, ok := f.Cause.Input(); ok && b.HeldAt == "" {
			topic = string(in)
		}
		m.dead.WithLabelValues(topic, b.Reason).Inc()
	case *events.StepCompleted:
		m.attempt(t, b.Step, events.Do, b.Attempt, "completed")
	case *events.StepFailed:
		m.attempt(t, b.Step, events.Do, b.Attempt, "failed")
	case *events.Compensated:
		m.attempt(t, b.Step, events.Undo, b.Attempt, "completed")
	case *events.CompensationFailed:
		m.attempt(t, b.Step, events.Undo, b.Attempt, "failed")
	case *events.Timeout:
		m.attempt(t, b.Step, b.Operation, b.Attempt, "timed_out")
	case *events.EffectFailed:
		if b.Failed != nil {
			m.attempt(t, b.Failed.Step, events.Do, b.Failed.Attempt, "refused")
		} else if b.CompensationFailed != nil {
			m.attempt(t, b.CompensationFailed.Step, events.Undo, b.CompensationFailed.Attempt, "refused")
		}
	}
}

func (m *taskMetrics) end(t *events.Task, f *events.Fact, state events.TaskState) {
	if t == nil {
		return
	}
	workflow, _ := m.label(t.Workflow, "")
	m.ended.WithLabelValues(workflow, string(state)).Inc()
	m.duration.WithLabelValues(workflow, string(state)).Observe(f.Time.Sub(t.SubmittedAt).Seconds())
}

// attempt counts the outcome of an attempt; number 0 means that none began.
func (m *taskMetrics) attempt(t *events.Task, path string, op events.Operation, number int, outcome string) {
	if t == nil || number == 0 {
		return
	}
	s := t.Step(path)
	if s == nil {
		return
	}
	agent := s.Agent
	if op == events.Undo && s.Undo != nil {
		agent = s.Undo.Agent
	}
	workflow, step := m.label(t.Workflow, path)
	m.attempts.WithLabelValues(workflow, step, agent, string(op), outcome).Inc()
}

func (m *taskMetrics) alerted(kind string) { m.alerts.WithLabelValues(kind).Inc() }

// agentMetrics shows which agents live, as this node sees it. Their capacity and load they show themselves.
type agentMetrics struct {
	liveness *liveness
	owners   *owners

	instances, missing *prometheus.Desc
}

func newAgentMetrics(l *liveness, o *owners) *agentMetrics {
	desc := func(name, help string, labels ...string) *prometheus.Desc {
		return prometheus.NewDesc("sagalog_agent_"+name, help, labels, nil)
	}
	return &agentMetrics{
		liveness: l, owners: o,
		instances: desc("live_instances", "Live instances; 0 for an agent that steps wait for.", "agent"),
		missing:   desc("missing_seconds", "How long steps of this node's partitions have waited for an operation that no live instance offers.", "agent", "operation"),
	}
}

// Describe implements prometheus.Collector.
func (m *agentMetrics) Describe(ch chan<- *prometheus.Desc) {
	ch <- m.instances
	ch <- m.missing
}

// Collect implements prometheus.Collector.
func (m *agentMetrics) Collect(ch chan<- prometheus.Metric) {
	gauge := func(d *prometheus.Desc, v float64, labels ...string) {
		ch <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v, labels...)
	}
	living := map[string]int{}
	for of, since := range m.owners.missing() {
		living[of.agent] = 0
		gauge(m.missing, events.At(time.Now()).Sub(since).Seconds(), of.agent, string(of.op))
	}
	for _, b := range m.liveness.liveAgents() {
		for _, name := range b.Agents {
			living[name]++
		}
	}
	for name, n := range living {
		gauge(m.instances, float64(n), name)
	}
}
