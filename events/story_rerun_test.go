package events_test

import (
	"time"

	"github.com/sagalog/sagalog/events"
)

// reruns: a task that ended runs once more from its second step, with another input, and then from its beginning.
func (w *scribe) reruns() {
	const id = "delivery-32"
	again := func(step string, attempt, run int) {
		w.write(id, &events.StepStarted{Step: step, Agent: step, Attempt: attempt, Run: run, CompleteBy: w.now.Add(5e9), Undoable: true})
	}
	undo := func(step string, attempt, run int) {
		w.write(id, &events.CompensationStarted{Step: step, Agent: step, Attempt: attempt, Run: run, CompleteBy: w.now.Add(5e9)})
	}
	w.write(id, &events.Submitted{Workflow: "drone-delivery", Version: 1, Hash: "d1", Input: raw(`{"n":1}`), Deadline: w.now.Add(60e9), Content: "c32"})
	for _, step := range []string{"package", "drone"} {
		again(step, 1, 0)
		w.complete(id, step, 1)
	}
	w.write(id, &events.TaskProcessed{Output: raw(`{"done":true}`)})
	w.write(id, &events.TaskRerun{Request: "n1", From: "drone", Steps: []string{"drone"}, Input: raw(`{"n":2}`), By: "ada"})
	undo("drone", 1, 0)
	w.write(id, &events.Compensated{Step: "drone", Attempt: 1})
	w.write(id, &events.RunBegun{Run: 2})
	again("drone", 2, 2)
	again("gift", 1, 2)
	w.complete(id, "gift", 1)
	w.fail(id, "drone", 2, park("no"))
	w.write(id, &events.TaskParked{Step: "drone", Reason: "no"})
	w.write(id, &events.TaskRerun{Request: "n2", Steps: []string{"package", "drone", "gift"}, Reason: "from the beginning"})
	for _, step := range []string{"drone", "gift", "package"} {
		attempt, run := 1, 2
		if step == "drone" {
			attempt = 2
		} else if step == "package" {
			run = 0
		}
		undo(step, attempt, run)
		if step != "drone" {
			w.write(id, &events.Compensated{Step: step, Attempt: attempt, QuietAt: w.now.Add(time.Duration(attempt) * 9e9)})
			continue
		}
		w.write(id, &events.CompensationFailed{Step: step, Attempt: attempt, QuietAt: w.now.Add(7e9), Verdict: park("no"), Error: events.Error{Class: events.ClassPermanent, Message: "no"}})
		w.write(id, &events.TaskParked{Step: step, Reason: "no"})
		w.write(id, &events.StepSkipped{Step: step, Why: events.SkipOperator, Left: true, Operator: events.Operator{Request: "n3", Reason: "it never flew"}})
	}
	w.write(id, &events.RunBegun{Run: 3, RemindAfter: events.Duration(90 * time.Minute)})
	w.write(id, &events.StepSkipped{Step: "gift", Why: events.SkipCondition})
	again("package", 2, 3)
}
