package supervisor

import (
	"container/heap"
	"maps"
	"slices"
	"sort"

	"github.com/sagalog/sagalog/events"
)

// queue holds the attempts that may start, by agent: the head of each agent's queue in memory, the rest in the store.
// What stands in it is checked again before it starts, so a stale entry costs only its place.
type queue struct {
	agents map[string]*agentQueue
	limit  int
	// turn is the agent that was served first last time: the next one begins, so that none starves where batches fill.
	turn string
}

type agentQueue struct {
	heap readyHeap
	have map[readyID]bool
	// spilled says that the store holds rows that the heap does not: those that do not come before floor.
	spilled bool
	floor   events.Ready
}

type readyID struct {
	task, path string
	op         events.Operation
}

func idOf(r events.Ready) readyID { return readyID{r.Task, r.Path, r.Operation} }

// readyHeap has the attempt that starts first on top.
type readyHeap []events.Ready

func (h readyHeap) Len() int           { return len(h) }
func (h readyHeap) Less(i, j int) bool { return h[i].Before(h[j]) }
func (h readyHeap) Swap(i, j int)      { h[i], h[j] = h[j], h[i] }
func (h *readyHeap) Push(x any)        { *h = append(*h, x.(events.Ready)) }
func (h *readyHeap) Pop() any {
	old := *h
	last := old[len(old)-1]
	*h = old[:len(old)-1]
	return last
}

// open begins with what the store holds.
func (q *queue) open(s Store) error {
	q.agents = map[string]*agentQueue{}
	agents, err := s.Queues()
	for _, a := range agents {
		q.agent(a).spilled = true
	}
	return err
}

func (q *queue) agent(name string) *agentQueue {
	a := q.agents[name]
	if a == nil {
		a = &agentQueue{have: map[readyID]bool{}}
		if q.agents == nil {
			q.agents = map[string]*agentQueue{}
		}
		q.agents[name] = a
	}
	return a
}

// push queues attempts that may start now. What does not fit waits in the store, whose row is written with the same
// batch: always the last in order, so that a task of high priority does not wait behind a full queue of others.
// Attempts of a later time are the timers' business.
func (q *queue) push(ready []events.Ready, now events.Instant) {
	for _, r := range ready {
		if r.NotBefore > now {
			continue
		}
		a := q.agent(r.Agent)
		id := idOf(r)
		switch {
		case a.have[id]:
		case a.spilled && !r.Before(a.floor): // the store has older ones: it must not overtake them
		default:
			a.have[id] = true
			heap.Push(&a.heap, r)
			if len(a.heap) > 2*q.limit {
				a.spill(q.limit)
			}
		}
	}
}

// spill keeps the first attempts in order and leaves the others to the store.
func (a *agentQueue) spill(keep int) {
	sort.Sort(a.heap) // a sorted heap is a heap
	for _, r := range a.heap[keep:] {
		delete(a.have, idOf(r))
	}
	a.heap = slices.Clone(a.heap[:keep])
	a.spilled, a.floor = true, a.heap[keep-1]
}

// refill reads the head of an agent's queue from the store when memory holds none of it. Rows of attempts that have
// started since stay in the store until their batch is committed; complete is false while there are such batches.
func (q *queue) refill(s Store, name string, complete bool) error {
	a := q.agent(name)
	if len(a.heap) > 0 || !a.spilled {
		return nil
	}
	rows, err := s.Ready(name, q.limit)
	if err != nil {
		return err
	}
	a.spilled, a.floor = len(rows) >= q.limit || !complete, events.Ready{}
	if len(rows) > 0 {
		a.floor = rows[len(rows)-1]
	}
	for _, r := range rows {
		if id := idOf(r); !a.have[id] {
			a.have[id] = true
			heap.Push(&a.heap, r)
		}
	}
	return nil
}

// round returns the agents in the order of their names, beginning behind the one that began last time. (Not in the
// order of a map: the same state and inputs must give the same facts, INV4.)
func (q *queue) round() []string {
	names := slices.Sorted(maps.Keys(q.agents))
	if len(names) == 0 {
		return nil
	}
	at, found := slices.BinarySearch(names, q.turn)
	if found {
		at++
	}
	at %= len(names)
	q.turn = names[at]
	return append(names[at:len(names):len(names)], names[:at]...)
}

// take removes up to n attempts from the head of an agent's queue.
func (q *queue) take(name string, n int) []events.Ready {
	a := q.agent(name)
	var list []events.Ready
	for len(list) < n && len(a.heap) > 0 {
		r := heap.Pop(&a.heap).(events.Ready)
		delete(a.have, idOf(r))
		list = append(list, r)
	}
	return list
}

// room returns the free places of an agent's window in this partition.
func (o *Owner) room(agent string) int {
	window, ok := o.windows[agent]
	if !ok {
		window = o.cfg.Window
	}
	return max(window, 1) - o.running[agent]
}

// admit starts attempts from the queues as the windows allow.
func (o *Owner) admit(b *batch) bool {
	o.queue.limit = o.cfg.Queue
	for _, name := range o.queue.round() {
		// Once: until the batches in flight are committed, the store would give the same rows again.
		if err := o.queue.refill(o.store, name, len(o.pipe.flying) == 0 && len(b.facts) == 0); err != nil {
			o.stop(err)
			return false
		}
		for room := o.room(name); room > 0 && !o.full(b); room = o.room(name) {
			ready := o.queue.take(name, min(room, o.cfg.BatchFacts-len(b.facts)))
			if len(ready) == 0 {
				break
			}
			rooms := map[string]int{name: room}
			for _, r := range o.sched.Admit(ready, rooms, o.stamp()) {
				if err := o.guardedStart(b, r); err != nil {
					o.setAside("", r.Task, err)
					return false
				}
			}
		}
	}
	return true
}

func (o *Owner) guardedStart(b *batch, r events.Ready) (err error) {
	defer guard(&err)
	return o.start(b, r)
}
