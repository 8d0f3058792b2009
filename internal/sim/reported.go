package sim

import (
	"slices"
	"time"

	"github.com/sagalog/sagalog/events"
)

// reported checks that a fact says what its input said.
func (p *partition) reported(f *events.Fact) {
	in, _, o, ok := f.Cause.Input()
	if !ok || in != events.Reports || o >= p.reps.end() {
		return
	}
	m, wrong := p.reps.meta[o], ""
	switch b := f.Body.(type) {
	case *events.StepCompleted:
		wrong = p.says(m, events.Do, b.Step, b.Attempt)
		if m.report.Result != events.ResultCompleted || len(b.Output) > p.w.cfg.Settings.PayloadBytes {
			wrong = "it completes nothing, or its output is above the limit"
		}
	case *events.Compensated:
		wrong = p.says(m, events.Undo, b.Step, b.Attempt)
		if m.report.Result != events.ResultCompleted {
			wrong = "it completes nothing"
		}
	case *events.StepFailed:
		wrong = p.says(m, events.Do, b.Step, b.Attempt)
		began := p.startedAt[f.Task+"\x00"+b.Step]
		switch {
		case m.report.Result == events.ResultCompleted && len(m.report.Output) <= p.w.cfg.Settings.PayloadBytes:
			wrong = "it did not fail"
		case len(b.Error.Detail) > p.w.cfg.Settings.PayloadBytes:
			wrong = "its detail is above the limit"
		case b.Effect == events.EffectNone && (m.report.Effect != events.EffectNone || began == nil || began.Epoch != f.Epoch):
			wrong = "it is believed to have had no effect: it does not say so, or another copy may say otherwise"
		}
	case *events.UndoFailed:
		if wrong = p.says(m, events.Undo, b.Step, b.Attempt); m.report.Result == events.ResultCompleted {
			wrong = "it did not fail"
		}
	case *events.TaskReopened:
		g, q := p.saga[f.Task], m.request
		switch {
		case m.kind != metaRequest || q.Kind != events.RequestRetry:
			wrong = "it is no retry"
		case q.Step != "" && !slices.Equal(b.Steps, []string{q.Step}):
			wrong = "it means another step"
		case q.Attempt != 0 && g != nil && slices.ContainsFunc(b.Steps, func(id string) bool { return g.steps[id].attempt != q.Attempt }):
			wrong = "it means another attempt"
		}
	case *events.RequestHeld:
		if len(p.state.Held()) >= p.w.cfg.Settings.HeldRequests {
			wrong = "no more requests are held"
		}
	}
	if wrong != "" {
		p.w.fail("%s of task %q does not follow from %s: %s", f.Body.Name(), f.Task, f.Cause, wrong)
	}
}

func (p *partition) says(m *meta, op events.Operation, step string, attempt int) string {
	if r := m.report; m.kind != metaReport || r.Operation != op || r.Step != step || r.Attempt != attempt || r.Run > 1 {
		return "it is of another attempt"
	}
	return ""
}

// tooLate says whether a forwarded input is older than what is remembered, where the clocks allow to tell.
func (p *partition) tooLate(r *events.Record) bool {
	at, err := events.ParseInstant(r.Header(events.HeaderForwardedAt))
	const skew = 6 * time.Second // of two nodes, and a moment on the way
	return err == nil && p.w.opt.Faults.Jump == 0 && p.w.now.Sub(at) > p.w.cfg.Settings.RememberFor.Std()+skew
}
