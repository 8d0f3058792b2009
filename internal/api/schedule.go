package api

import (
	"context"
	"encoding/json"

	"github.com/sagalog/sagalog/events"
)

// Schedules knows the schedules, applies and deletes them. Its errors may be ErrNoAnswer.
type Schedules interface {
	// Schedules returns the schedules by name, as of all records that were durable before the call.
	Schedules(ctx context.Context) (map[string]Schedule, error)
	// ApplySchedule validates a draft and records it. If it is recorded already, nothing is written, and changed is false.
	ApplySchedule(ctx context.Context, d Draft) (now Schedule, changed bool, faults []Fault, err error)
	// DeleteSchedule records that a schedule is deleted; false if it does not exist.
	DeleteSchedule(ctx context.Context, name string) (bool, error)
	// ScheduleState returns a schedule as of the latest commit of its home partition, nil if it is not known there. It is the caller's.
	ScheduleState(ctx context.Context, name string) (*events.Schedule, error)
	// Dues returns the due times of a schedule after one instant and not after another, up to limit. There is no such other one if it is zero.
	Dues(d *events.ScheduleDefinition, after, until events.Instant, limit int) ([]events.Instant, error)
}

// Schedule is a schedule as it was applied. Offset is that of its record in the definitions.
type Schedule struct {
	events.ScheduleDefinition
	Offset    int64
	AppliedAt events.Instant
}

// ScheduleDocument is a schedule.
type ScheduleDocument struct {
	Schedule string            `json:"schedule" doc:"Its name"`
	Workflow string            `json:"workflow"`
	Version  int               `json:"version,omitzero" doc:"Absent: the current one"`
	Cron     string            `json:"cron,omitempty" doc:"Minute, hour, day of month, month, day of week"`
	Every    string            `json:"every,omitempty" doc:"An interval instead of cron: its multiples since 1970 began in UTC"`
	TimeZone string            `json:"time_zone,omitempty" doc:"Absent: UTC"`
	Overlap  events.Overlap    `json:"overlap" enum:"skip,queue_one,cancel,allow" doc:"What becomes of a due time while a task has not ended"`
	CatchUp  string            `json:"catch_up" doc:"How late a due time may be: an older one is missed"`
	Jitter   string            `json:"jitter,omitempty" doc:"The longest time by which a task is submitted late"`
	Input    json.RawMessage   `json:"input,omitempty" doc:"With expressions over schedule.due, schedule.due_date and schedule.previous_due"`
	Labels   map[string]string `json:"labels,omitempty"`
	Priority int               `json:"priority,omitzero"`
	Deadline string            `json:"deadline,omitempty"`

	AppliedAt events.Instant   `json:"applied_at,omitzero" format:"date-time"`
	Paused    *events.Paused   `json:"paused,omitempty" doc:"Who paused the schedule, since when, and why"`
	Next      []events.Instant `json:"next" nullable:"false" doc:"The next due times, up to five; none while it is paused"`
	Last      *ScheduleFire    `json:"last,omitempty" doc:"The latest due time that led to a task"`
	Running   []ScheduleFire   `json:"running,omitempty" doc:"The tasks that have not ended. A parked task has not"`
	Queued    events.Instant   `json:"queued,omitzero" format:"date-time" doc:"The due time whose task starts when the running one has ended"`
	Fired     int64            `json:"fired" doc:"How many due times led to a task"`
	Skipped   int64            `json:"skipped" doc:"How many were passed over because a task had not ended"`
	Missed    int64            `json:"missed" doc:"How many were older than catch_up"`
	Failed    int64            `json:"failed" doc:"For how many no task could be started: no submission could be made, or it was rejected"`
	Pending   bool             `json:"pending,omitzero" doc:"Its partition has not taken it over yet"`
	Changed   bool             `json:"changed,omitzero" doc:"This call applied or deleted it"`
}

// ScheduleFire is a due time that leads to a task.
type ScheduleFire struct {
	Due    events.Instant `json:"due" format:"date-time"`
	Task   string         `json:"task"`
	At     events.Instant `json:"at,omitzero" format:"date-time" doc:"When its task was submitted; absent in the future"`
	State  string         `json:"state,omitempty" doc:"How the task ended, or rejected; absent while it has not ended"`
	Reason string         `json:"reason,omitempty"`
}

func fireDocument(f events.ScheduleFire) ScheduleFire {
	return ScheduleFire{Due: f.Due, Task: f.Task, At: f.At, State: f.State, Reason: f.Reason}
}

// scheduleDocument joins the definition of a schedule and what its home partition knows, which may be nil.
func scheduleDocument(s *Schedule, x *events.Schedule) ScheduleDocument {
	text := func(d events.Duration) string {
		if d == 0 {
			return ""
		}
		return d.String()
	}
	d := ScheduleDocument{
		Schedule: s.Schedule, Workflow: s.Workflow, Version: s.Version, Cron: s.Cron, Every: text(s.Every), TimeZone: s.TimeZone, Overlap: s.Overlap,
		CatchUp: s.CatchUp.String(), Jitter: text(s.Jitter), Input: s.Input, Labels: s.Labels, Priority: s.Priority, Deadline: s.Deadline, AppliedAt: s.AppliedAt,
		Next: []events.Instant{}, Pending: x == nil || x.Offset < s.Offset,
	}
	if x == nil {
		return d
	}
	d.Paused, d.Queued, d.Fired, d.Skipped, d.Missed, d.Failed = x.Paused, x.Queued, x.Fired, x.Skipped, x.Missed, x.Failed
	for _, f := range x.Running {
		d.Running = append(d.Running, fireDocument(f))
	}
	if n := len(x.Fires); n > 0 {
		last := fireDocument(x.Fires[n-1])
		d.Last = &last
	}
	return d
}

// ScheduleReceipt says what became of a request about a schedule.
type ScheduleReceipt struct {
	Request  string           `json:"request" doc:"The ID of the request"`
	Schedule string           `json:"schedule"`
	Result   string           `json:"result,omitempty" enum:"granted" doc:"Absent: it has not been judged yet"`
	Fired    []ScheduleFire   `json:"fired,omitempty" doc:"The tasks that were submitted for it. The engine then accepts or rejects each, like any submission. A task without a state was accepted or is not judged yet; read the task, or the fires of the schedule, to see what became of it"`
	Queued   []events.Instant `json:"queued,omitempty" doc:"The due time whose task starts when the running one has ended"`
	Already  []ScheduleFire   `json:"already,omitempty" doc:"The due times that had led to a task before. To do one again, submit its input with another ID"`
	Refused  []RefusedDue     `json:"refused,omitempty" doc:"The due times that lead to no task now"`
}

// RefusedDue is a due time that leads to no task.
type RefusedDue struct {
	Due    events.Instant `json:"due" format:"date-time"`
	Reason string         `json:"reason"`
}
