package events_test

import (
	"encoding/json"
	"time"

	"github.com/sagalog/sagalog/events"
)

// shorter returns settings that were changed.
func shorter() events.Settings {
	s := events.DefaultSettings()
	s.RememberFor = events.Duration(48 * time.Hour)
	return s
}

// story writes a log with every fact at least once, in lives of tasks as they happen.
func story(t tester) *scribe {
	w := newScribe(t)
	w.put(&events.Fact{
		Epoch: events.Epoch{N: 1, ID: "a0"}, Time: w.now, Task: "early", Body: &events.TaskProcessed{},
	}, events.FateVoid) // before the first claim there is no epoch
	w.claim("a0", "")
	w.write("", &events.VersionBarrier{Reader: events.FormatVersion})
	w.write("", &events.SettingsAdopted{Settings: events.DefaultSettings()})
	w.write("", &events.SettingsAdopted{Settings: shorter(), Offset: 5}, cause(events.CauseDefinition(5)))
	w.write("", &events.SettingsAdopted{Settings: events.DefaultSettings(), Offset: 9}, cause(events.CauseDefinition(9)))
	w.write("", &events.DefinitionAdopted{
		Workflow: "drone-delivery", Hash: "d1", Version: 1, Body: raw(`{"workflow":"drone-delivery","steps":{"account":{"agent":"account"}}}`),
	}, cause(events.CauseDefinition(1)))
	w.happyPath()
	w.undoing()
	w.hash1()
	w.heldRequests()
	w.handOver()
	for _, life := range []func(){
		w.parked, w.byHand, w.deadlines, w.pausing, w.startLimits, w.softLimits, w.progress, w.waits, w.reruns, w.fanOuts, w.signals, w.functions, w.permits,
		w.namedLimits, w.notYet, w.inputs, w.replies, w.schedules, w.children, w.carry, w.brokenEpoch, w.wrongClock, w.closed,
	} {
		life()
	}
	return w
}

// happyPath: two steps run at once, one is skipped, one is retried, a pivot completes, and the task ends.
func (w *scribe) happyPath() {
	const id = "delivery-1"
	w.write(id, &events.Submitted{
		Workflow: "drone-delivery", Version: 1, Hash: "d1", Input: raw(`{"ownerId":"o-1","weight":1.50,"note":"<b>\u00e9 & \ufffd</b>"}`),
		Priority: 5, Labels: map[string]string{"region": "north", "tier": "gold"}, Deadline: w.now.Add(600e9), Content: "6c01",
	}, fromInput(events.Submissions, 0), func(f *events.Fact) {
		f.CauseID, f.Traceparent = "order/1", "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
	})
	yes := true
	w.write(id, &events.StepStarted{
		Step: "account", Agent: "account", Attempt: 1, CompleteBy: w.now.Add(5e9), ReadyAt: w.now, Input: raw(`{"owner":"o-1"}`),
	}, cause(events.CauseFact(events.Position{Epoch: w.epoch, Sequence: w.next - 1})))
	w.write(id, &events.StepSkipped{Step: "transport", Why: events.SkipCondition, Condition: "input.pickup.region != input.dropoff.region"})
	w.write(id, &events.StepFailed{
		Step: "account", Attempt: 1, Effect: events.EffectNone, RetryAfter: events.Duration(2e9),
		Error:   events.Error{Class: events.ClassRetryable, Code: "http_503", Message: "the service answered 503", Detail: raw(`{"busy":true}`)},
		Verdict: retryAt(w.now.Add(2e9)),
		Outcome: events.Outcome{Instance: "account-0", ReadyAt: w.now, StartedAt: w.now, AcceptedAt: w.now, FinishedAt: w.now},
	}, fromInput(events.Reports, 0))
	w.write(id, &events.StepStarted{Step: "account", Agent: "account", Attempt: 2, CompleteBy: w.now.Add(5e9), Input: raw(`{"owner":"o-1"}`)})
	w.write(id, &events.StepCompleted{Step: "account", Attempt: 2, Output: raw(`{"account":17}`), Outcome: events.Outcome{Instance: "account-0"}},
		fromInput(events.Reports, 1), watermark(3))
	w.write(id, &events.StepStarted{Step: "delivery", Agent: "delivery", Attempt: 1, CompleteBy: w.now.Add(5e9), Condition: &yes, Pivot: true})
	w.complete(id, "delivery", 1)
	w.write(id, &events.DeadlinePassed{Deadline: w.now, Action: events.DeadlineAlert}, cause(events.CauseTimer(id, 1, "", 0, events.TimerDeadline)))
	w.write(id, &events.TaskProcessed{Output: raw(`{"id":"delivery-1"}`)}, watermark(w.next-1))
}

// undoing: a step of unknown outcome is undone first, then those that completed; an undo fails and is retried.
func (w *scribe) undoing() {
	const id = "delivery-2"
	w.submit(id, fromInput(events.Submissions, 1))
	w.start(id, "package", 1)
	w.start(id, "drone", 1)
	w.complete(id, "package", 1)
	by := w.task(id).Step("drone").CompleteBy
	w.write(id, &events.Timeout{
		Step: "drone", Operation: events.Do, Attempt: 1, CompleteBy: by, QuietAt: by.Add(2e9), Verdict: undo("attempts used up"),
	}, cause(events.CauseTimer(id, 1, "drone", 1, events.TimerCompleteBy)))
	w.write(id, &events.CompensationStarted{Step: "drone", Agent: "drone", Attempt: 1, CompleteBy: w.now.Add(5e9), Input: raw(`{"i":1}`)})
	w.write(id, &events.CompensationFailed{
		Step: "drone", Attempt: 1, Error: events.Error{Class: events.ClassRetryable, Message: "connection reset"},
		RetryAfter: events.Duration(1e9), Verdict: retryAt(w.now.Add(1e9)),
	})
	w.write(id, &events.CompensationStarted{Step: "drone", Agent: "drone", Attempt: 2, CompleteBy: w.now.Add(5e9)})
	w.write(id, &events.Timeout{Step: "drone", Operation: events.Undo, Attempt: 2, CompleteBy: w.now, Verdict: retryAt(w.now.Add(1e9))})
	w.write(id, &events.CompensationStarted{Step: "drone", Agent: "drone", Attempt: 3, CompleteBy: w.now.Add(5e9)})
	w.write(id, &events.Compensated{Step: "drone", Attempt: 3, Outcome: events.Outcome{Instance: "drone-1"}})
	w.write(id, &events.CompensationStarted{Step: "package", Agent: "package", Attempt: 1, CompleteBy: w.now.Add(5e9), Input: raw(`{"i":1}`), Output: raw(`{"o":1}`)})
	w.write(id, &events.Compensated{Step: "package", Attempt: 1})
	w.write(id, &events.TaskUndone{Reason: "attempts used up"})
}

// functions: both steps call one agent, and name the operations of it that do and undo them.
func (w *scribe) functions() {
	const id = "payment-7"
	w.submit(id)
	w.write(id, &events.StepStarted{Step: "hold", Agent: "bank", Function: "authorize", Attempt: 1, CompleteBy: w.now.Add(5e9), Undoable: true})
	w.complete(id, "hold", 1)
	w.write(id, &events.StepStarted{Step: "pay", Agent: "bank", Function: "capture", Attempt: 1, CompleteBy: w.now.Add(5e9), Pivot: true})
	w.fail(id, "pay", 1, undo("refused"))
	w.write(id, &events.CompensationStarted{Step: "hold", Agent: "bank", Function: "authorize", Attempt: 1, CompleteBy: w.now.Add(5e9)})
	w.write(id, &events.Compensated{Step: "hold", Attempt: 1})
	w.write(id, &events.TaskUndone{Reason: "refused"})
}

// progress: an attempt shows progress and falls silent; the next one starts from there, and fails.
func (w *scribe) progress() {
	const id = "training"
	w.submit(id)
	w.write(id, &events.StepStarted{
		Step: "train", Agent: "gpu", Attempt: 1, CompleteBy: w.now.Add(30e9), Undoable: true, Heartbeat: events.Duration(30e9), CapBy: w.now.Add(3600e9),
	})
	w.write(id, &events.StepProgressed{Step: "train", Attempt: 1, CompleteBy: w.now.Add(60e9), Progress: raw(`{"epoch":1}`), Instance: "gpu-0"})
	w.write(id, &events.StepProgressed{Step: "train", Attempt: 1, CompleteBy: w.now.Add(90e9)})
	by := w.task(id).Step("train").CompleteBy
	w.write(id, &events.Timeout{Step: "train", Operation: events.Do, Attempt: 1, CompleteBy: by, QuietAt: by.Add(2e9), Verdict: retryAt(w.now.Add(1e9))})
	w.write(id, &events.StepStarted{
		Step: "train", Agent: "gpu", Attempt: 2, CompleteBy: w.now.Add(30e9), Undoable: true, Heartbeat: events.Duration(30e9), CapBy: w.now.Add(3600e9),
		Progress: raw(`{"epoch":1}`),
	})
	w.write(id, &events.StepProgressed{Step: "train", Attempt: 2, CompleteBy: w.now.Add(60e9), Progress: raw(`{"epoch":2}`)})
	w.fail(id, "train", 2, park("it diverges"))
}

// heldRequests: a cancel overtakes its submission. The task of another cancel never arrives.
func (w *scribe) heldRequests() {
	const id = "delivery-4"
	hold := func(task, request string, offset int64) {
		w.write(task, &events.RequestHeld{
			Request: events.Request{ID: request, Kind: events.RequestCancel, Task: task, Reason: "not wanted", By: "ada"}, ExpiresAt: w.now.Add(600e9),
		}, fromInput(events.Reports, offset))
	}
	hold(id, "q1", 2)
	hold("never", "q2", 3)
	w.submit(id, fromInput(events.Submissions, 2))
	w.write(id, &events.CancelRequested{Request: "q1", Reason: "not wanted", By: "ada"})
	w.write(id, &events.RequestRefused{Request: "q0", Verb: events.RequestRetry, Reason: "nothing can be retried"})
	w.write(id, &events.TaskUndone{})
	w.write("never", &events.InputRejected{
		Reason: events.RejectExpired, Held: "q2", HeldAt: events.CauseInput(events.Reports, testPartition, 3),
	}, cause(events.CauseTimer("never", 0, "q2", 0, events.TimerExpiry)))
}

// handOver: the old owner's last fact is written twice, and its claim late. Another node's claim names neither of the owners,
// and the facts that it still sends are void.
func (w *scribe) handOver() {
	last := w.log[len(w.log)-1].fact
	old := w.epoch
	again := *last
	w.put(&again, events.FateVoid)
	w.claim("b1", "a0")
	w.put(&events.Fact{Epoch: old, Sequence: last.Sequence + 1, Time: w.now, Task: "delivery-1", Body: &events.TaskParked{Reason: "stale"}}, events.FateVoid)
	w.put(w.claiming("a0", ""), events.FateVoid)
	w.put(w.claiming("c9", "a0"), events.FateVoid)
	w.put(&events.Fact{Epoch: events.Epoch{N: 2, ID: "c9"}, Time: w.now, Body: &events.InputsPassed{}}, events.FateVoid)
}

// parked: a cool-down, a parking, an operator's retry, a work request that the broker refuses.
func (w *scribe) parked() {
	const id = "Zürich/3 ✓"
	w.submit(id, fromInput(events.Submissions, 3))
	w.start(id, "drone", 1)
	w.fail(id, "drone", 1, events.Verdict{Action: events.ActionCoolDown, At: w.now.Add(900e9), Reason: "attempts used up; cool-down 1 of 3"})
	w.start(id, "drone", 2)
	w.fail(id, "drone", 2, park("attempts and cool-downs used up"))
	w.write(id, &events.TaskParked{Step: "drone", Reason: "attempts and cool-downs used up"})
	w.remind(id, 1)
	w.remind(id, 2)
	w.write(id, &events.TaskReopened{Request: "q3", Steps: []string{"drone"}, Reason: "fixed", By: "ada"}, fromInput(events.Reports, 4))
	w.start(id, "drone", 3)
	w.write(id, &events.EffectFailed{
		Of: events.Position{Epoch: w.epoch, Sequence: w.next - 1}, Kind: events.EffectWork, Error: "MESSAGE_TOO_LARGE",
		Failed: &events.StepFailed{
			Step: "drone", Attempt: 3, Effect: events.EffectNone, Verdict: undo("the work request was refused"),
			Error: events.Error{Class: events.ClassDispatch, Message: "MESSAGE_TOO_LARGE"},
		},
	})
	w.write(id, &events.CompensationStarted{Step: "drone", Agent: "drone", Attempt: 1, CompleteBy: w.now.Add(5e9)})
	w.write(id, &events.EffectFailed{
		Of: events.Position{Epoch: w.epoch, Sequence: w.next - 1}, Kind: events.EffectWork, Error: "MESSAGE_TOO_LARGE",
		CompensationFailed: &events.CompensationFailed{
			Step: "drone", Attempt: 1, Verdict: park("the undo cannot be sent"), Error: events.Error{Class: events.ClassDispatch, Message: "MESSAGE_TOO_LARGE"},
		},
	})
	w.write(id, &events.TaskParked{Step: "drone", Reason: "the undo cannot be sent"})
	w.remind(id, 1)
	w.write(id, &events.TaskReopened{Request: "q4", Steps: []string{"drone"}})
	w.write(id, &events.CompensationStarted{Step: "drone", Agent: "drone", Attempt: 2, CompleteBy: w.now.Add(5e9)})
	w.write(id, &events.Compensated{Step: "drone", Attempt: 2})
	w.write(id, &events.TaskUndone{Reason: "the work request was refused"})
}

// pausing: a task is paused while it runs, parked meanwhile, and resumed before it is reopened; another is terminated while it is paused.
func (w *scribe) pausing() {
	const id = "delivery-13"
	w.write(id, &events.Submitted{Workflow: "drone-delivery", Version: 1, Hash: "d1", Deadline: w.now.Add(60e9), Content: "c13"})
	w.start(id, "package", 1)
	w.write(id, &events.TaskPaused{Request: "p1", Reason: "the service is being repaired", By: "ada"})
	w.fail(id, "package", 1, park("attempts used up"))
	w.write(id, &events.TaskParked{Step: "package", Reason: "attempts used up"})
	w.write(id, &events.TaskResumed{Request: "p2", By: "ada"})
	w.write(id, &events.TaskReopened{Request: "p3", Steps: []string{"package"}})
	w.start(id, "package", 2)
	w.complete(id, "package", 2)
	w.write(id, &events.TaskPaused{Request: "p4"})
	w.write(id, &events.CancelRequested{Request: "p5"})
	w.write(id, &events.TaskPaused{Request: "p6", Reason: "wait"})
	w.write(id, &events.TaskTerminated{Request: "p7", Reason: "done by hand", By: "ada", NotUndone: []string{"package"}})
}

// waits: steps sleep until a time, in a task that is paused meanwhile; an operator ends some of them. Another task is cancelled while it sleeps.
func (w *scribe) waits() {
	const id = "delivery-30"
	w.submit(id)
	yes := true
	w.write(id, &events.WaitStarted{Step: "sleep", Within: events.Duration(2e9), Until: w.now.Add(2e9), Condition: &yes})
	w.write(id, &events.TaskPaused{Request: "w1"})
	w.write(id, &events.StepCompleted{Step: "sleep"}, cause(events.CauseTimer(id, 1, "sleep", 0, events.TimerSleep)))
	w.write(id, &events.TaskResumed{Request: "w2"})
	w.write(id, &events.WaitStarted{Step: "woken", Until: w.now.Add(2e9)})
	w.write(id, &events.WaitStarted{Step: "skipped", Until: w.now.Add(2e9)})
	w.write(id, &events.WaitStarted{Step: "failed", Until: w.now.Add(2e9)})
	w.write(id, &events.StepCompleted{Step: "woken", Output: raw(`{"now":true}`), Operator: events.Operator{Request: "w3"}})
	w.write(id, &events.StepSkipped{Step: "skipped", Why: events.SkipOperator, Operator: events.Operator{Request: "w4"}})
	w.write(id, &events.StepFailed{Step: "failed", Error: events.Error{Class: events.ClassPermanent}, Effect: events.EffectNone, Verdict: park("no"), Operator: events.Operator{Request: "w5"}})
	w.write(id, &events.TaskParked{Step: "failed", Reason: "no"})
	w.write(id, &events.TaskReopened{Request: "w6", Steps: []string{"failed"}})
	w.write(id, &events.WaitStarted{Step: "failed", Until: w.now.Add(2e9)})
	w.write(id, &events.CancelRequested{Request: "w7"})
	w.write(id, &events.TaskUndone{})
}

// signals: one comes before its task, others before and with their waits; the check of a step refuses one, and one is never taken.
func (w *scribe) signals() {
	const id = "delivery-31"
	w.write(id, &events.RequestHeld{
		Request:   events.Request{ID: "s1", Kind: events.RequestSignal, Task: id, Signal: "approval", Payload: raw(`{"by":"<ada>"}`)},
		ExpiresAt: w.now.Add(events.HoldSignalsFor),
	}, fromInput(events.Submissions, 20))
	w.submit(id)
	w.write(id, &events.SignalReceived{Request: "s1", Signal: "approval", Payload: raw(`{"by":"<ada>"}`)})
	w.write(id, &events.SignalReceived{Request: "s0", Signal: "approval", Reason: "once more", By: "bob"})
	w.write(id, &events.WaitStarted{Step: "approve", Signals: []string{"approval", "rejection"}, Within: events.Duration(9e9), Until: w.now.Add(9e9)})
	w.write(id, &events.StepCompleted{Step: "approve", Signal: "s1", Output: events.SignalOutput("approval", raw(`{"by":"<ada>"}`))})
	w.write(id, &events.WaitStarted{Step: "again", Signals: []string{"approval"}})
	w.write(id, &events.StepFailed{
		Step: "again", Signal: "s0", Effect: events.EffectNone, Output: events.SignalOutput("approval", nil), Verdict: park("its result means failure"),
		Error: events.Error{Class: events.ClassCheck, Message: "nobody said why"},
	})
	w.write(id, &events.TaskParked{Step: "again", Reason: "its result means failure"})
	w.write(id, &events.SignalReceived{Request: "s3", Signal: "other", Payload: raw(`1.50`)})
	w.write(id, &events.TaskReopened{Request: "s4", Steps: []string{"again"}})
	w.write(id, &events.WaitStarted{Step: "again", Signals: []string{"approval"}, Within: events.Duration(9e9), Until: w.now.Add(9e9)})
	w.write(id, &events.Timeout{Step: "again", Operation: events.Do, CompleteBy: w.now, Verdict: undo("no signal came in time")},
		cause(events.CauseTimer(id, 1, "again", 0, events.TimerSignal)))
	w.write(id, &events.TaskUndone{})
}

// notYet: tasks wait for their time. One is paused for a part of that, another until it has come; others are cancelled, terminated and parked.
func (w *scribe) notYet() {
	submit := func(id string, after, deadline time.Duration) {
		w.write(id, &events.Submitted{
			Workflow: "drone-delivery", Version: 1, Hash: "d1", Deadline: w.now.Add(deadline), NotBefore: w.now.Add(after), Delay: events.Duration(after), Content: id,
		})
	}
	due := func(id string) {
		w.write(id, &events.NotBeforePassed{NotBefore: w.task(id).NotBefore}, cause(events.CauseTimer(id, 1, "", 0, events.TimerNotBefore)))
	}
	submit("early-1", 10*time.Second, time.Minute)
	w.write("early-1", &events.TaskPaused{Request: "n1"})
	w.write("early-1", &events.TaskResumed{Request: "n2"})
	due("early-1")
	w.start("early-1", "package", 1)
	submit("early-2", 1500*time.Millisecond, time.Minute)
	w.write("early-2", &events.TaskPaused{Request: "n3"})
	w.write("early-2", &events.StepSkipped{Step: "account", Why: events.SkipOperator, Operator: events.Operator{Request: "n4"}})
	w.write("early-2", &events.TaskResumed{Request: "n5"})
	due("early-2")
	w.write("early-2", &events.TaskProcessed{})
	submit("early-3", time.Hour, 2*time.Hour)
	w.write("early-3", &events.CancelRequested{Request: "n6"})
	w.write("early-3", &events.TaskUndone{})
	submit("early-4", time.Hour, 2*time.Hour)
	w.write("early-4", &events.TaskParked{Reason: "internal: a fault"})
	w.write("early-4", &events.TaskTerminated{Request: "n7"})
}

// byHand: an operator skips one failed step and completes another, fails a running attempt and a waiting step, gives another input,
// and completes and skips undos.
func (w *scribe) byHand() {
	const id = "delivery-20"
	w.submit(id)
	by := func(q string) events.Operator { return events.Operator{Request: q, Reason: "it is known", By: "ada"} }
	w.start(id, "account", 1)
	w.start(id, "package", 1)
	w.write(id, &events.StepFailed{
		Step: "account", Attempt: 1, Error: events.Error{Class: events.ClassPermanent, Message: "it hangs"}, Effect: events.EffectInDoubt,
		QuietAt: w.now.Add(9e9), Verdict: park("no retry can help: it hangs"), Operator: by("h1"),
	})
	w.write(id, &events.TaskParked{Step: "account", Reason: "no retry can help: it hangs"})
	w.fail(id, "package", 1, park("attempts used up"))
	w.write(id, &events.TaskReopened{Request: "h2", Steps: []string{"package"}, With: json.RawMessage(`{"id":"given"}`)})
	w.write(id, &events.StepFailed{Step: "package", Error: events.Error{Class: events.ClassPermanent}, Effect: events.EffectNone, Verdict: park("no"), Operator: by("h3")})
	w.write(id, &events.TaskParked{Step: "package", Reason: "no"})
	w.write(id, &events.StepSkipped{Step: "account", Why: events.SkipOperator, Output: json.RawMessage(`{"id":"a-1"}`), Operator: by("h4")})
	w.write(id, &events.StepCompleted{Step: "package", Attempt: 1, Output: json.RawMessage(`{"id":17}`), Operator: by("h5")})
	w.write(id, &events.StepSkipped{Step: "transport", Why: events.SkipOperator, Operator: by("h6")})
	w.write(id, &events.CancelRequested{Request: "h7"})
	w.undoFails(id, "account", 1)
	w.write(id, &events.TaskReopened{Request: "h8", Steps: []string{"account"}, With: json.RawMessage(`"given"`)})
	w.write(id, &events.StepSkipped{Step: "account", Why: events.SkipOperator, Left: true, Operator: by("h9")})
	w.undoFails(id, "package", 1)
	w.write(id, &events.Compensated{Step: "package", Attempt: 1, Operator: by("h10")})
	w.write(id, &events.TaskUndone{Left: []string{"account"}})
}

func (w *scribe) undoFails(id, step string, attempt int) {
	w.write(id, &events.CompensationStarted{Step: step, Agent: step, Attempt: attempt, CompleteBy: w.now.Add(5e9)})
	w.write(id, &events.CompensationFailed{Step: step, Attempt: attempt, Error: events.Error{Class: events.ClassPermanent}, Verdict: park("it cannot be undone"), Operator: events.Operator{Request: "u" + step}})
	w.write(id, &events.TaskParked{Step: step, Reason: "it cannot be undone"})
}

// remind repeats the alert about a parked task.
func (w *scribe) remind(id string, n int) {
	t := w.task(id)
	w.write(id, &events.TaskReminded{Reminder: n, Since: t.ParkedAt, Reason: t.Reason}, cause(events.CauseTimer(id, 1, "", 0, events.TimerReminder)))
}

// deadlines: one passes, a result arrives while the task is already undoing, and an expression fails before any work. Another passes while
// its task is parked, counts on when an operator has reopened the task, and passes again. The last one cannot move any further.
func (w *scribe) deadlines() {
	const id = "delivery-5"
	w.write(id, &events.Submitted{Workflow: "drone-delivery", Version: 1, Hash: "d1", Deadline: w.now.Add(3e9), Content: "c5"}, fromInput(events.Submissions, 4))
	w.start(id, "package", 1)
	w.write(id, &events.DeadlinePassed{Deadline: w.task(id).Deadline, Action: events.DeadlineUndo}, cause(events.CauseTimer(id, 1, "", 0, events.TimerDeadline)))
	w.complete(id, "package", 1)
	w.write(id, &events.CompensationStarted{Step: "package", Agent: "package", Attempt: 1, CompleteBy: w.now.Add(5e9)})
	w.write(id, &events.Compensated{Step: "package", Attempt: 1})
	w.write(id, &events.TaskUndone{Reason: "the deadline passed"})

	const broken = "delivery-6"
	w.submit(broken, fromInput(events.Submissions, 5))
	w.write(broken, &events.StepFailed{
		Step: "account", Effect: events.EffectNone, Verdict: undo("permanent"),
		Error: events.Error{Class: events.ClassExpression, Message: "with: no member \"owner\" of input"},
	})
	w.write(broken, &events.TaskUndone{Reason: "permanent"})

	const late = "delivery-7"
	w.write(late, &events.Submitted{Workflow: "drone-delivery", Version: 1, Hash: "d1", Deadline: w.now.Add(1e9), Content: "c7"})
	w.start(late, "package", 1)
	w.write(late, &events.StepFailed{
		Step: "package", Attempt: 1, Effect: events.EffectDoneUnknown, Output: raw(`{"ok":false}`), Verdict: park("attempts used up"),
		Error: events.Error{Class: events.ClassCheck, Message: "the package is too large"},
	})
	w.write(late, &events.TaskParked{Step: "package", Reason: "attempts used up"})
	w.write(late, &events.DeadlinePassed{Deadline: w.task(late).Deadline, Action: events.DeadlineAlert})
	w.write(late, &events.TaskReopened{Request: "q5", Steps: []string{"package"}})
	w.write(late, &events.DeadlinePassed{Deadline: w.task(late).Deadline, Action: events.DeadlineUndo})
	w.write(late, &events.TaskUndone{Reason: "the deadline passed"})

	const last = "delivery-8"
	w.write(last, &events.Submitted{Workflow: "drone-delivery", Version: 1, Hash: "d1", Deadline: 253_402_300_799_000, Content: "c8"})
	w.write(last, &events.TaskParked{Reason: "the fault of the test"})
	w.write(last, &events.TaskReopened{Request: "q6"})
	w.write(last, &events.TaskParked{Reason: "the fault of the test"})
	w.write(last, &events.CancelRequested{Request: "q7"})
	w.write(last, &events.TaskUndone{})
}

// inputs: a conflict, an input in the wrong partition, one that is refused in its home partition, duplicates that are
// passed, a sweep, and then the same ID again.
func (w *scribe) inputs() {
	w.write("delivery-1", &events.InputRejected{Reason: events.RejectConflict, Detail: "another content has this ID"}, fromInput(events.Submissions, 6))
	w.write("elsewhere", &events.InputForwarded{To: 5}, fromInput(events.Submissions, 7))
	w.write("elsewhere", &events.EffectFailed{
		Of: events.Position{Epoch: w.epoch, Sequence: w.next - 1}, Kind: events.EffectForward, Error: "MESSAGE_TOO_LARGE",
		Input: events.CauseInput(events.Submissions, testPartition, 7),
	})
	w.write("", &events.InputsPassed{Inputs: map[events.Input]events.Passed{
		events.Submissions: {Next: 12, Hash: "8899aabbccddeeff"}, events.Reports: {Next: 9, Hash: "0123456789abcdef"},
	}}, watermark(w.next-1))
	w.write("", &events.InputRejected{Reason: events.RejectTooLarge, Last: 1_300_011}, fromInput(events.Submissions, 12))
	w.write("", &events.InputLossAccepted{Input: events.Reports, From: 9, To: 11, Offset: 12, Reason: "retention was too short", By: "ada"}, cause(events.CauseDefinition(12)))
	w.write("", &events.EffectsDelayed{Destination: "submissions/5", After: events.Position{Epoch: w.epoch, Sequence: 1}})
	w.write("", &events.EffectsDelayed{Destination: "alerts"})
	w.write("", &events.EffectsDelayed{Destination: "dlq.submissions"})
	w.now = w.now.Add(2 * time.Hour)
	w.write("", &events.InputsPassed{}) // its time jumped, so that the sweep waits
	w.now = w.now.Add(events.SweepAfterJump)
	w.write("", &events.TasksSwept{Tasks: []string{"delivery-1", "delivery-2"}, EndedBefore: w.now, ForgottenBefore: w.now - 1, ScheduledForgottenBefore: w.now - 2})
	w.hash1()
	w.write("", &events.EffectsDelayed{Destination: "dlq.submissions", After: events.Position{Epoch: w.epoch, Sequence: 2}}, watermark(w.next-1))
	w.write("", &events.EffectsCaughtUp{Destination: "submissions/5"})
	w.submit("delivery-1", fromInput(events.Submissions, 12))
	w.hash1()
}

// replies: two tasks are answered, one of which begins with a wait, and a rejected submission.
func (w *scribe) replies() {
	s := events.DefaultSettings()
	s.ReplyTopics = "billing.*,shop.replies"
	w.write("", &events.SettingsAdopted{Settings: s, Offset: 13}, cause(events.CauseDefinition(13)))
	w.write("order-1", &events.Submitted{Workflow: "drone-delivery", Version: 1, Hash: "d1", Content: "7d01", ReplyTo: "shop.replies", ReplyKey: "o-1"},
		fromInput(events.Submissions, 13))
	w.start("order-1", "account", 1)
	w.start("order-1", "package", 1)
	w.complete("order-1", "account", 1)
	w.complete("order-1", "package", 1)
	w.write("order-1", &events.TaskProcessed{Output: raw(`{"id":"order-1"}`)})
	w.write("order-2", &events.Submitted{Workflow: "drone-delivery", Version: 1, Hash: "d1", Content: "7d02", ReplyTo: "billing.out"}, fromInput(events.Submissions, 14))
	w.write("order-2", &events.WaitStarted{Step: "pause", Within: events.Duration(60e9), Until: w.now.Add(60e9)})
	w.write("order-2", &events.TaskTerminated{Request: "stop-2", Reason: "no longer needed"}, fromInput(events.Reports, 20))
	w.write("order-1", &events.InputRejected{
		Reason: events.RejectConflict, Detail: "another content has this ID",
		Reply: &events.ReplyTo{To: "shop.replies", Key: "o-1", ID: "order-1", Workflow: "drone-delivery"},
	}, fromInput(events.Submissions, 15))
	w.write("", &events.EffectFailed{Of: events.Position{Epoch: w.epoch, Sequence: w.next - 1}, Kind: events.EffectReply, Error: "the topic has taken no reply for 24h"})
	w.write("", &events.EffectsDelayed{Destination: "replies/billing.out", After: events.Position{Epoch: w.epoch, Sequence: 1}})
	w.write("", &events.EffectsCaughtUp{Destination: "replies/billing.out"})
	w.hash1()
}

// brokenEpoch: a fact is lost and the next one is written, so the rest of the epoch is void until the next claim.
func (w *scribe) brokenEpoch() {
	lost := w.fact("delivery-1", &events.StepStarted{Step: "account", Agent: "account", Attempt: 1, CompleteBy: w.now.Add(5e9)})
	next := w.fact("delivery-1", &events.StepCompleted{Step: "account", Attempt: 1})
	next.Sequence++
	w.put(next, events.FateVoid)
	w.put(lost, events.FateVoid) // it arrives too late, so nothing may depend on it
	w.claim("c2", "b1")
	w.start("delivery-1", "account", 1)
	w.complete("delivery-1", "account", 1)
	w.write("delivery-1", &events.TaskProcessed{})
}

// softLimits: a task, a step that runs and one that waits are not over when their soft limits have passed; another task is cancelled before.
func (w *scribe) softLimits() {
	const id = "slow"
	late := func(step string, l events.Timer) {
		since := l.Due.Add(-2e9)
		w.write(id, &events.SoftLimitPassed{Step: step, Since: since, SoftAt: l.Due}, cause(events.CauseTimer(id, 1, step, 0, events.TimerSoftLimit)))
	}
	w.write(id, &events.Submitted{Workflow: "drone-delivery", Version: 1, Hash: "d1", Content: "6c0a", RemindAfter: 2e9})
	w.write(id, &events.StepStarted{Step: "account", Agent: "account", Attempt: 1, CompleteBy: w.now.Add(60e9), RemindAfter: 2e9})
	w.write(id, &events.WaitStarted{Step: "approve", Signals: []string{"approval"}, RemindAfter: 2e9})
	for _, m := range w.task(id).Timers() {
		if m.Kind == events.TimerSoftLimit {
			late(m.Path, m)
		}
	}
	w.complete(id, "account", 1)
	w.write("soon", &events.Submitted{
		Workflow: "drone-delivery", Version: 1, Hash: "d1", Content: "6c0b", RemindAfter: 2e9, RememberFor: 36e11, NotBefore: w.now.Add(time.Hour), Delay: events.Duration(time.Hour),
	})
	w.write("soon", &events.CancelRequested{Request: "q-soon"})
}

// startLimits: a task goes on without two steps whose time is over, one before its first attempt and one before its second, and is parked since
// the time of an undo is over.
func (w *scribe) startLimits() {
	const id = "limited"
	w.write(id, &events.Submitted{Workflow: "drone-delivery", Version: 1, Hash: "d1", Content: "6c09"})
	w.write(id, &events.StepQueued{Step: "account", StartWithin: 3e9, StartBy: w.now.Add(3e9)})
	w.write(id, &events.StepQueued{Step: "package", StartWithin: 3e9, StartBy: w.now.Add(3e9)})
	w.write(id, &events.StepStarted{Step: "package", Agent: "package", Attempt: 1, CompleteBy: w.now.Add(1e9), StartBy: w.now.Add(9e9), Undoable: true})
	w.write(id, &events.Timeout{Step: "package", Operation: events.Do, Attempt: 1, CompleteBy: w.now, QuietAt: w.now.Add(2e9), Verdict: retryAt(w.now.Add(5e9))})
	for _, step := range []string{"account", "package"} {
		s := w.task(id).Step(step)
		w.write(id, &events.Timeout{
			Step: step, Operation: events.Do, StartBy: s.StartBy, Verdict: events.Verdict{Action: events.ActionContinue, Reason: "the task goes on without it"},
		}, cause(events.CauseTimer(id, 1, step, s.Attempt+1, events.TimerStartBy)))
	}
	w.write(id, &events.CancelRequested{Request: "q-limited"})
	w.write(id, &events.CompensationStarted{Step: "package", Agent: "package", Attempt: 1, CompleteBy: w.now.Add(1e9), StartBy: w.now.Add(4e9)})
	w.write(id, &events.Timeout{Step: "package", Operation: events.Undo, Attempt: 1, CompleteBy: w.now, Verdict: retryAt(w.now.Add(5e9))})
	w.write(id, &events.Timeout{Step: "package", Operation: events.Undo, StartBy: w.task(id).Step("package").Undo.StartBy, Verdict: park("its time was over")})
	w.write(id, &events.TaskParked{Step: "package", Reason: "its time was over"})
}
