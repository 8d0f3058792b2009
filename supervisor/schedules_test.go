package supervisor_test

import (
	"encoding/json"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sagalog/sagalog/events"
	"github.com/sagalog/sagalog/scheduler"
	"github.com/sagalog/sagalog/supervisor"
)

const reportSteps = `
workflow: report
steps:
  make: {agent: alpha, complete_within: 12h}
`

// hourlyReport is due at each full hour in UTC.
const hourlyReport = `
schedule: hourly
workflow: report
every: 1h
catch_up: 90m
input: {day: "${ schedule.due_date }", previous: "${ schedule.previous_due }"}
`

// timetable is a bench with a schedule, whose records a test applies to candidates.
type timetable struct {
	*bench
	offset int64
	text   string
}

func newTimetable(t *testing.T, more string) *timetable {
	return &timetable{newBench(t, reportSteps), 10, hourlyReport + more}
}

// tell tells a candidate the latest record of the schedule.
func (b *timetable) tell(c *candidate) *candidate {
	r := supervisor.ScheduleRecord{Schedule: "hourly", Offset: b.offset}
	if b.text != "" {
		d, faults := scheduler.ParseSchedule("hourly.yaml", []byte(b.text))
		require.NotNil(b.t, d, "%v", faults)
		var err error
		r.Body, err = events.Marshal(d)
		require.NoError(b.t, err)
	}
	c.o.SetSchedules(b.now, []supervisor.ScheduleRecord{r})
	c.run()
	return c
}

// deliver puts what a candidate has sent to the inputs into them: its tasks and their ends.
func (b *timetable) deliver(c *candidate) {
	for _, in := range events.Inputs {
		for _, r := range c.sentTo(string(in)) {
			b.put(in, r)
		}
	}
	c.sent = nil
	c.run()
}

func (b *timetable) ask(c *candidate, kind string, q events.ScheduleRequest) {
	q.Schedule = "hourly"
	r, err := events.EncodeScheduleRequest(q, kind, events.Subject{ID: q.ID, Source: "/op", Time: b.now})
	require.NoError(b.t, err)
	b.put(events.Reports, r)
	c.run()
}

func (b *timetable) hourly() *events.Schedule {
	s, _, _ := b.read()
	return s.Schedules["hourly"]
}

// scheduled returns the names of the facts about schedules.
func (b *timetable) scheduled() (list []string) {
	for _, name := range b.names() {
		if len(name) > 8 && name[:8] == "Schedule" {
			list = append(list, name[8:])
		}
	}
	return list
}

// ended ends the task of a due time.
func (b *timetable) ended(c *candidate, due events.Instant) {
	b.done(events.ScheduleTask("hourly", due), "make", 1)
	c.run()
	b.deliver(c)
}

// alerts returns the alerts that a candidate sent about the schedule.
func (b *timetable) alerts(c *candidate) (list []supervisor.Alert) {
	for _, r := range c.sentTo("alerts") {
		var a supervisor.Alert
		require.NoError(b.t, json.Unmarshal(r.Value, &a))
		if a.Schedule == "hourly" {
			list = append(list, a)
		}
	}
	return list
}

// until returns how long it is until the next due time.
func (b *timetable) until() time.Duration { return b.hourly().Next.Sub(b.now) }

// A due time leads to one task, whoever owns the partition, and the schedule learns how it ended.
func TestADueTimeLeadsToOneTask(t *testing.T) {
	t.Parallel()
	b := newTimetable(t, "")
	a := b.tell(b.candidate("A").own())
	due := b.hourly().Next
	require.Zero(t, int64(due)%time.Hour.Milliseconds())
	a.pass(b.until() - time.Millisecond)
	require.Equal(t, []string{"Adopted"}, b.scheduled())
	a.pass(time.Millisecond)
	require.Equal(t, []string{"Adopted", "Fired"}, b.scheduled())
	first := a.sentTo("submissions")
	require.Len(t, first, 1)
	require.JSONEq(t, `{"id":"hourly/`+due.Time().Format(time.RFC3339)+`","workflow":"report","schedule":"hourly","schedule_began":10,"input":{"day":"2027-01-15","previous":null}}`, string(first[0].Value))

	c := b.tell(b.candidate("B").own()) // A had no time to say that the submission is durable
	again := c.sentTo("submissions")
	require.Len(t, again, 1)
	require.Equal(t, first[0].Value, again[0].Value)
	require.Equal(t, []string{"Adopted", "Fired"}, b.scheduled())
	b.put(events.Submissions, first[0])
	b.deliver(c)
	require.Equal(t, 1, count[*events.Submitted](b.bench))
	b.ended(c, due)
	require.Equal(t, []string{"Adopted", "Fired", "TaskEnded"}, b.scheduled())
	require.Empty(t, b.hourly().Running)
	require.Equal(t, "processed", b.hourly().Fires[0].State)
	c.pass(b.until())
	var sub events.Submission
	require.NoError(t, json.Unmarshal(last[*events.ScheduleFired](b.bench).Submission, &sub))
	require.JSONEq(t, `{"day":"2027-01-15","previous":"`+due.Time().Format(time.RFC3339)+`"}`, string(sub.Input))
	sameEverywhere(t, b.bench, c)
}

// A task that has not ended keeps the next from starting, also if it is parked: the third time in a row raises an alert.
func TestATaskThatHasNotEndedBlocksItsSchedule(t *testing.T) {
	t.Parallel()
	b := newTimetable(t, "")
	a := b.tell(b.candidate("A").own())
	due := b.hourly().Next
	a.pass(b.until())
	b.deliver(a)
	b.failed(events.ScheduleTask("hourly", due), "make", 1, events.ClassPermanent, events.EffectDoneUnknown)
	a.run()
	for range 4 {
		a.pass(b.until())
	}
	alerts := b.alerts(a)
	require.Len(t, alerts, 1)
	require.Equal(t, supervisor.AlertScheduleBlocked, alerts[0].Kind)
	require.EqualValues(t, 4, b.hourly().Skipped)
	b.request(events.RequestTerminate, "q", events.ScheduleTask("hourly", due))
	a.run()
	b.deliver(a)
	a.pass(b.until())
	require.EqualValues(t, 2, b.hourly().Fired)
	require.Zero(t, b.hourly().InRow)
	sameEverywhere(t, b.bench, a)
}

func TestOneDueTimeIsQueued(t *testing.T) {
	t.Parallel()
	b := newTimetable(t, "overlap: queue_one")
	a := b.tell(b.candidate("A").own())
	due := b.hourly().Next
	a.pass(b.until())
	b.deliver(a)
	a.pass(b.until())
	a.pass(b.until())
	require.Equal(t, due.Add(time.Hour), b.hourly().Queued)
	require.EqualValues(t, 1, b.hourly().Skipped)
	b.ended(a, due)
	require.Equal(t, due.Add(time.Hour), b.hourly().Running[0].Due)
	require.Zero(t, b.hourly().Queued)
	sameEverywhere(t, b.bench, a)
}

// The task that runs is asked to cancel, by the same request from each owner, and the latest due time starts when it has ended.
func TestTheTaskThatRunsIsCancelled(t *testing.T) {
	t.Parallel()
	b := newTimetable(t, "overlap: cancel")
	a := b.tell(b.candidate("A").own())
	due := b.hourly().Next
	a.pass(b.until())
	b.deliver(a)
	a.pass(b.until())
	cancel := a.sentTo("reports")
	require.Len(t, cancel, 1)
	require.Equal(t, events.RequestCancel.Type(), cancel[0].Header(events.HeaderType))
	require.Contains(t, string(cancel[0].Value), `"id":"`+events.ScheduleTask("hourly", due.Add(time.Hour))+`"`)
	c := b.tell(b.candidate("B").own()) // A had no time to say that the request is durable
	again := c.sentTo("reports")
	require.Len(t, again, 1)
	require.Equal(t, cancel[0].Value, again[0].Value)
	b.put(events.Reports, cancel[0])
	b.deliver(c)
	require.Equal(t, 1, count[*events.CancelRequested](b.bench))
	c.pass(b.until()) // the third due time takes the place of the second, and asks no more
	require.Equal(t, []string{"Adopted", "Fired", "Passed", "CancelRequested", "Passed", "Passed"}, b.scheduled())
	require.Equal(t, due.Add(2*time.Hour), b.hourly().Queued)
	require.EqualValues(t, 1, b.hourly().Skipped)
	b.failed(events.ScheduleTask("hourly", due), "make", 1, events.ClassPermanent, events.EffectNone)
	c.run()
	b.deliver(c)
	require.Equal(t, "undone", b.hourly().Fires[0].State)
	require.Equal(t, due.Add(2*time.Hour), b.hourly().Running[0].Due)
	require.False(t, b.hourly().Cancels)
	sameEverywhere(t, b.bench, c)
}

// A schedule that is deleted and applied again is another one: a due time that led to a task before does so no more, the schedule learns that,
// and what is meant for the one before does not concern it.
func TestASecondScheduleOfThatNameDoesNotWaitForTheFirst(t *testing.T) {
	t.Parallel()
	b := newTimetable(t, "overlap: cancel")
	a := b.tell(b.candidate("A").own())
	due := b.hourly().Next
	a.pass(b.until())
	b.deliver(a)
	text := b.text
	b.text, b.offset = "", 11
	b.tell(a)
	b.text, b.offset = text, 12
	b.tell(a)
	b.ask(a, events.TypeScheduleTrigger, events.ScheduleRequest{ID: "t1", Due: due})
	require.Len(t, b.hourly().Running, 1)
	start := a.sentTo("submissions")
	a.sent = nil
	b.ask(a, events.TypeScheduleTrigger, events.ScheduleRequest{ID: "t2", Due: b.now + 1}) // asks the task to cancel before anybody knows that it is another one's
	b.deliver(a)
	require.Equal(t, 1, count[*events.RequestRefused](b.bench))
	require.Equal(t, supervisor.RefusedSchedule, last[*events.RequestRefused](b.bench).Reason)
	b.ended(a, due) // the end is for the first schedule
	require.Len(t, b.hourly().Running, 1)
	b.put(events.Submissions, start[0])
	a.run()
	b.deliver(a)
	require.Equal(t, events.EndRejected, b.hourly().Fires[0].State)
	require.Contains(t, b.hourly().Fires[0].Reason, "conflict")
	require.Equal(t, due+1, b.hourly().Running[0].Due)
	sameEverywhere(t, b.bench, a)
}

// The broker takes long to refuse the submission of a schedule that is deleted meanwhile. The one of its name waits for its own submission.
func TestARefusalForADeletedScheduleIsNotThatOfTheNext(t *testing.T) {
	t.Parallel()
	b := newTimetable(t, "")
	a := b.candidate("A")
	a.silent = func(s supervisor.Send) bool { return s.Kind == events.EffectStart }
	b.tell(a.own())
	due := b.hourly().Next
	a.pass(b.until())
	require.Len(t, a.unanswered, 1)
	refused := a.unanswered[0]
	text := b.text
	b.text, b.offset = "", 11
	b.tell(a)
	b.text, b.offset = text, 12
	b.tell(a)
	b.ask(a, events.TypeScheduleTrigger, events.ScheduleRequest{ID: "t1", Due: due})
	require.Equal(t, due, b.hourly().Running[0].Due)
	a.o.Sent(b.now, refused.Generation, refused.ID, errors.New("refused"))
	a.run()
	require.Equal(t, 1, count[*events.EffectFailed](b.bench))
	require.Nil(t, last[*events.EffectFailed](b.bench).ScheduleEnded)
	require.Len(t, b.hourly().Running, 1)
}

func TestTasksMayOverlap(t *testing.T) {
	t.Parallel()
	b := newTimetable(t, "overlap: allow\njitter: 10m")
	a := b.tell(b.candidate("A").own())
	for range 3 {
		a.pass(b.until() + 10*time.Minute)
	}
	require.Len(t, b.hourly().Running, 3)
	for _, f := range b.hourly().Running {
		require.Less(t, f.At.Sub(f.Due), 11*time.Minute)
	}
	sameEverywhere(t, b.bench, a)
}

// After an outage, due times older than catch_up are missed, and of the others the last leads to a task.
func TestOldDueTimesAreMissed(t *testing.T) {
	t.Parallel()
	b := newTimetable(t, "")
	b.tell(b.candidate("A").own())
	due := b.hourly().Next
	b.now = due.Add(5*time.Hour + time.Minute)
	c := b.tell(b.candidate("B").own())
	c.pass(0)
	require.Equal(t, []string{"Adopted", "Passed", "Passed", "Fired"}, b.scheduled())
	x := b.hourly()
	require.EqualValues(t, []int64{4, 1, 1}, []int64{x.Missed, x.Skipped, x.Fired})
	require.Equal(t, due.Add(5*time.Hour), x.Previous)
	require.Equal(t, supervisor.AlertScheduleMissed, b.alerts(c)[0].Kind)
	require.Equal(t, due.Add(6*time.Hour), x.Next)
	sameEverywhere(t, b.bench, c)
}

// A pause outlives a new definition. After it, the schedule goes on with the next due time; a trigger fires meanwhile.
func TestAScheduleIsPausedAndTriggered(t *testing.T) {
	t.Parallel()
	b := newTimetable(t, "")
	a := b.tell(b.candidate("A").own())
	b.ask(a, events.TypeSchedulePause, events.ScheduleRequest{ID: "p1", By: "ada"})
	b.ask(a, events.TypeSchedulePause, events.ScheduleRequest{ID: "p2"}) // changes nothing
	b.text, b.offset = hourlyReport+"priority: 5", 11
	b.tell(a)
	require.Equal(t, "ada", b.hourly().Paused.By)
	a.pass(b.until() + 90*time.Minute)
	b.ask(a, events.TypeScheduleTrigger, events.ScheduleRequest{ID: "t1", Due: b.now, Reason: "now"})
	b.ask(a, events.TypeScheduleTrigger, events.ScheduleRequest{ID: "t1", Due: b.now + 7}) // a repeat
	require.Equal(t, []string{"Adopted", "Paused", "Adopted", "Fired"}, b.scheduled())
	b.deliver(a)
	b.ask(a, events.TypeScheduleTrigger, events.ScheduleRequest{ID: "t2", Due: b.now + 1})
	require.Contains(t, last[*events.InputRejected](b.bench).Detail, "has not ended, and overlap is skip")
	b.ask(a, events.TypeScheduleTrigger, events.ScheduleRequest{ID: "t3", Due: b.now + 1, Overlap: events.OverlapAllow})
	require.Len(t, b.hourly().Running, 2)
	b.ask(a, events.TypeScheduleTrigger, events.ScheduleRequest{ID: "t4", Due: b.now + 2, Overlap: "never"})
	require.Equal(t, events.RejectInvalid, last[*events.InputRejected](b.bench).Reason)
	b.ask(a, events.TypeScheduleResume, events.ScheduleRequest{ID: "r1"})
	require.Nil(t, b.hourly().Paused)
	require.Greater(t, b.hourly().Next, b.now)
	b.ask(a, events.TypeScheduleResume, events.ScheduleRequest{ID: "r2"})
	require.Zero(t, b.hourly().Missed+b.hourly().Skipped)
	sameEverywhere(t, b.bench, a)
}

// A deleted schedule fires no more, and an older record does not bring it back.
func TestADeletedScheduleFiresNoMore(t *testing.T) {
	t.Parallel()
	b := newTimetable(t, "")
	a := b.tell(b.candidate("A").own())
	due := b.hourly().Next
	a.pass(b.until())
	text := b.text
	b.text, b.offset = "", 11
	b.tell(a)
	require.Nil(t, b.hourly())
	b.text, b.offset = text, 10
	b.tell(a)
	require.Nil(t, b.hourly())
	b.deliver(a)
	b.ended(a, due) // nobody waits for the end
	b.ask(a, events.TypeSchedulePause, events.ScheduleRequest{ID: "p1"})
	require.Contains(t, last[*events.InputRejected](b.bench).Detail, `there is no schedule "hourly"`)
	a.pass(5 * time.Hour)
	require.Equal(t, []string{"Adopted", "Fired", "Adopted"}, b.scheduled())
	sameEverywhere(t, b.bench, a)
}

// A task that cannot be accepted has ended, as far as its schedule is concerned.
func TestARejectedTaskDoesNotBlockItsSchedule(t *testing.T) {
	t.Parallel()
	b := newTimetable(t, "")
	b.text = "schedule: hourly\nworkflow: unknown\nevery: 1h"
	a := b.tell(b.candidate("A").own())
	a.pass(b.until())
	b.deliver(a)
	b.deliver(a)
	require.Equal(t, []string{"Adopted", "Fired", "TaskEnded"}, b.scheduled())
	require.Equal(t, events.EndRejected, b.hourly().Fires[0].State)
	require.Contains(t, b.hourly().Fires[0].Reason, "unknown")
	require.EqualValues(t, 1, b.hourly().Failed)
	alerts := b.alerts(a)
	require.Len(t, alerts, 1)
	require.Equal(t, supervisor.AlertScheduleFailed, alerts[0].Kind)
	require.Contains(t, alerts[0].Reason, "rejected: ")
	sameEverywhere(t, b.bench, a)
}

// The end of a task lies in the reports, unread, when another owner takes over and the submission is not acknowledged. The home of the task may have
// forgotten it, so the submission is not sent again before the ends are judged.
func TestATaskWhoseEndIsUnreadIsNotSubmittedAgain(t *testing.T) {
	t.Parallel()
	b := newTimetable(t, "")
	a := b.candidate("A")
	a.silent = func(s supervisor.Send) bool { return s.Kind == events.EffectStart }
	b.tell(a.own())
	due := b.hourly().Next
	a.pass(b.until())
	require.Len(t, a.unanswered, 1)
	b.put(events.Submissions, a.unanswered[0].Record)
	a.run()
	b.done(events.ScheduleTask("hourly", due), "make", 1)
	a.run()
	end := a.sentTo("reports")
	require.Len(t, end, 1)
	b.put(events.Reports, end[0])
	c := b.tell(b.candidate("B").own())
	require.Empty(t, c.sentTo("submissions"))
	require.Equal(t, "processed", b.hourly().Fires[0].State)
	sameEverywhere(t, b.bench, c)
}

// A submission of a schedule arrives again after its task was forgotten, sooner than the settings say. Nobody can say any more that it is a duplicate.
func TestASubmissionOfAScheduleIsRefusedAfterItsTaskWasForgotten(t *testing.T) {
	t.Parallel()
	b := &timetable{newBench(t, reportSteps+"remember_for: 1m\n"), 10, hourlyReport}
	a := b.tell(b.candidate("A").own())
	due := b.hourly().Next
	a.pass(b.until())
	start := a.sentTo("submissions")[0]
	b.deliver(a)
	b.ended(a, due)
	a.forget(events.ScheduleTask("hourly", due))
	b.put(events.Submissions, start)
	a.run()
	b.deliver(a)
	require.Equal(t, 1, count[*events.Submitted](b.bench))
	require.Equal(t, []string{"s/0/1 " + events.RejectTooOld}, b.rejected())
	require.Equal(t, "processed", b.hourly().Fires[0].State)
	sameEverywhere(t, b.bench, a)
}
