package node

import (
	"github.com/sagalog/sagalog/events"
)

// count counts a durable fact. t is its task as it is now, nil if it has none or is gone.
func (m *taskMetrics) count(t *events.Task, f *events.Fact) {
	if c := m.byType[f.Body.Name()]; c != nil {
		c.Inc()
	}
	if m.countInput(f); t == nil {
		return
	}
	switch b := f.Body.(type) {
	case *events.Submitted:
	case *events.StepStarted:
		m.started(t, f, b.Step, b.Agent, b.ReadyAt)
		if b.Attempt == 1 && first(t) == b.Step {
			m.workflow(t.Workflow).start.Observe(f.Time.Sub(t.SubmittedAt).Seconds())
		}
	case *events.CompensationStarted:
		m.started(t, f, b.Step, b.Agent, b.ReadyAt)
	case *events.TaskProcessed:
		m.end(t, f, events.TaskStateProcessed)
	case *events.TaskUndone:
		m.end(t, f, events.TaskStateUndone)
	case *events.TaskTerminated:
		m.end(t, f, events.TaskStateTerminated)
		m.workflow(t.Workflow).terminated.Inc()
	case *events.DeadlinePassed:
		m.workflow(t.Workflow).deadlines.Inc()
		m.late[events.TimerDeadline].Observe(f.Time.Sub(b.Deadline).Seconds())
	case *events.SoftLimitPassed:
		m.late[events.TimerSoftLimit].Observe(f.Time.Sub(b.SoftAt).Seconds())
	case *events.NotBeforePassed:
		m.late[events.TimerNotBefore].Observe(f.Time.Sub(b.NotBefore).Seconds())
	default:
		m.countAttempt(t, f)
	}
	m.countRequest(t, f)
}

// countInput counts what says everything about itself.
func (m *taskMetrics) countInput(f *events.Fact) {
	switch b := f.Body.(type) {
	case *events.Submitted:
		m.workflow(b.Workflow).accepted.Inc()
	case *events.InputRejected:
		topic := string(events.Reports) // all requests come through that topic, and only requests are held
		if in, _, _, ok := f.Cause.Input(); ok && b.HeldAt == "" {
			topic = string(in)
		}
		m.dead.WithLabelValues(topic, b.Reason).Inc()
	case *events.RequestHeld:
		m.judged(b.Request.Kind, "held")
	}
}

// countAttempt counts the outcome of an attempt, and what was decided about it.
func (m *taskMetrics) countAttempt(t *events.Task, f *events.Fact) {
	switch b := f.Body.(type) {
	case *events.StepCompleted:
		if s := m.attempt(t, f, b.Step, events.Do, b.Attempt); s != nil {
			s.completed.Inc()
		}
	case *events.Compensated:
		if s := m.attempt(t, f, b.Step, events.Undo, b.Attempt); s != nil {
			s.completed.Inc()
		}
	case *events.StepFailed:
		if s := m.attempt(t, f, b.Step, events.Do, b.Attempt); s != nil {
			s.failed.Inc()
			m.failures.WithLabelValues(s.workflow, s.step, string(b.Error.Class), string(b.Effect)).Inc()
		}
		m.verdict(t, &b.Verdict)
	case *events.CompensationFailed:
		if s := m.attempt(t, f, b.Step, events.Undo, b.Attempt); s != nil {
			s.failed.Inc()
			m.failures.WithLabelValues(s.workflow, s.step, string(b.Error.Class), string(events.EffectInDoubt)).Inc()
		}
		m.verdict(t, &b.Verdict)
	case *events.Timeout:
		m.timedOut(t, f, b)
	case *events.EffectFailed:
		if b.Failed != nil && b.Failed.Attempt > 0 {
			m.step(stepName{t.Workflow, b.Failed.Step, events.Do}).refused.Inc()
			m.verdict(t, &b.Failed.Verdict)
		} else if b.CompensationFailed != nil && b.CompensationFailed.Attempt > 0 {
			m.step(stepName{t.Workflow, b.CompensationFailed.Step, events.Undo}).refused.Inc()
			m.verdict(t, &b.CompensationFailed.Verdict)
		}
	}
}

// attempt returns the series of an attempt that ended, nil if no attempt had started (number 0), and observes how long it took.
func (m *taskMetrics) attempt(t *events.Task, f *events.Fact, path string, op events.Operation, number int) *stepSeries {
	if number == 0 {
		return nil
	}
	s := m.step(stepName{t.Workflow, path, op})
	x := t.Step(path)
	if x == nil {
		return s
	}
	started, latest := x.StartedAt, x.Attempt
	if op == events.Undo && x.Undo != nil {
		started, latest = x.Undo.StartedAt, x.Undo.Attempt
	}
	if latest == number && started != 0 {
		s.seconds.Observe(f.Time.Sub(started).Seconds())
	}
	return s
}

func (m *taskMetrics) timedOut(t *events.Task, f *events.Fact, b *events.Timeout) {
	kind, due := events.TimerCompleteBy, b.CompleteBy
	if b.StartBy != 0 {
		kind, due = events.TimerStartBy, b.StartBy
	}
	if due != 0 {
		m.late[kind].Observe(f.Time.Sub(due).Seconds())
	}
	if s := m.attempt(t, f, b.Step, b.Operation, b.Attempt); s != nil {
		s.timedOut.Inc()
		m.failures.WithLabelValues(s.workflow, s.step, string(events.ClassTimeout), string(events.EffectInDoubt)).Inc()
	}
	m.verdict(t, &b.Verdict)
}

func (m *taskMetrics) verdict(t *events.Task, v *events.Verdict) {
	if c := m.workflow(t.Workflow).verdicts[v.Action]; c != nil {
		c.Inc()
	}
}

func (m *taskMetrics) end(t *events.Task, f *events.Fact, state events.TaskState) {
	s := m.workflow(t.Workflow)
	s.ended[state].Inc()
	s.seconds[state].Observe(f.Time.Sub(t.SubmittedAt).Seconds())
}

// started observes how long an attempt waited for a place. notBefore is when it was allowed to start, if something held it back.
func (m *taskMetrics) started(t *events.Task, f *events.Fact, path, agent string, notBefore events.Instant) {
	m.delay(agent).Observe(f.Time.Sub(max(readySince(t, path, f.Time), notBefore)).Seconds())
}

// readySteps bounds the steps that readySince looks at.
const readySteps = 64

// readySince is since when, at the latest, a step has been able to start: since the last other step of its task ended that ended before the
// given instant.
func readySince(t *events.Task, path string, before events.Instant) events.Instant {
	since := max(t.SubmittedAt, t.ReopenedAt)
	if since > before {
		since = t.SubmittedAt
	}
	for _, s := range t.Steps[max(0, len(t.Steps)-readySteps):] {
		ended := s.EndedAt
		if s.Undo != nil {
			ended = max(ended, s.Undo.EndedAt)
		}
		if s.Path != path && ended <= before {
			since = max(since, ended)
		}
	}
	return since
}

// first returns the step of a task whose attempts began first.
func first(t *events.Task) string {
	for _, s := range t.Steps {
		if s.Attempt > 0 {
			return s.Path
		}
	}
	return ""
}

// recentRequests bounds the requests that countRequest looks at: a task may remember thousands, and the latest stand last.
const recentRequests = 8

// countRequest counts the request that a fact grants or refuses, if it does.
func (m *taskMetrics) countRequest(t *events.Task, f *events.Fact) {
	at := f.Position()
	for i := len(t.Requests) - 1; i >= max(0, len(t.Requests)-recentRequests); i-- {
		if r := &t.Requests[i]; r.Fact == at {
			result := "granted"
			if r.Refused != "" {
				result = "refused"
			}
			m.judged(r.Verb, result)
			return
		}
	}
}

func (m *taskMetrics) judged(verb events.Verb, result string) {
	if verb == events.RequestSignal {
		m.signals.WithLabelValues(result).Inc()
		return
	}
	m.requests.WithLabelValues(string(verb), result).Inc()
}
