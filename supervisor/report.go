package supervisor

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/sagalog/sagalog/events"
)

// judgeReport judges a result or a request. A result for an attempt that does not run is no fact: it is passed.
func (o *Owner) judgeReport(b *batch, item *inputItem) error {
	r := &item.record
	env, data, err := events.Open(r)
	if err != nil {
		return o.reject(b, events.Reports, item, "", events.RejectUnreadable, err.Error())
	}
	switch env.Type {
	case events.TypeCancel, events.TypeRetry:
		return o.judgeRequest(b, item, env, data)
	case events.TypeReport, "":
	default:
		return o.reject(b, events.Reports, item, "", events.RejectInvalid, fmt.Sprintf("ce_type %q is not known here", env.Type))
	}
	p, err := events.DecodeReport(data)
	if err != nil {
		return o.reject(b, events.Reports, item, "", events.RejectUnreadable, err.Error())
	}
	id, err := events.TaskID(r.Key, env.Subject, p.Task)
	if err != nil || p.Step == "" || p.Attempt < 1 || (p.Operation != events.Do && p.Operation != events.Undo) || (p.Result != events.ResultCompleted && p.Result != events.ResultFailed) {
		return o.reject(b, events.Reports, item, "", events.RejectInvalid, "a report names task, step, operation, attempt and result")
	}
	p.Task = id
	if gone, err := o.misplaced(b, events.Reports, item, id); gone || (err != nil && !errors.Is(err, errTooOld)) {
		return err
	}
	t, err := o.state.Task(id)
	if err != nil {
		return err
	}
	if t == nil {
		return nil
	}
	o.cache.note(id)
	if (p.Run != 0 && p.Run != t.Run) || !t.Running(p.Step, p.Operation, p.Attempt) {
		return nil // unknown, finished or already decided: the first in the log won (INV7)
	}
	o.judging.task = id
	if err := o.emit(b, o.outcome(t, &p, r), nil); err != nil {
		return err
	}
	return o.follow(b, id)
}

// outcome is the fact of a reported result of a running attempt.
func (o *Owner) outcome(t *events.Task, p *events.Report, r *events.Record) *events.Fact {
	s := t.Step(p.Step)
	times := events.Outcome{Instance: clip(p.Instance, events.MaxTaskID), StartedAt: p.StartedAt, FinishedAt: p.FinishedAt}
	if p.Result == events.ResultCompleted {
		out, err := events.Compact(p.Output)
		switch {
		case p.Operation == events.Undo:
			return o.inputFact(events.Reports, r, t.ID, &events.Compensated{Step: p.Step, Attempt: p.Attempt, Outcome: times})
		case err == nil && len(out) <= o.cfg.Settings.PayloadBytes:
			return o.inputFact(events.Reports, r, t.ID, &events.StepCompleted{Step: p.Step, Attempt: p.Attempt, Output: out, Outcome: times})
		}
		p.Error = &events.Error{Class: events.ClassLimit, Message: fmt.Sprintf("the output has %d bytes; %d are allowed (step output limit)", len(p.Output), o.cfg.Settings.PayloadBytes)}
		p.Effect = events.EffectUnknown
	}
	fault := o.faultOf(p)
	effect := events.EffectUnknown
	if p.Effect == events.EffectNone && !o.sentTwice(s) {
		effect = events.EffectNone
	}
	v := Decide(Failure{
		Task: t, Path: p.Step, Operation: p.Operation, Error: fault, Effect: effect, RetryAfter: p.RetryAfter.Std(),
		Policy: o.policy(t, p.Step, p.Operation), Now: max(o.now, o.state.Partition.Time),
	})
	if p.Operation == events.Undo {
		return o.inputFact(events.Reports, r, t.ID, &events.UndoFailed{Step: s.Path, Attempt: p.Attempt, Error: fault, RetryAfter: p.RetryAfter, Verdict: v, Outcome: times})
	}
	return o.inputFact(events.Reports, r, t.ID, &events.StepFailed{Step: s.Path, Attempt: p.Attempt, Error: fault, Effect: effect, RetryAfter: p.RetryAfter, Verdict: v, Outcome: times})
}

// sentTwice says whether the running attempt of a step may have been sent by an earlier owner and again by a later one:
// it was started before the epoch. One copy may then have no effect, and the other, at another instance, one; only
// where one request was sent does its report speak for the attempt.
func (o *Owner) sentTwice(s *events.Step) bool { return s.StartedAt <= o.state.Partition.Since }

// faultOf returns the reported error within its limits, with a class that is known.
func (o *Owner) faultOf(p *events.Report) events.Error {
	if p.Error == nil {
		return events.Error{Class: events.ClassRetryable, Message: "the agent reported a failure without an error"}
	}
	e := *p.Error
	switch e.Class {
	case events.ClassRetryable, events.ClassPermanent, events.ClassInternal, events.ClassLimit:
	default:
		e.Class = events.ClassRetryable
	}
	e.Code = clip(e.Code, events.MaxTaskID)
	e.Message = clip(strings.ToValidUTF8(e.Message, "\uFFFD"), maxDetail)
	detail, err := events.Compact(e.Detail)
	if err != nil || len(detail) > o.cfg.Settings.PayloadBytes {
		detail = nil
	}
	e.Detail = detail
	return e
}

// judgeRequest judges what an operator asks of a task.
func (o *Owner) judgeRequest(b *batch, item *inputItem, env events.Envelope, data []byte) error {
	r := &item.record
	var q events.Request
	if err := json.Unmarshal(data, &q); err != nil {
		return o.reject(b, events.Reports, item, "", events.RejectUnreadable, err.Error())
	}
	id, err := events.TaskID(r.Key, env.Subject, q.Task)
	if err != nil {
		return o.reject(b, events.Reports, item, "", events.RejectInvalid, err.Error())
	}
	q.Task, q.Kind = id, events.RequestCancel
	if env.Type == events.TypeRetry {
		q.Kind = events.RequestRetry
	}
	if q.ID == "" {
		q.ID = env.ID
	}
	if q.ID == "" || !utf8.ValidString(q.ID) || max(len(q.ID), len(q.By), len(q.Step)) > events.MaxTaskID || len(q.Reason) > maxDetail {
		// An ID that is no UTF-8 would be another one for whoever reads the fact, and fork the state (INV2).
		return o.reject(b, events.Reports, item, id, events.RejectInvalid, "a request has an id in UTF-8, a step and a by of up to 255 bytes, and a reason of up to 4096")
	}
	if gone, err := o.misplaced(b, events.Reports, item, id); errors.Is(err, errTooOld) {
		return o.reject(b, events.Reports, item, id, events.RejectMisplaced, err.Error())
	} else if gone || err != nil {
		return err
	}
	t, err := o.state.Task(id)
	if err != nil {
		return err
	}
	if t == nil {
		return o.holdRequest(b, item, q)
	}
	o.cache.note(id)
	if t.HasRequest(q.ID) {
		return nil
	}
	o.judging.task = id
	body, why := o.requested(t, &q)
	if why != "" {
		return o.reject(b, events.Reports, item, id, events.RejectRefused, why)
	}
	if body == nil {
		return nil
	}
	if err := o.emit(b, o.inputFact(events.Reports, r, id, body), nil); err != nil {
		return err
	}
	return o.follow(b, id)
}

// holdRequest keeps a cancel for a task whose submission was overtaken. It makes a fact: memory would lose it
// (reading/traces.md, Dm4).
func (o *Owner) holdRequest(b *batch, item *inputItem, q events.Request) error {
	r := &item.record
	if q.Kind != events.RequestCancel {
		return o.reject(b, events.Reports, item, q.Task, events.RejectRefused, "there is no task of this ID")
	}
	for _, h := range o.state.HeldFor(q.Task) {
		if h.Request.ID == q.ID {
			return nil
		}
	}
	if len(o.state.Held()) >= o.cfg.Settings.HeldRequests {
		return o.reject(b, events.Reports, item, q.Task, events.RejectLimit, fmt.Sprintf("%d requests for tasks that are not there are held already (held_requests)", o.cfg.Settings.HeldRequests))
	}
	expires := max(o.now, o.state.Partition.Time).Add(o.cfg.Settings.HeldFor.Std())
	return o.emit(b, o.inputFact(events.Reports, r, q.Task, &events.RequestHeld{Request: q, ExpiresAt: expires}), nil)
}

// requested returns the fact that a request makes of the task, nil if it changes nothing, or why it is refused.
func (o *Owner) requested(t *events.Task, q *events.Request) (events.Body, string) {
	if t.State.Ended() {
		return nil, fmt.Sprintf("the task has ended: %s", t.State)
	}
	if q.Kind == events.RequestCancel {
		switch {
		case t.State == events.Undoing || t.ParkedFrom == events.Undoing:
			return nil, ""
		case t.Irrevocable():
			return nil, "the task is past its point of no return, or its pivot is under way"
		}
		return &events.CancelRequested{Request: q.ID, Reason: q.Reason, By: q.By}, ""
	}
	return o.retried(t, q)
}

// retried reopens the failed steps of a parked task, or starts a waiting step at once.
func (o *Owner) retried(t *events.Task, q *events.Request) (events.Body, string) {
	var steps []string
	for _, s := range t.Steps {
		if q.Step != "" && s.Path != q.Step {
			continue
		}
		if reopenable(t, s) {
			if q.Attempt != 0 && q.Attempt != s.Attempt {
				return nil, fmt.Sprintf("attempt %d of step %q is not its latest, %d is", q.Attempt, s.Path, s.Attempt)
			}
			steps = append(steps, s.Path)
		}
	}
	if len(steps) == 0 && (q.Step != "" || t.State != events.Parked) {
		return nil, "nothing of it can be retried: a step that failed in a parked task can, or one that waits for its next attempt"
	}
	return &events.TaskReopened{Request: q.ID, Steps: steps, Reason: q.Reason, By: q.By}, ""
}

func reopenable(t *events.Task, s *events.Step) bool {
	switch t.State {
	case events.Parked:
		if t.ParkedFrom == events.Undoing {
			return s.State == events.StepUndoFailed
		}
		return s.State == events.StepBroken || s.State == events.StepTimedOut
	case events.Processing:
		return s.State == events.StepWaiting
	case events.Undoing:
		return s.Undo != nil && s.Undo.State == events.StepWaiting
	}
	return false
}
