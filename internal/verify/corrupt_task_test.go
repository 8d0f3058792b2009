package verify_test

import (
	"slices"
	"strings"

	"github.com/sagalog/sagalog/events"
	"github.com/sagalog/sagalog/internal/verify"
)

// late finds a fact that does nothing, after one fact of the task and before another.
func late(h *harmed, name events.Name, prefix string, before events.Name, more ...func(f found) bool) (f, into found) {
	f = h.fact(name, prefix, append(more, func(f found) bool { _, ok := h.behind(f, before); return ok })...)
	into, _ = h.behind(f, before)
	return f, into
}

var taskCorruptions = []corruption{
	{"an outcome comes twice", verify.CheckAttempts, "second_outcome", false, func(h *harmed) string {
		f, into := late(h, events.NameStepCompleted, "park", "")
		return h.again(f, into).place()
	}},
	{"a failure comes after a success", verify.CheckAttempts, "second_outcome", false, func(h *harmed) string {
		f, into := late(h, events.NameStepCompleted, "park", "")
		return h.forge(into, events.NameStepFailed, string(f.Key), &events.StepFailed{Step: f.text("step"), Attempt: 1,
			Error: events.Error{Class: events.ClassRetryable}, Effect: events.EffectNone, Verdict: events.Verdict{Action: events.ActionPark, Reason: "x"}}).place()
	}},
	{"an operator skips a step that completed", verify.CheckAttempts, "by_hand", false, func(h *harmed) string {
		f, into := late(h, events.NameStepCompleted, "park", "")
		return h.forge(into, events.NameStepSkipped, string(f.Key), &events.StepSkipped{Step: f.text("step"), Why: events.SkipOperator, Operator: events.Operator{Request: "forged"}}).place()
	}},
	{"an operator skips an undo that nobody tried", verify.CheckAttempts, "by_hand", false, func(h *harmed) string {
		f, into := late(h, events.NameStepCompleted, "park", "")
		return h.forge(into, events.NameStepSkipped, string(f.Key), &events.StepSkipped{Step: f.text("step"), Why: events.SkipOperator, Left: true, Operator: events.Operator{Request: "forged"}}).place()
	}},
	{"an operator completes a step that completed", verify.CheckAttempts, "by_hand", false, func(h *harmed) string {
		f, into := late(h, events.NameStepCompleted, "park", "")
		return h.forge(into, events.NameStepCompleted, string(f.Key), &events.StepCompleted{Step: f.text("step"), Attempt: 1, Operator: events.Operator{Request: "forged"}}).place()
	}},
	{"an operator completes an undo that nobody tried", verify.CheckAttempts, "by_hand", false, func(h *harmed) string {
		f, into := late(h, events.NameStepCompleted, "park", "")
		return h.forge(into, events.NameCompensated, string(f.Key), &events.Compensated{Step: f.text("step"), Attempt: 1, Operator: events.Operator{Request: "forged"}}).place()
	}},
	{"an operator fails a step that completed", verify.CheckAttempts, "outcome_of_nothing", false, func(h *harmed) string {
		f, into := late(h, events.NameStepCompleted, "park", "")
		return h.forge(into, events.NameStepFailed, string(f.Key), &events.StepFailed{Step: f.text("step"),
			Error: events.Error{Class: events.ClassPermanent}, Effect: events.EffectNone, Verdict: events.Verdict{Action: events.ActionPark, Reason: "x"}, Operator: events.Operator{Request: "forged"}}).place()
	}},
	{"an operator completes a step while an attempt of it runs", verify.CheckAttempts, "by_hand", false, func(h *harmed) string {
		f, into := late(h, events.NameStepStarted, "", events.NameStepCompleted, func(f found) bool {
			_, failed := h.behind(f, events.NameStepFailed)
			_, over := h.behind(f, events.NameTimeout)
			return failed && over
		})
		return h.forge(into, events.NameStepCompleted, string(f.Key), &events.StepCompleted{Step: f.text("step"), Attempt: 1, Operator: events.Operator{Request: "forged"}}).place()
	}},
	{"a step starts while its task is paused", verify.CheckAttempts, "start_not_forward", false, func(h *harmed) string {
		f, into := late(h, events.NameTaskParked, "", events.NameStepStarted, func(f found) bool { // an operator retries it later
			return slices.ContainsFunc(h.topics[topicEvents][f.part][f.index:], func(r events.Record) bool {
				return string(r.Key) == string(f.Key) && nameOf(r) == events.NameStepStarted
			})
		})
		h.forge(into, events.NameTaskPaused, string(f.Key), &events.TaskPaused{Request: "forged"})
		return string(f.Key)
	}},
	{"a deadline undoes a paused task", verify.CheckAttempts, "deadline_of_paused", false, func(h *harmed) string {
		f, into := late(h, events.NameTaskParked, "park-", events.NameTaskReopened, func(f found) bool {
			first, ok := h.behind(f, events.NameTaskReopened)
			if ok {
				_, ok = h.behind(first, "")
			}
			return ok
		})
		paused := h.forge(into, events.NameTaskPaused, string(f.Key), &events.TaskPaused{Request: "forged"})
		next, _ := h.behind(paused, "")
		return h.forge(next, events.NameDeadlinePassed, string(f.Key), &events.DeadlinePassed{Action: events.DeadlineUndo}).place()
	}},
	{"a terminated task does not name what is left", verify.CheckUndo, "not_undone", false, func(h *harmed) string {
		f, into := late(h, events.NameTaskParked, "park-", events.NameTaskReopened)
		h.forge(into, events.NameTaskTerminated, string(f.Key), &events.TaskTerminated{Request: "forged"})
		return string(f.Key)
	}},
	{"a terminated task counts what it could name", verify.CheckUndo, "not_undone", false, func(h *harmed) string {
		f, into := late(h, events.NameTaskParked, "park-", events.NameTaskReopened)
		h.forge(into, events.NameTaskTerminated, string(f.Key), &events.TaskTerminated{Request: "forged", MoreNotUndone: 1})
		return string(f.Key)
	}},
	{"a step starts with another input than the operator gave", verify.CheckAttempts, "not_the_given_input", false, func(h *harmed) string {
		f := h.fact(events.NameTaskReopened, "")
		f.alter("with", map[string]any{"by": "hand"})
		return string(f.Key)
	}},
	{"the time of a step that completed is over", verify.CheckAttempts, "outcome_of_nothing", false, func(h *harmed) string {
		f, into := late(h, events.NameStepCompleted, "park", "")
		return h.forge(into, events.NameTimeout, string(f.Key), &events.Timeout{Step: f.text("step"), Operation: events.Do,
			Verdict: events.Verdict{Action: events.ActionPark, Reason: "x"}}).place()
	}},
	{"an attempt limits others though its step does not", verify.CheckAttempts, "not_as_defined", false, func(h *harmed) string {
		f := h.fact(events.NameStepStarted, "")
		f.alter("start_by", "2099-01-01T00:00:00.000Z")
		return f.place()
	}},
	{"a step is queued that need not start in time", verify.CheckAttempts, "not_as_defined", false, func(h *harmed) string {
		f, into := late(h, events.NameStepCompleted, "park", "")
		return h.forge(into, events.NameStepQueued, string(f.Key), &events.StepQueued{Step: f.text("step"), StartWithin: 1, StartBy: 1}).place()
	}},
	{"a task goes on without a step that says nothing about that", verify.CheckAttempts, "not_as_defined", false, func(h *harmed) string {
		f := h.fact(events.NameStepFailed, "", func(f found) bool { return !strings.HasPrefix(f.text("step"), "send[") }) // items may be tolerated
		f.alter("verdict", events.Verdict{Action: events.ActionContinue, Reason: "x"})
		return f.place()
	}},
	{"a task that ends undone names a step that nobody left", verify.CheckUndo, "left", false, func(h *harmed) string {
		f := h.fact(events.NameTaskUndone, "")
		f.alter("left", []string{"reserve"})
		return f.place()
	}},
	{"progress of a step without a heartbeat", verify.CheckAttempts, "progress_of_nothing", false, func(h *harmed) string {
		f, into := late(h, events.NameStepCompleted, "park", "")
		return h.forge(into, events.NameStepProgressed, string(f.Key), &events.StepProgressed{Step: f.text("step"), Attempt: 1, CompleteBy: 1}).place()
	}},
	{"an outcome of an attempt that was not started", verify.CheckAttempts, "outcome_of_nothing", false, func(h *harmed) string {
		f := h.fact(events.NameStepCompleted, "")
		f.alter("attempt", 9)
		return f.place()
	}},
	{"an outcome of a step that was not started", verify.CheckAttempts, "outcome_of_nothing", false, func(h *harmed) string {
		f := h.fact(events.NameStepCompleted, "")
		f.alter("step", "nowhere")
		return f.place()
	}},
	{"a start is missing", verify.CheckAttempts, "outcome_of_nothing", false, func(h *harmed) string {
		f := h.fact(events.NameStepStarted, "ok-")
		task := string(f.Key)
		h.nothing(f.Record)
		return task
	}},
	{"attempts have a gap", verify.CheckAttempts, "attempt_numbers", false, func(h *harmed) string {
		f := h.fact(events.NameStepStarted, "", func(f found) bool { return f.text("attempt") != "1" })
		f.alter("attempt", 5)
		return f.place()
	}},
	{"two attempts at once", verify.CheckAttempts, "two_at_once", false, func(h *harmed) string {
		f := h.fact(events.NameStepFailed, "retry-")
		task := string(f.Key)
		h.nothing(f.Record)
		return task + "/charge"
	}},
	{"an attempt that nobody asked for", verify.CheckAttempts, "not_asked_for", false, func(h *harmed) string {
		f := h.fact(events.NameStepFailed, "retry-")
		f.alter("verdict.action", "park")
		return string(f.Key) + "/charge"
	}},
	{"a retry before its time", verify.CheckAttempts, "too_early", false, func(h *harmed) string {
		f := h.fact(events.NameStepFailed, "retry-")
		f.alter("verdict.at", "2099-01-01T00:00:00.000Z")
		return string(f.Key) + "/charge"
	}},
	{"a start before its needs", verify.CheckAttempts, "needs", false, func(h *harmed) string {
		f := h.fact(events.NameStepCompleted, "ok-", step("reserve"))
		task := string(f.Key)
		h.nothing(f.Record)
		return task + "/charge"
	}},
	{"a start is not as defined", verify.CheckAttempts, "not_as_defined", false, func(h *harmed) string {
		f := h.fact(events.NameStepStarted, "ok-", step("ship"))
		f.alter("pivot", nil)
		return f.place()
	}},
	{"a start calls another operation of the agent", verify.CheckAttempts, "not_as_defined", false, func(h *harmed) string {
		f := h.fact(events.NameStepStarted, "ok-", step("pack"))
		f.alter("function", nil)
		return f.place()
	}},
	{"an undo calls another operation of the agent", verify.CheckUndo, "not_as_defined", false, func(h *harmed) string {
		f := h.fact(events.NameCompensationStarted, "late-", step("pack"))
		f.alter("function", "reserve")
		return f.place()
	}},
	{"a step without a condition is skipped", verify.CheckAttempts, "not_as_defined", false, func(h *harmed) string {
		f := h.fact(events.NameStepSkipped, "ok-")
		f.alter("step", "charge")
		return f.place()
	}},
	{"a fact after the end", verify.CheckAttempts, "behind_the_end", false, func(h *harmed) string {
		f, into := late(h, events.NameTaskProcessed, "", "")
		return h.forge(into, events.NameStepStarted, string(f.Key), &events.StepStarted{Step: "ship", Agent: "carrier", Attempt: 7, CompleteBy: 1}).place()
	}},
	{"an end comes twice", verify.CheckAttempts, "behind_the_end", false, func(h *harmed) string {
		f, into := late(h, events.NameTaskUndone, "", "")
		return h.again(f, into).place()
	}},
	{"a time-out before its time", verify.CheckAttempts, "timeout_early", false, func(h *harmed) string {
		f := h.fact(events.NameTimeout, "")
		f.alter("complete_by", "2099-01-01T00:00:00.000Z")
		return f.place()
	}},
	{"an end before all is done", verify.CheckAttempts, "ended_early", false, func(h *harmed) string {
		f := h.fact(events.NameStepCompleted, "ok-", step("ship"))
		task := string(f.Key)
		h.nothing(f.Record)
		return task + "/ship"
	}},
	{"an end that does not match the state", verify.CheckAttempts, "ended_wrongly", false, func(h *harmed) string {
		f := h.fact(events.NameTaskUndone, "refuse-")
		return h.forge(f, events.NameTaskProcessed, string(f.Key), &events.TaskProcessed{}).place()
	}},
	{"a step starts again after its success", verify.CheckAttempts, "start_again", false, func(h *harmed) string {
		f, into := late(h, events.NameStepCompleted, "park-", "", step("reserve"))
		return h.forge(into, events.NameStepStarted, string(f.Key), start("reserve", "stock", 2)).place()
	}},
	{"a step starts in a task that is parked", verify.CheckAttempts, "start_not_forward", false, func(h *harmed) string {
		f, into := late(h, events.NameTaskParked, "park-", "")
		return h.forge(into, events.NameStepStarted, string(f.Key), start("ship", "carrier", 2)).place()
	}},
	{"a step that no workflow has", verify.CheckAttempts, "unknown_step", false, func(h *harmed) string {
		f, into := late(h, events.NameStepCompleted, "park-", "")
		return h.forge(into, events.NameStepStarted, string(f.Key), start("nowhere", "stock", 1)).place()
	}},
	{"a step is skipped after its attempts", verify.CheckAttempts, "skipped_late", false, func(h *harmed) string {
		f, into := late(h, events.NameStepCompleted, "park-", "", step("reserve"))
		return h.forge(into, events.NameStepSkipped, string(f.Key), &events.StepSkipped{Step: "reserve"}).place()
	}},
	{"a verdict that does not exist", verify.CheckAttempts, "no_verdict", false, func(h *harmed) string {
		f := h.fact(events.NameStepFailed, "retry-")
		f.alter("verdict.action", "dance")
		return f.place()
	}},
	{"a deadline of a task that has none", verify.CheckAttempts, "deadline", false, func(h *harmed) string {
		f, into := late(h, events.NameStepFailed, "park-", "", step("ship"))
		return h.forge(into, events.NameDeadlinePassed, string(f.Key), &events.DeadlinePassed{Deadline: 1, Action: events.DeadlineAlert}).place()
	}},
	{"a deadline that only alerts", verify.CheckAttempts, "deadline_alerts", false, func(h *harmed) string {
		f, into := late(h, events.NameStepCompleted, "park-", "", func(f found) bool {
			into, ok := h.behind(f, "")
			return ok && !h.pivoted(f, into) // afterwards an alert would be right
		})
		return h.forge(into, events.NameDeadlinePassed, string(f.Key), &events.DeadlinePassed{Deadline: 1, Action: events.DeadlineAlert}).place()
	}},
	{"an alert is repeated although the task is not parked", verify.CheckAttempts, "reminder", false, func(h *harmed) string {
		f, into := late(h, events.NameStepCompleted, "park-", "", step("reserve"))
		return h.forge(into, events.NameTaskReminded, string(f.Key), &events.TaskReminded{Reminder: 1}).place()
	}},
	{"an alert is repeated too early", verify.CheckAttempts, "reminder_early", false, func(h *harmed) string {
		f := h.fact(events.NameTaskReminded, "park-")
		set(f.Record, events.HeaderTime, f.text("since"))
		return f.place()
	}},
	{"a task that has not ended is forgotten", verify.CheckAttempts, "swept", false, func(h *harmed) string {
		f, into := late(h, events.NameTaskParked, "park-", "")
		return h.forge(into, events.NameTasksSwept, "", &events.TasksSwept{Tasks: []string{string(f.Key)}, EndedBefore: 1_900_000_000_000}).place()
	}},
	{"tasks are forgotten earlier than the settings say", verify.CheckAttempts, "swept", false, func(h *harmed) string {
		_, into := late(h, events.NameTaskParked, "park-", "")
		return h.forge(into, events.NameTasksSwept, "", &events.TasksSwept{EndedBefore: 1_900_000_000_000}).place()
	}},
	{"settings that are older than the partition's", verify.CheckOwnership, "settings", false, func(h *harmed) string {
		_, into := late(h, events.NameTaskParked, "park-", "")
		return h.forge(into, events.NameSettingsAdopted, "", &events.SettingsAdopted{Settings: events.DefaultSettings()}).place()
	}},
	{"inputs are given up from another offset than the resume point", verify.CheckInputs, "given_up_wrongly", false, func(h *harmed) string {
		_, into := late(h, events.NameTaskParked, "park-", "")
		return h.forge(into, events.NameInputLossAccepted, "", &events.InputLossAccepted{Input: events.Submissions, From: 0, To: 1}).place()
	}},
	{"a definition that was not adopted", verify.CheckAttempts, "definition", false, func(h *harmed) string {
		f := h.fact(events.NameSubmitted, "")
		f.alter("hash", strings.Repeat("ab", 32))
		return f.place()
	}},
	{"a task that nobody accepted", verify.CheckAttempts, "no_task", false, func(h *harmed) string {
		f := h.fact(events.NameSubmitted, "")
		task := string(f.Key)
		h.nothing(f.Record)
		return task
	}},
	{"a retry of a step that did not fail", verify.CheckAttempts, "reopened", false, func(h *harmed) string {
		f := h.fact(events.NameTaskReopened, "")
		f.alter("steps", []string{"reserve"})
		return f.place()
	}},
	{"a pause that could be granted is refused", verify.CheckAttempts, "refused_wrongly", false, func(h *harmed) string {
		task, into := late(h, events.NameTaskParked, "park-", "")
		return h.forge(into, events.NameRequestRefused, string(task.Key), &events.RequestRefused{Request: "forged", Verb: events.RequestPause, Reason: "no"}).place()
	}},
	{"a task that is not paused is resumed", verify.CheckAttempts, "granted_in_vain", false, func(h *harmed) string {
		task, into := late(h, events.NameTaskParked, "park-", "")
		return h.forge(into, events.NameTaskResumed, string(task.Key), &events.TaskResumed{Request: "forged"}).place()
	}},
	{"an attempt without a complete-by time", verify.CheckMovers, "no_complete_by", false, func(h *harmed) string {
		f := h.fact(events.NameStepStarted, "")
		f.alter("complete_by", "")
		return f.place()
	}},
	{"a retry at no time", verify.CheckMovers, "no_retry_time", false, func(h *harmed) string {
		f := h.fact(events.NameStepFailed, "retry-")
		f.alter("verdict.at", nil)
		return f.place()
	}},
	{"steps that wait for each other", verify.CheckMovers, "stuck", false, func(h *harmed) string {
		f := h.fact(events.NameSubmitted, "ok-", func(f found) bool { return f.body()["not_before"] == nil })
		for _, d := range h.all(topicEvents, func(d found) bool { return nameOf(*d.Record) == events.NameDefinitionAdopted }) {
			d.Value = []byte(strings.Replace(string(d.Value), `"id":"reserve"`, `"id":"reserve","needs":["ship"]`, 1))
		}
		list := h.topics[topicEvents][f.part]
		h.topics[topicEvents][f.part] = list[:f.index+1]
		return string(f.Key)
	}},
	{"the end never comes, and the log continues", verify.CheckMovers, "not_moved", false, func(h *harmed) string {
		f := h.fact(events.NameTaskProcessed, "", func(f found) bool { return f.index+10 < len(h.topics[topicEvents][f.part]) })
		task := string(f.Key)
		h.nothing(f.Record)
		list := h.all(topicEvents, func(x found) bool { return x.part == f.part && h.accepted(x) })
		set(list[len(list)-1].Record, events.HeaderTime, "2099-01-01T00:00:00.000Z")
		return task
	}},
}

func start(step, agent string, attempt int) *events.StepStarted {
	return &events.StepStarted{Step: step, Agent: agent, Attempt: attempt, CompleteBy: 1_900_000_000_000}
}

var undoCorruptions = []corruption{
	{"two undos at once", verify.CheckUndo, "not_one_by_one", false, func(h *harmed) string {
		task := h.harmless()
		h.nothing(h.of(events.NameCompensated, task, "charge").Record)
		return task + "/reserve"
	}},
	{"an undo of a step that is already undone", verify.CheckUndo, "twice", false, func(h *harmed) string {
		task := h.harmless()
		h.of(events.NameCompensationStarted, task, "reserve").alter("step", "charge")
		return task + "/charge"
	}},
	{"two undos in the wrong order", verify.CheckUndo, "order", false, func(h *harmed) string {
		f := h.fact(events.NameCompensationStarted, "refuse-", step("charge"))
		return h.swapUndos(string(f.Key), "charge", "reserve") + "/reserve"
	}},
	{"the step of unknown outcome is not undone first", verify.CheckUndo, "order", false, func(h *harmed) string {
		f := h.fact(events.NameCompensationStarted, "late-", step("pack"))
		return h.swapUndos(string(f.Key), "pack", "reserve") + "/reserve"
	}},
	{"a completed step is left", verify.CheckUndo, "left", false, func(h *harmed) string {
		f := h.fact(events.NameCompensationStarted, "refuse-", step("reserve"))
		task := string(f.Key)
		h.nothing(h.of(events.NameCompensated, task, "reserve").Record)
		h.nothing(f.Record)
		return task + "/reserve"
	}},
	{"a step of unknown outcome is left", verify.CheckUndo, "left", false, func(h *harmed) string {
		task := string(h.fact(events.NameCompensated, "late-", step("pack")).Key)
		for _, f := range h.all(topicEvents, func(f found) bool {
			n := nameOf(*f.Record)
			return string(f.Key) == task && f.text("step") == "pack" && (n == events.NameCompensationStarted || n == events.NameCompensationFailed || n == events.NameCompensated)
		}) {
			h.nothing(f.Record)
		}
		return task + "/pack"
	}},
	{"a result is refused by a step without a check", verify.CheckAttempts, "not_as_defined", false, func(h *harmed) string {
		f := h.fact(events.NameStepFailed, "refuse-", step("pack"))
		f.alter("error.class", "check")
		return f.place()
	}},
	{"a refused result counts as one without effect", verify.CheckUndo, "refused_without_effect", false, func(h *harmed) string {
		f := h.of(events.NameStepFailed, h.harmless(), "pack")
		f.alter("error.class", "check")
		h.checks("pack")
		return f.place()
	}},
	{"a refused result was never reported", verify.CheckInputs, "not_its_input", false, func(h *harmed) string {
		f := h.fact(events.NameStepFailed, "refuse-", step("pack"))
		f.alter("output", map[string]any{"v": 1})
		return f.place()
	}},
	{"an undo of a step that had no effect", verify.CheckUndo, "nothing_to_undo", false, func(h *harmed) string {
		f := h.of(events.NameCompensationStarted, h.harmless(), "charge")
		f.alter("step", "pack")
		return f.place()
	}},
	{"an undo while the task goes forward", verify.CheckUndo, "not_undoing", false, func(h *harmed) string {
		f := h.of(events.NameStepFailed, h.harmless(), "pack")
		f.alter("verdict.action", "retry")
		f.alter("verdict.at", "2026-01-01T00:00:00.000Z")
		return string(f.Key)
	}},
	{"an undo while its do runs", verify.CheckUndo, "while_running", false, func(h *harmed) string {
		task := h.harmless()
		h.nothing(h.of(events.NameStepFailed, task, "pack").Record)
		return task
	}},
	{"an undo before all is quiet", verify.CheckUndo, "not_quiet", false, func(h *harmed) string {
		// The timeout of a do after which the task is undone. Nothing follows any other timeout, such as the timeout of
		// an undo.
		f := h.fact(events.NameTimeout, "late-", func(f found) bool {
			list := h.topics[topicEvents][f.part][f.index+1:]
			return f.text("operation") == string(events.Do) && slices.ContainsFunc(list, func(r events.Record) bool {
				return string(r.Key) == string(f.Key) && nameOf(r) == events.NameCompensationStarted
			})
		})
		f.alter("quiet_at", "2099-01-01T00:00:00.000Z")
		return string(f.Key)
	}},
	{"a cancel after the pivot", verify.CheckUndo, "behind_the_pivot", false, func(h *harmed) string {
		f, into := late(h, events.NameStepFailed, "park-", "", step("ship"))
		return h.forge(into, events.NameCancelRequested, string(f.Key), &events.CancelRequested{Request: "forged"}).place()
	}},
	{"a failed pivot undoes", verify.CheckUndo, "behind_the_pivot", false, func(h *harmed) string {
		f := h.fact(events.NameStepFailed, "park-", step("ship"))
		into, ok := h.behind(f, "")
		if !ok {
			f, into = late(h, events.NameStepFailed, "park-", "", step("ship"))
		}
		return h.forge(into, events.NameDeadlinePassed, string(f.Key), &events.DeadlinePassed{Action: events.DeadlineUndo}).place()
	}},
}

// harmless is a task whose step pack was refused without an effect, and which was undone.
// checks gives a step of the adopted definitions a check.
func (h *harmed) checks(id string) {
	h.every(topicEvents, func(f found) bool { return nameOf(*f.Record) == events.NameDefinitionAdopted }, func(f found) {
		body := f.body()["body"].(map[string]any)
		for _, s := range body["steps"].([]any) {
			if s := s.(map[string]any); s["id"] == id {
				s["fail_if"] = "output.v == 1"
			}
		}
		f.alter("body", body)
	})
}

func (h *harmed) harmless() string {
	return string(h.fact(events.NameStepFailed, "refuse-", step("pack"), func(f found) bool { return f.text("effect") == "none" }).Key)
}

// swapUndos exchanges two steps in all facts of a task's undo.
func (h *harmed) swapUndos(task, a, b string) string {
	for _, f := range h.all(topicEvents, func(f found) bool {
		n := nameOf(*f.Record)
		return string(f.Key) == task && (n == events.NameCompensationStarted || n == events.NameCompensationFailed || n == events.NameCompensated)
	}) {
		switch f.text("step") {
		case a:
			f.alter("step", b)
		case b:
			f.alter("step", a)
		}
	}
	return task
}
