package node

import (
	"cmp"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/sagalog/sagalog/events"
	"github.com/sagalog/sagalog/projector"
	"github.com/sagalog/sagalog/scheduler"
)

// agentMetrics shows which agents are alive, as seen by this node, and what waits for them in its partitions. An agent that a current
// definition names is there at 0 if nobody announces it.
type agentMetrics struct {
	liveness *liveness
	owners   *owners
	// store and catalog are nil in some tests: then nothing waits and nothing is defined.
	store   *projector.Store
	catalog *scheduler.Catalog
	defined definedAgents

	instances, capacity, inFlight, keyless, paused, ready, waiting, oldest, missing *prometheus.Desc
}

const agentsHelp = " Beyond 200 agents, missing ones first, the rest are _other together."

func newAgentMetrics(l *liveness, o *owners, store *projector.Store, catalog *scheduler.Catalog) *agentMetrics {
	desc := func(name, help string, labels ...string) *prometheus.Desc {
		return prometheus.NewDesc("sagalog_agent_"+name, help, labels, nil)
	}
	return &agentMetrics{
		liveness: l, owners: o, store: store, catalog: catalog,
		instances: desc("live_instances", "Live instances; 0 for an agent that a current definition names and nobody announces."+agentsHelp, "agent"),
		capacity:  desc("capacity", "Attempts that the live instances work on at once, as they announce it."+agentsHelp, "agent"),
		inFlight:  desc("in_flight", "Attempts that the live instances work on now, as they announce it."+agentsHelp, "agent"),
		keyless:   desc("keyless_instances", "Live instances that lacked a key of a sealed request in the last minute, as they announce it."+agentsHelp, "agent"),
		paused:    desc("paused", "1 while an operator has paused the agent."+agentsHelp, "agent"),
		ready:     desc("ready_steps", "Attempts of this node's partitions that may start and wait for the agent."+agentsHelp, "agent"),
		waiting:   desc("waiting_steps", "Attempts of this node's partitions that may start, by what they wait for: agent (no live instance offers the operation, or no broker takes requests for it), capacity or paused. A kind for which none waits is absent."+agentsHelp, "agent", "waiting_for"),
		oldest: desc("ready_oldest_seconds", "How long the attempts that start next in this node's partitions have waited: the longest of the first five of each queue, since the last step of "+
			"its task ended."+agentsHelp, "agent"),
		missing: desc("missing_seconds", "How long steps of this node's partitions have waited for an operation that no live instance offers. Beyond 200 operations, the rest are _other: the longest wait.", "agent", "operation"),
	}
}

// Describe implements prometheus.Collector.
func (m *agentMetrics) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{m.instances, m.capacity, m.inFlight, m.keyless, m.paused, m.ready, m.waiting, m.oldest, m.missing} {
		ch <- d
	}
}

// agentFigures are the values of an agent.
type agentFigures struct {
	instances, capacity, inFlight, paused, keyless int
	ready                                          int64
	waits                                          map[events.Waiting]int64
	oldest                                         time.Duration
}

func (x *agentFigures) wait(kind events.Waiting, n int64) {
	if x.waits == nil {
		x.waits = map[events.Waiting]int64{}
	}
	x.waits[kind] += n
}

// Collect implements prometheus.Collector.
func (m *agentMetrics) Collect(ch chan<- prometheus.Metric) {
	gauge := func(d *prometheus.Desc, v float64, labels ...string) {
		ch <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v, labels...)
	}
	waits := m.waits()
	for i, w := range waits {
		switch since := events.At(time.Now()).Sub(w.Since).Seconds(); {
		case i < maxLabels:
			gauge(m.missing, since, w.Agent, w.Call().Verb())
		case i == maxLabels: // the longest come first
			gauge(m.missing, since, otherLabel, otherLabel)
		}
	}
	for name, x := range folded(m.figures(waits)) {
		gauge(m.instances, float64(x.instances), name)
		gauge(m.capacity, float64(x.capacity), name)
		gauge(m.inFlight, float64(x.inFlight), name)
		gauge(m.keyless, float64(x.keyless), name)
		gauge(m.paused, float64(x.paused), name)
		gauge(m.ready, float64(x.ready), name)
		gauge(m.oldest, x.oldest.Seconds(), name)
		for kind, n := range x.waits {
			gauge(m.waiting, float64(n), name, string(kind))
		}
	}
}

// folded adds up the agents beyond the first maxLabels as otherLabel.
func folded(all map[string]*agentFigures) map[string]*agentFigures {
	if len(all) <= maxLabels {
		return all
	}
	names := slices.SortedFunc(maps.Keys(all), func(a, b string) int { // no live agent may hide a missing one
		return cmp.Or(cmp.Compare(min(all[a].instances, 1), min(all[b].instances, 1)), cmp.Compare(a, b))
	})
	rest := &agentFigures{}
	for _, name := range names[maxLabels:] {
		x := all[name]
		rest.instances, rest.capacity, rest.inFlight, rest.paused = rest.instances+x.instances, rest.capacity+x.capacity, rest.inFlight+x.inFlight, max(rest.paused, x.paused)
		rest.ready, rest.oldest = rest.ready+x.ready, max(rest.oldest, x.oldest)
		rest.keyless += x.keyless
		for kind, n := range x.waits {
			rest.wait(kind, n)
		}
		delete(all, name)
	}
	all[otherLabel] = rest
	return all
}

// figures returns the values of all agents that anything is known of.
func (m *agentMetrics) figures(waits []events.Missing) map[string]*agentFigures {
	all := map[string]*agentFigures{}
	of := func(agent string) *agentFigures {
		if all[agent] == nil {
			all[agent] = &agentFigures{}
		}
		return all[agent]
	}
	for _, w := range waits {
		of(w.Agent)
	}
	if m.catalog != nil {
		for _, name := range m.defined.of(m.catalog) {
			of(name)
		}
		for name := range m.catalog.Paused() {
			of(name).paused = 1
		}
	}
	for _, b := range m.liveness.liveAgents() {
		for _, name := range b.Agents {
			x := of(name)
			x.instances, x.capacity, x.inFlight = x.instances+1, x.capacity+b.Capacity[name], x.inFlight+b.InFlight[name]
			if len(b.MissingKeys[name]) > 0 {
				x.keyless++
			}
		}
	}
	var agents events.Availability
	if m.catalog != nil {
		agents = availability(m.liveness, int32(len(m.owners.shells)), m.catalog)
	}
	for _, p := range m.owners.owned() {
		for _, q := range m.store.Partition(p).QueueLengths() {
			x := of(q.Call.Agent)
			x.ready += q.Steps
			kind, _ := agents.QueuedFor(q.Call)
			x.wait(kind, q.Steps)
			x.oldest = max(x.oldest, m.waited(m.store.Partition(p), q.Call))
		}
	}
	return all
}

// lookedAt is how many attempts of a queue are looked at to find how long they have waited.
const lookedAt = 5

// waited returns how long the attempts that start next from a queue have waited.
func (m *agentMetrics) waited(p *projector.Partition, c events.Call) (longest time.Duration) {
	var rows []projector.ReadyRow
	projector.Reading(m.store, func() { rows, _ = p.Ready(events.Line{Queue: c.Queue(), Operation: c.Operation}, lookedAt) }) // the owner meets an error, and logs it
	now := events.At(time.Now())
	for _, row := range rows {
		if t, ok, err := p.Task(row.Task); err == nil && ok {
			longest = max(longest, now.Sub(readySince(t, row.Key.Path, now)))
		}
	}
	return longest
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

// definedAgents knows the agents of the current definitions.
type definedAgents struct {
	mu     sync.Mutex
	byHash map[string][]string
}

// of returns the agents that the current definitions name. A definition that cannot be used names none.
func (d *definedAgents) of(c *scheduler.Catalog) (agents []string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	had := d.byHash
	d.byHash = map[string][]string{}
	for _, v := range c.List() {
		list, known := had[v.Hash]
		if !known {
			body, err := c.Read(v)
			if err != nil {
				continue
			}
			if def, err := scheduler.Complete(body); err == nil {
				list = def.Agents()
			}
		}
		d.byHash[v.Hash] = list
		agents = append(agents, list...)
	}
	slices.Sort(agents)
	return slices.Compact(agents)
}
