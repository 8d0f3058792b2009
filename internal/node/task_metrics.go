package node

import (
	"cmp"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/sagalog/sagalog/events"
)

// maxLabels bounds how many workflows, pairs of workflow and step, and agents have their own series on a node. All others share
// otherLabel, which no workflow, step or agent can be called, so totals stay right. Which names come first differs from node to
// node, so beyond the bound a sum over nodes by name may be too low.
const (
	maxLabels  = 200
	otherLabel = "_other"
	otherHelp  = " Names beyond the first 200 on a node are counted as _other: then sums over nodes by name may be too low, and totals are right."
)

// labelSet holds the first maxLabels values of a label.
type labelSet[K comparable] struct {
	values sync.Map
	known  atomic.Int64
}

// has says whether a value has its own series.
func (s *labelSet[K]) has(value K) bool {
	if _, ok := s.values.Load(value); ok {
		return true
	}
	if s.known.Load() >= maxLabels {
		return false
	}
	if _, old := s.values.LoadOrStore(value, true); !old {
		s.known.Add(1)
	}
	return true
}

// durationBuckets range from the shortest task to one that waits for people. They are in seconds.
var durationBuckets = []float64{.005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60, 300, 900, 3600, 14_400, 86_400}

// taskMetrics counts the outcomes of tasks, attempts and inputs from the durable facts of this node's owners. Only the node
// that decided a fact counts it, so sums over the nodes are right.
type taskMetrics struct {
	accepted, ended, attempts, dead, alerts *prometheus.CounterVec
	duration                                *prometheus.HistogramVec

	workflows, agents labelSet[string]
	steps             labelSet[[2]string]

	mu sync.RWMutex
	// counters are some of those of attempts, so that most facts need no more than one lookup. mu guards them.
	counters map[attemptNames]prometheus.Counter
}

// attemptNames are the names of an attempt's outcome as they are in the facts.
type attemptNames struct {
	workflow, path, agent string
	op                    events.Operation
	outcome               string
}

// maxCounters bounds the counters of attempts that are found by one lookup.
const maxCounters = 1000

func newTaskMetrics(r prometheus.Registerer) (*taskMetrics, error) {
	counter := func(name, help string, labels ...string) *prometheus.CounterVec {
		return prometheus.NewCounterVec(prometheus.CounterOpts{Name: "sagalog_" + name, Help: help}, labels)
	}
	m := &taskMetrics{
		counters: map[attemptNames]prometheus.Counter{},
		accepted: counter("tasks_accepted_total", "Tasks accepted."+otherHelp, "workflow"),
		ended:    counter("tasks_ended_total", "Tasks that ended, by their final state."+otherHelp, "workflow", "state"),
		attempts: counter("attempts_total", "Attempts by outcome: completed, failed, timed_out or refused (the brokers refused the work request)."+otherHelp, "workflow", "step", "agent", "operation", "outcome"),
		dead:     counter("dead_letters_total", "Inputs that could not be used.", "topic", "reason"),
		alerts:   counter("alerts_total", "Alerts sent. An alert that is sent again after a crash is counted twice.", "kind"),
		duration: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "sagalog_task_duration_seconds", Help: "Time from the acceptance of a task to its end." + otherHelp, Buckets: durationBuckets,
		}, []string{"workflow", "state"}),
	}
	for _, c := range []prometheus.Collector{m.accepted, m.ended, m.attempts, m.dead, m.alerts, m.duration} {
		if err := r.Register(c); err != nil {
			return nil, err
		}
	}
	return m, nil
}

func (m *taskMetrics) workflow(name string) string {
	if !m.workflows.has(name) {
		return otherLabel
	}
	return name
}

// step returns the label values for a workflow and a step without the index of its path.
func (m *taskMetrics) step(workflow, path string) (string, string) {
	step, _, _ := strings.Cut(path, "[")
	if workflow = m.workflow(workflow); workflow == otherLabel || !m.steps.has([2]string{workflow, step}) {
		step = otherLabel
	}
	return workflow, step
}

func (m *taskMetrics) agent(name string) string {
	if !m.agents.has(name) {
		return otherLabel
	}
	return name
}

// count counts a durable fact. t is its task, nil if it has none or is gone.
func (m *taskMetrics) count(t *events.Task, f *events.Fact) {
	switch b := f.Body.(type) {
	case *events.Submitted:
		m.accepted.WithLabelValues(m.workflow(b.Workflow)).Inc()
	case *events.TaskProcessed:
		m.end(t, f, events.TaskStateProcessed)
	case *events.TaskUndone:
		m.end(t, f, events.TaskStateUndone)
	case *events.TaskTerminated:
		m.end(t, f, events.TaskStateTerminated)
	case *events.InputRejected:
		topic := string(events.Reports) // all requests come through that topic, and only requests are held
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
	workflow := m.workflow(t.Workflow)
	m.ended.WithLabelValues(workflow, string(state)).Inc()
	m.duration.WithLabelValues(workflow, string(state)).Observe(f.Time.Sub(t.SubmittedAt).Seconds())
}

// attempt counts the outcome of an attempt; number 0 means that no attempt had started.
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
	m.counter(attemptNames{t.Workflow, path, agent, op, outcome}).Inc()
}

func (m *taskMetrics) counter(n attemptNames) prometheus.Counter {
	m.mu.RLock()
	c := m.counters[n]
	m.mu.RUnlock()
	if c != nil {
		return c
	}
	workflow, step := m.step(n.workflow, n.path)
	c = m.attempts.WithLabelValues(workflow, step, m.agent(n.agent), string(n.op), n.outcome)
	m.mu.Lock()
	defer m.mu.Unlock()
	if len(m.counters) == maxCounters {
		clear(m.counters)
	}
	m.counters[n] = c
	return c
}

func (m *taskMetrics) alerted(kind string) { m.alerts.WithLabelValues(kind).Inc() }

// agentMetrics shows which agents are alive, as seen by this node. Agents publish their capacity and load in their own metrics.
type agentMetrics struct {
	liveness *liveness
	owners   *owners

	instances, missing, ready *prometheus.Desc
}

func newAgentMetrics(l *liveness, o *owners) *agentMetrics {
	desc := func(name, help string, labels ...string) *prometheus.Desc {
		return prometheus.NewDesc("sagalog_agent_"+name, help, labels, nil)
	}
	return &agentMetrics{
		liveness: l, owners: o,
		instances: desc("live_instances", "Live instances; 0 for a missing agent that steps wait for. Beyond 200 agents, missing ones first, the rest are _other together.", "agent"),
		missing:   desc("missing_seconds", "How long steps of this node's partitions have waited for an operation that no live instance offers. Beyond 200 operations, the rest are _other: the longest wait.", "agent", "operation"),
		ready: desc("ready_steps", "Attempts of this node's partitions that may start and wait, by what they wait for: agent (no live instance offers the operation, or no broker takes requests for it) or capacity (all instances are busy). "+
			"Those that a partition holds in memory are counted, at most 4,096 of an agent's operation. Beyond 200 agents, the rest are _other together.", "agent", "operation", "waiting_for"),
	}
}

// Describe implements prometheus.Collector.
func (m *agentMetrics) Describe(ch chan<- *prometheus.Desc) {
	ch <- m.instances
	ch <- m.missing
	ch <- m.ready
}

// Collect implements prometheus.Collector.
func (m *agentMetrics) Collect(ch chan<- prometheus.Metric) {
	gauge := func(d *prometheus.Desc, v float64, labels ...string) {
		ch <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v, labels...)
	}
	waits := m.waits()
	living := map[string]int{}
	for i, w := range waits {
		living[w.Agent] = 0
		if i < maxLabels {
			gauge(m.missing, events.At(time.Now()).Sub(w.Since).Seconds(), w.Agent, w.Call().Verb())
		}
	}
	if len(waits) > maxLabels { // the longest come first
		gauge(m.missing, events.At(time.Now()).Sub(waits[maxLabels].Since).Seconds(), otherLabel, otherLabel)
	}
	for _, b := range m.liveness.liveAgents() {
		for _, name := range b.Agents {
			living[name]++
		}
	}
	for name, n := range m.queues() {
		gauge(m.ready, float64(n), name.agent, string(name.op), string(name.reason))
	}
	names := slices.SortedFunc(maps.Keys(living), func(a, b string) int { // no live agent may hide a missing one
		return cmp.Or(cmp.Compare(min(living[a], 1), min(living[b], 1)), cmp.Compare(a, b))
	})
	for _, name := range names[:min(len(names), maxLabels)] {
		gauge(m.instances, float64(living[name]), name)
	}
	if len(names) > maxLabels {
		rest := 0
		for _, name := range names[maxLabels:] {
			rest += living[name]
		}
		gauge(m.instances, float64(rest), otherLabel)
	}
}

// queue names a series of ready_steps.
type queue struct {
	agent  string
	op     events.Operation
	reason events.Waiting
}

// queues adds up the queues of this node's partitions.
func (m *agentMetrics) queues() map[queue]int {
	sum := map[queue]int{}
	for _, s := range m.owners.shells {
		status, _ := s.Status()
		for _, q := range status.Queues {
			name := queue{m.owners.metrics.agent(q.Agent), q.Operation, events.WaitingCapacity}
			if q.Missing || q.Behind {
				name.reason = events.WaitingAgent
			}
			sum[name] += q.Waiting
		}
	}
	return sum
}

// waits returns what this node's partitions wait for, the longest wait first.
func (m *agentMetrics) waits() (list []events.Missing) {
	for of, since := range m.owners.missing() {
		list = append(list, events.Missing{Agent: of.Agent, Function: of.Function, Operation: of.Operation, Since: since})
	}
	slices.SortFunc(list, func(a, b events.Missing) int {
		return cmp.Or(cmp.Compare(a.Since, b.Since), a.Call().Compare(b.Call()))
	})
	return list
}
