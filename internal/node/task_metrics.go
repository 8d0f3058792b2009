package node

import (
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/sagalog/sagalog/events"
	"github.com/sagalog/sagalog/scheduler"
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
var durationBuckets = []float64{.005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60, 300, 900, 3600}

// histogram returns a histogram of seconds, which has native buckets too for servers that ask for them.
func histogram(name, help string, labels ...string) *prometheus.HistogramVec {
	return prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Name: "sagalog_" + name, Help: help, Buckets: durationBuckets,
		NativeHistogramBucketFactor: 1.1, NativeHistogramMaxBucketNumber: 100, NativeHistogramMinResetDuration: time.Hour,
	}, labels)
}

func counter(name, help string, labels ...string) *prometheus.CounterVec {
	return prometheus.NewCounterVec(prometheus.CounterOpts{Name: "sagalog_" + name, Help: help}, labels)
}

// taskMetrics counts what became of tasks, attempts and inputs, from the durable facts of this node's owners. Only the node
// that decided a fact counts it, so sums over the nodes are right. It also shows the workflows that have had no task yet.
type taskMetrics struct {
	catalog *scheduler.Catalog

	accepted, ended, deadlines, terminated, verdicts *prometheus.CounterVec
	attempts, failures                               *prometheus.CounterVec
	dead, alerts, facts, signals, requests           *prometheus.CounterVec
	duration, startDelay, attemptSeconds             *prometheus.HistogramVec
	dispatch, lateness                               *prometheus.HistogramVec

	// byType are the counters of facts; nothing is added to them.
	byType map[events.Name]prometheus.Counter
	late   map[events.TimerKind]prometheus.Observer
	steps  labelSet[[2]string]
	agents labelSet[string]
	// delays are the series of dispatch, by agent.
	delays sync.Map

	mu sync.RWMutex
	// workflows has the series of up to maxLabels workflows, and other those of all others. known are some of those of steps, so that most
	// facts need no more than one lookup. mu guards workflows and known.
	workflows map[string]*workflowSeries
	other     *workflowSeries
	known     map[stepName]*stepSeries
}

// workflowSeries are the series of a workflow.
type workflowSeries struct {
	name                            string
	accepted, deadlines, terminated prometheus.Counter
	start                           prometheus.Observer
	ended                           map[events.TaskState]prometheus.Counter
	seconds                         map[events.TaskState]prometheus.Observer
	verdicts                        map[events.Action]prometheus.Counter
}

// stepName names the operation of a step as in the facts.
type stepName struct {
	workflow, path string
	op             events.Operation
}

// stepSeries are the series of a step's operation.
type stepSeries struct {
	workflow, step                       string
	completed, failed, timedOut, refused prometheus.Counter
	seconds                              prometheus.Observer
}

// maxKnown bounds the steps that are found by one lookup.
const maxKnown = 1000

var (
	endStates = []events.TaskState{events.TaskStateProcessed, events.TaskStateUndone, events.TaskStateTerminated, events.TaskStateRejected}
	actions   = []events.Action{events.ActionRetry, events.ActionCoolDown, events.ActionUndo, events.ActionPark, events.ActionContinue}
	// rejectReasons are the reasons for dead letters.
	rejectReasons = []string{
		events.RejectUnreadable, events.RejectInvalid, events.RejectUnknownWorkflow, events.RejectSchema, events.RejectNoKey, events.RejectTooLarge, events.RejectConflict, events.RejectMisplaced,
		events.RejectTooOld,
		events.RejectRefused, events.RejectExpired, events.RejectLimit, events.RejectInternal, events.RejectEnded,
	}
	// lateTimers are the timers of which facts say when they were due.
	lateTimers = []events.TimerKind{events.TimerCompleteBy, events.TimerStartBy, events.TimerDeadline, events.TimerSoftLimit, events.TimerNotBefore}
)

func newTaskMetrics(r prometheus.Registerer, catalog *scheduler.Catalog) (*taskMetrics, error) {
	m := &taskMetrics{
		catalog: catalog, byType: map[events.Name]prometheus.Counter{}, late: map[events.TimerKind]prometheus.Observer{}, workflows: map[string]*workflowSeries{}, known: map[stepName]*stepSeries{},
		accepted:   counter("tasks_accepted_total", "Tasks accepted."+otherHelp, "workflow"),
		ended:      counter("tasks_ended_total", "Tasks that ended, by their final state."+otherHelp, "workflow", "state"),
		deadlines:  counter("deadlines_passed_total", "Tasks whose deadline passed."+otherHelp, "workflow"),
		terminated: counter("terminated_total", "Tasks that an operator terminated: what they did may be left undone."+otherHelp, "workflow"),
		verdicts:   counter("verdicts_total", "Decisions about failures: retry, cool_down, undo, park or continue."+otherHelp, "workflow", "action"),
		attempts: counter("attempts_total", "Attempts by outcome: completed, failed, timed_out or refused (the brokers refused the work request)."+otherHelp,
			"workflow", "step", "operation", "outcome"),
		failures: counter("attempt_failures_total", "Attempts that failed, by the class of the error and by what they may have done (effect)."+otherHelp, "workflow", "step", "class", "effect"),
		dead:     counter("dead_letters_total", "Inputs that could not be used.", "topic", "reason"),
		alerts:   counter("alerts_total", "Alerts sent. An alert that is sent again after a crash is counted twice.", "kind"),
		facts:    counter("facts_total", "Durable facts by type.", "type"),
		signals:  counter("signals_total", "Signals by result: granted, refused or held (for a task that does not exist yet; it is counted again when the task takes it).", "result"),
		requests: counter("requests_total", "Requests other than signals, by verb and result: granted, refused or held.", "verb", "result"),

		duration:       histogram("task_duration_seconds", "Time from the acceptance of a task to its end."+otherHelp, "workflow", "state"),
		startDelay:     histogram("task_start_delay_seconds", "Time from the acceptance of a task to the start of its first attempt."+otherHelp, "workflow"),
		attemptSeconds: histogram("attempt_duration_seconds", "Time from the start of an attempt to its end, that of its messages included."+otherHelp, "workflow", "step", "operation"),
		dispatch:       histogram("dispatch_delay_seconds", "How long an attempt waited in the queue of its agent."+otherHelp, "agent"),
		lateness:       histogram("timer_lateness_seconds", "How much later than it was due a timer was judged, by the kind of the timer.", "kind"),
	}
	for _, name := range events.Names() {
		m.byType[name] = m.facts.WithLabelValues(string(name))
	}
	for _, kind := range lateTimers {
		m.late[kind] = m.lateness.WithLabelValues(string(kind))
	}
	for _, in := range events.Inputs { // the first one would not raise a rate otherwise
		for _, reason := range rejectReasons {
			m.dead.WithLabelValues(string(in), reason)
		}
	}
	m.other = m.newSeries(otherLabel)
	return m, r.Register(m)
}

func (m *taskMetrics) vectors() []prometheus.Collector {
	return []prometheus.Collector{
		m.accepted, m.ended, m.deadlines, m.terminated, m.verdicts, m.attempts, m.failures, m.dead, m.alerts, m.facts, m.signals, m.requests,
		m.duration, m.startDelay, m.attemptSeconds, m.dispatch, m.lateness,
	}
}

// Describe implements prometheus.Collector.
func (m *taskMetrics) Describe(ch chan<- *prometheus.Desc) {
	for _, c := range m.vectors() {
		c.Describe(ch)
	}
}

// Collect implements prometheus.Collector. Each workflow that has a current version is there at 0 before its first task, since rates
// would not see the first.
func (m *taskMetrics) Collect(ch chan<- prometheus.Metric) {
	if m.catalog != nil {
		for _, v := range m.catalog.List() {
			m.workflow(v.Workflow)
		}
	}
	for _, c := range m.vectors() {
		c.Collect(ch)
	}
}

// workflow returns the series of a workflow.
func (m *taskMetrics) workflow(name string) *workflowSeries {
	m.mu.RLock()
	s, full := m.workflows[name], len(m.workflows) >= maxLabels
	m.mu.RUnlock()
	if s != nil {
		return s
	}
	if full {
		return m.other
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if s = m.workflows[name]; s == nil && len(m.workflows) < maxLabels {
		s = m.newSeries(name)
		m.workflows[name] = s
	}
	if s == nil {
		return m.other
	}
	return s
}

func (m *taskMetrics) newSeries(name string) *workflowSeries {
	s := &workflowSeries{
		name: name, accepted: m.accepted.WithLabelValues(name), deadlines: m.deadlines.WithLabelValues(name), terminated: m.terminated.WithLabelValues(name),
		start: m.startDelay.WithLabelValues(name),
		ended: map[events.TaskState]prometheus.Counter{}, seconds: map[events.TaskState]prometheus.Observer{}, verdicts: map[events.Action]prometheus.Counter{},
	}
	for _, state := range endStates {
		s.ended[state], s.seconds[state] = m.ended.WithLabelValues(name, string(state)), m.duration.WithLabelValues(name, string(state))
	}
	for _, a := range actions {
		s.verdicts[a] = m.verdicts.WithLabelValues(name, string(a))
	}
	return s
}

// step returns the series of a step, by its path without an index.
func (m *taskMetrics) step(n stepName) *stepSeries {
	n.path, _, _ = strings.Cut(n.path, "[")
	m.mu.RLock()
	s := m.known[n]
	m.mu.RUnlock()
	if s != nil {
		return s
	}
	s = &stepSeries{workflow: m.workflow(n.workflow).name, step: n.path}
	if s.workflow == otherLabel || !m.steps.has([2]string{s.workflow, s.step}) {
		s.step = otherLabel
	}
	of := func(outcome string) prometheus.Counter {
		return m.attempts.WithLabelValues(s.workflow, s.step, string(n.op), outcome)
	}
	s.completed, s.failed, s.timedOut, s.refused = of("completed"), of("failed"), of("timed_out"), of("refused")
	s.seconds = m.attemptSeconds.WithLabelValues(s.workflow, s.step, string(n.op))
	m.mu.Lock()
	defer m.mu.Unlock()
	if len(m.known) == maxKnown {
		clear(m.known)
	}
	m.known[n] = s
	return s
}

// delay is the series of dispatch of an agent.
func (m *taskMetrics) delay(agent string) prometheus.Observer {
	if o, ok := m.delays.Load(agent); ok {
		return o.(prometheus.Observer)
	}
	if !m.agents.has(agent) {
		return m.dispatch.WithLabelValues(otherLabel)
	}
	o := m.dispatch.WithLabelValues(agent)
	m.delays.Store(agent, o)
	return o
}

func (m *taskMetrics) alerted(kind string) { m.alerts.WithLabelValues(kind).Inc() }
