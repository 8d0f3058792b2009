package supervisor

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/sagalog/sagalog/events"
)

// judgeReport judges the result of an attempt. A result of an attempt that is not running leads to no fact.
func (i *inbox) judgeReport(item *input) error {
	p, err := events.DecodeReport(item.data)
	if err != nil {
		return i.reject(item, "", events.RejectUnreadable, err.Error())
	}
	id, err := events.TaskID(item.record.Key, item.env.Subject, p.Task)
	if err != nil || p.Step == "" || p.Attempt < 1 || p.Ticket == "" || (p.Operation != events.Do && p.Operation != events.Undo) || !slices.Contains(results, p.Result) {
		return i.reject(item, "", events.RejectInvalid, "a report must name task, step, operation, attempt, ticket and result")
	}
	p.Task = id
	if done, err := i.elsewhere(item, id); done || err != nil {
		return err
	}
	t, err := i.state.Task(id)
	if err != nil || t == nil {
		return err
	}
	if s := t.Step(p.Step); s.DoneByChild(p.Operation) != "" {
		return i.reject(item, id, events.RejectRefused, fmt.Sprintf("task %q does the step, and no agent", s.Child()))
	}
	if p.Ticket != t.Incarnation {
		return nil // it is about an earlier task with the same ID, whose attempts have the same numbers
	}
	if p.Result == events.ResultProgress {
		return judgeProgress(i, item, t, &p)
	}
	//mutant:result-counts-once
	if p.Run != 0 && p.Run != events.RunOf(t.RunOf(p.Step)) || !t.Running(p.Step, p.Operation, p.Attempt) {
		return nil // unknown, finished or already decided: the first in the log won (INV7)
	}
	i.judging.task = id
	if p.FinishedAt == 0 {
		p.FinishedAt, _ = events.ParseInstant(item.env.Time) // a time that cannot be read counts as absent
	}
	body, err := i.outcome(t, &p)
	if err != nil {
		return err
	}
	return i.planner.recordAndPlan(i.caused(item, id, body))
}

// results are the results that a report may have.
var results = []events.Result{events.ResultCompleted, events.ResultFailed, events.ResultProgress}

// judgeProgress judges the progress of a running attempt. It leads to no fact if the attempt has no heartbeat, or if the last fact about its
// progress is young enough. A value that cannot be sealed now is left out, as one that is too large: the attempt runs on, and must not end because of it.
func judgeProgress(i *inbox, item *input, t *events.Task, p *events.Report) error {
	//mutant:late-progress-changes-nothing
	if p.Run != 0 && p.Run != events.RunOf(t.RunOf(p.Step)) || p.Operation != events.Do || !t.Running(p.Step, p.Operation, p.Attempt) {
		return nil
	}
	s := t.Step(p.Step)
	if s.Heartbeat == 0 {
		return nil
	}
	by, needed := s.ExtendedBy(i.planner.stamp())
	if !needed {
		return nil
	}
	value, err := events.Compact(p.Progress)
	if err != nil || len(value) > events.MaxProgress || string(value) == "null" {
		value = nil
	}
	i.judging.task = t.ID
	b := &events.StepProgressed{Step: p.Step, Attempt: p.Attempt, CompleteBy: by, Progress: value, Instance: events.Clip(p.Instance, events.MaxTaskID)}
	err = i.record(i.caused(item, t.ID, b), nil)
	if _, passes := errors.AsType[*events.NoKeyError](err); passes {
		b.Progress = nil
		err = i.record(i.caused(item, t.ID, b), nil)
	}
	return err
}

// outcome returns the fact for a reported result of a running attempt. The error is an *events.NoKeyError.
func (i *inbox) outcome(t *events.Task, p *events.Report) (events.Body, error) {
	s := t.Step(p.Step)
	times := events.Outcome{Instance: events.Clip(p.Instance, events.MaxTaskID), StartedAt: p.StartedAt, FinishedAt: p.FinishedAt}
	if p.Result == events.ResultCompleted {
		out, err := events.Compact(p.Output)
		switch {
		case p.Operation == events.Undo:
			//mutant:undone-twice-is-in-doubt
			return &events.Compensated{Step: p.Step, Attempt: p.Attempt, QuietAt: i.planner.quietAt(s, events.Undo, i.afterwards(s, p)), Outcome: times}, nil
		case err == nil && len(out) <= i.settings().PayloadBytes:
			fault, err := i.planner.check(t, p.Step, out)
			if err != nil {
				return nil, err
			}
			if fault != nil {
				return i.failsCheck(t, p, out, *fault, times), nil
			}
			return &events.StepCompleted{Step: p.Step, Attempt: p.Attempt, Output: out, QuietAt: i.planner.quietAt(s, events.Do, i.afterwards(s, p)), Outcome: times}, nil
		}
		if i.afterwards(s, p) == events.EffectInDoubt {
			p.Effect = events.EffectInDoubt
		} else {
			p.Effect = events.EffectDoneUnknown
		}
		p.Error = &events.Error{Class: events.ClassLimit, Message: fmt.Sprintf("the output has %d bytes; %d are allowed (step output limit)", len(p.Output), i.settings().PayloadBytes)}
	}
	fault := i.faultOf(p)
	effect := events.EffectInDoubt
	//mutant:resent-attempt-is-in-doubt
	if (p.Effect == events.EffectNone || p.Effect == events.EffectDoneUnknown) && !i.sentTwice(s, p.Operation) {
		effect = p.Effect
	}
	stopped := false
	if p.Effect != events.EffectNone || p.Operation == events.Do && effect != events.EffectNone {
		stopped = fault.Class == events.ClassUnavailable && fault.Code == events.CodeStopped && p.Operation == events.Do && s.Heartbeat > 0
		fault.Class = tried(fault.Class)
	}
	if p.Operation == events.Undo && fault.Class == events.ClassPermanent && i.sentTwice(s, events.Undo) {
		// The other copy may have removed what this one did not find. The next attempt is allowed to find nothing, so there must be
		// one, even if the policy allows no other.
		fault.Class = events.ClassUnavailable
	}
	v := i.planner.verdict(Failure{
		Task: t, Path: p.Step, Operation: p.Operation, Error: fault, Effect: effect, RetryAfter: p.RetryAfter.Std(), Stopped: stopped,
	})
	if p.Operation == events.Undo {
		return &events.CompensationFailed{Step: s.Path, Attempt: p.Attempt, Error: fault, QuietAt: i.planner.quietAt(s, events.Undo, effect), RetryAfter: p.RetryAfter, Verdict: v, Outcome: times}, nil
	}
	return &events.StepFailed{
		Step: s.Path, Attempt: p.Attempt, Error: fault, Effect: effect, QuietAt: i.planner.quietAt(s, events.Do, effect),
		RetryAfter: p.RetryAfter, Verdict: v, Outcome: times,
	}, nil
}

// failsCheck returns the fact of an attempt that completed and whose result means failure. The attempt did its work, so it is undone like
// one that succeeded; and no other attempt is made, since it would get the same answer.
func (i *inbox) failsCheck(t *events.Task, p *events.Report, out json.RawMessage, fault events.Error, times events.Outcome) events.Body {
	s, effect := t.Step(p.Step), i.afterwards(t.Step(p.Step), p)
	fault.Message = events.Clip(fault.Message, maxDetail)
	return &events.StepFailed{
		Step: p.Step, Attempt: p.Attempt, Error: fault, Effect: effect, Output: out, QuietAt: i.planner.quietAt(s, events.Do, effect), Outcome: times,
		Verdict: i.planner.verdict(Failure{Task: t, Path: p.Step, Operation: events.Do, Error: fault, Effect: effect}),
	}
}

// afterwards says what a completed attempt may still do: it is in doubt if its request was sent more than once, by owners or by
// agents, since another copy may still be carried out, perhaps after the undo, or after that if it undoes.
func (i *inbox) afterwards(s *events.Step, p *events.Report) events.Effect {
	//mutant:completed-twice-is-in-doubt
	if s.Undoable && (p.Effect == events.EffectInDoubt || i.sentTwice(s, p.Operation)) {
		return events.EffectInDoubt
	}
	return events.EffectDoneUnknown
}

// tried corrects the class of an attempt that may have been made: the agent cannot say that it did not try. (Of an attempt with a heartbeat it
// means that the agent stopped during the attempt.)
func tried(c events.Class) events.Class {
	if c == events.ClassUnavailable {
		return events.ClassRetryable
	}
	return c
}

// sentTwice says whether the running attempt of a step, or of its undo, may have been sent by an earlier owner and again by a later one:
// it was started before the epoch. Then one copy may have no effect while the other, at another instance, has one. A report
// covers the whole attempt only if one request was sent.
func (i *inbox) sentTwice(s *events.Step, op events.Operation) bool {
	started := s.StartedAt
	if op == events.Undo {
		started = s.Undo.StartedAt
	}
	return started <= i.state.Partition.Since
}

// withinLimits returns the error with a code and a message of at most the length that is recorded.
func withinLimits(e events.Error) events.Error {
	e.Code = events.Clip(strings.ToValidUTF8(e.Code, "\uFFFD"), events.MaxTaskID)
	e.Message = events.Clip(strings.ToValidUTF8(e.Message, "\uFFFD"), maxDetail)
	return e
}

// faultOf returns the reported error within its limits, with a class that is known.
func (i *inbox) faultOf(p *events.Report) events.Error {
	if p.Error == nil {
		return events.Error{Class: events.ClassRetryable, Message: "the agent reported a failure without an error"}
	}
	e := *p.Error
	switch e.Class {
	case events.ClassRetryable, events.ClassPermanent, events.ClassInternal, events.ClassLimit, events.ClassUnavailable:
	default:
		e.Class = events.ClassRetryable
	}
	e = withinLimits(e)
	detail, err := events.Compact(e.Detail)
	if err != nil || len(detail) > i.settings().PayloadBytes {
		detail = nil
	}
	e.Detail = detail
	return e
}
