package sim

import (
	"fmt"

	"github.com/sagalog/sagalog/events"
	"github.com/sagalog/sagalog/supervisor"
)

// Attempt names one attempt of one task.
type Attempt struct {
	Task, Step string
	Op         events.Operation
	N          int
}

// AttemptOf returns the attempt that a fact begins or ends, or the zero value.
func AttemptOf(task string, body events.Body) Attempt {
	switch b := body.(type) {
	case *events.StepStarted:
		return Attempt{task, b.Step, events.Do, b.Attempt}
	case *events.CompensationStarted:
		return Attempt{task, b.Step, events.Undo, b.Attempt}
	case *events.StepCompleted:
		return Attempt{task, b.Step, events.Do, b.Attempt}
	case *events.StepFailed:
		return Attempt{task, b.Step, events.Do, b.Attempt}
	case *events.Timeout:
		return Attempt{task, b.Step, b.Operation, b.Attempt}
	case *events.Compensated:
		return Attempt{task, b.Step, events.Undo, b.Attempt}
	case *events.CompensationFailed:
		return Attempt{task, b.Step, events.Undo, b.Attempt}
	case *events.EffectFailed:
		if b.Failed != nil {
			return AttemptOf(task, b.Failed)
		} else if b.CompensationFailed != nil {
			return AttemptOf(task, b.CompensationFailed)
		}
	}
	return Attempt{}
}

// String returns it in readable form.
func (a Attempt) String() string {
	name := fmt.Sprintf("%s.%s attempt %d", a.Task, a.Step, a.N)
	if a.Op == events.Undo {
		return "the undo of " + name
	}
	return name
}

// span is where in the log an attempt began, and where it ended: 0 while it runs.
type span struct{ from, to int64 }

// spans notes where attempts begin and end. If a forgotten task was accepted again, its attempts replace the earlier
// ones.
func (e *effects) spans(f *events.Fact) {
	id := AttemptOf(f.Task, f.Body)
	x, known := e.attempts[id]
	switch f.Body.(type) {
	case *events.StepStarted, *events.CompensationStarted:
		e.attempts[id] = span{from: e.p.at[f]}
	default:
		if known {
			e.attempts[id] = span{x.from, e.p.at[f]}
		}
	}
}

// resends checks that work is sent again only for a running attempt, and only after the reports that were durable when
// the epoch began were judged: otherwise a copy could act after such a report made the owner decide that the step had
// no effect and needs no undo.
func (e *effects) resends(s *slot, f *events.Fact, id Attempt) {
	epoch := s.owner.Status().Epoch
	claim, known := e.p.claims[epoch.ID]
	x := e.attempts[id]
	if !known || f.Epoch == epoch || x.from != e.p.at[f] || e.w.opt.Off != supervisor.Rule(0) || e.w.clients.toxic[f.Task] != "" {
		return // a task that makes deciding panic is parked, and its reports may be set aside
	}
	e.w.saw(sawWorkResent)
	if x.to != 0 && x.to < claim {
		e.w.fail("%s/%d sends work again for %s, which ended before its epoch", s.node.name, e.p.id, id)
		return
	}
	began, claimed := e.p.log.landedAt[x.from], e.p.log.landedAt[claim]
	for o := e.p.inputs.reports.end() - 1; o >= 0 && e.p.inputs.reports.landedAt[o] > began; o-- {
		m := e.p.inputs.reports.meta[o]
		if e.p.inputs.reports.landedAt[o] < claimed && m.Outcome(id, e.p.ticket(id.Task), runOf(e.p, id)) && !e.p.inputs.givenUp(events.Reports, o) { // nothing will be concluded from that report
			e.w.fail("%s/%d sends work again for %s, whose report at %d was durable before its epoch", s.node.name, e.p.id, id, o)
		}
	}
}
