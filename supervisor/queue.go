package supervisor

import (
	"slices"
	"strings"

	"github.com/sagalog/sagalog/events"
)

// queue holds the attempts that may start, by agent: the head of each agent's queue in memory, the rest in the store.
// What stands in it is checked again before it starts, so a stale entry costs only its place.
type queue struct {
	// agents are in the order of their names. (Not in that of a map: the same state and inputs must give the same facts,
	// INV4.)
	agents []*agentQueue
	limit  int
	// turn is the agent that was served first last time: the next one begins, so that none starves where batches fill.
	turn string

	// order, taken and rooms are what round and admit work with, kept from batch to batch.
	order []*agentQueue
	taken []events.Ready
	rooms map[string]int
}

type agentQueue struct {
	name  string
	ready readyList
	// spilled says that the store holds rows that the list does not: those that do not come before floor.
	spilled bool
	floor   events.Ready
}

// open begins with what the store holds.
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

// push queues attempts that may start now. What does not fit waits in the store, where a later flush writes its row:
// always the last in order, so that a task of high priority does not wait behind a full queue of others. Attempts of a
// later time are the timers' business.
func (q *queue) push(ready []events.Ready, now events.Instant) {
	for i := range ready {
		r := &ready[i]
		if r.NotBefore > now {
			continue
		}
		a := q.agent(r.Agent)
		if a.spilled && !r.Before(a.floor) { // the store has older ones: it must not overtake them
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

// refill reads the head of an agent's queue from the store when memory holds none of it. Rows of attempts that have
// started since stay in the store until a flush of their tasks is committed, and rows that push left to it are missing
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

// round returns the agents in the order of their names, beginning behind the one that began last time. The list is good
// until the next round, also if agents are added meanwhile.
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

// take removes up to n attempts from the head of an agent's queue. They are good until the next call.
func (q *queue) take(a *agentQueue, n int) []events.Ready {
	q.taken = q.taken[:0]
	for len(q.taken) < n && a.ready.len() > 0 {
		q.taken = append(q.taken, a.ready.pop())
	}
	return q.taken
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
	q := &o.queue
	q.limit = o.cfg.Queue
	if q.rooms == nil {
		q.rooms = map[string]int{}
	}
	for _, a := range q.round() {
		// Once: until the batches in flight are committed, the store would give the same rows again.
		if err := q.refill(o.store, a, len(o.pipe.flying) == 0 && len(b.facts) == 0 && !o.flush.owed); err != nil {
			o.stop(err)
			return false
		}
		for a.ready.len() > 0 && !o.full(b) {
			room := o.room(a.name)
			if room <= 0 {
				break
			}
			ready := q.take(a, min(room, o.cfg.BatchFacts-len(b.facts)))
			clear(q.rooms)
			q.rooms[a.name] = room
			for _, r := range o.sched.Admit(ready, q.rooms, o.stamp()) {
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
