package supervisor

import (
	"slices"

	"github.com/sagalog/sagalog/events"
)

// Target is an instance of an agent that takes work, as its beats tell.
type Target struct {
	Instance string
	// Partitions are those of work.<agent> that it reads, in their order; never empty.
	Partitions []int32
	// Capacity is how many attempts it works on at once; at least 1.
	Capacity int
	// Full says that it works on as many already: for this owner or for others.
	Full bool
	// Probe says that its breaker was open and asks whether its service is back: it gets one attempt at a time, while
	// others can do the rest.
	Probe bool
}

// routing chooses the partition of a work topic to which a request goes, and with it the instance that works on it. It
// says nothing about what is in the request: sent again by a later owner, the same request may go elsewhere. Then two
// instances may have it, as two may have had it anyhow where a partition moves (agent/doc.go, "Many instances"): both
// with the same Idempotency-Key, and that one of them says effect none is not believed, since the attempt is of an
// earlier epoch (sentTwice).
type routing struct {
	// agents are those of which instances publish their partitions. Of all others the home partition is used.
	agents map[string][]*target
	// sent says which instance has an attempt, of agents with more than one. It begins empty in each epoch: what an
	// earlier owner sent runs out without being counted.
	sent map[attemptKey]*target
}

type target struct {
	Target
	// out are the attempts that this owner sent to it and that have no outcome yet.
	out int
}

type attemptKey struct {
	task, path string
	op         events.Operation
	attempt    int
}

// SetTargets gives the instances of each agent that take work, in the order of their names. An agent that is left out is
// reached by the home partition; so is one whose list is empty.
func (o *Owner) SetTargets(now events.Instant, targets map[string][]Target) {
	o.enter(now)
	o.routing.set(targets)
}

// route chooses the partition of a work request. What has its outcome already, before the request could go, is not
// counted: nothing would end it.
func (o *Owner) route(t *events.Task, w *events.Work) int32 {
	if len(o.routing.agents) == 0 || !t.Running(w.Step, w.Operation, w.Attempt) {
		return o.cfg.Partition
	}
	key := attemptKey{w.Task, w.Step, w.Operation, w.Attempt}
	return o.routing.partition(w.Agent, key, place{o.cfg.Partition, o.cfg.Partitions, o.nodeHash})
}

func (r *routing) set(targets map[string][]Target) {
	next := make(map[string][]*target, len(targets))
	for agent, list := range targets {
		old := r.agents[agent]
		for _, t := range list {
			x := &target{}
			if i := slices.IndexFunc(old, func(o *target) bool { return o.Instance == t.Instance }); i >= 0 {
				x = old[i] // what it has of ours stays counted
			}
			x.Target = t
			next[agent] = append(next[agent], x)
		}
	}
	r.agents = next
}

// forget begins a new epoch.
func (r *routing) forget() {
	r.sent = nil
	for _, list := range r.agents {
		for _, t := range list {
			t.out = 0
		}
	}
}

// partition chooses where a request goes: home where nobody says what they read.
func (r *routing) partition(agent string, key attemptKey, at place) int32 {
	list := r.agents[agent]
	switch len(list) {
	case 0:
		return at.home
	case 1:
		return list[0].partition(at)
	}
	t := choose(list, at)
	t.out++
	if r.sent == nil {
		r.sent = map[attemptKey]*target{}
	}
	r.sent[key] = t
	return t.partition(at)
}

// ended notes that an attempt has its outcome.
func (r *routing) ended(key attemptKey) {
	if len(r.sent) == 0 {
		return
	}
	if t := r.sent[key]; t != nil {
		t.out--
		delete(r.sent, key)
	}
}

// place is where an owner stands: in its home partition, of so many, on a node.
type place struct {
	home, of int32
	node     uint32
}

// choose takes the instance that reads the home partition while it has room: all owners spread their work then, without
// knowing of each other, as the partitions are spread. Its room is the part of its capacity that falls to one partition,
// as long as it does not say that it is full. Otherwise it takes the one with room that has least to do for its capacity,
// and if none has room the one with least to do.
func choose(list []*target, at place) *target {
	var best *target
	for i := range list {
		t := list[(i+int(at.home))%len(list)] // owners that find all alike do not all choose the same
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

func allProbe(list []*target) bool {
	return !slices.ContainsFunc(list, func(t *target) bool { return !t.Probe })
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

// partition is the one of its partitions that all owners of a node use, so that what they send together is one batch and
// one fetch: for eight partitions of the namespace an eighth of the requests, at the broker and at the agent.
func (t *target) partition(at place) int32 {
	return t.Partitions[int(at.node%uint32(len(t.Partitions)))]
}
