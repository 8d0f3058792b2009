package events_test

import "github.com/sagalog/sagalog/events"

// fanOuts: a step has items. Of some the failure is tolerated, and one of these is undone; another item is skipped by an operator. Then the task turns back
// while items of a second step run. It is rerun, and its list is shorter then.
func (w *scribe) fanOuts() {
	const id = "delivery-51"
	w.submit(id)
	item := func(step string, i int) string { return events.ItemPath(step, i) }
	begin := func(step string, i, attempt, run int) {
		w.write(id, &events.StepStarted{
			Step: item(step, i), Agent: "mailer", Attempt: attempt, CompleteBy: w.now.Add(5e9), Input: raw(`{"to":"<ada>"}`), Undoable: true, Run: run, RemindAfter: 3e9,
		})
	}
	failed := func(step string, i, attempt int, effect events.Effect, v events.Verdict) {
		w.write(id, &events.StepFailed{
			Step: item(step, i), Attempt: attempt, Effect: effect, Error: events.Error{Class: events.ClassPermanent, Message: "no such <address>"}, Verdict: v,
		})
	}
	tolerated := events.Verdict{Action: events.ActionContinue, Reason: "tolerated"}
	w.write(id, &events.FanOutStarted{Step: "none", Collect: events.CollectOutputs, Condition: new(true)})
	w.write(id, &events.StepCompleted{Step: "none"})
	w.write(id, &events.FanOutStarted{Step: "send", Count: 19, Tolerate: 3, Collect: events.CollectFailures, RemindAfter: 2e9})
	for i := range 17 {
		begin("send", i, 1, 0)
		w.complete(id, item("send", i), 1)
	}
	begin("send", 17, 1, 0)
	w.write(id, &events.StepQueued{Step: item("send", 18), StartWithin: 3e9, StartBy: w.now.Add(3e9)})
	failed("send", 17, 1, events.EffectDoneUnknown, tolerated)
	w.write(id, &events.Timeout{Step: item("send", 18), Operation: events.Do, Verdict: tolerated}, cause(events.CauseTimer(id, 1, item("send", 18), 1, events.TimerStartBy)))
	w.write(id, &events.CompensationStarted{Step: item("send", 17), Agent: "mailer", Attempt: 1, CompleteBy: w.now.Add(5e9)})
	w.write(id, &events.CompensationFailed{Step: item("send", 17), Attempt: 1, Error: events.Error{Class: events.ClassPermanent, Message: "no"}, Verdict: park("its undo failed")})
	w.write(id, &events.TaskParked{Step: item("send", 17), Reason: "its undo failed"})
	w.write(id, &events.TaskReopened{Request: "f1", Steps: []string{item("send", 17)}})
	w.write(id, &events.CompensationStarted{Step: item("send", 17), Agent: "mailer", Attempt: 2, CompleteBy: w.now.Add(5e9)})
	w.write(id, &events.Compensated{Step: item("send", 17), Attempt: 2})
	w.write(id, &events.StepCompleted{Step: "send"})
	w.write(id, &events.FanOutStarted{Step: "call", Count: 4, Collect: events.CollectNone})
	begin("call", 0, 1, 0)
	begin("call", 1, 1, 0)
	failed("call", 0, 1, events.EffectNone, park("attempts used up"))
	w.write(id, &events.TaskParked{Step: item("call", 0), Reason: "attempts used up"})
	w.write(id, &events.StepSkipped{Step: item("call", 0), Why: events.SkipOperator, Operator: events.Operator{Request: "f2"}})
	ask := events.AskStepPermit(w.task(id), item("call", 2), events.Do, "limit/gate")
	w.write(id, ask)
	w.write(id, &events.PermitGranted{Limit: "limit/gate", Link: ask.Link})
	begin("call", 2, 1, 0)
	w.write(id, &events.CancelRequested{Request: "f3"})
	w.complete(id, item("call", 1), 1)
	w.complete(id, item("call", 2), 1)
	w.write(id, events.UnneededPermits(w.task(id))[0])
	w.write(id, &events.CompensationStarted{Step: item("call", 2), Agent: "mailer", Attempt: 1, CompleteBy: w.now.Add(5e9)})
	w.write(id, &events.CompensationStarted{Step: item("call", 1), Agent: "mailer", Attempt: 1, CompleteBy: w.now.Add(5e9)})
	w.write(id, &events.Compensated{Step: item("call", 2), Attempt: 1})
	w.write(id, &events.Compensated{Step: item("call", 1), Attempt: 1})
	w.write(id, &events.TaskTerminated{Request: "f4", Reason: "done by hand", NotUndone: []string{item("send", 0)}})
	w.write(id, &events.TaskRerun{Request: "f5", From: "call", Steps: []string{"call"}})
	w.write(id, &events.RunBegun{Run: 2})
	w.write(id, &events.FanOutStarted{Step: "call", Count: 2, Collect: events.CollectNone})
	begin("call", 0, 2, 2)
	w.complete(id, item("call", 0), 2)
	begin("call", 1, 2, 2)
	for _, m := range w.task(id).Timers() {
		if m.Kind == events.TimerSoftLimit && m.Path == item("call", 1) {
			w.write(id, &events.SoftLimitPassed{Step: m.Path, Since: m.Due.Add(-3e9), SoftAt: m.Due})
		}
	}
	w.complete(id, item("call", 1), 2)
	w.write(id, &events.StepCompleted{Step: "call"})
	w.write(id, &events.TaskProcessed{})
}
