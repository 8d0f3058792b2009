package verify

import (
	"encoding/json"
	"fmt"

	"github.com/sagalog/sagalog/events"
)

// maxBody is how much of a fact's body is shown.
const maxBody = 400

// explainFact adds a line about a record of the task to be explained.
func (p *partition) explainFact(f *events.Fact, r *events.Record, accepted bool) {
	if p.cfg.Task == "" || f.Task != p.cfg.Task {
		return
	}
	fate := ""
	if !accepted {
		fate = " VOID: every reader skips it"
	}
	body := string(r.Value)
	if json.Valid(r.Value) {
		body = events.Clip(body, maxBody)
	}
	p.explained = append(p.explained, fmt.Sprintf("%s %s %s by %q, cause %s:%s %s %s", p.place(r.Offset), f.Time, f.Position(), Writer(r), f.Cause, fate, f.Body.Name(), body))
}

// explainEnd shows the task at the end of the log.
func (p *partition) explainEnd() {
	if p.cfg.Task == "" {
		return
	}
	say := func(format string, args ...any) { p.explained = append(p.explained, fmt.Sprintf(format, args...)) }
	s := p.live[p.cfg.Task]
	if s == nil {
		if k, ok := p.known[digestOf(p.cfg.Task)]; ok {
			say("it ended at %s", k.ended)
		} else {
			p.taskUnknown = true
			say("its home partition %d has no such task: it was never accepted there, or has been forgotten", p.number)
		}
		return
	}
	m := s.next()
	if m.kind == string(events.WaitingSignal) && m.since == 0 {
		say("it is %s: step %s waits for %s", s.state(), m.step, events.WaitingSignal.Says())
		return
	}
	switch m.kind {
	case string(events.WaitingOperator), string(events.WaitingPaused):
		say("it waits for %s", events.Waiting(m.kind).Says())
	case string(events.WaitingConcurrency):
		say("it is %s: it waits for %s (%s)", s.state(), events.WaitingConcurrency.Says(), s.permit.Limit)
	case string(events.WaitingLimit):
		say("it is %s: step %s waits for %s", s.state(), m.step, events.WaitingLimit.Says())
	case "none":
		say("it is %s, and nothing will move it", s.state())
	case "running":
		say("it is %s: an attempt of step %s runs until %s", s.state(), m.step, m.since)
	case string(events.WaitingNotBefore):
		say("it is pending: it waits until %s for %s", m.since, events.WaitingNotBefore.Says())
	case string(events.WaitingRetry), string(events.WaitingCoolDown), string(events.WaitingAgent), string(events.WaitingQuiet), string(events.WaitingSleep), string(events.WaitingSignal):
		say("it is %s: step %s waits until %s for %s", s.state(), m.step, m.since, events.Waiting(m.kind).Says())
	case "ready":
		say("it is %s: step %s is ready since %s", s.state(), m.step, m.since)
	default:
		say("it is %s: a fact follows at once", s.state())
	}
}
