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
	if q.ID == "" || !utf8.ValidString(q.ID) || !utf8.ValidString(q.Signal) || max(len(q.ID), len(q.By), len(q.Step), len(q.From), len(q.Signal)) > events.MaxTaskID || len(q.Reason) > maxDetail {
		// An ID that is not valid UTF-8 would change when it is read back from the fact, and states would diverge (INV2).
		return i.reject(item, id, events.RejectInvalid, "the request is invalid: it must have an id; id and signal must be UTF-8; id, step, from, signal and by may have up to 255 bytes, and reason up to 4096")
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
	body, refused := JudgeRequest(t, &q)
	if refused.Reason == "" {
		if body, refused.Reason, err = i.granted(t, body); err != nil {
			return err
		}
	}
	if refused.Reason != "" {
		if t.State.Ended() || full(t) {
			return i.reject(item, id, events.RejectRefused, refused.Reason)
		}
		body = &events.RequestRefused{Request: q.ID, Verb: q.Kind, Reason: refused.Reason, By: q.By}
	}
	if err := releaseBefore(i, t, body); err != nil {
		return err
	}
	if again, ok := body.(*events.TaskReopened); ok && len(again.Steps) == 0 {
		i.planner.noOutput[id] = true
	}
	return i.planner.recordAndPlan(i.caused(item, id, body))
}

// holdRequest keeps a cancel that overtook the submission of its task. It is held by a fact, because memory is lost with the
// process. docs/protocol.md, "A cancel that comes first is held by a fact".
func (i *inbox) holdRequest(item *input, q events.Request) error {
	if !q.Kind.Early() {
		return i.reject(item, q.Task, events.RejectRefused, "there is no task with this ID")
	}
	if q.Kind == events.RequestSignal {
		var why string
		if q.Payload, why = payloadOf(i, q.Signal, q.Payload); why != "" || q.Signal == "" {
			return i.reject(item, q.Task, events.RejectInvalid, "the signal has no name, or its payload cannot be used: "+why)
		}
	}
	for _, h := range i.state.HeldFor(q.Task) {
		if h.Request.ID == q.ID {
			return nil
		}
	}
	if why := unholdable(i, &q); why != "" {
		return i.reject(item, q.Task, events.RejectLimit, why)
	}
	expires := i.stamp().Add(i.settings().HoldFor(q.Kind).Std())
	//mutant:held-cancel-is-recorded
	return i.record(i.caused(item, q.Task, &events.RequestHeld{Request: q, ExpiresAt: expires}), nil)
}

// Refusal is why a request is refused.
type Refusal struct {
	// Reason is a sentence that says what to do instead; empty if the request is granted.
	Reason string
	// Lasting says that no later fact but a rerun can change it, so that a caller may believe it of a state that is out of date.
	Lasting bool
}

// RefusedSchedule is the reason for which the cancel of a schedule is refused, if an earlier schedule of its name started the task.
const RefusedSchedule = "the task is not one of the schedule that asks"

// verbJudges say what each verb does in a state of a task: the fact that the request leads to, or why it is refused.
var verbJudges = map[events.Verb]func(t *events.Task, q *events.Request) (events.Body, Refusal){
	events.RequestCancel:    cancelled,
	events.RequestPause:     paused,
	events.RequestResume:    resumed,
	events.RequestRetry:     retried,
	events.RequestSkip:      skipped,
	events.RequestComplete:  completed,
	events.RequestFail:      failed,
	events.RequestTerminate: terminated,
	events.RequestSignal:    signalled,
	events.RequestRerun:     rerun,
}

// JudgeRequest returns the fact that a request about a task leads to, or why it is refused. It is pure: the owner decides by it, and others
// may ask it about a state that they read. A request that would change nothing is refused.
func JudgeRequest(t *events.Task, q *events.Request) (events.Body, Refusal) {
	if t.State.Ended() && q.Kind != events.RequestRerun {
		return nil, Refusal{fmt.Sprintf("the task has ended: it is %s", t.State), true}
	}
	if q.ScheduleBegan != 0 && q.ScheduleBegan != t.ScheduleBegan {
		return nil, Refusal{RefusedSchedule, true}
	}
	if full(t) {
		return nil, Refusal{fmt.Sprintf("the task has had %d requests, the most that a task may have: submit another task if this one cannot end", len(t.Requests)+len(t.Held)), true}
	}
	judge := verbJudges[q.Kind]
	if judge == nil {
		return nil, Refusal{fmt.Sprintf("%q is not a verb", q.Kind), true}
	}
	return judge(t, q)
}

// full says whether the task has had as many requests as it may: each is remembered, and loaded with the task.
func full(t *events.Task) bool { return len(t.Requests)+len(t.Held) >= events.MaxRequests }

// refused is a refusal that may not last.
func refused(format string, args ...any) (events.Body, Refusal) {
	return nil, Refusal{Reason: fmt.Sprintf(format, args...)}
}

func cancelled(t *events.Task, q *events.Request) (events.Body, Refusal) {
	switch {
	case t.Rerun != nil:
		return refused("the task is being rerun, and is undone for that first: cancel it when run %d has begun", t.Run+1)
	case t.ParkedFrom == events.TaskStateUndoing:
		return nil, Refusal{events.RefusedUndoParked, true}
	case t.State == events.TaskStateUndoing && t.Paused != nil:
		return refused("%s, and is paused: resume it", events.RefusedUndoing)
	case t.State == events.TaskStateUndoing:
		return nil, Refusal{events.RefusedUndoing, true}
	case t.PivotPassed:
		return nil, Refusal{"the task is past its point of no return, and can only go forward", true}
	case t.Irrevocable():
		return refused("the pivot is under way, or its outcome is unknown, so the task may be past its point of no return: ask again when the outcome is known")
	}
	return &events.CancelRequested{Request: q.ID, Reason: q.Reason, By: q.By}, Refusal{}
}

func paused(t *events.Task, q *events.Request) (events.Body, Refusal) {
	if t.Paused != nil {
		return refused("the task is paused already, since %s", t.Paused.Since)
	}
	return &events.TaskPaused{Request: q.ID, Reason: q.Reason, By: q.By}, Refusal{}
}

func resumed(t *events.Task, q *events.Request) (events.Body, Refusal) {
	switch {
	case t.Paused != nil:
		return &events.TaskResumed{Request: q.ID, Reason: q.Reason, By: q.By}, Refusal{}
	case t.State == events.TaskStateError:
		return refused("the task is not paused, but parked: remove the cause, then retry it")
	}
	return refused("the task is not paused")
}

func terminated(t *events.Task, q *events.Request) (events.Body, Refusal) {
	//mutant:terminate-refuses-while-running
	if s, op := t.RunningStep(); s != nil {
		if child := s.DoneByChild(op); child != "" {
			return refused("task %q does step %q: cancel or terminate that task first", child, s.Path)
		}
		n := s.Attempt
		if op == events.Undo {
			n = s.Undo.Attempt
		}
		return refused("attempt %d of the %s of step %q is running: fail it, or pause the task and wait for the attempt, then terminate the task", n, op, s.Path)
	}
	return events.Terminated(t, q), Refusal{}
}

// retried reopens the failed steps of a parked task, or starts a waiting step at once.
func retried(t *events.Task, q *events.Request) (events.Body, Refusal) {
	var steps []string
	for _, s := range t.Steps {
		if q.Step != "" && s.Path != q.Step {
			continue
		}
		if reopenable(t, s) {
			if q.Attempt != 0 && q.Attempt != s.Attempt {
				return refused("attempt %d of step %q is not the latest, which is %d", q.Attempt, s.Path, s.Attempt)
			}
			steps = append(steps, s.Path)
		}
	}
	if len(steps) == 0 && (q.Step != "" || t.State != events.TaskStateError) {
		return refused("%s", notRetried(t, q.Step))
	}
	if len(q.With) > 0 && len(steps) != 1 {
		return refused("with gives one step another input, but %d steps would be retried: name one of them", len(steps))
	}
	return &events.TaskReopened{Request: q.ID, Steps: steps, With: q.With, Reason: q.Reason, By: q.By}, Refusal{}
}

// notRetried says why nothing is retried.
func notRetried(t *events.Task, path string) string {
	s := t.Step(path)
	switch {
	case s == nil:
	case s.DoneByChild(events.Do) != "":
		return byChild(s.DoneByChild(events.Do), path, events.Do)
	case s.DoneByChild(events.Undo) != "":
		return byChild(s.DoneByChild(events.Undo), path, events.Undo)
	case s.Tolerated():
		return fmt.Sprintf("nothing can be retried: the failure of item %q is tolerated, and the task goes on without it", path)
	case s.Fans():
		for _, x := range t.Steps {
			if step, _, item := events.SplitItem(x.Path); item && step == path && reopenable(t, x) {
				return fmt.Sprintf("nothing can be retried: step %q itself has no attempts; retry its items, such as %q, or leave out the step to retry all that failed", path, x.Path)
			}
		}
	}
	for _, x := range t.Live() {
		for _, op := range []events.Operation{events.Do, events.Undo} {
			if child := x.DoneByChild(op); child != "" {
				return "nothing can be retried: " + byChild(child, x.Path, op)
			}
		}
	}
	return "nothing can be retried: retry needs a parked task with a failed step, or a step that waits for its next attempt"
}

func reopenable(t *events.Task, s *events.Step) bool {
	switch t.State {
	case events.TaskStateError:
		if t.ParkedFrom == events.TaskStateUndoing {
			return s.State == events.StepStateUndoFailed
		}
		return s.Failed() || s.State == events.StepStateUndoFailed
	case events.TaskStateProcessing:
		return s.State == events.StepStateWaiting && !s.Waits() && !s.Fans() || s.Tolerated() && s.Undo != nil && s.Undo.State == events.StepStateWaiting
	case events.TaskStateUndoing:
		return s.Undo != nil && s.Undo.State == events.StepStateWaiting
	}
	return false
}
