package verify

import (
	"fmt"

	"github.com/sagalog/sagalog/events"
)

// compare compares what is known about a task with its rows, which have come, and with the story that they give. It adds to the story where the
// attempts began that still run.
func (u *uncarried) compare(p *partition, t *events.Task, s *story, wrong func(check, format string, args ...any)) {
	switch {
	case u.last.IsZero() && !t.Last.Before(p.carry.begun):
		wrong(CheckAttempts, "by its rows its latest fact is %s, which the log does not have", t.Last)
	case !u.last.IsZero() && t.Last != u.last:
		wrong(CheckAttempts, "by its rows its latest fact is %s, and in the log it is %s at offset %d", t.Last, u.last, u.place.Offset)
	case t.Facts < u.facts:
		wrong(CheckAttempts, "by its rows it has %d facts, and the log has %d of them", t.Facts, u.facts)
	case !u.last.IsZero() && u.ended != (s.end != ""):
		wrong(CheckAttempts, "by its rows it has ended: %t, and by its facts: %t", s.end != "", u.ended)
	}
	u.compareRequests(p, t, wrong)
	u.compareSteps(p, t, wrong)
	for of, x := range u.attempts {
		attempts, running := 0, false
		if st := s.step(of.step); st != nil {
			w := st.work(of.op)
			if attempts, running = w.attempts, w.running; x.running && running {
				w.started, w.position = x.started, x.position
			}
		} else if of.op == events.Undo {
			attempts = s.earlier[of.step].undo
		} else {
			attempts = s.earlier[of.step].do
		}
		if attempts != x.attempt || running != x.running {
			wrong(CheckAttempts, "by its rows the latest attempt of the %s of step %s is %d, running: %t; by its facts it is %d, running: %t", of.op, of.step, attempts, running, x.attempt, x.running)
		}
	}
	for _, f := range u.starts {
		p.expectWork(f, s)
	}
	for _, r := range u.silent {
		if r.lost(s) {
			p.book.add(Finding{Check: CheckInputs, Kind: "report_lost", Place: r.place, Task: s.id, What: fmt.Sprintf("%s was not recorded, and %s passes it without a fact", r, r.at)})
		}
	}
	for _, x := range u.submissions {
		if x.content != contentOf(t.Content) {
			p.book.add(Finding{Check: CheckInputs, Kind: "lost", Place: x.place, Task: s.id, What: fmt.Sprintf("the submission conflicts with the accepted task, and %s passes it without a fact (INV12)", x.at)})
		}
	}
}

// compareSteps checks that the log has a fact of each step that began or ended since it begins.
func (u *uncarried) compareSteps(p *partition, t *events.Task, wrong func(check, format string, args ...any)) {
	since := p.cuts[p.number].time
	for _, e := range t.Steps {
		undo := e.Undo
		if undo == nil {
			undo = &events.UndoState{}
		}
		began := e.Attempted() && u.unseen(attemptOf{e.Path, events.Do}, e.StartedAt, since) || u.unseen(attemptOf{e.Path, events.Undo}, undo.StartedAt, since)
		if began || !u.steps[e.Path] && max(e.StartedAt, e.EndedAt, undo.EndedAt) > since {
			wrong(CheckAttempts, "by its rows step %s began or ended after %s, when the log begins, which has no fact of that", e.Path, since)
		}
	}
}

// unseen says whether an attempt began since the log does, and no fact says so.
func (u *uncarried) unseen(of attemptOf, started, since events.Instant) bool {
	x := u.attempts[of]
	return started > since && (x == nil || x.started < 0)
}

// compareRequests checks that the rows name the requests that the facts judged, and no other since the log begins.
func (u *uncarried) compareRequests(p *partition, t *events.Task, wrong func(check, format string, args ...any)) {
	for id, at := range u.requests {
		if r, ok := t.Request(id); !ok || r.Fact != at {
			wrong(CheckInputs, "by its rows the request %q is judged by the fact %q, and in the log by %s", id, r.Fact.String(), at)
		}
	}
	for _, r := range t.Requests {
		if _, ok := u.requests[r.ID]; !ok && !r.Fact.Before(p.carry.begun) {
			wrong(CheckInputs, "by its rows the request %q is judged by the fact %s, which the log does not have", r.ID, r.Fact)
		}
	}
}

// lost says whether the input needed a fact.
func (r *silentReport) lost(s *story) bool {
	switch {
	case r.verb != "":
		return !s.requests[r.id]
	case r.link != events.Link{}:
		if r.link.Incarnation != s.incarnation {
			return false
		}
		if x := s.stepPermit(r.link); r.link.Path != "" {
			return r.late || x != nil && x.n == r.link.N && !x.granted && !r.early
		}
		return r.late || s.permit != nil && s.permit.asked && s.permit.n == r.link.N && !r.early
	}
	st := s.step(r.report.Step)
	if st == nil || r.report.Ticket != s.incarnation || r.report.Run != 0 && r.report.Run != st.run {
		return false
	}
	w := st.work(r.report.Operation)
	return r.late || !r.early && w.running && w.attempts == r.report.Attempt && w.needs(r.report.Result)
}

func (r *silentReport) String() string {
	switch {
	case r.verb != "":
		return fmt.Sprintf("the request %q (%s)", r.id, r.verb)
	case r.link != events.Link{}:
		return fmt.Sprintf("permit %d, for which the task waited,", r.link.N)
	}
	return fmt.Sprintf("the result of attempt %d of the %s of step %s, which was running,", r.report.Attempt, r.report.Operation, r.report.Step)
}

// judgedBy returns the request that a fact of a task judges, or "".
func judgedBy(body events.Body) string {
	switch b := body.(type) {
	case *events.CancelRequested:
		return b.Request
	case *events.RequestRefused:
		return b.Request
	case *events.TaskPaused:
		return b.Request
	case *events.TaskResumed:
		return b.Request
	case *events.TaskTerminated:
		return b.Request
	case *events.TaskReopened:
		return b.Request
	case *events.TaskRerun:
		return b.Request
	case *events.SignalReceived:
		return b.Request
	case *events.StepSkipped:
		return b.Request
	}
	return requestOf(body)
}

// stepIn returns the step that a fact of a task is about, or "".
func stepIn(body events.Body) string {
	switch b := body.(type) {
	case *events.StepStarted:
		return b.Step
	case *events.WaitStarted:
		return b.Step
	case *events.FanOutStarted:
		return b.Step
	case *events.StepSkipped:
		return b.Step
	case *events.StepCompleted:
		return b.Step
	case *events.CompensationStarted:
		return b.Step
	case *events.Compensated:
		return b.Step
	case *events.EffectFailed:
		if b.Failed != nil {
			return b.Failed.Step
		} else if b.CompensationFailed != nil {
			return b.CompensationFailed.Step
		}
	}
	of, _ := outcomeIn(body)
	return of.step
}
