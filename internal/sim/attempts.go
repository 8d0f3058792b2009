package sim

import (
	"github.com/sagalog/sagalog/events"
	"github.com/sagalog/sagalog/supervisor"
)

// attempt names one attempt of one task.
type attempt struct {
	task, step string
	op         events.Operation
	n          int
}

// span is where in the log an attempt began, and where it ended: 0 while it runs.
type span struct{ from, to int64 }

// spans notes where attempts begin and end. One of a task that was accepted anew replaces that of the forgotten one.
func (p *partition) spans(f *events.Fact) {
	begins := func(step string, op events.Operation, n int) {
		p.attempts[attempt{f.Task, step, op, n}] = span{from: p.at[f]}
	}
	ends := func(step string, op events.Operation, n int) {
		id := attempt{f.Task, step, op, n}
		if x, ok := p.attempts[id]; ok {
			p.attempts[id] = span{x.from, p.at[f]}
		}
	}
	switch b := f.Body.(type) {
	case *events.StepStarted:
		begins(b.Step, events.Do, b.Attempt)
	case *events.UndoStarted:
		begins(b.Step, events.Undo, b.Attempt)
	case *events.StepCompleted:
		ends(b.Step, events.Do, b.Attempt)
	case *events.StepFailed:
		ends(b.Step, events.Do, b.Attempt)
	case *events.Timeout:
		ends(b.Step, b.Operation, b.Attempt)
	case *events.Compensated:
		ends(b.Step, events.Undo, b.Attempt)
	case *events.UndoFailed:
		ends(b.Step, events.Undo, b.Attempt)
	case *events.EffectFailed:
		if b.Failed != nil {
			ends(b.Failed.Step, events.Do, b.Failed.Attempt)
		} else if b.UndoFailed != nil {
			ends(b.UndoFailed.Step, events.Undo, b.UndoFailed.Attempt)
		}
	}
}

// foretold says whether a report landed before its attempt began: no agent was asked, and it may be passed, though the
// attempt runs by the time that a fact says so.
func (p *partition) foretold(r *events.Report, landed events.Instant) bool {
	x, ok := p.attempts[attempt{r.Task, r.Step, r.Operation, r.Attempt}]
	return ok && landed <= p.log.landedAt[x.from]
}

// resends checks that work is sent again only for an attempt that runs, after the reports that were durable when the
// epoch began: a copy could act after a step was judged, by one of these, to have had no effect and to need no undo.
func (p *partition) resends(s *slot, f *events.Fact, id attempt) {
	epoch := s.owner.Epoch()
	claim, known := p.claims[epoch.ID]
	x := p.attempts[id]
	if !known || f.Epoch == epoch || x.from != p.at[f] || p.w.opt.Off != supervisor.Rule(0) || p.w.clients.toxic[f.Task] != "" {
		return // a task that makes deciding panic is parked, and its reports may be set aside
	}
	p.w.saw(sawWorkResent)
	if x.to != 0 && x.to < claim {
		p.w.fail("%s/%d sends work again for attempt %d of step %q of task %q, which ended before its epoch", s.node.name, p.id, id.n, id.step, id.task)
		return
	}
	began, claimed := p.log.landedAt[x.from], p.log.landedAt[claim]
	for o := p.reps.end() - 1; o >= 0 && p.reps.landedAt[o] > began; o-- {
		m := p.reps.meta[o]
		if r := m.report; m.kind == metaReport && p.reps.landedAt[o] < claimed && r.Run <= 1 && id == (attempt{r.Task, r.Step, r.Operation, r.Attempt}) {
			p.w.fail("%s/%d sends work again for attempt %d of step %q of task %q, whose report at %d was durable before its epoch", s.node.name, p.id, id.n, id.step, id.task, o)
		}
	}
}
