package model

import (
	"fmt"

	"github.com/sagalog/sagalog/events"
	"github.com/sagalog/sagalog/internal/sim"
	"github.com/sagalog/sagalog/supervisor"
)

// Operators pause one of the agents, and let it go on, in configurations with a client that does. Only in these do owners know what agents
// offer.

// heldAgent is the agent that operators pause.
const heldAgent = "x"

// offers is what the agents offer.
func offers(held bool) map[string]supervisor.Offer {
	all := map[string]supervisor.Offer{}
	for _, agent := range []string{"x", "y"} {
		all[agent] = supervisor.Offer{Window: 2, Do: true, Undo: true, Paused: held && agent == heldAgent}
	}
	return all
}

// holds says whether operators pause an agent.
func (c *Config) holds() bool {
	for i := range c.Clients {
		if c.Clients[i].Kind == PauseAgent {
			return true
		}
	}
	return false
}

// mayHold says whether an act of that kind changes something: an agent is not paused twice.
func mayHold(w *World, k Kind) bool {
	return k != PauseAgent && k != ResumeAgent || w.s.held != (k == PauseAgent)
}

func hold(w *World, held bool) {
	w.s.held = held
	hear(w)
}

// hear tells all nodes what the agents offer.
func hear(w *World) {
	for n := range w.s.nodes {
		w.replica(n).hear()
	}
}

func (x replica) hear() {
	if x.sp.cfg.holds() {
		x.deliver(&event{kind: evOffers, fail: x.w.s.held})
	}
}

// startsAtHeld checks that nothing that an owner decides starts at an agent that is paused.
func (x replica) startsAtHeld(out *output) {
	for _, r := range out.records {
		agent := ""
		switch b := x.sp.bodies[r].Body.(type) {
		case *events.StepStarted:
			agent = b.Agent
		case *events.CompensationStarted:
			agent = b.Agent
		}
		if x.w.s.held && agent == heldAgent {
			x.w.fail("%s starts an attempt at the agent %s, which is paused", x.label(), agent)
		}
	}
}

// waitsForHeld says whether a step of the task waits for the agent that is paused.
func waitsForHeld(w *World, t *events.Task) bool {
	if !w.s.held {
		return false
	}
	for path, agent := range sim.StepAgents(t) {
		s := t.Step(path)
		if agent == heldAgent && (s == nil || s.State == events.StepStateNotStarted || s.State == events.StepStateWaiting) {
			return true
		}
	}
	return false
}

// heldRest says that a permit is kept for an attempt that waits for an agent that is paused, although others wait for the permit.
func heldRest(w *World) string {
	if !w.s.held {
		return ""
	}
	for _, s := range w.states() {
		for l := range s.Limits.All() {
			next := l.Next()
			for x := range l.Permits() {
				if next == nil || !x.Held() || x.EndsAt != 0 || x.Link.Path == "" {
					continue
				}
				t, _ := w.states()[events.Home(x.Link.Task, int32(len(w.states())))].Task(x.Link.Task)
				p := events.StepPermitOf(t, x.Link.Path, x.Link.Operation)
				if p != nil && !p.Used && sim.StepAgents(t)[x.Link.Path] == heldAgent {
					return fmt.Sprintf("starved: %s of %s waits for %s, and %s of %s keeps a permit and waits for an agent that is paused",
						next.Link.Path, next.Link.Task, l.Name, x.Link.Path, x.Link.Task)
				}
			}
		}
	}
	return ""
}
