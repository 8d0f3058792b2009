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

// supply is what agents offer, by their latest beats.
type supply struct {
	// capacity is how many attempts the healthy instances of each agent work on at once, together. An agent of which
	// nobody is heard is left out.
	capacity map[string]int
	// targets are the instances of each agent that take work, where all of them say what they read.
	targets map[string][]supervisor.Target
}

// supply sums up what is heard now, in a namespace of so many partitions.
func (p *presence) supply(partitions int32) supply {
	p.mu.Lock()
	defer p.mu.Unlock()
	s := supply{capacity: map[string]int{}, targets: map[string][]supervisor.Target{}}
	silent := map[string]bool{} // agents of which some instance does not say what it reads
	for _, b := range p.seen {
		if b.Kind != events.PresenceAgent || time.Since(b.at) > agentSilentAfter {
			continue
		}
		for name := range b.Capacity {
			t, says := offered(&b.Presence, name, partitions)
			silent[name] = silent[name] || !says && t.Capacity > 0
			if says && len(t.Partitions) == 0 {
				t.Capacity = 0 // nothing can be sent to it
			}
			s.capacity[name] += t.Capacity
			if t.Capacity > 0 {
				s.targets[name] = append(s.targets[name], t)
			}
		}
	}
	maps.DeleteFunc(s.targets, func(name string, _ []supervisor.Target) bool { return silent[name] })
	for _, list := range s.targets {
		slices.SortFunc(list, func(a, b supervisor.Target) int { return cmp.Compare(a.Instance, b.Instance) })
	}
	return s
}

// offered is what an instance offers as an agent; says tells whether it says what it reads. Anyone may write beats: a
// capacity beyond reason takes nobody's places, and partitions that do not exist get nothing.
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
		t.Capacity = 0 // its breaker is open: where all are, one attempt for each partition tries whether they are back
	case events.Degraded:
		t.Capacity, t.Probe, t.Full = min(t.Capacity, 1), true, false
	}
	return t, says
}

func (s supply) equal(o supply) bool {
	return maps.Equal(s.capacity, o.capacity) && maps.EqualFunc(s.targets, o.targets, func(a, b []supervisor.Target) bool {
		return slices.EqualFunc(a, b, func(x, y supervisor.Target) bool {
			return slices.Equal(x.Partitions, y.Partitions) && x.Instance == y.Instance && x.Capacity == y.Capacity && x.Full == y.Full && x.Probe == y.Probe
		})
	})
}

// windows are the places of each agent in one of so many partitions: the capacity in equal parts, which come to no more
// than the whole, but at least one each, so that every partition can go on. What does not divide goes to some partitions,
// and to others for each agent. All nodes reckon alike, so that what one holds is its share.
func (s supply) windows(partition, partitions int32) map[string]int {
	w := make(map[string]int, len(s.capacity))
	for name, total := range s.capacity {
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

// tell gives the owners what agents offer.
func (n *Node) tell(s supply) {
	for p, shell := range n.shells {
		shell.SetTargets(s.targets)
		shell.SetWindows(s.windows(int32(p), n.partitions))
	}
}
