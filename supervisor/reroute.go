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

// slowFor is how long a partition of a work topic is avoided after it took no work for Config.SlowAfter.
const slowFor = 10 * time.Second

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
		if e.since != 0 && d.now.Sub(e.since) < d.cfg.SlowAfter {
			return
		}
		for _, y := range e.effects {
			if y.kind == events.EffectWork && d.outbox.waiting[y.id] == y && d.now.Sub(y.sentAt) >= d.cfg.SlowAfter {
				d.rerouteOne(y)
			}
		}
	}
}

func (d *dispatch) rerouteOne(y *effect) {
	y.sentAt = d.now // look again later only: there may be thousands of such requests
	w, _ := workOf(y.of.fact)
	if !d.routing.avoid(w.Agent, w.Operation, y.record.Partition, d.now) {
		return
	}
	t, err := d.outbox.taskAt(y.of.fact)
	if err != nil || t == nil || !t.Running(w.Step, w.Operation, w.Attempt) {
		return
	}
	key := attempt{t.ID, w.Step, w.Operation, w.Attempt}
	d.routing.again(key)
	y.record.Partition, y.of.again = d.routing.partition(w.Agent, key, d.place()), true
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

// avoid notes that a partition of an agent's topic takes no work. It returns false if no other one takes work of the operation: no
// instance publishes its partitions, or all of them are slow.
func (r *routing) avoid(agent string, op events.Operation, partition int32, now events.Instant) bool {
	list := r.agents[agent].offering(op)
	if len(list) == 0 {
		return false
	}
	if r.slow == nil {
		r.slow = map[workPartition]events.Instant{}
	}
	r.slow[workPartition{agent, partition}] = now.Add(slowFor)
	return slices.ContainsFunc(list, func(t *target) bool { return r.takes(agent, t) })
}

// again notes that the request of an attempt is sent again.
func (r *routing) again(key attempt) {
	if r.twice == nil {
		r.twice = map[attempt]bool{}
	}
	r.twice[key] = true
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
