package supervisor

import (
	"encoding/json"
	"fmt"
	"unicode/utf8"

	"github.com/sagalog/sagalog/events"
)

// judgeRequest judges an operator's request about a task.
func (i *inbox) judgeRequest(item *input) error {
	env := &item.env
	var q events.Request
	if err := json.Unmarshal(item.data, &q); err != nil {
		return i.reject(item, "", events.RejectUnreadable, err.Error())
	}
	id, err := events.TaskID(item.record.Key, env.Subject, q.Task)
	if err != nil {
		return i.reject(item, "", events.RejectInvalid, err.Error())
	}
	q.Task, q.Kind = id, events.VerbOf(env.Type)
	if q.ID == "" {
		q.ID = env.ID
	}
	if q.ID == "" || !utf8.ValidString(q.ID) || max(len(q.ID), len(q.By), len(q.Step)) > events.MaxTaskID || len(q.Reason) > maxDetail {
		// An ID that is not valid UTF-8 would change when it is read back from the fact, and states would diverge (INV2).
		return i.reject(item, id, events.RejectInvalid, "the request is invalid: its id must be UTF-8, id, step and by may have up to 255 bytes, and reason up to 4096")
	}
	if done, err := i.misplaced(item, id); done || err != nil {
		return err
	}
	t, err := i.state.Task(id)
	if err != nil {
		return err
	}
	if t == nil {
		return i.holdRequest(item, q)
	}
	if t.HasRequest(q.ID) {
		return nil
	}
	i.judging.task = id
	body, why := requested(t, &q)
	if why != "" {
		return i.reject(item, id, events.RejectRefused, why)
	}
	if body == nil {
		return nil
	}
	if again, ok := body.(*events.TaskReopened); ok && len(again.Steps) == 0 {
		i.planner.noOutput = id
		defer func() { i.planner.noOutput = "" }()
	}
	return i.planner.recordAndPlan(i.caused(item, id, body))
}

// holdRequest keeps a cancel that overtook the submission of its task. It is held by a fact, because memory is lost with the
// process. docs/protocol.md, "A cancel that comes first is held by a fact".
func (i *inbox) holdRequest(item *input, q events.Request) error {
	if !q.Kind.Early() {
		return i.reject(item, q.Task, events.RejectRefused, "there is no task with this ID")
	}
	for _, h := range i.state.HeldFor(q.Task) {
		if h.Request.ID == q.ID {
			return nil
		}
	}
	if len(i.state.Held()) >= i.settings().HeldRequests {
		return i.reject(item, q.Task, events.RejectLimit, fmt.Sprintf("%d requests for unknown tasks are held already, which is the limit (held_requests)", i.settings().HeldRequests))
	}
	expires := i.stamp().Add(i.settings().HeldFor.Std())
	//mutant:held-cancel-is-recorded
	return i.record(i.caused(item, q.Task, &events.RequestHeld{Request: q, ExpiresAt: expires}), nil)
}

// requested returns the fact that a request leads to, nil if it changes nothing, or why it is refused.
func requested(t *events.Task, q *events.Request) (events.Body, string) {
	if t.State.Ended() {
		return nil, fmt.Sprintf("the task has ended: %s", t.State)
	}
	if n := len(t.Requests) + len(t.Held); n >= events.MaxRequests { // each request is remembered, and loaded with the task
		return nil, fmt.Sprintf("the task has had %d requests, which is the limit", n)
	}
	if q.Kind == events.RequestCancel {
		switch {
		case t.State == events.TaskStateUndoing:
			return nil, ""
		case t.ParkedFrom == events.TaskStateUndoing:
			return nil, "the task is being undone already, and is parked because an undo failed: remove the cause, then retry the task"
		case t.Irrevocable():
			return nil, "the task is past its point of no return, or its pivot is under way"
		}
		return &events.CancelRequested{Request: q.ID, Reason: q.Reason, By: q.By}, ""
	}
	return retried(t, q)
}

// retried reopens the failed steps of a parked task, or starts a waiting step at once.
func retried(t *events.Task, q *events.Request) (events.Body, string) {
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
	if len(steps) == 0 && (q.Step != "" || t.State != events.TaskStateError) {
		return nil, "nothing can be retried: retry needs a parked task with a failed step, or a step that waits for its next attempt"
	}
	return &events.TaskReopened{Request: q.ID, Steps: steps, Reason: q.Reason, By: q.By}, ""
}

func reopenable(t *events.Task, s *events.Step) bool {
	switch t.State {
	case events.TaskStateError:
		if t.ParkedFrom == events.TaskStateUndoing {
			return s.State == events.StepStateUndoFailed
		}
		return s.State == events.StepStateFailed || s.State == events.StepStateTimedOut
	case events.TaskStateProcessing:
		return s.State == events.StepStateWaiting
	case events.TaskStateUndoing:
		return s.Undo != nil && s.Undo.State == events.StepStateWaiting
	}
	return false
}
