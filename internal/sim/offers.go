package sim

import (
	"fmt"
	"strings"
	"time"

	"github.com/sagalog/sagalog/events"
	"github.com/sagalog/sagalog/supervisor"
)

// everyAgent lists the agents of the workflows.
var everyAgent = []string{"alpha", "beta", "gamma"}

// instances is how many instances each agent has. They share the partitions of its work topic.
const instances = 2

// offers holds what the instances of the agents offer now, and delivers it to the owners. A node hears of a change late, or not at
// all while it is down or paused. Each slot keeps what it last heard of.
type offers struct {
	w *World
	// gone counts the absences of each operation of each agent.
	gone map[string]map[events.Operation]int
	// paused holds the agents that an operator paused.
	paused map[string]bool
	// changes counts the changes, so that a late message does not replace a newer one.
	changes int
}

func newOffers(w *World) *offers {
	o := &offers{w: w, gone: map[string]map[events.Operation]int{}, paused: map[string]bool{}}
	for _, agent := range everyAgent {
		o.gone[agent] = map[events.Operation]int{}
	}
	return o
}

// leave takes away the instances that offer an operation of an agent, or both operations, for a while.
func (o *offers) leave() {
	agent := o.w.agents.any()
	ops := [][]events.Operation{{events.Do, events.Undo}, {events.Do, events.Undo}, {events.Do}, {events.Undo}}[o.w.rng.IntN(4)]
	o.w.note("nobody offers %v of agent %s any more", ops, agent)
	for _, op := range ops {
		o.gone[agent][op]++
	}
	o.publish()
	o.w.after(500+o.w.rng.IntN(60_000), func() {
		for _, op := range ops {
			o.gone[agent][op] = max(0, o.gone[agent][op]-1)
		}
		o.w.note("%v of agent %s is offered again", ops, agent)
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
	for _, ops := range o.gone {
		clear(ops)
	}
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
		_, absent := o.w.absent[agent]
		x := supervisor.Offer{Window: o.w.cfg.Window, Do: o.gone[agent][events.Do] == 0 && !absent, Undo: o.gone[agent][events.Undo] == 0 && !absent}
		if o.w.rng.IntN(3) > 0 { // otherwise some instance does not publish what it reads
			for i := range instances {
				x.Targets = append(x.Targets, supervisor.Target{Instance: fmt.Sprintf("agent-%d", i), Partitions: []int32{int32(i), int32(i + instances)}, Do: x.Do, Undo: x.Undo, Capacity: 64})
			}
		}
		x.Paused = o.paused[agent]
		if x.Do || x.Undo || o.w.rng.IntN(2) == 0 || x.Paused {
			list[agent] = x
		}
	}
	return list
}

// offered sets what the owner knows.
func (s *slot) offered(now map[string]supervisor.Offer) {
	s.offers = now
	s.owner.SetOffers(s.now(), now)
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
		var agent string
		op, starts := events.Do, true
		switch b := f.Body.(type) {
		case *events.StepStarted:
			agent = b.Agent
		case *events.CompensationStarted:
			agent, op = b.Agent, events.Undo
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
			agent, op, starts = g.steps[b.Step].def.Agent, b.Operation, false
			if op == events.Undo {
				agent = g.steps[b.Step].def.Undo.Agent
			}
		default:
			continue
		}
		o := s.offers[agent]
		offered := op == events.Do && o.Do || op == events.Undo && o.Undo
		switch {
		case starts && o.Paused:
			w.fail("%s/%d starts %s of agent %s, which is paused", s.node.name, s.part.id, op, agent)
		case starts && !offered:
			w.fail("%s/%d starts %s of agent %s, which nobody offers", s.node.name, s.part.id, op, agent)
		case !starts && offered:
			w.fail("%s/%d forgives a timeout of %s of agent %s, which is there", s.node.name, s.part.id, op, agent)
		}
	}
	if len(s.owner.Status().Missing) > 0 {
		w.saw(sawMissing)
	}
	for _, q := range s.owner.Status().Queues {
		if s.offers[q.Agent].Paused {
			w.saw(sawPausedAgent)
		}
	}
}
