package supervisor

import (
	"time"

	"github.com/sagalog/sagalog/events"
)

// dispatch decides how many attempts run, which start next, and where their requests go.
type dispatch struct {
	*core
	queue queue
	// running counts the running attempts of each agent in this partition.
	running map[string]int
	// offers holds what the instances of each agent offer; an agent that is not in it has no instance. It is nil until
	// SetOffers is called for the first time, and until then, work may be sent to any agent.
	offers map[string]Offer
	// known are the operations that were offered at some time since this owner was created: only these can have left.
	known   map[events.Call]bool
	routing routing
	// nodeHash is the hash of the node's name.
	nodeHash uint32
	// endedAt is when an attempt of this partition last ended.
	endedAt events.Instant
	// counted is the latest result of waiting, computed at countedAt.
	counted   []Queue
	countedAt events.Instant
}

func (d *dispatch) reset() {
	d.queue, d.running = queue{limit: d.cfg.Queue}, map[string]int{}
	d.counted, d.countedAt, d.endedAt = nil, 0, 0
	d.routing.forget()
}

// fold counts the attempts that run.
func (d *dispatch) fold(t *events.Task, f *events.Fact) {
	switch x := changeOf(t, f); x.what {
	case began:
		d.running[x.agent]++
	case ended:
		d.running[x.agent]--
		if d.batch != nil { // replayed attempts ended long ago
			d.endedAt = d.now
		}
		d.routing.ended(x.attempt)
	case unchanged:
	}
}

// open counts the running attempts of the partition, and begins with the queue in the store.
func (d *dispatch) open() error {
	d.running = map[string]int{}
	err := d.store.Live(func(id string) error {
		t, err := d.state.Task(id)
		if err != nil || t == nil {
			return err
		}
		t.RunningBy(d.running, 1)
		d.evict() // in a backlog with deadlines, all tasks are live, and they may not fit in memory
		return nil
	})
	if err != nil {
		return err
	}
	return d.queue.open(d.store)
}

// room returns how many attempts of an agent's operation may start now: none if no instance offers it or the agent is paused.
func (d *dispatch) room(c events.Call) int {
	if c.Agent == "" { // children: the batch is their bound
		return d.cfg.BatchFacts
	}
	window := d.cfg.Window
	if d.offers != nil {
		o := d.offers[c.Agent]
		if o.Paused || !o.Has(c) {
			return 0
		}
		window = o.Window
	}
	return max(window, 1) - d.running[c.Agent]
}

// maxKnown bounds the operations that are remembered: anyone may write heartbeats.
const maxKnown = 10_000

// setOffers takes over what the agents offer now.
func (d *dispatch) setOffers(offers map[string]Offer) {
	d.offers = offers
	d.routing.set(offers)
	if d.known == nil {
		d.known = map[events.Call]bool{}
	}
	for agent, o := range offers {
		d.know(agent, "", Directions{o.Do, o.Undo})
		for name, x := range o.Functions {
			d.know(agent, name, x)
		}
	}
}

func (d *dispatch) know(agent, function string, x Directions) {
	for _, op := range []events.Operation{events.Do, events.Undo} {
		if x.has(op) && len(d.known) < maxKnown {
			d.known[events.Call{Agent: agent, Function: function, Operation: op}] = true
		}
	}
}

// hasLeft says whether an operation of an agent was offered and is not offered any more. An agent that this owner has not
// heard of yet, as right after a start, has not left.
func (d *dispatch) hasLeft(c events.Call) bool {
	return d.isMissing(c) && d.known[c]
}

// isMissing says whether no instance offers the operation of an agent.
func (d *dispatch) isMissing(c events.Call) bool {
	return c.Agent != "" && d.offers != nil && !d.offers[c.Agent].Has(c)
}

// missing returns the operations whose attempts wait because no instance offers them, or because no broker takes their requests.
func (d *dispatch) missing() (list []events.Missing) {
	for _, l := range d.queue.lanes {
		if l.missing != 0 {
			list = append(list, events.Missing{Agent: l.call.Agent, Function: l.call.Function, Operation: l.call.Operation, Since: l.missing})
		} else if l.behind != 0 {
			list = append(list, events.Missing{Agent: l.call.Agent, Function: l.call.Function, Operation: l.call.Operation, Since: l.behind, Behind: true})
		}
	}
	return list
}

// waiting returns the queues, as of the last second. An owner reports after each batch, and the queues serve as metrics only.
func (d *dispatch) waiting() []Queue {
	if d.now.Sub(d.countedAt) < time.Second {
		return d.counted
	}
	d.counted, d.countedAt = nil, d.now
	for _, l := range d.queue.lanes {
		if n, more := l.count(); n > 0 && l.call.Agent != "" {
			d.counted = append(d.counted, Queue{l.call, l.missing != 0, l.behind != 0, n, more})
		}
	}
	return d.counted
}

// await notes whether attempts of a lane wait for an operation that no instance offers, although the agent is not paused. It drops
// attempts whose tasks have ended or were parked: nothing else removes them from a lane where nothing starts, and they would count as
// waiting forever.
func (d *dispatch) await(a *lane) error {
	paused := d.offers[a.call.Agent].Paused
	for !a.empty() && (paused || d.isMissing(a.call)) {
		if waits, err := d.planner.waits(*a.first()); err != nil {
			return err
		} else if waits {
			if paused {
				a.missing = 0
			} else if a.missing == 0 {
				a.missing = d.stamp()
			}
			return nil
		}
		a.pop()
	}
	a.missing = 0
	return nil
}

// admit starts attempts from the queues as the windows allow.
func (d *dispatch) admit() error {
	q := &d.queue
	if q.rooms == nil {
		q.rooms = map[string]int{}
	}
	for lanes := q.round(); len(lanes) > 0; {
		n := same(lanes)
		if err := d.admitFrom(lanes[:n]); err != nil {
			return err
		}
		lanes = lanes[n:]
	}
	return nil
}

// admitFrom starts attempts from lanes that share the room of their agent: see same.
func (d *dispatch) admitFrom(lanes []*lane) error {
	q := &d.queue
	able := q.able[:0]
	for _, a := range lanes {
		// Refill once only: until the batches in flight are committed, the store returns the same rows again.
		complete := len(d.flying) == 0 && len(d.batch.facts) == 0 && !d.unwritten
		if err := q.refill(d.store, a, complete); err != nil {
			return err
		}
		if err := d.await(a); err != nil {
			return err
		}
		if !d.behind(a) && d.room(a.call) > 0 {
			able = append(able, a)
		}
	}
	q.able = able
	for !d.full() {
		a, until := next(able)
		if a == nil {
			return nil
		}
		room := d.room(a.call)
		if room <= 0 {
			return nil
		}
		ready := q.take(a, min(room, d.cfg.BatchFacts-len(d.batch.facts)), until)
		clear(q.rooms)
		q.rooms[a.call.Agent] = room
		ready = d.sched.Admit(ready, q.rooms, d.stamp())
		for i, r := range ready {
			if d.full() { // by bytes or by cost, which is known only after a start
				a.restore(ready[i:])
				break
			}
			if err := d.begin(a, r); err != nil {
				return err
			}
		}
	}
	return nil
}

// begin starts an attempt, if it may start still, and then the turn of its key is over.
func (d *dispatch) begin(a *lane, r events.Ready) error {
	running := d.running[r.Agent]
	err := blaming(r.Task, func() error { return d.planner.start(r) })
	if d.running[r.Agent] > running {
		a.ring.served(r.FairBy)
	}
	return err
}

// route chooses the partition of a work request. An attempt that already has its outcome is not counted, because
// nothing would ever take it off the count.
func (d *dispatch) route(t *events.Task, w *events.Work) int32 {
	if len(d.routing.agents) == 0 || !t.Running(w.Step, w.Operation, w.Attempt) {
		return d.cfg.Partition
	}
	return d.routing.partition(w.Call(), attempt{w.Task, w.Step, w.Operation, w.Attempt}, d.place())
}

func (d *dispatch) place() place { return place{d.cfg.Partition, d.cfg.Partitions, d.nodeHash} }

// lingers lists how long a partition waits for more inputs before it decides, by the number of its running attempts. An
// attempt only waits for others that run at the same time: the more there are, the longer the wait, and the more it
// saves. A task that runs alone is not delayed. Each linger is a multiple of the shorter ones, so that the beats of
// partitions coincide.
var lingers = []struct {
	running int
	beat    time.Duration
}{{64, 8 * time.Millisecond}, {24, 4 * time.Millisecond}, {8, 2 * time.Millisecond}, {4, time.Millisecond}}

// linger returns the beat length that suits the number of running attempts. A request to a broker costs about
// the same whatever it carries, and so does everything that follows from it, including at the agents: eight partitions that each
// decide about each report separately spend more on requests than on the work.
func (d *dispatch) linger() time.Duration {
	n := 0
	for _, running := range d.running {
		n += running
	}
	for _, l := range lingers {
		if n >= l.running {
			return l.beat
		}
	}
	return 0
}

const (
	// workingFor is how long after an attempt ended agents count as working.
	workingFor = 100 * time.Millisecond
	// besideUnit is the length of beat at which a batch takes Config.Beside submissions; shorter beats take
	// proportionally fewer.
	besideUnit = 64 * time.Millisecond
	// besideFacts is how many facts of the tasks under way allow one more submission. An accepted submission leads to at least
	// three facts, so new tasks always replace those that end.
	besideFacts = 2
)

// working says whether attempts have ended lately. If so, agents are working, and next steps depend on the owner.
func (d *dispatch) working() bool { return d.endedAt != 0 && d.now.Sub(d.endedAt) <= workingFor }

// beside returns how many yielding inputs a batch takes while work is under way, whatever else the batch holds. A step needs two
// batches of its owner, and waits for everything else in them: a burst of submissions that fills the batches would slow down the
// very tasks that must end to make room. Yet submissions must reach the queues, because their
// priority counts only there.
func (d *dispatch) beside() int {
	beat := d.linger()
	if beat == 0 {
		return d.cfg.Beside
	}
	return max(1, int(time.Duration(d.cfg.Beside)*beat/besideUnit))
}

// most returns how many inputs of a kind may lead to facts in the current batch.
func (d *dispatch) most(k *inputKind) int {
	if !k.yields || !d.working() {
		return d.cfg.BatchFacts
	}
	return d.beside() + (len(d.batch.facts)-d.batch.yielding)/besideFacts
}

// yielding returns how many yielding inputs are waiting. Those that are held back do not count.
func (d *dispatch) yielding() int {
	if d.working() {
		return d.beside()
	}
	return maxInputs
}

// maxInputs is more than an input queue can hold.
const maxInputs = 1 << 30
