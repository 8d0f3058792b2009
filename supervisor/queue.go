package supervisor

import (
	"slices"
	"strings"

	"github.com/sagalog/sagalog/events"
)

// queue holds the attempts that may start, by agent: the head of each agent's queue in memory, the rest in the store.
// An attempt is checked again before it starts, so a stale entry costs only its place.
type queue struct {
	// agents are in the order of their names. (Map order would not do: the same state and inputs must give the same
	// facts, INV4.)
	agents []*agentQueue
	limit  int
	// turn is the agent that was served first last time. The next one comes first now, so that none starves when
	// batches are full.
	turn string

	// order, taken and rooms are scratch space of round and admit, reused from batch to batch.
	order []*agentQueue
	taken []events.Ready
	rooms map[string]int
}

type agentQueue struct {
	name  string
	ready readyList
	// spilled says that the store holds rows that the list does not; none of them sorts before floor.
	spilled bool
	floor   events.Ready
}

// open starts from the queue in the store.
func (q *queue) open(s Store) error {
	q.agents = nil
	agents, err := s.Queues()
	for _, a := range agents {
		q.agent(a).spilled = true
	}
	return err
}

func (q *queue) find(name string) (int, bool) {
	return slices.BinarySearchFunc(q.agents, name, func(a *agentQueue, name string) int { return strings.Compare(a.name, name) })
}

func (q *queue) agent(name string) *agentQueue {
	at, found := q.find(name)
	if !found {
		q.agents = slices.Insert(q.agents, at, &agentQueue{name: name})
	}
	return q.agents[at]
}

// push queues attempts that may start now. Attempts that do not fit wait in the store, where a later flush writes their
// rows. They are always the last in order, so that a task of high priority does not wait behind a full queue of others.
// Attempts that are due later belong to the timers.
func (q *queue) push(ready []events.Ready, now events.Instant) {
	for i := range ready {
		r := &ready[i]
		if r.NotBefore > now {
			continue
		}
		a := q.agent(r.Agent)
		if a.spilled && !r.Before(a.floor) { // the store has earlier ones, which it must not overtake
			continue
		}
		if a.ready.insert(r) && a.ready.len() > 2*q.limit {
			a.spill(q.limit)
		}
	}
}

// spill keeps the first attempts in order and leaves the others to the store.
func (a *agentQueue) spill(keep int) {
	a.ready.cut(keep)
	a.spilled, a.floor = true, *a.ready.at(keep - 1)
}

// refill reads the head of an agent's queue from the store when memory holds none of it. Rows of started attempts stay
// in the store until a flush of their tasks is committed, and rows of attempts that push left to the store are missing
// until then; complete is false while there is something to flush.
func (q *queue) refill(s Store, a *agentQueue, complete bool) error {
	if a.ready.len() > 0 || !a.spilled {
		return nil
	}
	rows, err := s.Ready(a.name, q.limit)
	if err != nil {
		return err
	}
	a.spilled, a.floor = len(rows) >= q.limit || !complete, events.Ready{}
	if len(rows) > 0 {
		a.floor = rows[len(rows)-1]
	}
	for i := range rows {
		a.ready.insert(&rows[i])
	}
	return nil
}

// round returns the agents in the order of their names, starting after the agent that came first last time. The list is
// valid until the next round, even if agents are added in between.
func (q *queue) round() []*agentQueue {
	if len(q.agents) == 0 {
		return nil
	}
	at, found := q.find(q.turn)
	if found {
		at++
	}
	at %= len(q.agents)
	q.turn = q.agents[at].name
	q.order = append(append(q.order[:0], q.agents[at:]...), q.agents[:at]...)
	return q.order
}

// take removes up to n attempts from the head of an agent's queue. They are valid until the next call.
func (q *queue) take(a *agentQueue, n int) []events.Ready {
	q.taken = q.taken[:0]
	for len(q.taken) < n && a.ready.len() > 0 {
		q.taken = append(q.taken, a.ready.pop())
	}
	return q.taken
}
