package supervisor

import (
	"encoding/json"
	"fmt"
	"slices"
	"unicode/utf8"

	"github.com/sagalog/sagalog/events"
)

// judgeTaskEnd takes the end of a task that a schedule started. If the schedule does not wait for it, the report is passed: it is a repeat,
// or the schedule was deleted, and the one of that name that exists now is another one.
func judgeTaskEnd(i *inbox, item *input) error {
	var end events.TaskEnd
	if err := json.Unmarshal(item.data, &end); err != nil {
		return i.reject(item, "", events.RejectUnreadable, err.Error())
	}
	if state := events.TaskState(end.State); !state.Ended() && end.State != events.EndRejected || !utf8.ValidString(end.Schedule+end.Task+end.Reason) {
		return i.reject(item, "", events.RejectInvalid, "the end of a task names a state that is not one of an ended task, or is not UTF-8")
	}
	key := events.ScheduleKey(end.Schedule)
	if string(item.record.Key) != key {
		return i.reject(item, "", events.RejectInvalid, fmt.Sprintf("the record's key is not %q", events.Clip(key, events.MaxTaskID)))
	}
	if done, err := i.elsewhere(item, key); done || err != nil {
		return err
	}
	x := i.state.Schedules[end.Schedule]
	if x == nil || !x.Awaits(&end) {
		return nil
	}
	return i.record(i.caused(item, "", &events.ScheduleTaskEnded{
		Schedule: end.Schedule, Task: end.Task, State: end.State, Reason: events.Clip(end.Reason, maxDetail),
	}), nil)
}

// judgeScheduleRequest judges an operator's request about a schedule. One that would change nothing is passed.
func judgeScheduleRequest(i *inbox, item *input) error {
	var q events.ScheduleRequest
	if err := json.Unmarshal(item.data, &q); err != nil {
		return i.reject(item, "", events.RejectUnreadable, err.Error())
	}
	if q.ID == "" {
		q.ID = item.env.ID
	}
	key := events.ScheduleKey(q.Schedule)
	if string(item.record.Key) != key || q.ID == "" || !utf8.ValidString(q.ID+q.Reason+q.By) || max(len(q.ID), len(q.By)) > events.MaxTaskID || len(q.Reason) > maxDetail {
		return i.reject(item, "", events.RejectInvalid, "the request is invalid: the record's key must be schedule/<name>, id must be UTF-8, id and by may have up to 255 bytes, and reason up to 4096")
	}
	if q.Overlap != "" && !slices.Contains(events.Overlaps(), q.Overlap) {
		return i.reject(item, "", events.RejectInvalid, "overlap is not one of skip, queue_one, cancel, allow")
	}
	if done, err := i.elsewhere(item, key); done || err != nil {
		return err
	}
	x := i.state.Schedules[q.Schedule]
	if x == nil {
		return i.reject(item, "", events.RejectRefused, fmt.Sprintf("there is no schedule %q; if it was applied a moment ago, ask again", q.Schedule))
	}
	body, refused := i.schedules.judge(x, &q, item.env.Type)
	switch {
	case refused != "":
		return i.reject(item, "", events.RejectRefused, refused)
	case body == nil:
		return nil
	}
	return i.record(i.caused(item, "", body), nil)
}

// judge returns the fact that a request about a schedule leads to, nil if it would change nothing, or why it is refused.
func (s *schedules) judge(x *events.Schedule, q *events.ScheduleRequest, kind string) (body events.Body, refused string) {
	d, err := s.definition(x)
	if err != nil {
		return nil, err.Error()
	}
	switch kind {
	case events.TypeSchedulePause:
		if x.Paused != nil {
			return nil, ""
		}
		return &events.SchedulePaused{Schedule: x.Name, Request: q.ID, Reason: q.Reason, By: q.By}, ""
	case events.TypeScheduleResume:
		if x.Paused == nil {
			return nil, ""
		}
		next, err := s.sched.NextDue(d, s.stamp())
		if err != nil {
			return nil, err.Error()
		}
		return &events.ScheduleResumed{Schedule: x.Name, Request: q.ID, Next: next, Reason: q.Reason, By: q.By}, ""
	}
	return s.trigger(x, d, q)
}

// trigger fires a schedule now. A request that comes twice has the same due time.
func (s *schedules) trigger(x *events.Schedule, d *events.ScheduleDefinition, q *events.ScheduleRequest) (events.Body, string) {
	if q.Overlap != "" {
		own := *d
		own.Overlap = q.Overlap
		d = &own
	}
	switch {
	case q.Due <= 0:
		return nil, "the request has no due time"
	case x.HasFired(q.Due) || x.Queued == q.Due || x.Granted(q.ID):
		return nil, ""
	case x.Forgets(q.Due):
		return nil, fmt.Sprintf("the schedule remembers the last %d due times that led to a task, and this one is earlier", events.MaxScheduleFires)
	case s.blocked(x, d) && d.Overlap.Waits() && x.Queued == 0:
		return &events.SchedulePassed{
			Schedule: x.Name, Due: q.Due, Count: 1, Why: events.PassedQueued, Next: x.Next, InRow: x.InRow, Request: q.ID, Cancels: d.Overlap == events.OverlapCancel,
		}, ""
	case s.blocked(x, d):
		return nil, blockedBy(x, d)
	}
	fired, ok := s.occur(x, d, q.Due, x.Next).(*events.ScheduleFired)
	if !ok {
		return nil, "the submission cannot be made: look at the input of the schedule"
	}
	fired.Request, fired.Reason, fired.By = q.ID, q.Reason, q.By
	return fired, ""
}

// blockedBy says why no task can start now.
func blockedBy(x *events.Schedule, d *events.ScheduleDefinition) string {
	if d.Overlap == events.OverlapAllow {
		return fmt.Sprintf("%d tasks have not ended, as many as a schedule can have; the first is %q", len(x.Running), x.Running[0].Task)
	}
	if x.Queued != 0 && d.Overlap.Waits() {
		return fmt.Sprintf("task %q has not ended, and the due time %s already waits for that", x.Running[0].Task, x.Queued)
	}
	return fmt.Sprintf("task %q has not ended, and overlap is %s", x.Running[0].Task, d.Overlap)
}

// scheduleOf notes the schedule and the ID of a submission that cannot be used, if it is one of a schedule, which learns of the rejection.
func scheduleOf(item *input, b *events.InputRejected) {
	if item.in != events.Submissions || item.data == nil {
		return
	}
	var sub struct {
		ID       string `json:"id"`
		Schedule string `json:"schedule"`
		Began    int64  `json:"schedule_began"`
	}
	if json.Unmarshal(item.data, &sub) == nil && events.CheckTaskID(sub.Schedule) == nil && events.CheckTaskID(sub.ID) == nil {
		b.Schedule, b.ScheduleBegan, b.Submission = sub.Schedule, sub.Began, sub.ID
		if at, err := events.ParseInstant(item.env.Time); err == nil && b.Reason == events.RejectTooOld {
			b.ScheduledForgottenBefore = at + 1
		}
	}
}
