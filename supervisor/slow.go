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

// avoidSlow makes new work avoid the partitions that take none: the broker that leads a partition may be away for longer than an
// attempt has time. Work that was sent is not sent elsewhere: the first copy could arrive later, and do the step again after its
// undo.
func (d *dispatch) avoidSlow() {
	d.routing.tryAgain(d.now)
	d.noteSlow(d.outbox.entries)
	for _, to := range d.delays.list {
		if to.work() {
			d.noteSlow(to.entries)
		}
	}
}

// noteSlow goes through a list until an entry is young enough.
func (d *dispatch) noteSlow(list []*entry) {
	for _, e := range list {
		if e.since != 0 && d.now.Sub(e.since) < d.cfg.SlowAfter {
			return
		}
		for _, y := range e.effects {
			if y.kind == events.EffectWork && d.outbox.waiting[y.id] == y && d.now.Sub(y.sentAt) >= d.cfg.SlowAfter {
				d.routing.avoid(workPartition{y.topic[len(workTopic):], y.record.Partition}, d.now)
			}
		}
	}
}

// unacknowledged says whether no broker has acknowledged the request of an attempt. If an earlier owner may have sent the
// attempt, this is unknown.
func (d *dispatch) unacknowledged(a attempt, agent string, started events.Instant) bool {
	if y := d.outbox.request(a); y != nil {
		return y.of.fact.Epoch == d.state.Partition.Epoch
	}
	to := d.delays.to(workTopic + agent) // its request may not have been read from the log yet
	return to != nil && to.next < d.outbox.next && started >= to.readAt && started > d.state.Partition.Since
}

// behind says whether nothing new starts for an operation because earlier requests have not been acknowledged, and notes since
// when. More requests would only time out. It ends when the brokers acknowledge the requests, or when all of them have timed out
// and the partitions are tried again.
func (d *dispatch) behind(l *lane) bool {
	to := d.delays.to(workTopic + l.call.Agent)
	if l.empty() || !(to != nil && to.next < d.outbox.next) && !d.routing.blocked(l.call, d.cfg.Partition) {
		l.behind = 0
		return false
	}
	if l.behind == 0 {
		l.behind = d.stamp()
	}
	return true
}

// blocked says whether all partitions to which a request could go take no work. Requests for an agent whose instances do not publish what
// they read go to the home partition.
func (r *routing) blocked(c events.Call, home int32) bool {
	if len(r.slow) == 0 {
		return false
	}
	list := r.agents[c.Agent].offering(c)
	if len(list) == 0 {
		return r.isSlow(c.Agent, home)
	}
	return !slices.ContainsFunc(list, func(t *target) bool { return r.takes(c.Agent, t) })
}

// avoid notes that a partition of an agent's topic takes no work.
func (r *routing) avoid(p workPartition, now events.Instant) {
	if r.slow == nil {
		r.slow = map[workPartition]events.Instant{}
	}
	r.slow[p] = now.Add(slowFor)
}

// tryAgain stops avoiding partitions that were avoided for long enough.
func (r *routing) tryAgain(now events.Instant) {
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

// taking returns the instances that offer an operation, except those that read only slow partitions, unless all do.
func (r *routing) taking(c events.Call) []*target {
	list := r.agents[c.Agent].offering(c)
	if len(r.slow) == 0 {
		return list
	}
	var some []*target
	for _, t := range list {
		if r.takes(c.Agent, t) {
			some = append(some, t)
		}
	}
	if some == nil {
		return list
	}
	return some
}
