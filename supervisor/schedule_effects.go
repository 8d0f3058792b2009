package supervisor

import (
	"encoding/json"
	"strconv"

	"github.com/sagalog/sagalog/events"
)

// start is the effect of a fact that starts a task elsewhere: its submission, to the task's home. It follows from the fact alone, so that a
// repeat has the same content.
func (s *schedules) start(f *events.Fact, task string, submission []byte) []*effect {
	home := events.Home(task, s.cfg.Partitions)
	r := events.SubmissionRecord(task, submission, events.Subject{ID: events.FactID(f, s.cfg.Partition), Source: s.outbox.source, Time: f.Time, Traceparent: f.Traceparent})
	r.Partition = home
	return []*effect{{kind: events.EffectStart, topic: string(events.Submissions), part: "/" + strconv.Itoa(int(home)), record: r}}
}

// end is the effect of a fact that ends a task, or rejects its submission: what started the task learns of it.
func (s *schedules) end(f *events.Fact, end events.TaskEnd) []*effect {
	if end.Schedule == "" {
		return nil
	}
	r, err := events.EncodeTaskEnd(end, events.Subject{ID: events.FactID(f, s.cfg.Partition), Source: s.outbox.source, Time: f.Time, Traceparent: f.Traceparent})
	if err != nil {
		return nil
	}
	r.Partition = events.Home(string(r.Key), s.cfg.Partitions)
	return []*effect{{kind: events.EffectEnd, topic: string(events.Reports), part: "/" + strconv.Itoa(int(r.Partition)), record: r}}
}

// endOf is end for a fact that ends a task, nil if no schedule started it.
func (s *schedules) endOf(f *events.Fact) []*effect {
	end, _ := events.TaskEndOf(f)
	return s.end(f, end)
}

// cancel is the effect of a fact that asks a task of a schedule to cancel. It follows from the fact alone, so that a repeat is the same request.
func (s *schedules) cancel(f *events.Fact, b *events.ScheduleCancelRequested) []*effect {
	r, err := events.EncodeRequest(events.ScheduleCancel(b), events.Subject{ID: events.FactID(f, s.cfg.Partition), Source: s.outbox.source, Time: f.Time, Traceparent: f.Traceparent})
	if err != nil {
		return nil
	}
	r.Partition = events.Home(b.Task, s.cfg.Partitions)
	return []*effect{{kind: events.EffectCancel, topic: string(events.Reports), part: "/" + strconv.Itoa(int(r.Partition)), record: r}}
}

// unstarted ends the task of a schedule whose submission the broker refused, if the schedule still waits for it. A later schedule of its name
// may wait for the same task by a submission that it sent itself.
func (s *schedules) unstarted(f *events.Fact, why string) *events.ScheduleTaskEnded {
	b, ok := f.Body.(*events.ScheduleFired)
	if !ok {
		return nil
	}
	var sub struct {
		Began int64 `json:"schedule_began"`
	}
	x := s.state.Schedules[b.Schedule]
	if x == nil || json.Unmarshal(b.Submission, &sub) != nil || !x.Awaits(&events.TaskEnd{Task: b.Task, Began: sub.Began}) {
		return nil
	}
	return &events.ScheduleTaskEnded{Schedule: b.Schedule, Task: b.Task, State: events.EndRejected, Reason: events.Clip(why, maxDetail)}
}
