package supervisor

import (
	"container/heap"
	"math"

	"github.com/sagalog/sagalog/events"
)

// lane holds the attempts that wait for one operation of an agent, to do or to undo. Each has a lane, because the instances may
// offer only some of them. Attempts of equal priority whose tasks have different keys (events.Ready.FairBy) take turns, so each key
// has a head; without keys there is one.
type lane struct {
	call events.Call
	// missing is when attempts began to wait for an operation that no instance offers; zero if none waits for that.
	missing events.Instant
	// behind is when attempts began to wait because the brokers take no requests for the operation; zero if none waits for that.
	behind events.Instant

	// heads are those with attempts in memory, as a heap: the one that starts next comes first.
	heads headHeap
	// plain is the head of the attempts without a key, and keyed are the others; they leave when nothing of theirs waits.
	plain *head
	keyed map[string]*head
	ring  *ring

	// dry are the heads whose attempts are all in the store. The first tried of them have been read since they ran dry, and the store held
	// nothing that may start. spare is scratch space of refill.
	dry, spare []*head
	tried      int
	// more says that the store may hold attempts of keys that are not in keyed. They are listed when no more than listAt are left.
	more   bool
	listAt int
	// listed is the last key that was listed; empty if the next list begins with the first.
	listed string
}

const (
	// maxKeys bounds the keys that take turns in a lane. Further keys wait until others leave.
	maxKeys = 10_000
	// leastShare is how many attempts of a key memory holds at least, so that a round rarely has to read a key twice.
	leastShare = 8
	// retriedKeys is how many keys of which the store held nothing that may start are read again in a round.
	retriedKeys = 64
)

// head holds the attempts of a lane that have one key: the first in memory, the rest in the store.
type head struct {
	fairBy string
	ready  readyList
	// spilled says that the store holds rows that the list does not; none of them sorts before floor.
	spilled bool
	floor   events.Ready
	turn    *turn
	// place is the index in lane.heads plus one; zero if it is not there. dry says that it is in lane.dry.
	place int
	dry   bool
}

// ring holds whose turn it is, in the lanes of an agent that share its room.
type ring struct {
	lanes []*lane
	// last is the number that was given last.
	last uint64
	// waiting holds the keys of which attempts wait.
	waiting map[string]*turn
	plain   *turn
}

// turn is the turn of a key. The lowest number goes next, and a key gets a new one when it begins to wait and when one of its attempts
// starts: so each key waits for at most one start of each of the others.
type turn struct {
	number uint64
	heads  int
}

func newLane(c events.Call, t *ring) *lane {
	a := &lane{call: c, ring: t, plain: &head{turn: t.plain}}
	t.lanes = append(t.lanes, a)
	return a
}

func (a *lane) empty() bool { return len(a.heads) == 0 }

// first returns the attempt that starts next. The lane must not be empty.
func (a *lane) first() *events.Ready { return a.heads[0].ready.at(0) }

// pop removes the attempt that starts next.
func (a *lane) pop() events.Ready {
	h := a.heads[0]
	r := h.ready.pop()
	a.fix(h)
	return r
}

// count returns how many attempts memory holds, and whether the store may hold more.
func (a *lane) count() (n int, more bool) {
	n, more = a.plain.ready.len(), a.more || a.plain.spilled
	for _, h := range a.keyed {
		n, more = n+h.ready.len(), more || h.spilled
	}
	return n, more
}

// head returns the head of a key, nil if too many keys wait: then its attempts stay in the store. While the store may hold attempts of
// other keys, those of a new key are read from there, so that none is left behind or overtaken.
func (a *lane) head(fairBy string) *head {
	if fairBy == "" {
		return a.plain
	}
	h := a.keyed[fairBy]
	switch {
	case h != nil:
		return h
	case len(a.keyed) >= maxKeys && !a.makeRoom():
		if !a.more {
			a.more, a.listAt = true, maxKeys/2
		}
		return nil
	case a.keyed == nil:
		a.keyed = map[string]*head{}
	}
	h = &head{fairBy: fairBy, turn: a.ring.join(fairBy)}
	if a.more {
		h.spilled, h.floor = true, beforeAll
	}
	a.keyed[fairBy] = h
	return h
}

// beforeAll is a floor that no attempt goes before.
var beforeAll = events.Ready{Operation: events.Undo, Priority: math.MaxInt}

// makeRoom forgets a key of which the store held nothing that may start, and says whether there was one. An owner that always has something to
// write never knows that nothing of it waits, so the key is listed again.
func (a *lane) makeRoom() bool {
	for i := a.tried - 1; i >= max(0, a.tried-retriedKeys); i-- {
		h := a.dry[i]
		if h == a.plain || h.ready.len() > 0 {
			continue
		}
		last := len(a.dry) - 1
		a.dry[i], a.dry[a.tried-1], a.dry[last] = a.dry[a.tried-1], a.dry[last], nil
		a.dry = a.dry[:last]
		a.tried--
		delete(a.keyed, h.fairBy)
		a.ring.leave(h.fairBy)
		if !a.more {
			a.more, a.listAt = true, maxKeys/2
		}
		return true
	}
	return false
}

// busy is how many keys may have attempts that can start.
func (a *lane) busy() int { return max(len(a.keyed)-a.tried, 0) }

// share is how many attempts of each key memory holds if limit is that of the lane.
func (a *lane) share(limit int) int {
	if a.busy() == 0 {
		return limit
	}
	return max(limit/(a.busy()+1), min(leastShare, limit))
}

// fix gives a head its place after its attempts or its turn have changed. Without attempts it runs dry, or leaves.
func (a *lane) fix(h *head) {
	n := h.ready.len()
	switch {
	case n > 0 && h.place == 0:
		heap.Push(&a.heads, h)
	case n > 0 && len(a.heads) > 1:
		heap.Fix(&a.heads, h.place-1)
	case n == 0 && h.place != 0:
		heap.Remove(&a.heads, h.place-1)
	}
	switch {
	case n > 0 || h.dry:
	case h.spilled:
		h.dry = true
		a.dry = append(a.dry, h)
	case h != a.plain:
		delete(a.keyed, h.fairBy)
		a.ring.leave(h.fairBy)
	}
}

// list adds keys whose attempts are in the store, from where it ended the last time. complete says that the store lacks none.
func (a *lane) list(s Store, complete bool) error {
	from := a.listed
	keys, err := s.FairKeys(a.line(from), maxKeys)
	if err != nil {
		return err
	}
	for _, key := range keys {
		_, known := a.keyed[key]
		h := a.head(key)
		if h == nil {
			a.listAt = a.busy() / 2
			return nil
		}
		if a.listed = key; !known {
			h.spilled = true
			a.fix(h)
		}
	}
	if len(keys) < maxKeys { // these were the last
		a.listed = ""
		a.more = from != "" || !complete
	} else {
		a.more = true
	}
	a.listAt = a.busy() / 2
	return nil
}

func (a *lane) line(fairBy string) events.Line {
	return events.Line{Queue: a.call.Queue(), Operation: a.call.Operation, FairBy: fairBy}
}

// spill keeps the first attempts in order and leaves the others to the store.
func (h *head) spill(keep int) {
	h.ready.cut(keep)
	h.spilled, h.floor = true, *h.ready.at(keep - 1)
}

// refill reads a head from the store when memory holds none of it.
func (h *head) refill(s Store, a *lane, limit int, complete bool) error {
	if h.ready.len() > 0 || !h.spilled {
		return nil
	}
	rows, err := s.Ready(a.line(h.fairBy), limit)
	if err != nil {
		return err
	}
	h.spilled, h.floor = len(rows) >= limit || !complete, events.Ready{}
	if len(rows) > 0 {
		h.floor = rows[len(rows)-1]
	}
	for i := range rows {
		h.ready.insert(&rows[i])
	}
	return nil
}

// before says whether a head goes before another one of lanes that share their room.
func (h *head) before(o *head) bool {
	x, y := h.ready.at(0), o.ready.at(0)
	if h.turn == o.turn {
		return x.Before(*y)
	}
	if x.Priority != y.Priority {
		return x.Priority > y.Priority
	}
	return h.turn.number < o.turn.number
}

// restore puts attempts back that were taken and could not start yet.
func (a *lane) restore(ready []events.Ready) {
	for i := range ready {
		if h := a.head(ready[i].FairBy); h != nil {
			h.ready.insert(&ready[i])
			a.fix(h)
		}
	}
}

// join adds a lane in which attempts of a key wait.
func (t *ring) join(fairBy string) *turn {
	x := t.waiting[fairBy]
	if x == nil {
		if t.waiting == nil {
			t.waiting = map[string]*turn{}
		}
		t.last++
		x = &turn{number: t.last}
		t.waiting[fairBy] = x
	}
	x.heads++
	return x
}

func (t *ring) leave(fairBy string) {
	x := t.waiting[fairBy]
	if x.heads--; x.heads == 0 {
		delete(t.waiting, fairBy)
	}
}

// served ends the turn of a key: one of its attempts has started.
func (t *ring) served(fairBy string) {
	if len(t.waiting) == 0 {
		return
	}
	x := t.waiting[fairBy]
	if fairBy == "" {
		x = t.plain
	}
	if x == nil { // nothing of it waits any more
		return
	}
	t.last++
	x.number = t.last
	for _, a := range t.lanes {
		h := a.keyed[fairBy]
		if fairBy == "" {
			h = a.plain
		}
		if h != nil && h.place != 0 {
			heap.Fix(&a.heads, h.place-1)
		}
	}
}

// headHeap is a heap by turns.
type headHeap []*head

func (h headHeap) Len() int           { return len(h) }
func (h headHeap) Less(i, j int) bool { return h[i].before(h[j]) }
func (h headHeap) Swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	h[i].place, h[j].place = i+1, j+1
}

func (h *headHeap) Push(x any) {
	*h = append(*h, x.(*head))
	x.(*head).place = len(*h)
}

func (h *headHeap) Pop() any {
	last := (*h)[len(*h)-1]
	(*h)[len(*h)-1] = nil
	*h = (*h)[:len(*h)-1]
	last.place = 0
	return last
}
