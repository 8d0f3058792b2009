package verify

import (
	"encoding/json"

	"github.com/sagalog/sagalog/events"
)

// timetable is a schedule, as the facts of its home partition tell it.
type timetable struct {
	overlap events.Overlap
	paused  bool
	// began is the offset of the record with which it began. queued is the due time that waits, and cancels says that it wants what runs cancelled.
	began   int64
	queued  events.Instant
	cancels bool
	// fired are the due times that led to a task, and running the tasks that have not ended.
	fired   map[events.Instant]bool
	running map[string]bool
	// asked are the running tasks that were asked to cancel.
	asked map[string]bool
}

// timetables are schedules by name.
type timetables map[string]*timetable

// timetabled checks a fact about a schedule: each due time leads to one task, none does while the schedule is paused or a task blocks it, and
// only a task that runs ends.
func timetabled(p *partition, f *events.Fact, at Place) {
	name := scheduleOf(f.Body)
	wrong := func(kind, format string, args ...any) {
		p.wrong(CheckAttempts, kind, at, "schedule "+name+": "+format, args...)
	}
	if events.Home(events.ScheduleKey(name), p.check.number) != p.number {
		wrong("schedule_home", "its home is partition %d, but its fact is here", events.Home(events.ScheduleKey(name), p.check.number))
	}
	x := p.timetables[name]
	if b, ok := f.Body.(*events.ScheduleAdopted); ok {
		p.timetables.adopt(x, b, wrong)
		return
	}
	if x == nil {
		wrong("schedule", "%s is about a schedule that was never adopted, or is deleted", f.Body.Name())
		return
	}
	switch b := f.Body.(type) {
	case *events.ScheduleFired:
		x.fires(b, wrong)
	case *events.SchedulePassed:
		x.passes(b)
	case *events.ScheduleCancelRequested:
		x.cancelsTask(b, wrong)
	case *events.SchedulePaused:
		x.paused = true
	case *events.ScheduleResumed:
		x.paused = false
	case *events.ScheduleTaskEnded:
		x.ends(b, wrong)
	}
}

func scheduleOf(b events.Body) string {
	switch b := b.(type) {
	case *events.ScheduleAdopted:
		return b.Schedule
	case *events.ScheduleFired:
		return b.Schedule
	case *events.SchedulePassed:
		return b.Schedule
	case *events.ScheduleTaskEnded:
		return b.Schedule
	case *events.ScheduleCancelRequested:
		return b.Schedule
	case *events.SchedulePaused:
		return b.Schedule
	case *events.ScheduleResumed:
		return b.Schedule
	}
	return ""
}

func (t timetables) adopt(x *timetable, b *events.ScheduleAdopted, wrong func(kind, format string, args ...any)) {
	if b.Body == nil {
		delete(t, b.Schedule)
		return
	}
	var d struct {
		Schedule string         `json:"schedule"`
		Overlap  events.Overlap `json:"overlap"`
	}
	if err := json.Unmarshal(b.Body, &d); err != nil || d.Schedule != b.Schedule {
		wrong("schedule", "its definition cannot be read, or is that of another one (%v)", err)
	}
	if x == nil {
		x = &timetable{began: b.Offset, fired: map[events.Instant]bool{}, running: map[string]bool{}, asked: map[string]bool{}}
		t[b.Schedule] = x
	}
	x.overlap = d.Overlap
}

func (x *timetable) fires(b *events.ScheduleFired, wrong func(kind, format string, args ...any)) {
	var sub struct {
		ID       string `json:"id"`
		Schedule string `json:"schedule"`
		Began    int64  `json:"schedule_began"`
	}
	err := json.Unmarshal(b.Submission, &sub)
	switch {
	case x.fired[b.Due]:
		wrong("fired_twice", "the due time %s leads to a task again", b.Due)
	case x.paused && b.Request == "":
		wrong("fired_paused", "the due time %s leads to a task although the schedule is paused", b.Due)
	case x.overlap != events.OverlapAllow && len(x.running) > 0 && b.Request == "":
		wrong("fired_overlap", "the due time %s leads to a task although %d have not ended", b.Due, len(x.running))
	case err != nil, b.Task != events.ScheduleTask(b.Schedule, b.Due), sub.ID != b.Task, sub.Schedule != b.Schedule, sub.Began != x.began:
		wrong("schedule_task", "the submission of the due time %s is not that of the task %s", b.Due, events.ScheduleTask(b.Schedule, b.Due))
	}
	x.fired[b.Due], x.running[b.Task] = true, true
	x.dequeue(b.Due)
}

func (x *timetable) dequeue(due events.Instant) {
	if x.queued == due {
		x.queued, x.cancels = 0, false
	}
}

func (x *timetable) passes(b *events.SchedulePassed) {
	x.dequeue(b.Due)
	if b.Why == events.PassedQueued {
		x.queued, x.cancels = b.Due, b.Cancels
	}
}

// cancelsTask checks that a schedule asks a task to cancel once, and only if a due time waits that wants it to.
func (x *timetable) cancelsTask(b *events.ScheduleCancelRequested, wrong func(kind, format string, args ...any)) {
	switch {
	case !x.running[b.Task] || x.asked[b.Task]:
		wrong("schedule_cancel", "task %s is asked to cancel, and was asked before, or does not run", b.Task)
	case x.queued != b.Due || !x.cancels:
		wrong("schedule_cancel", "task %s is asked to cancel for the due time %s, which does not wait for its end", b.Task, b.Due)
	case b.Began != x.began:
		wrong("schedule_cancel", "task %s is asked to cancel by a schedule that began with the record %d, and this one began with %d", b.Task, b.Began, x.began)
	}
	x.asked[b.Task] = true
}

func (x *timetable) ends(b *events.ScheduleTaskEnded, wrong func(kind, format string, args ...any)) {
	if !x.running[b.Task] {
		wrong("ended_twice", "task %s has ended, and was not running", b.Task)
	}
	delete(x.running, b.Task)
	delete(x.asked, b.Task)
}

// isOfSchedule says whether a record of the reports is about a schedule.
func isOfSchedule(kind string) bool {
	switch kind {
	case events.TypeTaskEnd, events.TypeSchedulePause, events.TypeScheduleResume, events.TypeScheduleTrigger:
		return true
	}
	return false
}

// silentOfSchedule checks that the end of a task, or a request about a schedule, needed no fact: the schedule does not wait for it, or is as it was
// asked to be. (Whether a trigger comes again is not known here.)
func silentOfSchedule(p *partition, kind string, data []byte, wrong func(task, format string, args ...any)) {
	var of struct {
		Schedule string `json:"schedule"`
		Task     string `json:"task"`
		Began    int64  `json:"began"`
	}
	if err := json.Unmarshal(data, &of); err != nil {
		wrong("", "the record cannot be read (%v)", err)
		return
	}
	if home := events.Home(events.ScheduleKey(of.Schedule), p.check.number); home != p.number {
		wrong("", "the record belongs in partition %d", home)
	}
	x := p.timetables[of.Schedule]
	switch {
	case x == nil:
	case kind == events.TypeTaskEnd && x.running[of.Task] && x.began == of.Began:
		wrong("", "the schedule %s waits for the end of task %s", of.Schedule, of.Task)
	case kind == events.TypeSchedulePause && !x.paused, kind == events.TypeScheduleResume && x.paused:
		wrong("", "the schedule %s is paused: %t", of.Schedule, x.paused)
	}
}
