package supervisor

import (
	"slices"
	"strings"

	"github.com/sagalog/sagalog/events"
)

// queue holds the attempts that may start, by agent and operation: the head of each lane in memory, the rest in the store.
// An attempt is checked again before it starts, so a stale entry costs only its place.
type queue struct {
	// lanes are sorted by agent, with the undos of an agent before its dos, since undos free what others wait for. (They are
	// not in a map, whose order is random: the same state and inputs must give the same facts, INV4.)
	lanes []*lane
	limit int
	// turn is the agent that was served first in the last round. The next round starts with the agent after it, so that none
	// starves when batches are full.
	turn string

	// order, taken and rooms are scratch space of round and admit, reused from batch to batch.
	order []*lane
	taken []events.Ready
	rooms map[string]int
}

// lane holds the attempts that wait for one operation of an agent. Do and undo have separate lanes, because the instances may
// offer only one of them.
type lane struct {
	agent string
	op    events.Operation
	ready readyList
	// missing is when attempts began to wait for an operation that no instance offers; zero if none waits for that.
	missing events.Instant
	// behind is when attempts began to wait because the brokers take no requests for the operation; zero if none waits for that.
	behind events.Instant
	// spilled says that the store holds rows that the list does not; none of them sorts before floor.
	spilled bool
	floor   events.Ready
}

// open begins with the queue in the store.
func (q *queue) open(s Store) error {
	q.lanes = nil
	agents, err := s.Queues()
	for _, a := range agents {
		q.lane(a, events.Undo).spilled = true
		q.lane(a, events.Do).spilled = true
	}
	return err
}

func (q *queue) lane(agent string, op events.Operation) *lane {
	at, found := slices.BinarySearchFunc(q.lanes, agent, func(l *lane, agent string) int {
		if l.agent == agent && l.op != op {
			return undoFirst(l.op)
		}
		return strings.Compare(l.agent, agent)
	})
	if !found {
		q.lanes = slices.Insert(q.lanes, at, &lane{agent: agent, op: op})
	}
	return q.lanes[at]
}

// undoFirst compares two operations: undo sorts before do.
func undoFirst(op events.Operation) int {
	if op == events.Undo {
		return -1
	}
	return 1
}

// push queues attempts that may start now. Attempts that do not fit wait in the store, where a later flush writes their
// rows. The store always gets the last in order, so that a task of high priority does not wait behind a full queue.
// Attempts that are due later belong to the timers.
func (q *queue) push(ready []events.Ready, now events.Instant) {
	for i := range ready {
		r := &ready[i]
		if r.NotBefore > now {
			continue
		}
		a := q.lane(r.Agent, r.Operation)
		if a.spilled && !r.Before(a.floor) { // it must not overtake earlier ones in the store
			continue
		}
		if a.ready.insert(r) && a.ready.len() > 2*q.limit {
			a.spill(q.limit)
		}
	}
}

// spill keeps the first attempts in order and leaves the others to the store.
func (a *lane) spill(keep int) {
	a.ready.cut(keep)
	a.spilled, a.floor = true, *a.ready.at(keep - 1)
}

// refill reads the head of a lane from the store when memory holds none of it. Rows of started attempts stay
// in the store until a flush of their tasks is committed, and rows of attempts that push left to the store are missing
// until then; complete is false while there is something to flush.
func (q *queue) refill(s Store, a *lane, complete bool) error {
	if a.ready.len() > 0 || !a.spilled {
		return nil
	}
	rows, err := s.Ready(a.agent, a.op, q.limit)
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

// round returns the lanes in the order of their agents, starting after the agent that came first last time. The list is
// valid until the next round, even if lanes are added in between.
func (q *queue) round() []*lane {
	if len(q.lanes) == 0 {
		return nil
	}
	at, _ := slices.BinarySearchFunc(q.lanes, q.turn, func(l *lane, turn string) int {
		if l.agent <= turn {
			return -1
		}
		return 1
	})
	at %= len(q.lanes)
	q.turn = q.lanes[at].agent
	q.order = append(append(q.order[:0], q.lanes[at:]...), q.lanes[:at]...)
	return q.order
}

// take removes up to n attempts from the head of a lane. They are valid until the next call.
func (q *queue) take(a *lane, n int) []events.Ready {
	q.taken = q.taken[:0]
	for len(q.taken) < n && a.ready.len() > 0 {
		q.taken = append(q.taken, a.ready.pop())
	}
	return q.taken
}

// restore puts attempts back that were taken and could not start yet.
func (a *lane) restore(ready []events.Ready) {
	for i := range ready {
		a.ready.insert(&ready[i])
	}
}
