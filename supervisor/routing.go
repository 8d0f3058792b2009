package supervisor

import (
	"maps"
	"slices"

	"github.com/sagalog/sagalog/events"
)

// Target is an instance of an agent that takes work, according to its heartbeats.
type Target struct {
	Instance string
	// Partitions are the partitions of work.<agent> that it reads, in order; never empty.
	Partitions []int32
	// Do and Undo say whether it offers the operation.
	Do, Undo bool
	// Functions says the same of the operations that have a name.
	Functions map[string]Directions
	// Capacity is how many attempts it works on at once; zero while its breaker is open. Such an instance gets work only if
	// no other one offers the operation.
	Capacity int
	// Full says that it already works on that many, for this owner or for others.
	Full bool
	// Probe says that its breaker was open and that it now tests whether its service is back: it gets one attempt at a
	// time while other instances can take the rest.
	Probe bool
}

// Same says whether nothing has changed that the choice depends on.
func (t *Target) Same(as *Target) bool {
	return slices.Equal(t.Partitions, as.Partitions) && t.Instance == as.Instance && t.Do == as.Do && t.Undo == as.Undo && maps.Equal(t.Functions, as.Functions) &&
		t.Capacity == as.Capacity && t.Full == as.Full && t.Probe == as.Probe
}

// routing chooses the partition of a work topic to which a request goes, and with it the instance that works on it. The choice
// does not depend on anything recorded: when a later owner sends the same request again, it may go elsewhere. Then two
// instances may have it, which can happen anyway when a partition moves (agent/doc.go, "Many instances"). Both use the
// same Idempotency-Key, and if one of them reports effect none, it is not believed, because the attempt began in an earlier epoch
// (sentTwice).
type routing struct {
	// agents are the agents whose instances publish their partitions. All others use the home partition.
	agents map[string]instances
	// slow are the partitions of work topics that take nothing, and the times until which they are avoided.
	slow map[workPartition]events.Instant
	// sent maps attempts to the instance that has them, for agents with more than one instance. It is empty when an epoch begins:
	// attempts that an earlier owner sent end without being counted.
	sent map[attempt]*target
}

// instances are all instances of an agent, and those that offer each operation.
type instances struct {
	all, do, undo []*target
	// named holds those that offer the operations with a name; the agent of the calls is left out.
	named map[events.Call][]*target
}

func (i instances) offering(c events.Call) []*target {
	switch {
	case c.Function != "":
		return i.named[events.Call{Function: c.Function, Operation: c.Operation}]
	case c.Operation == events.Undo:
		return i.undo
	}
	return i.do
}

func (i *instances) add(t *target) {
	i.all = append(i.all, t)
	if t.Do {
		i.do = append(i.do, t)
	}
	if t.Undo {
		i.undo = append(i.undo, t)
	}
	for name, d := range t.Functions {
		for _, op := range []events.Operation{events.Do, events.Undo} {
			if !d.has(op) {
				continue
			}
			if i.named == nil {
				i.named = map[events.Call][]*target{}
			}
			c := events.Call{Function: name, Operation: op}
			i.named[c] = append(i.named[c], t)
		}
	}
}

type target struct {
	Target
	// out counts the attempts that this owner sent to the instance and that have no outcome yet.
	out int
}

func (r *routing) set(offers map[string]Offer) {
	next := make(map[string]instances, len(offers))
	for agent, offer := range offers {
		old, now := r.agents[agent].all, instances{}
		for _, t := range offer.Targets {
			x := &target{}
			if i := slices.IndexFunc(old, func(o *target) bool { return o.Instance == t.Instance }); i >= 0 {
				x = old[i] // keep the number of its attempts
			}
			x.Target = t
			now.add(x)
		}
		next[agent] = now
	}
	r.agents = next
}

// forget begins a new epoch.
func (r *routing) forget() {
	r.sent, r.slow = nil, nil
	for _, i := range r.agents {
		for _, t := range i.all {
			t.out = 0
		}
	}
}

// partition chooses the partition for a request: the home partition if no instance that offers the operation publishes which
// partitions it reads.
func (r *routing) partition(c events.Call, key attempt, at place) int32 {
	r.ended(key) // a request that is sent again counts once
	agent, list := c.Agent, r.taking(c)
	switch len(list) {
	case 0:
		return at.home
	case 1:
		return r.pick(agent, list[0], at)
	}
	t := choose(list, at)
	t.out++
	if r.sent == nil {
		r.sent = map[attempt]*target{}
	}
	r.sent[key] = t
	return r.pick(agent, t, at)
}

// ended notes that an attempt has its outcome.
func (r *routing) ended(key attempt) {
	if len(r.sent) == 0 {
		return
	}
	if t := r.sent[key]; t != nil {
		t.out--
		delete(r.sent, key)
	}
}

// place is an owner's location: its home partition and its node.
type place struct {
	home, of int32
	node     uint32
}

// choose prefers the instance that reads the home partition while it has room: then work is spread as evenly as the
// partitions are, although owners do not know of each other. It has room for one partition's share of its capacity, unless it
// says that it is full. Otherwise choose takes the least loaded instance, relative to its capacity, among those with room, or
// among all if none has room.
func choose(list []*target, at place) *target {
	var best *target
	for i := range list {
		t := list[(i+int(at.home))%len(list)] // so that owners that see equal loads do not all choose the same instance
		switch {
		case t.Probe && !allProbe(list):
			if t.out == 0 && t.reads(at.home) {
				return t
			}
		case best == nil || t.better(best, at):
			best = t
		}
	}
	return best
}

// allProbe says whether only probing instances can take work.
func allProbe(list []*target) bool {
	return !slices.ContainsFunc(list, func(t *target) bool { return !t.Probe && t.Capacity > 0 })
}

func (t *target) better(than *target, at place) bool {
	room, its := t.room(at), than.room(at)
	if room != its {
		return room
	}
	if room && t.reads(at.home) != than.reads(at.home) {
		return t.reads(at.home)
	}
	return (t.out+1)*than.Capacity < (than.out+1)*t.Capacity
}

func (t *target) room(at place) bool { return !t.Full && t.out*int(at.of) < t.Capacity }

func (t *target) reads(partition int32) bool {
	_, found := slices.BinarySearch(t.Partitions, partition)
	return found
}

// pick returns the partition of the instance that all owners of a node use, so that everything they send together
// is one batch and one fetch: with eight partitions in the namespace, an eighth of the requests at the broker and at
// the agent. It avoids slow partitions.
func (r *routing) pick(agent string, t *target, at place) int32 {
	first := int(at.node % uint32(len(t.Partitions)))
	for i := range t.Partitions {
		if p := t.Partitions[(first+i)%len(t.Partitions)]; len(r.slow) == 0 || !r.isSlow(agent, p) {
			return p
		}
	}
	return t.Partitions[first]
}
