package node

import (
	"cmp"
	"hash/fnv"
	"maps"
	"slices"

	"github.com/sagalog/sagalog/events"
	"github.com/sagalog/sagalog/scheduler"
	"github.com/sagalog/sagalog/supervisor"
)

// maxCapacity is more than any instance can work on at once, and small enough that no sum overflows.
const maxCapacity = 100_000

// offers holds, by agent, what its live instances offer together. An agent that is not in it has no instance.
type offers map[string]offer

type offer struct {
	supervisor.Offer
	// total is how many attempts the healthy instances work on at once.
	total int
}

// offers returns what the agents offer now, in a namespace with that number of partitions. A silent instance counts
// as gone only while this node can read its own heartbeats back. While it cannot, the last heartbeats that it read stay in force.
func (l *liveness) offers(partitions int32) offers {
	l.mu.Lock()
	defer l.mu.Unlock()
	all := offers{}
	mute := map[string]bool{} // agents with an instance that does not say which partitions it reads
	for key, b := range l.seen {
		if b.Kind != events.PresenceAgent || l.isSilent(key, b.at, agentSilentAfter) {
			continue
		}
		for name := range b.Capacity {
			t, says := targetOf(&b.Presence, name, partitions)
			mute[name] = mute[name] || !says && t.Capacity > 0
			if says && len(t.Partitions) == 0 {
				continue // nothing can be sent to it
			}
			o := all[name]
			o.total += t.Capacity
			// An instance whose breaker is open still offers its operations: if all breakers are open, one attempt from each
			// partition tests whether the service is back.
			if t.Capacity > 0 || b.Health[name] == events.Unhealthy {
				o.Do, o.Undo = o.Do || t.Do, o.Undo || t.Undo
				o.merge(t.Functions)
				if says {
					o.Targets = append(o.Targets, t)
				}
			}
			all[name] = o
		}
	}
	for name, o := range all {
		if mute[name] {
			o.Targets = nil
		}
		slices.SortFunc(o.Targets, func(a, b supervisor.Target) int { return cmp.Compare(a.Instance, b.Instance) })
		all[name] = o
	}
	return all
}

// merge adds the operations that an instance offers to those of the others.
func (o *offer) merge(functions map[string]supervisor.Directions) {
	for name, d := range functions {
		if o.Functions == nil {
			o.Functions = map[string]supervisor.Directions{}
		}
		o.Functions[name] = o.Functions[name].Or(d)
	}
}

// functionsOf returns the operations with a name that an instance of an agent offers, nil if there are none or more than an agent may have:
// anyone may write heartbeats.
func functionsOf(b *events.Presence, agent string) map[string]supervisor.Directions {
	if len(b.Functions[agent]) == 0 || len(b.Functions[agent]) > events.MaxFunctions {
		return nil
	}
	all := make(map[string]supervisor.Directions, len(b.Functions[agent]))
	for name := range b.Functions[agent] {
		all[name] = directionsOf(b, agent, name)
	}
	return all
}

func directionsOf(b *events.Presence, agent, function string) supervisor.Directions {
	return supervisor.Directions{
		Do:   b.Offers(events.Call{Agent: agent, Function: function, Operation: events.Do}),
		Undo: b.Offers(events.Call{Agent: agent, Function: function, Operation: events.Undo}),
	}
}

// targetOf returns the partitions where an instance of an agent accepts work, and how much. says tells whether the instance
// publishes which partitions it reads. Anyone may write heartbeats, so the capacity is bounded and partitions that do not
// exist are left out.
func targetOf(b *events.Presence, name string, partitions int32) (t supervisor.Target, says bool) {
	t = supervisor.Target{
		Instance: b.Instance, Capacity: min(max(b.Capacity[name], 0), maxCapacity),
		Functions: functionsOf(b, name),
	}
	own := directionsOf(b, name, "")
	t.Do, t.Undo = own.Do, own.Undo
	read, says := b.Partitions[name]
	for _, n := range read {
		if n >= 0 && n < partitions {
			t.Partitions = append(t.Partitions, n)
		}
	}
	slices.Sort(t.Partitions)
	t.Partitions = slices.Compact(t.Partitions)
	t.Full = b.InFlight[name] >= t.Capacity
	switch b.Health[name] {
	case events.Unhealthy:
		t.Capacity = 0 // its breaker is open
	case events.Degraded:
		t.Capacity, t.Probe, t.Full = min(t.Capacity, 1), true, false
	}
	return t, says
}

// pausing marks the agents that are paused. An agent without instances gets an offer of nothing.
func (o offers) pausing(paused map[string]scheduler.PauseRecord) offers {
	for agent := range paused {
		x := o[agent]
		x.Paused = true
		o[agent] = x
	}
	return o
}

func (o offers) equal(other offers) bool {
	return maps.EqualFunc(o, other, func(a, b offer) bool {
		return a.total == b.total && a.Do == b.Do && a.Undo == b.Undo && maps.Equal(a.Functions, b.Functions) && a.Paused == b.Paused && slices.EqualFunc(a.Targets, b.Targets, func(x, y supervisor.Target) bool {
			return x.Same(&y)
		})
	})
}

// to returns the offers to one of the partitions. Its window is an equal share of the capacity, but at least one, so that
// every partition makes progress. Some partitions, different ones for each agent, get one more from the remainder. All
// nodes compute the same shares, so they add up.
func (o offers) to(partition, partitions int32) map[string]supervisor.Offer {
	list := make(map[string]supervisor.Offer, len(o))
	for name, x := range o {
		h := fnv.New32a()
		h.Write([]byte(name))
		nth := (uint32(partition) + h.Sum32()%uint32(partitions)) % uint32(partitions)
		n := x.total / int(partitions)
		if int(nth) < x.total%int(partitions) {
			n++
		}
		x.Window = max(n, 1)
		list[name] = x.Offer
	}
	return list
}

// offered says whether a live instance offers what the call asks.
func (o offers) offered(c events.Call) bool { return o[c.Agent].Has(c) }

// offersView shows the API what the agents offer.
type offersView struct {
	liveness   *liveness
	partitions int32
}

// Offered implements api.Offers.
func (v offersView) Offered() func(events.Call) bool {
	return v.liveness.offers(v.partitions).offered
}

// Missing implements api.Offers.
func (v offersView) Missing() []events.Missing { return v.liveness.missing() }
