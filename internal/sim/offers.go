package sim

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/sagalog/sagalog/events"
	"github.com/sagalog/sagalog/scheduler"
	"github.com/sagalog/sagalog/supervisor"
)

// everyAgent lists the agents of the workflows.
var everyAgent = []string{"alpha", "beta", "gamma"}

// functions lists the operations with a name, by agent.
var functions = map[string][]string{"beta": {"hold", "take"}}

// instances is how many instances each agent has. They share the partitions of its work topic.
const instances = 2

// offers holds what the instances of the agents offer now, and delivers it to the owners. A node hears of a change late, or not at
// all while it is down or paused. Each slot keeps what it last heard of.
type offers struct {
	w *World
	// gone counts the absences of each operation.
	gone map[events.Call]int
	// lacking counts the same for an instance that lacks an operation which the others offer, as while a new version of an agent is deployed.
	lacking map[lack]int
	// paused holds the agents that an operator paused.
	paused map[string]bool
	// changes counts the changes, so that a late message does not replace a newer one.
	changes int
}

type lack struct {
	instance int
	call     events.Call
}

func newOffers(w *World) *offers {
	return &offers{w: w, gone: map[events.Call]int{}, lacking: map[lack]int{}, paused: map[string]bool{}}
}

// leave takes away the instances that do or undo an operation of an agent, or both, for a while. Of an agent whose operations have names,
// it is one of them, or all.
func (o *offers) leave() {
	agent := o.w.agents.any()
	ops := [][]events.Operation{{events.Do, events.Undo}, {events.Do, events.Undo}, {events.Do}, {events.Undo}}[o.w.rng.IntN(4)]
	names := append([]string{""}, functions[agent]...)
	if n := len(names); n > 1 && o.w.rng.IntN(2) == 0 {
		names = names[o.w.rng.IntN(n):][:1]
	}
	var calls []events.Call
	for _, name := range names {
		for _, op := range ops {
			calls = append(calls, events.Call{Agent: agent, Function: name, Operation: op})
		}
	}
	if o.w.rng.IntN(3) == 0 {
		o.leaveOne(calls)
		return
	}
	o.w.note("nobody offers the %v any more", calls)
	for _, c := range calls {
		o.gone[c]++
	}
	o.publish()
	o.w.after(500+o.w.rng.IntN(60_000), func() {
		for _, c := range calls {
			o.gone[c] = max(0, o.gone[c]-1)
		}
		o.w.note("the %v is offered again", calls)
		o.publish()
	})
}

// leaveOne makes one instance lack operations for a while. It reports requests for them as not made.
func (o *offers) leaveOne(calls []events.Call) {
	instance := o.w.rng.IntN(instances)
	o.w.note("instance %d does not offer the %v any more", instance, calls)
	for _, c := range calls {
		o.lacking[lack{instance, c}]++
	}
	o.publish()
	o.w.after(500+o.w.rng.IntN(60_000), func() {
		for _, c := range calls {
			o.lacking[lack{instance, c}] = max(0, o.lacking[lack{instance, c}]-1)
		}
		o.w.note("instance %d offers the %v again", instance, calls)
		o.publish()
	})
}

// pause makes an operator pause an agent for a while.
func (o *offers) pause() {
	agent := o.w.agents.any()
	if o.paused[agent] {
		return
	}
	o.w.note("agent %s is paused", agent)
	o.paused[agent] = true
	o.publish()
	o.w.after(500+o.w.rng.IntN(60_000), func() {
		o.w.note("agent %s is resumed", agent)
		delete(o.paused, agent)
		o.publish()
	})
}

// away keeps some agents away for hours after all other faults have ended. Their requests wait for them.
func (w *World) away() {
	hours := w.opt.Faults.Away
	if w.violation != "" || hours == 0 {
		return
	}
	back := w.now.Add(time.Duration(hours * float64(time.Hour)))
	for _, i := range w.rng.Perm(len(everyAgent))[:1+w.rng.IntN(len(everyAgent))] {
		agent := everyAgent[i]
		w.absent[agent] = w.now
		w.note("agent %s leaves for %v hours", agent, hours)
		w.agents.down[agent] = back
	}
	w.offers.publish()
	w.loop(back, func() bool { return false })
	w.now = max(w.now, back)
	for _, p := range w.parts {
		p.state.Loaded(func(t *events.Task) bool {
			if t.Starts() {
				w.saw(sawWaitedHours)
			}
			return true
		})
	}
	w.note("all agents are back")
	clear(w.absent)
	w.agents.heal()
	w.offers.heal()
}

// startsAt checks that no attempt starts at an agent that has been away for a minute, whatever the owners have heard.
func (o *offers) startsAt(agent string) {
	w := o.w
	if left, absent := w.absent[agent]; absent && w.now.Sub(left) > time.Minute {
		w.fail("an attempt starts at agent %s, which left %s ago", agent, w.now.Sub(left))
	}
}

// heal brings all instances back.
func (o *offers) heal() {
	clear(o.gone)
	clear(o.lacking)
	clear(o.paused)
	o.publish()
}

// publish sends what is offered now to all nodes, each with its own delay.
func (o *offers) publish() {
	o.changes++
	for _, n := range o.w.nodes {
		o.publishTo(n)
	}
}

func (o *offers) publishTo(n *node) {
	now, life, nth := o.now(), n.life, o.changes
	o.w.after(1+o.w.lag(), func() {
		n.receive(life, func() {
			if nth < n.heard {
				return
			}
			n.heard = nth
			for _, s := range n.slots {
				s.offered(now)
				s.execute()
			}
		})
	})
}

func (o *offers) now() map[string]supervisor.Offer {
	list := map[string]supervisor.Offer{}
	for _, agent := range everyAgent {
		x := supervisor.Offer{Window: o.w.cfg.Window}
		for i := range instances {
			t := supervisor.Target{Instance: fmt.Sprintf("agent-%d", i), Partitions: []int32{int32(i), int32(i + instances)}, Capacity: 64}
			own := o.directions(i, agent, "")
			t.Do, t.Undo = own.Do, own.Undo
			x.Do, x.Undo = x.Do || own.Do, x.Undo || own.Undo
			for _, name := range functions[agent] {
				if x.Functions == nil {
					x.Functions = map[string]supervisor.Directions{}
				}
				if t.Functions == nil {
					t.Functions = map[string]supervisor.Directions{}
				}
				t.Functions[name] = o.directions(i, agent, name)
				x.Functions[name] = x.Functions[name].Or(t.Functions[name])
			}
			x.Targets = append(x.Targets, t)
		}
		if o.w.rng.IntN(3) == 0 { // some instance does not publish what it reads
			x.Targets = nil
		}
		x.Paused = o.paused[agent]
		if x.Do || x.Undo || len(x.Functions) > 0 || o.w.rng.IntN(2) == 0 || x.Paused {
			list[agent] = x
		}
	}
	return list
}

// directions says what an instance offers of an operation.
func (o *offers) directions(instance int, agent, function string) supervisor.Directions {
	_, absent := o.w.absent[agent]
	has := func(op events.Operation) bool {
		c := events.Call{Agent: agent, Function: function, Operation: op}
		return o.gone[c] == 0 && !absent && o.lacking[lack{instance, c}] == 0
	}
	return supervisor.Directions{Do: has(events.Do), Undo: has(events.Undo)}
}

// offered sets what the owner knows.
func (s *slot) offered(now map[string]supervisor.Offer) {
	s.offersBefore, s.offersAt = s.offers, s.node.w.now
	s.offers = now
	s.owner.SetOffers(s.now(), now)
}

// offered says whether an agent is known to offer an operation.
func offered(o supervisor.Offer, c events.Call) bool {
	d := supervisor.Directions{Do: o.Do, Undo: o.Undo}
	if c.Function != "" {
		d = o.Functions[c.Function]
	}
	return c.Operation == events.Do && d.Do || c.Operation == events.Undo && d.Undo
}

// callOf returns what an attempt of a step asks of which agent.
func callOf(s *scheduler.Step, op events.Operation) events.Call {
	if op == events.Undo {
		return events.Call{Agent: s.Undo.Agent, Function: s.Undo.Operation, Operation: op}
	}
	return events.Call{Agent: s.Agent, Function: s.Operation, Operation: op}
}

// offersHold is how long a request may be under way from the owner that chose its partition to the client that sends it.
const offersHold = 50 * time.Millisecond

// goesTo checks that a request goes to an instance that offers its operation, if the owner knows one, or knew one when it chose.
func (s *slot) goesTo(w *events.Work, partition int32) {
	right, knows := reads(s.offers, w, partition)
	if !right && knows && s.node.w.now.Sub(s.offersAt) <= offersHold {
		right, knows = reads(s.offersBefore, w, partition)
	}
	if knows && !right {
		s.node.w.fail("%s/%d asks for the %s in partition %d, which no instance reads that offers it", s.node.name, s.part.id, w.Call(), partition)
	}
}

// reads says whether an instance that offers the operation of a request reads a partition, and whether any is known.
func reads(offers map[string]supervisor.Offer, w *events.Work, partition int32) (right, knows bool) {
	for _, t := range offers[w.Agent].Targets {
		if offered(supervisor.Offer{Do: t.Do, Undo: t.Undo, Functions: t.Functions}, w.Call()) {
			right, knows = right || slices.Contains(t.Partitions, partition), true
		}
	}
	return right, knows
}

// startsNothingMissing checks that an owner starts no attempt of an operation if it knows that no instance offers it, and that it
// forgives a timeout only in that case or if no broker has acknowledged the request.
func (s *slot) startsNothingMissing(generation uint64, records []events.Record) {
	w := s.node.w
	for i := range records {
		f, err := events.DecodeFact(&records[i])
		if err != nil {
			continue // the judge reports it when the record lands
		}
		var c events.Call
		starts := true
		switch b := f.Body.(type) {
		case *events.StepStarted:
			c = b.Call()
		case *events.CompensationStarted:
			c = b.Call()
		case *events.Timeout:
			g := s.part.sagas.byTask[f.Task]
			if !b.Verdict.Uncounted || g == nil || g.steps[b.Step] == nil {
				continue // a deposed owner may know a task that is gone
			}
			if strings.Contains(b.Verdict.Reason, supervisor.UnsentReason) {
				if w.saw(sawUnsent); s.taken[taken{s.node.life, generation, s.part.ticket(f.Task), Attempt{f.Task, b.Step, b.Operation, b.Attempt}}] {
					w.fail("%s/%d forgives a timeout of %s.%s, whose request was acknowledged", s.node.name, s.part.id, f.Task, b.Step)
				}
				continue
			}
			c, starts = callOf(g.steps[b.Step].def, b.Operation), false
		default:
			continue
		}
		if c.Agent == "" {
			continue // another task does it
		}
		o := s.offers[c.Agent]
		there := offered(o, c)
		switch {
		case starts && o.Paused:
			w.fail("%s/%d starts the %s, which is paused", s.node.name, s.part.id, c)
		case starts && !there:
			w.fail("%s/%d starts the %s, which nobody offers", s.node.name, s.part.id, c)
		case !starts && there:
			w.fail("%s/%d forgives a timeout of the %s, which is there", s.node.name, s.part.id, c)
		}
	}
	for _, m := range s.owner.Status().Missing {
		w.saw(sawMissing)
		for _, name := range functions[m.Agent] {
			other := events.Call{Agent: m.Agent, Function: name, Operation: m.Operation}
			if m.Function != "" && other != m.Call() && offered(s.offers[m.Agent], other) {
				w.saw(sawOneMissing)
			}
		}
	}
	for _, q := range s.owner.Status().Queues {
		if s.offers[q.Agent].Paused {
			w.saw(sawPausedAgent)
		}
	}
}
