package events_test

import (
	"time"

	"github.com/sagalog/sagalog/events"
)

// schedules: one is adopted, fires, is passed over and paused, learns the ends of its tasks, and is deleted.
func (w *scribe) schedules() {
	const name = "daily-report"
	body := raw(`{"schedule":"daily-report","workflow":"report","every":"1h0m0s","overlap":"queue_one","catch_up":"1h0m0s","input":{"day":"${ schedule.due_date }"}}`)
	due := func(n int) events.Instant { return w.now.Add(time.Duration(n) * time.Hour) }
	first, second, third, fourth := due(1), due(2), due(3), due(4)
	timer := cause(events.CauseTimer(events.ScheduleKey(name), 1, "", 0, events.TimerDue))
	fire := func(at, next events.Instant) *events.ScheduleFired {
		task := events.ScheduleTask(name, at)
		return &events.ScheduleFired{
			Schedule: name, Due: at, Next: next, Task: task,
			Submission: raw(`{"id":"` + task + `","workflow":"report","input":{"day":"2026-11-21"},"schedule":"daily-report"}`),
		}
	}
	w.write("", &events.ScheduleAdopted{Schedule: name, Offset: 11, Body: body, Next: first}, cause(events.CauseDefinition(11)))
	w.write("", fire(first, second), timer)
	w.write("", &events.SchedulePassed{Schedule: name, Due: second, Count: 1, Why: events.PassedQueued, Next: third}, timer)
	w.write("", &events.SchedulePassed{Schedule: name, Due: third, Count: 1, Why: events.PassedOverlap, Next: fourth, InRow: 1}, timer)
	w.write("", &events.SchedulePaused{Schedule: name, Request: "p1", Reason: "the report is wrong", By: "ada"}, fromInput(events.Reports, 60))
	w.write("", &events.ScheduleTaskEnded{Schedule: name, Task: events.ScheduleTask(name, first), State: "processed"}, fromInput(events.Reports, 61))
	w.write("", &events.ScheduleResumed{Schedule: name, Request: "p2", Next: fourth}, fromInput(events.Reports, 62))
	w.write("", fire(second, fourth), timer)
	w.write("", &events.ScheduleTaskEnded{Schedule: name, Task: events.ScheduleTask(name, second), State: events.EndRejected, Reason: "schema: no"}, fromInput(events.Reports, 63))
	w.write("", &events.SchedulePassed{Schedule: name, Due: fourth, Count: 2, Why: events.PassedMissed, Next: due(6)}, timer)
	w.write("", &events.SchedulePassed{Schedule: name, Due: due(6), Count: 1, Why: events.PassedFailed, Next: due(7), Reason: "the input: no"}, timer)
	manual := fire(due(6)+1, due(7))
	manual.Request, manual.By = "t1", "ada"
	w.write("", manual, fromInput(events.Reports, 64))
	w.write("", &events.EffectFailed{
		Of: w.state.Partition.Watermark, Kind: events.EffectStart, Error: "refused",
		ScheduleEnded: &events.ScheduleTaskEnded{Schedule: name, Task: manual.Task, State: events.EndRejected, Reason: "refused"},
	})
	w.write(events.ScheduleTask(name, first), &events.Submitted{
		Workflow: "drone-delivery", Version: 1, Hash: "d1", Content: "77aa", Schedule: name, ScheduleBegan: 11,
	}, fromInput(events.Submissions, 60))
	w.write(events.ScheduleTask(name, second), &events.InputRejected{
		Reason: events.RejectTooOld, Schedule: name, ScheduleBegan: 11, Submission: events.ScheduleTask(name, second), ScheduledForgottenBefore: second + 1,
	}, fromInput(events.Submissions, 61))
	fifth, sixth := due(7), due(8)
	w.write("", fire(fifth, sixth), timer)
	w.write("", &events.SchedulePassed{Schedule: name, Due: sixth, Count: 1, Why: events.PassedQueued, Next: due(9), Cancels: true}, timer)
	w.write("", &events.ScheduleCancelRequested{Schedule: name, Task: events.ScheduleTask(name, fifth), Due: sixth, Began: 11}, timer)
	w.write("", &events.ScheduleAdopted{Schedule: "gone", Offset: 12, Body: raw(`{"schedule":"gone","workflow":"report","every":"1h0m0s"}`), Next: due(1)}, cause(events.CauseDefinition(12)))
	w.write("", &events.ScheduleAdopted{Schedule: "gone", Offset: 13}, cause(events.CauseDefinition(13)))
}
