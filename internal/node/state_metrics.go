package node

import (
	"slices"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/sagalog/sagalog/events"
	"github.com/sagalog/sagalog/projector"
	"github.com/sagalog/sagalog/scheduler"
)

// stateMetrics shows the tasks of the partitions that this node owns, as its store has them, and the namespace.
type stateMetrics struct {
	owners     *owners
	store      *projector.Store
	catalog    *scheduler.Catalog
	partitions int32

	tasks, oldest, due, size, keep, carry *prometheus.Desc
	// node has only labels: whose node this is.
	node prometheus.Metric
}

// liveStates are the states that a task leaves again.
var liveStates = []events.TaskState{events.TaskStatePending, events.TaskStateProcessing, events.TaskStateUndoing, events.TaskStateError}

// dueTimers are the timers of tasks.
var dueTimers = []events.TimerKind{
	events.TimerCompleteBy, events.TimerStartBy, events.TimerRetry, events.TimerSleep, events.TimerSignal, events.TimerQuiet, events.TimerNotBefore, events.TimerDeadline,
	events.TimerSoftLimit, events.TimerReminder, events.TimerPermit,
}

func newStateMetrics(n *Node) *stateMetrics {
	return &stateMetrics{
		owners: n.owners, store: n.store.Store, catalog: n.ns.catalog.Catalog, partitions: n.ns.partitions,
		tasks: prometheus.NewDesc("sagalog_tasks", "Tasks that have not ended, by state (error means parked). Workflows beyond the first 200 by name are counted as _other.", []string{"workflow", "state"}, nil),
		oldest: prometheus.NewDesc("sagalog_task_oldest_seconds", "How long ago the oldest task of each state was accepted; for state error, how long ago it was parked, of the 100 parked tasks that were accepted first. "+
			"0 without any.", []string{"state"}, nil),
		due:  prometheus.NewDesc("sagalog_timers_due", "Timers of tasks that are due and not judged yet, by kind, of at most 20 tasks of each partition.", []string{"kind"}, nil),
		size: prometheus.NewDesc("sagalog_partitions", "Partitions of the namespace.", nil, nil),
		keep: prometheus.NewDesc("sagalog_keep_log_seconds", "How long facts are kept in the log (the setting keep_log); 0 means forever.", nil, nil),
		node: prometheus.MustNewConstMetric(prometheus.NewDesc("sagalog_node_info", "1; the labels are the name of the node, the ID of the namespace that it serves, and whether it has the role owner.", []string{"node", "namespace_id", "owner"}, nil),
			prometheus.GaugeValue, 1, n.cfg.Name, n.ns.record.ID, strconv.FormatBool(n.cfg.Roles.Owner)),
		carry: prometheus.NewDesc("sagalog_carry_age_seconds", "How long ago the last complete carry of a partition began, by which its log can be cut; 0 if nothing was decided since.",
			[]string{"partition"}, nil),
	}
}

// Describe implements prometheus.Collector.
func (m *stateMetrics) Describe(ch chan<- *prometheus.Desc) {
	ch <- m.tasks
	ch <- m.oldest
	ch <- m.due
	ch <- m.size
	ch <- m.keep
	ch <- m.carry
	ch <- m.node.Desc()
}

// Collect implements prometheus.Collector.
func (m *stateMetrics) Collect(ch chan<- prometheus.Metric) {
	ch <- m.node
	owned := m.owners.owned()
	for of, n := range m.counts(owned) {
		ch <- prometheus.MustNewConstMetric(m.tasks, prometheus.GaugeValue, float64(n), of.workflow, string(of.state))
	}
	now := events.At(time.Now())
	for _, state := range liveStates {
		ch <- prometheus.MustNewConstMetric(m.oldest, prometheus.GaugeValue, m.age(state, owned, now).Seconds(), string(state))
	}
	due := m.overdue(owned, now)
	for _, kind := range dueTimers {
		ch <- prometheus.MustNewConstMetric(m.due, prometheus.GaugeValue, float64(due[kind]), string(kind))
	}
	ch <- prometheus.MustNewConstMetric(m.size, prometheus.GaugeValue, float64(m.partitions))
	ch <- prometheus.MustNewConstMetric(m.keep, prometheus.GaugeValue, m.catalog.Settings().Settings.KeepLog.Std().Seconds())
	for _, p := range owned {
		age, err := projector.CarryAge(m.store.Partition(p), now)
		if err != nil {
			continue // the owner meets the error, and logs it
		}
		ch <- prometheus.MustNewConstMetric(m.carry, prometheus.GaugeValue, age.Seconds(), label(p))
	}
}

type workflowState struct {
	workflow string
	state    events.TaskState
}

// counts counts the live tasks of partitions. All live states of each current workflow are there.
func (m *stateMetrics) counts(owned []int32) map[workflowState]int64 {
	all := map[workflowState]int64{}
	for _, p := range owned {
		m.store.Partition(p).LiveTasks(func(workflow string, state events.TaskState, n int64) { all[workflowState{workflow, state}] += n })
	}
	if len(owned) == 0 {
		return all
	}
	for _, v := range m.catalog.List() {
		all[workflowState{v.Workflow, events.TaskStatePending}] += 0
	}
	names := make([]string, 0, len(all))
	for of := range all {
		names = append(names, of.workflow)
	}
	slices.Sort(names)
	names = slices.Compact(names)
	for _, name := range names[min(len(names), maxLabels):] {
		for _, state := range liveStates {
			of := workflowState{name, state}
			all[workflowState{otherLabel, state}] += all[of]
			delete(all, of)
		}
	}
	for _, name := range names[:min(len(names), maxLabels)] {
		for _, state := range liveStates {
			all[workflowState{name, state}] += 0
		}
	}
	return all
}

// parkedLookedAt is how many parked tasks are read to find how long they have been parked.
const parkedLookedAt = 100

// age returns the age of the oldest task in a state.
func (m *stateMetrics) age(state events.TaskState, owned []int32, now events.Instant) (age time.Duration) {
	limit := 1
	if state == events.TaskStateError {
		limit = parkedLookedAt
	}
	list, err := projector.Oldest(m.store, state, limit, func(p int32) bool { return slices.Contains(owned, p) })
	if err != nil {
		return 0 // the owner meets the error, and logs it
	}
	for _, x := range list {
		since := x.At
		if state == events.TaskStateError {
			t, ok, err := m.store.Partition(x.Partition).Task(x.ID)
			if err != nil || !ok || t.ParkedAt == 0 {
				continue
			}
			since = t.ParkedAt
		}
		age = max(age, now.Sub(since))
	}
	return age
}

// overdueLookedAt is how many tasks of a partition with due timers are read.
const overdueLookedAt = 20

func (m *stateMetrics) overdue(owned []int32, now events.Instant) map[events.TimerKind]int {
	kinds := map[events.TimerKind]int{}
	for _, p := range owned {
		var rows []projector.DueRow
		projector.Reading(m.store, func() { rows, _ = m.store.Partition(p).Due(now, overdueLookedAt) }) // the owner meets an error, and logs it
		for _, row := range rows {
			t, ok, err := m.store.Partition(p).Task(row.Task)
			if err != nil || !ok {
				continue
			}
			for _, x := range t.Timers() {
				if x.Due <= now {
					kinds[x.Kind]++
				}
			}
		}
	}
	return kinds
}

// label is the value of the label partition.
func label(partition int32) string { return strconv.Itoa(int(partition)) }
