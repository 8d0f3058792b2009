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

// open begins with the queue in the store.
func (q *queue) open(s Store) error {
	q.lanes = nil
	names, err := s.Queues()
	for _, name := range names {
		agent, function := events.SplitQueue(name)
		for _, op := range []events.Operation{events.Undo, events.Do} {
			a := q.lane(events.Call{Agent: agent, Function: function, Operation: op})
			a.plain.spilled = true
			a.fix(a.plain)
			if err := a.list(s, true); err != nil {
				return err
			}
		}
	}
	return err
}

func (q *queue) lane(c events.Call) *lane {
	at, found := slices.BinarySearchFunc(q.lanes, c, func(l *lane, c events.Call) int { return l.call.Compare(c) })
	if !found {
		q.lanes = slices.Insert(q.lanes, at, newLane(c, q.ringOf(c, at)))
	}
	return q.lanes[at]
}

// ringOf returns the ring of the lanes that share the room of a new lane's agent: its neighbors.
func (q *queue) ringOf(c events.Call, at int) *ring {
	for _, i := range []int{at - 1, at} {
		if i >= 0 && i < len(q.lanes) && q.lanes[i].call.Agent == c.Agent && q.lanes[i].call.Operation == c.Operation {
			return q.lanes[i].ring
		}
	}
	return &ring{plain: &turn{}}
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
		h := a.head(r.FairBy)
		switch {
		case h == nil:
			continue
		case h.spilled && !r.Before(h.floor): // it must not overtake earlier ones in the store
			if h.ready.len() == 0 {
				a.fix(h)
			}
			continue
		}
		if share := a.share(q.limit); h.ready.insert(r) && h.ready.len() > 2*share {
			h.spill(share)
		}
		a.fix(h)
	}
}

// refill reads from the store the first attempts of the keys of which memory holds none. Rows of started attempts stay
// in the store until a flush of their tasks is committed, and rows of attempts that push left to the store are missing
// until then; complete is false while there is something to flush.
func (q *queue) refill(s Store, a *lane, complete bool) error {
	if a.more && a.busy() <= a.listAt {
		if err := a.list(s, complete); err != nil {
			return err
		}
	}
	if len(a.dry) == 0 {
		return nil
	}
	dry, tried := a.dry, a.tried
	now := min(tried, retriedKeys)
	a.dry = append(a.spare[:0], dry[now:tried]...)
	a.spare = dry[:0]
	for i, h := range dry {
		if i >= now && i < tried {
			continue
		}
		h.dry = false
		if err := h.refill(s, a, a.share(q.limit), complete); err != nil {
			return err
		}
		a.fix(h)
	}
	a.tried = len(a.dry)
	clear(dry)
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
		case l.empty():
		case first == nil:
			first = l
		case l.heads[0].before(first.heads[0]):
			first, until = l, first.first()
		case until == nil || l.first().Before(*until):
			until = l.first()
		}
	}
	return first, until
}

// take removes up to n attempts from the head of a lane, and at least one, up to the attempt until if that is not nil. If keys take turns
// it is one. They are valid until the next call.
func (q *queue) take(a *lane, n int, until *events.Ready) []events.Ready {
	q.taken = q.taken[:0]
	for len(q.taken) < n && !a.empty() {
		if len(q.taken) > 0 && (len(a.ring.waiting) > 0 || until != nil && until.Before(*a.first())) {
			break
		}
		q.taken = append(q.taken, a.pop())
	}
	return q.taken
}
