package node

import (
	"cmp"
	"hash/fnv"
	"maps"
	"slices"
	"time"

	"github.com/sagalog/sagalog/events"
	"github.com/sagalog/sagalog/supervisor"
)

// maxCapacity is more than any instance can work on at once, and small enough that no sum overflows.
const maxCapacity = 100_000

// capacity is how much work agents take, by their latest heartbeats.
type capacity struct {
	// total is how many attempts the healthy instances of each agent work on at once, together. An agent without live
	// instances is left out.
	total map[string]int
	// targets are the instances of each agent that take work, if all of them say which partitions they read.
	targets map[string][]supervisor.Target
}

// capacity returns what the agents offer now, in a namespace with that number of partitions.
func (l *liveness) capacity(partitions int32) capacity {
	l.mu.Lock()
	defer l.mu.Unlock()
	c := capacity{total: map[string]int{}, targets: map[string][]supervisor.Target{}}
	mute := map[string]bool{} // agents with an instance that does not say which partitions it reads
	for _, b := range l.seen {
		if b.Kind != events.PresenceAgent || time.Since(b.at) > agentSilentAfter {
			continue
		}
		for name := range b.Capacity {
			t, says := offered(&b.Presence, name, partitions)
			mute[name] = mute[name] || !says && t.Capacity > 0
			if says && len(t.Partitions) == 0 {
				t.Capacity = 0 // nothing can be sent to it
			}
			c.total[name] += t.Capacity
			if t.Capacity > 0 {
				c.targets[name] = append(c.targets[name], t)
			}
		}
	}
	maps.DeleteFunc(c.targets, func(name string, _ []supervisor.Target) bool { return mute[name] })
	for _, list := range c.targets {
		slices.SortFunc(list, func(a, b supervisor.Target) int { return cmp.Compare(a.Instance, b.Instance) })
	}
	return c
}

// offered returns the capacity that an instance offers as an agent. says tells whether the instance publishes which
// partitions it reads. Anyone may write heartbeats: an unreasonable capacity takes no work from others, and partitions
// that do not exist get nothing.
func offered(b *events.Presence, name string, partitions int32) (t supervisor.Target, says bool) {
	t = supervisor.Target{Instance: b.Instance, Capacity: min(max(b.Capacity[name], 0), maxCapacity)}
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
		t.Capacity = 0 // its breaker is open: if all are, one attempt for each partition tests whether they are back
	case events.Degraded:
		t.Capacity, t.Probe, t.Full = min(t.Capacity, 1), true, false
	}
	return t, says
}

func (c capacity) equal(o capacity) bool {
	return maps.Equal(c.total, o.total) && maps.EqualFunc(c.targets, o.targets, func(a, b []supervisor.Target) bool {
		return slices.EqualFunc(a, b, func(x, y supervisor.Target) bool {
			return slices.Equal(x.Partitions, y.Partitions) && x.Instance == y.Instance && x.Capacity == y.Capacity && x.Full == y.Full && x.Probe == y.Probe
		})
	})
}

// windows returns how many attempts of each agent one of the partitions may have under way: an equal part of the
// capacity, but at least one, so that every partition makes progress. The remainder goes to some partitions, different
// ones for each agent. All nodes compute the same, so the parts add up.
func (c capacity) windows(partition, partitions int32) map[string]int {
	w := make(map[string]int, len(c.total))
	for name, total := range c.total {
		h := fnv.New32a()
		h.Write([]byte(name))
		nth := (uint32(partition) + h.Sum32()%uint32(partitions)) % uint32(partitions)
		n := total / int(partitions)
		if int(nth) < total%int(partitions) {
			n++
		}
		w[name] = max(n, 1)
	}
	return w
}
