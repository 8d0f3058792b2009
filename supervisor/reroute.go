package supervisor

import (
	"maps"
	"slices"
	"time"

	"github.com/sagalog/sagalog/events"
)

// workPartition is a partition of an agent's work topic.
type workPartition struct {
	agent     string
	partition int32
}

const (
	// slowAfter is how long a partition of a work topic may leave a request unacknowledged before the request is sent to another one.
	slowAfter = 2 * time.Second
	// slowFor is how long it is then avoided.
	slowFor = 10 * time.Second
)

// reroute sends work again that its partition has not taken, to another partition that the agent's instances read: the broker that
// leads a partition may be away for longer than an attempt has time. Like a take-over, this may bring an attempt to two instances.
func (d *dispatch) reroute() {
	d.routing.recover(d.now)
	if d.waking.held {
		return
	}
	d.rerouteSome(d.outbox.entries)
	for _, to := range d.delays.list {
		if to.work() {
			d.rerouteSome(to.entries)
		}
	}
	d.outbox.send()
}

// rerouteSome looks at a list until an entry is young enough.
func (d *dispatch) rerouteSome(list []*entry) {
	for _, e := range list {
		if e.since != 0 && d.now.Sub(e.since) < slowAfter {
			return
		}
		for _, y := range e.effects {
			if y.kind == events.EffectWork && d.outbox.waiting[y.id] == y && d.now.Sub(y.sentAt) >= slowAfter {
				d.rerouteOne(y)
			}
		}
	}
}

func (d *dispatch) rerouteOne(y *effect) {
	w, _ := workOf(y.of.fact)
	t, err := d.outbox.taskAt(y.of.fact)
	if err != nil || t == nil || !t.Running(w.Step, w.Operation, w.Attempt) {
		return
	}
	to, ok := d.routing.elsewhere(w.Agent, attempt{t.ID, w.Step, w.Operation, w.Attempt}, y.record.Partition, d.place(), d.now)
	if !ok {
		return
	}
	y.record.Partition, y.of.again = to, true
	d.outbox.fresh = append(d.outbox.fresh, y)
	d.stats.Rerouted++
}

// unacknowledged says whether no broker has acknowledged the request of an attempt. Of an attempt that an earlier owner may have sent
// nobody knows.
func (d *dispatch) unacknowledged(a attempt) bool {
	for e := range d.outbox.all {
		w, ok := workOf(e.fact)
		if ok && e.fact.Epoch == d.state.Partition.Epoch && e.fact.Task == a.task && w.Step == a.path && w.Operation == a.op && w.Attempt == a.number {
			return slices.ContainsFunc(e.effects, func(y *effect) bool { return y.kind == events.EffectWork && !y.done })
		}
	}
	return false
}

// elsewhere chooses another partition for a request that its partition does not take. It returns false if there is no other one: no
// instance publishes its partitions, or all of them are slow.
func (r *routing) elsewhere(agent string, key attempt, not int32, at place, now events.Instant) (int32, bool) {
	list := r.agents[agent].offering(key.op)
	if len(list) == 0 {
		return 0, false
	}
	if r.slow == nil {
		r.slow = map[workPartition]events.Instant{}
	}
	r.slow[workPartition{agent, not}] = now.Add(slowFor)
	if !slices.ContainsFunc(list, func(t *target) bool { return r.takes(agent, t) }) {
		return 0, false
	}
	if r.twice == nil {
		r.twice = map[attempt]bool{}
	}
	r.twice[key] = true
	return r.partition(agent, key, at), true
}

// recover tries partitions again that were avoided for long enough.
func (r *routing) recover(now events.Instant) {
	if len(r.slow) > 0 {
		maps.DeleteFunc(r.slow, func(_ workPartition, until events.Instant) bool { return until <= now })
	}
}

func (r *routing) isSlow(agent string, partition int32) bool {
	_, slow := r.slow[workPartition{agent, partition}]
	return slow
}

// takes says whether an instance reads a partition that is not slow.
func (r *routing) takes(agent string, t *target) bool {
	return slices.ContainsFunc(t.Partitions, func(p int32) bool { return !r.isSlow(agent, p) })
}

// taking returns the instances that offer an operation, without those that read slow partitions only, unless all do.
func (r *routing) taking(agent string, op events.Operation) []*target {
	list := r.agents[agent].offering(op)
	if len(r.slow) == 0 {
		return list
	}
	var some []*target
	for _, t := range list {
		if r.takes(agent, t) {
			some = append(some, t)
		}
	}
	if some == nil {
		return list
	}
	return some
}
