package sim

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"
	"time"

	"github.com/sagalog/sagalog/events"
	"github.com/sagalog/sagalog/supervisor"
)

// reported checks that a fact agrees with its input. Judge.Follows checks that it is the right input.
func (q *inputs) reported(f *events.Fact) {
	in, _, o, ok := f.Cause.Input()
	if b, signal := f.Body.(*events.SignalReceived); signal && ok && o < q.of(in).end() {
		if m := q.of(in).meta[o]; m.Kind != InputRequest || m.Task != f.Task || m.Request.ID != b.Request || m.Request.Signal != b.Signal || !bytes.Equal(m.Request.Payload, b.Payload) {
			q.w.fail("a signal of task %q does not follow from %s", f.Task, f.Cause)
		}
		return
	}
	if !ok || in != events.Reports || o >= q.reports.end() {
		return
	}
	m, wrong := q.reports.meta[o], ""
	if m.Kind == InputRelative {
		return // Judge.Follows has checked it
	}
	if ByHand(f).Request != "" {
		wrong = decides(f, &m.Request)
	} else {
		wrong = q.says(f, m)
	}
	if wrong != "" {
		q.w.fail("%s of task %q does not follow from %s: %s", f.Body.Name(), f.Task, f.Cause, wrong)
	}
}

// says returns why a fact does not agree with the report or the request that caused it.
func (q *inputs) says(f *events.Fact, m *meta) (wrong string) {
	switch b := f.Body.(type) {
	case *events.StepCompleted:
		if m.Report.Result != events.ResultCompleted || len(b.Output) > q.w.cfg.Settings.PayloadBytes {
			wrong = "it completes nothing, or its output is above the limit"
		}
	case *events.Compensated:
		if m.Report.Result != events.ResultCompleted {
			wrong = "it completes nothing"
		}
	case *events.StepFailed:
		began := q.p.startedAt[f.Task+"\x00"+b.Step]
		switch {
		case b.Output != nil:
			if out, _ := events.Compact(m.Report.Output); m.Report.Result != events.ResultCompleted || !bytes.Equal(out, b.Output) {
				wrong = "it did not complete with the output that is refused"
			}
		case m.Report.Result == events.ResultCompleted && len(m.Report.Output) <= q.w.cfg.Settings.PayloadBytes:
			wrong = "it did not fail"
		case len(b.Error.Detail) > q.w.cfg.Settings.PayloadBytes:
			wrong = "its detail is above the limit"
		case b.Effect == events.EffectNone && (m.Report.Effect != events.EffectNone || began == nil || began.Epoch != f.Epoch):
			wrong = "it is believed to have had no effect: it does not say so, or another copy may say otherwise"
		}
	case *events.CompensationFailed:
		if m.Report.Result == events.ResultCompleted {
			wrong = "it did not fail"
		}
	case *events.TaskReopened:
		g, request := q.p.sagas.byTask[f.Task], m.Request
		switch {
		case m.Kind != InputRequest || request.Kind != events.RequestRetry:
			wrong = "it is not a retry"
		case request.Step != "" && !slices.Equal(b.Steps, []string{request.Step}):
			wrong = "it is about another step"
		case request.Attempt != 0 && g != nil && slices.ContainsFunc(b.Steps, func(id string) bool { return g.steps[id].attempt != request.Attempt }):
			wrong = "it is about another attempt"
		case !bytes.Equal(b.With, request.With):
			wrong = "it gives another input"
		}
	case *events.TaskPaused, *events.TaskResumed, *events.TaskTerminated:
		if m.Kind != InputRequest || strings.ToLower(string(b.Name())) != map[events.Verb]string{events.RequestPause: "taskpaused", events.RequestResume: "taskresumed", events.RequestTerminate: "taskterminated"}[m.Request.Kind] {
			wrong = "it is another request"
		}
	case *events.TaskRerun:
		if q := m.Request; m.Kind != InputRequest || q.Kind != events.RequestRerun || q.ID != b.Request || q.From != b.From || !bytes.Equal(q.Input, b.Input) {
			wrong = "it is another rerun"
		}
	case *events.RequestRefused:
		if t, _ := q.p.state.Task(f.Task); b.Reason == supervisor.RefusedSchedule {
			if q.w.saw(sawScheduleStranger); t == nil || m.Request.ScheduleBegan == 0 || m.Request.ScheduleBegan == t.ScheduleBegan {
				wrong = "the schedule that asks started the task"
			}
		}
		if m.Kind != InputRequest || m.Request.Kind != b.Verb || m.Request.ID != b.Request {
			wrong = "it is not that request"
		}
	case *events.RequestHeld:
		if m.Request.Kind != events.RequestSignal && q.p.heldCancels() >= q.w.cfg.Settings.HeldRequests {
			wrong = "no more requests are held"
		}
	}
	return wrong
}

// tooLate says whether a forwarded input is older than the time for which tasks are remembered (or were, when some were
// forgotten), as far as the clocks can tell.
func (q *inputs) tooLate(r *events.Record) bool {
	at, err := events.ParseInstant(r.Header(events.HeaderForwardedAt))
	const skew = 6 * time.Second // the clocks of two nodes, and some time for delivery
	p, now := &q.p.state.Partition, q.w.now
	return err == nil && !q.w.clocks.set() &&
		(now.Sub(at) > p.Settings.RememberFor.Std()+skew || now.Sub(p.ForgottenBefore) > skew && at < p.ForgottenBefore)
}

// mayBeTooLate says whether a submission of a schedule is so old that its task may be forgotten, as far as the clocks can tell.
func (q *inputs) mayBeTooLate(r *events.Record) bool {
	at, err := events.ParseInstant(r.Header(events.HeaderTime))
	const skew = 6 * time.Second
	sub, unread := events.ParseSubmission(r.Value)
	if err != nil || unread != nil {
		return false
	}
	p, remembered := &q.p.state.Partition, q.p.state.Partition.Settings.RememberFor
	for _, x := range compiled() {
		if x.Version.Workflow == sub.Workflow {
			remembered = max(remembered, x.Definition.RememberFor)
		}
	}
	return q.w.clocks.set() || q.w.now.Sub(at) > remembered.Std()-skew || at < p.ScheduledForgottenBefore
}

// fairBy works out the key for turns of a task from its workflow and its input.
func fairBy(b *events.Submitted) string {
	var in struct{ Extra, N json.RawMessage }
	_ = json.Unmarshal(b.Input, &in) // it was accepted
	switch b.Workflow {
	case "dag":
		return string(in.Extra)
	case "wide":
		return strings.Trim(string(in.N), `"`)
	}
	return ""
}

// pinned checks that a submission got the version that it asked for: that of its stamp, that with its number, or one that was
// current when the submission became durable or later.
func (q *inputs) pinned(f *events.Fact, b *events.Submitted) {
	in, _, o, ok := f.Cause.Input()
	if !ok || o >= q.of(in).end() {
		return
	}
	m := q.of(in).meta[o]
	if len(q.of(in).records[o].Value) == q.w.cfg.Settings.SubmissionBytes {
		q.w.saw(sawAtLimit)
	}
	if q.tooLate(&q.of(in).records[o]) || m.tooLarge || m.unfit || !m.known && q.w.catalogEnd == m.catalog {
		q.w.fail("INV12: the submission %s is accepted but must not be", f.Cause)
	}
	if tier := b.Labels["tier"]; b.Workflow == "dag" && (tier == "" || b.Labels["n"] == "") {
		q.w.fail("task %q has the labels %v: those of its workflow are missing", f.Task, b.Labels)
	} else if b.Priority > 0 && tier != "own" && b.Labels["other"] == "" {
		q.w.fail("task %q has the labels %v: its submission says another tier", f.Task, b.Labels)
	}
	if want := fairBy(b); b.FairBy != want {
		q.w.fail("task %q has the key %q for turns: its workflow gives it %q", f.Task, b.FairBy, want)
	}
	if b.Version > 1 {
		q.w.saw(sawNewVersion)
	}
	if b.Workflow == "one" && b.Version == 1 && q.w.catalogEnd == len(applications) {
		q.w.saw(sawOldVersion)
	}
	_, applied := catalog(m.catalog).ByHash(m.workflow, m.stamp)
	switch {
	case b.Hash == m.stamp:
		return
	case applied:
		q.w.fail("task %q is pinned to %s, its stamp is %s", f.Task, b.Hash, m.stamp)
		return
	case m.version != 0:
		if b.Version != m.version {
			q.w.fail("task %q is pinned to version %d, it asks for %d", f.Task, b.Version, m.version)
		}
		return
	}
	for n := m.catalog; n <= q.w.catalogEnd; n++ {
		if v, ok := catalog(n).Current(m.workflow); ok && v.Hash == b.Hash {
			return
		}
	}
	q.w.fail("task %q is pinned to version %d of %q, which was not current when it was submitted or later", f.Task, b.Version, b.Workflow)
}
