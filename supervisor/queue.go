package supervisor

import (
	"slices"

	"github.com/sagalog/sagalog/events"
)

// queue holds the attempts that may start, by what they ask of their agents: the head of each lane in memory, the rest in the store.
// An attempt is checked again before it starts, so a stale entry costs only its place.
type queue struct {
	// lanes are sorted by agent, with the undos of an agent before its dos (events.Call.Compare). (They are
	// not in a map, whose order is random: the same state and inputs must give the same facts, INV4.)
	lanes []*lane
	limit int
	// turn is the agent that was served first in the last round. The next round starts with the agent after it, so that none
	// starves when batches are full.
	turn string

	// order, able, taken and rooms are scratch space of round and admit, reused from batch to batch.
	order []*lane
	able  []*lane
	taken []events.Ready
	rooms map[string]int
}

// lane holds the attempts that wait for one operation of an agent, to do or to undo. Each has a lane, because the instances may
// offer only some of them.
type lane struct {
	call  events.Call
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
	names, err := s.Queues()
	for _, name := range names {
		agent, function := events.SplitQueue(name)
		q.lane(events.Call{Agent: agent, Function: function, Operation: events.Undo}).spilled = true
		q.lane(events.Call{Agent: agent, Function: function, Operation: events.Do}).spilled = true
	}
	return err
}

func (q *queue) lane(c events.Call) *lane {
	at, found := slices.BinarySearchFunc(q.lanes, c, func(l *lane, c events.Call) int { return l.call.Compare(c) })
	if !found {
		q.lanes = slices.Insert(q.lanes, at, &lane{call: c})
	}
	return q.lanes[at]
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
		a := q.lane(r.Call())
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
	rows, err := s.Ready(a.call.Queue(), a.call.Operation, q.limit)
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
		if l.call.Agent <= turn {
			return -1
		}
		return 1
	})
	at %= len(q.lanes)
	q.turn = q.lanes[at].call.Agent
	q.order = append(append(q.order[:0], q.lanes[at:]...), q.lanes[:at]...)
	return q.order
}

// same returns how many of the lanes at the front, at least one, are for one agent and for doing steps, or for undoing them. They share
// the agent's room, and the earliest attempt of all of them goes first: see next.
func same(lanes []*lane) int {
	n := 1
	for n < len(lanes) && lanes[n].call.Agent == lanes[0].call.Agent && lanes[n].call.Operation == lanes[0].call.Operation {
		n++
	}
	return n
}

// next returns the lane whose first attempt comes first, nil if all are empty, and the first attempt of the others, nil if they are empty.
func next(lanes []*lane) (first *lane, until *events.Ready) {
	for _, l := range lanes {
		switch {
		case l.ready.len() == 0:
		case first == nil:
			first = l
		case l.ready.at(0).Before(*first.ready.at(0)):
			first, until = l, first.ready.at(0)
		case until == nil || l.ready.at(0).Before(*until):
			until = l.ready.at(0)
		}
	}
	return first, until
}

// take removes up to n attempts from the head of a lane, and at least one, up to the attempt until if that is not nil. They are valid until the next call.
func (q *queue) take(a *lane, n int, until *events.Ready) []events.Ready {
	q.taken = q.taken[:0]
	for len(q.taken) < n && a.ready.len() > 0 {
		if until != nil && len(q.taken) > 0 && until.Before(*a.ready.at(0)) {
			break
		}
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
