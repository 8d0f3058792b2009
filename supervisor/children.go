package supervisor

import (
	"encoding/json"
	"fmt"
	"strconv"

	"github.com/sagalog/sagalog/events"
)

// A step that a child does: how its owner starts the child, what parent and child say to each other, and how each judges that. Each judges what
// the other says by the link alone: docs/protocol.md, "Children".

// parentJudgements says how the records of parents are judged, in the topic of submissions.
func parentJudgements(all map[string]judgement) {
	for _, kind := range []string{events.TypeChildAsk, events.TypeChildUndo, events.TypeChildRelease} {
		all[kind] = judgeParent
	}
}

// maxParentMessage bounds what a parent says, besides its submissions: names, and a reason of at most maxDetail bytes, as JSON.
const maxParentMessage = 32 << 10

// fromParent says whether a record is a message of a parent, and no larger than one may be, whatever the limit of submissions is.
func fromParent(r *events.Record) bool {
	switch r.Header(events.HeaderType) {
	case events.TypeChildAsk, events.TypeChildUndo, events.TypeChildRelease:
		return len(r.Value) <= maxParentMessage
	}
	return false
}

// parksChild lets a child receive what its parent says although planning the child then panicked: the child records what is asked, and is parked
// instead of being planned. If the record were set aside, the parent would send another one, and the panics would not end.
func parksChild(i *inbox, item *input, p *poisoned) bool {
	if p.again || p.judged == "" || !fromParent(&item.record) {
		return false
	}
	i.planner.poison[p.judged] = p.Error()
	return true
}

// judgeParent judges what a parent says. That comes after the submission of the child, so if the child is not known, it or its submission is lost.
func judgeParent(i *inbox, item *input) error {
	kind := item.env.Type
	var m events.ChildMessage
	if err := json.Unmarshal(item.data, &m); err != nil {
		return i.reject(item, "", events.RejectUnreadable, err.Error())
	}
	why := m.Check(kind)
	if string(item.record.Key) != m.Child {
		why = "the record's key is not the child"
	}
	if why != "" {
		return i.reject(item, "", events.RejectInvalid, "the record of a parent cannot be used: "+why)
	}
	if done, err := i.elsewhere(item, m.Child); done || err != nil {
		return err
	}
	i.judging.task = m.Child
	t, err := i.state.Task(m.Child)
	if err != nil {
		return err
	}
	own := t != nil && t.Parent != nil && t.Parent.Link.Task == m.Link.Task && t.Parent.Link.Incarnation == m.Link.Incarnation && t.Parent.Link.Path == m.Link.Path
	switch {
	case kind == events.TypeChildRelease:
		if !own || t.Parent.Released {
			return nil
		}
		return i.record(i.caused(item, t.ID, &events.ChildReleased{Link: t.Parent.Link}), nil)
	case !own:
		return answerStranger(i, item, t, &m)
	case m.Link.Operation == events.Undo:
		return undoForParent(i, item, t, &m)
	}
	if a, ok := events.AnswerAgain(t, m.Link); ok {
		return i.record(i.caused(item, t.ID, &events.ChildAnswered{Answer: a}), nil)
	}
	if m.Cancel == "" || t.Undoing() && t.Rerun == nil || t.Irrevocable() {
		return nil // its end will be the answer
	}
	return i.planner.recordAndPlan(i.caused(item, t.ID, &events.CancelRequested{Reason: events.Clip(m.Cancel, maxDetail), By: m.Link.Task}))
}

// answerStranger answers a parent whose child is not known, or whose child's ID belongs to another task.
func answerStranger(i *inbox, item *input, t *events.Task, m *events.ChildMessage) error {
	a := events.ChildAnswer{Child: m.Child, Link: m.Link, State: events.ChildLost, Code: events.RejectLost, Reason: "the task is not known"}
	switch {
	case t != nil && m.Link.Operation == events.Do:
		a.State, a.Code, a.Reason = events.ChildRejected, events.RejectConflict, sameID
	case t == nil && m.Link.Operation == events.Do:
		return i.record(i.caused(item, m.Child, &events.ChildRefused{
			Parent: events.ParentLink{Link: m.Link}, Reason: events.RejectLost, Detail: a.Reason, RememberFor: i.settings().RememberFor,
		}), nil)
	}
	return i.record(i.caused(item, m.Child, &events.ChildAnswered{Answer: a}), nil)
}

const sameID = "another task has its ID"

// undoForParent judges a request to undo a child. One that the child knows is answered as before.
func undoForParent(i *inbox, item *input, t *events.Task, m *events.ChildMessage) error {
	a := events.ChildAnswer{Child: t.ID, Link: m.Link, State: events.ChildRefuses}
	switch known, ok := events.AnswerAgain(t, m.Link); {
	case ok && (m.Link.N <= t.Parent.Undo || t.State == events.TaskStateUndone || t.State == events.TaskStateRejected):
		a = known
	case m.Link.N <= t.Parent.Undo:
		return nil // it is being undone
	case t.State == events.TaskStateTerminated:
		a.Code, a.Reason = childTerminated, "it was terminated"
	//mutant:child-past-its-pivot-refuses
	case t.Irrevocable():
		a.Code, a.Reason = childPastPivot, "it is past its point of no return"
	case t.ChildrenReleased:
		a.Code, a.Reason = events.RejectTooOld, "it has released its own children"
	case t.Parent.Released:
		a.Code, a.Reason = events.RejectTooOld, "its parent has released it"
	default:
		return i.planner.recordAndPlan(i.caused(item, t.ID, &events.ChildUndoRequested{Link: m.Link, Reason: events.Clip(m.Cancel, maxDetail)}))
	}
	return i.record(i.caused(item, t.ID, &events.ChildAnswered{Answer: a}), nil)
}

// The codes of the errors of steps whose child did not do them.
const (
	childUndone     = "child_undone"
	childTerminated = "child_terminated"
	childRejected   = "child_rejected"
	childLost       = "child_lost"
	childPastPivot  = "child_past_pivot"
	// childEarlier is the code of the answer to a parent that reuses the ID of an earlier task, which is still the child's parent.
	childEarlier = "earlier_incarnation"
)

// refuseChild answers the parent of a submission that cannot be accepted, instead of a dead letter. It returns false if the input is not the submission of a child.
func refuseChild(i *inbox, item *input, reason, detail string) (bool, error) {
	var sub struct {
		ID       string             `json:"id"`
		Workflow string             `json:"workflow"`
		Parent   *events.ParentLink `json:"parent"`
	}
	if item.in != events.Submissions || json.Unmarshal(item.record.Value, &sub) != nil || sub.Parent == nil || sub.Parent.Check() != "" || events.CheckTaskID(sub.ID) != nil {
		return false, nil
	}
	if events.Home(sub.ID, i.cfg.Partitions) != i.cfg.Partition || string(item.record.Key) != sub.ID {
		return false, nil
	}
	t, err := i.state.Task(sub.ID)
	if err != nil {
		return true, err
	}
	detail = events.Clip(detail, maxDetail)
	if t == nil {
		return true, i.record(i.caused(item, sub.ID, &events.ChildRefused{
			Parent: *sub.Parent, Workflow: events.Clip(sub.Workflow, events.MaxTaskID), Reason: reason, Detail: detail, RememberFor: i.settings().RememberFor,
		}), nil)
	}
	a := events.ChildAnswer{Child: sub.ID, Link: sub.Parent.Link, State: events.ChildRejected, Code: reason, Reason: detail}
	if p := t.Parent; reason == events.RejectConflict && p != nil && p.Link.Task == a.Link.Task && p.Link.Path == a.Link.Path && p.Link.Incarnation != a.Link.Incarnation {
		a.Code = childEarlier
		if !p.Released { // nobody else will release it: that parent is forgotten
			if err := i.record(i.caused(item, t.ID, &events.ChildReleased{Link: p.Link}), nil); err != nil {
				return true, err
			}
		}
	}
	return true, i.record(i.caused(item, t.ID, &events.ChildAnswered{Answer: a}), nil)
}

// repeatsChild judges a submission of a child whose ID is known: a copy of an ask is answered as before. It returns false for any other submission.
func repeatsChild(i *inbox, item *input, known *events.Task, p *events.ParentLink) (bool, error) {
	//mutant:link-tells-children-apart
	if known.Parent == nil || known.Parent.Link != p.Link {
		return false, nil
	}
	if a, ok := events.AnswerAgain(known, p.Link); ok {
		return true, i.record(i.caused(item, known.ID, &events.ChildAnswered{Answer: a}), nil)
	}
	return true, nil
}

// judgeChild judges what a child says. If no task has its link, the child is released: its parent is forgotten.
func judgeChild(i *inbox, item *input) error {
	var a events.ChildAnswer
	if err := json.Unmarshal(item.data, &a); err != nil {
		return i.reject(item, "", events.RejectUnreadable, err.Error())
	}
	why := a.Check()
	if string(item.record.Key) != a.Link.Task {
		why = "the record's key is not the parent"
	}
	if why != "" {
		return i.reject(item, "", events.RejectInvalid, "the record of a child cannot be used: "+why)
	}
	if done, err := i.elsewhere(item, a.Link.Task); done || err != nil {
		return err
	}
	i.judging.task = a.Link.Task
	t, err := i.state.Task(a.Link.Task)
	known := t != nil && events.HasChild(t, a.Child, a.Link)
	switch {
	case err != nil:
		return err
	//mutant:unknown-link-is-released
	case !known:
		if a.State == events.ChildAccepted {
			return nil
		}
		return i.record(i.caused(item, a.Link.Task, &events.ChildReturned{ChildRelease: events.ChildRelease{Child: a.Child, Link: a.Link}}), nil)
	//mutant:answer-counts-once
	case !known || !events.AwaitsChild(t, a.Child, a.Link):
		return nil
	}
	a.Reason = events.Clip(a.Reason, maxDetail)
	body, err := endedByChild(i, t, &a)
	if err != nil || body == nil {
		return err
	}
	return i.planner.recordAndPlan(i.caused(item, t.ID, body))
}

// endedByChild returns the fact by which the answer of a child ends the attempt that waits for it.
func endedByChild(i *inbox, t *events.Task, a *events.ChildAnswer) (events.Body, error) {
	s := t.Step(a.Link.Path)
	if a.Link.Operation == events.Undo {
		return undoneByChild(i, t, s, a), nil
	}
	f := Failure{Task: t, Path: s.Path, Operation: events.Do, Effect: events.EffectNone, Error: events.Error{Class: events.ClassPermanent}}
	switch a.State {
	case events.ChildProcessed, events.ChildAccepted:
		out := a.Output
		if a.State == events.ChildAccepted {
			out, _ = events.Marshal(map[string]string{"id": a.Child})
		}
		fault, err := i.planner.check(t, s.Path, out)
		if err != nil || fault == nil {
			return &events.StepCompleted{Step: s.Path, Attempt: s.Attempt, Output: out}, err
		}
		f.Error, f.Effect = *fault, events.EffectDoneUnknown
		f.Error.Message = events.Clip(f.Error.Message, maxDetail)
		return &events.StepFailed{Step: s.Path, Attempt: s.Attempt, Error: f.Error, Effect: f.Effect, Output: out, Verdict: i.planner.verdict(f)}, nil
	case events.ChildUndone:
		f.Error.Code, f.Error.Message = childUndone, fmt.Sprintf("task %q was undone: %s", a.Child, a.Reason)
		if a.Left {
			f.Effect = events.EffectDoneUnknown
			f.Error.Message += "; an operator left what some of its steps did"
		}
		if s.ByChild.Late {
			f.Error.Class, f.Over = events.ClassTimeout, true
		}
	case events.ChildTerminated:
		f.Effect = events.EffectDoneUnknown
		f.Error.Code, f.Error.Message = childTerminated, fmt.Sprintf("task %q was terminated: %s", a.Child, a.Reason)
	case events.ChildRejected:
		f.Error.Code, f.Error.Message = childRejected, fmt.Sprintf("task %q was not accepted (%s): %s", a.Child, a.Code, a.Reason)
		if a.Code == childEarlier {
			f.Error.Class = events.ClassRetryable
		}
	case events.ChildLost:
		return lostChild(i, f, s, a), nil
	default:
		return nil, nil
	}
	if a.Code == events.RejectTooOld { // it may have been accepted earlier
		return lostChild(i, f, s, a), nil
	}
	return &events.StepFailed{Step: s.Path, Attempt: s.Attempt, Error: f.Error, Effect: f.Effect, Verdict: i.planner.verdict(f)}, nil
}

// lostChild returns the failure of a step whose child is no longer known. Only an operator can judge it.
func lostChild(i *inbox, f Failure, s *events.Step, a *events.ChildAnswer) events.Body {
	f.Error.Code, f.Error.Message, f.Effect = childLost, fmt.Sprintf("task %q is no longer known: %s", a.Child, a.Reason), events.EffectDoneUnknown
	//mutant:lost-child-parks
	v := events.Verdict{Action: events.ActionPark, Reason: f.Error.Message}
	return &events.StepFailed{Step: s.Path, Attempt: s.Attempt, Error: f.Error, Effect: f.Effect, Verdict: v}
}

func undoneByChild(i *inbox, t *events.Task, s *events.Step, a *events.ChildAnswer) events.Body {
	n := s.Undo.Attempt
	if a.State == events.ChildUndone {
		return &events.Compensated{Step: s.Path, Attempt: n, Left: a.Left}
	}
	e := events.Error{Class: events.ClassPermanent, Code: a.Code, Message: fmt.Sprintf("task %q does not undo itself: %s. A retry helps only if that changes: undo by hand what it did and complete the undo of the step, or skip the undo to leave it", a.Child, a.Reason)}
	switch a.State {
	case events.ChildTerminated:
		e.Code = childTerminated
	case events.ChildLost:
		e.Code = childLost
	case events.ChildRefuses:
	default:
		return nil
	}
	f := Failure{Task: t, Path: s.Path, Operation: events.Undo, Error: e}
	return &events.CompensationFailed{Step: s.Path, Attempt: n, Error: e, Verdict: i.planner.verdict(f)}
}

// askChild repeats what a step asks of a child that has not answered.
func (*timers) askChild(task *events.Task, m events.Timer) events.Body {
	s := task.Step(m.Path)
	if !task.Running(m.Path, m.Operation, m.Attempt) || s.ByChild == nil {
		return nil
	}
	cancel := ""
	if m.Operation == events.Do {
		cancel = s.ByChild.Cancelled
	}
	return events.AskChild(task, s, m.Operation, cancel, false)
}

// toParent returns the effect of a fact of a child: its answer to the parent.
func toParent(x *outbox, f *events.Fact) []*effect {
	a, ok := events.ChildAnswerOf(f)
	if !ok {
		return nil
	}
	r, err := events.EncodeChildAnswer(a, subjectOf(x, f))
	if err != nil {
		return nil
	}
	r.Partition = events.Home(a.Link.Task, x.cfg.Partitions)
	return []*effect{{kind: events.EffectEnd, topic: string(events.Reports), part: "/" + strconv.Itoa(int(r.Partition)), record: r}}
}

// toChild returns the effects of a fact of a parent: the submission of a child, or messages to children.
func toChild(x *outbox, t *events.Task, f *events.Fact) (list []*effect) {
	if sub := events.ChildSubmissionOf(t, f); sub != nil {
		raw, err := events.Marshal(sub)
		if err != nil {
			return nil
		}
		return x.schedules.start(f, sub.ID, raw)
	}
	kind, messages := events.ChildMessagesOf(t, f)
	for _, m := range messages {
		r, err := events.EncodeChildMessage(kind, m, subjectOf(x, f))
		if err != nil {
			return nil
		}
		r.Partition = events.Home(m.Child, x.cfg.Partitions)
		list = append(list, &effect{kind: events.EffectChild, topic: string(events.Submissions), part: "/" + strconv.Itoa(int(r.Partition)), record: r})
	}
	return list
}

func subjectOf(x *outbox, f *events.Fact) events.Subject {
	return events.Subject{ID: events.FactID(f, x.cfg.Partition), Source: x.source, Time: f.Time, Traceparent: f.Traceparent}
}

// ofChild completes what a child gets at its acceptance. Unless it is detached, it runs under the permit of its parents: it could otherwise wait for
// a permit that they hold.
func ofChild(a *events.Acceptance, p *events.ParentLink, settings *events.Settings) {
	if !p.Detach {
		a.Concurrency = nil
	}
	if a.RememberFor == 0 {
		a.RememberFor = settings.RememberFor
	}
}
