package sentence_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/sagalog/sagalog/events"
	"github.com/sagalog/sagalog/internal/sentence"
	"github.com/stretchr/testify/require"
)

func TestEachFactOfATaskHasItsSentence(t *testing.T) {
	t.Parallel()
	ada := events.Operator{Request: "q", Reason: "known", By: "ada"}
	no := events.Error{Class: events.ClassPermanent, Code: "http_402", Message: "card refused"}
	link := events.Link{Task: "trip", Path: "flight", Operation: events.Do}
	retry := events.Verdict{Action: events.ActionRetry, At: 2000, Reason: "attempt 1 of 5"}
	for _, c := range []struct {
		body events.Body
		want string
	}{
		{&events.Submitted{Workflow: "w", Version: 3}, "the task is accepted, of workflow w, version 3"},
		{&events.Submitted{Workflow: "w", Version: 3, Schedule: "daily", NotBefore: 1000},
			"the task is accepted, of workflow w, version 3, for schedule daily; no step starts before 1970-01-01T00:00:01.000Z"},
		{&events.Submitted{Workflow: "w", Version: 3, Parent: &events.ParentLink{Link: link}}, `the task is accepted, of workflow w, version 3, for step "flight" of task trip`},
		{&events.StepStarted{Step: "flight", Attempt: 2, CompleteBy: 1000, Child: &events.ChildCall{Task: "trip/flight~2", Workflow: "booking"}},
			`step "flight" starts, attempt 2: task trip/flight~2, of workflow booking, to end by 1970-01-01T00:00:01.000Z`},
		{&events.StepStarted{Step: "survey", Attempt: 1, Child: &events.ChildCall{Task: "trip/survey", Workflow: "survey", Detach: true}},
			`step "survey" starts: task trip/survey, of workflow survey, which goes on by itself`},
		{&events.CompensationStarted{Step: "flight", Attempt: 1, Child: &events.ChildCall{Task: "trip/flight"}}, `the undo of step "flight" starts: task trip/flight is asked to undo itself`},
		{&events.ChildAsked{Child: "trip/flight", Link: link, Cancel: "cancelled"}, `task trip/flight, which does step "flight", is asked to turn back: cancelled`},
		{&events.ChildAsked{Child: "trip/flight", Link: link}, `task trip/flight has not answered for step "flight"; it is asked again`},
		{&events.ChildrenReleased{Children: []events.ChildRelease{{Child: "trip/flight"}, {Child: "trip/hotel"}}}, "the task is to be forgotten, and releases its children: trip/flight, trip/hotel"},
		{&events.ChildReturned{ChildRelease: events.ChildRelease{Child: "trip/flight"}}, "task trip/flight is released, because this task, its parent, is forgotten"},
		{&events.ChildRefused{Parent: events.ParentLink{Link: link}, Reason: "schema", Detail: "/input: no"}, "the task is not accepted as the child of task trip (schema): /input: no"},
		{&events.ChildRefused{Parent: events.ParentLink{Link: link}, Reason: events.RejectLost}, "task trip asks about the task as its child, and nobody knows of it"},
		{&events.ChildAnswered{Answer: events.ChildAnswer{Link: link, State: events.ChildProcessed}}, "task trip learns again that the task is processed"},
		{&events.ChildAnswered{Answer: events.ChildAnswer{Link: link, State: events.ChildRefuses, Reason: "it is past its point of no return"}}, "the task does not undo itself for task trip: it is past its point of no return"},
		{&events.ChildAnswered{Answer: events.ChildAnswer{Link: link, State: events.ChildRejected, Code: "conflict", Reason: "another task has its ID"}},
			"task trip wants to start a child with the ID of this task, which is refused (conflict): another task has its ID"},
		{&events.ChildUndoRequested{Link: link, Reason: "cancelled"}, "task trip, its parent, has the task undo itself: cancelled"},
		{&events.ChildReleased{Link: link}, "task trip, its parent, no longer needs the task"},
		{&events.NotBeforePassed{NotBefore: 1000}, "the task may start"},
		{&events.StepQueued{Step: "s", StartBy: 1000}, `step "s" is ready; its first attempt must start by 1970-01-01T00:00:01.000Z`},
		{&events.StepStarted{Step: "s", Agent: "card", Function: "charge", Attempt: 1, CompleteBy: 1000}, `step "s" starts, by agent card charge, to end by 1970-01-01T00:00:01.000Z`},
		{&events.StepStarted{Step: "s", Agent: "card", Attempt: 2, CompleteBy: 1000, Progress: []byte(`{"page":7}`)},
			`step "s" starts, attempt 2, by agent card, to end by 1970-01-01T00:00:01.000Z; it continues after the progress {"page":7}`},
		{&events.StepStarted{Step: "s", Agent: "gpu", Attempt: 3, Run: 2, CompleteBy: 1000, Heartbeat: 1000},
			`step "s" starts, attempt 3, run 2, by agent gpu, to show progress by 1970-01-01T00:00:01.000Z`},
		{&events.RequestHeld{Request: events.Request{ID: "q", Kind: events.RequestSignal}, ExpiresAt: 1000}, "a request to signal came before the task; it is kept until 1970-01-01T00:00:01.000Z"},
		{&events.InputRejected{Reason: "refused", Detail: "/input/val: got string"}, "what came for the task was rejected (refused): /input/val: got string"},
		{&events.EffectFailed{Kind: events.EffectWork, Error: "too large"}, "what the engine sent for the task (work) was refused: too large"},
		{&events.PermitReleased{Limit: "limit/bank", Link: events.Link{Path: "charge", Operation: events.Do}, QuietAt: 1000},
			`step "charge" gave back its permit of bank; nobody else gets it before 1970-01-01T00:00:01.000Z`},
		{&events.StepProgressed{Step: "s", Attempt: 1, Progress: []byte(`{"page":7}`)}, `step "s" shows the progress {"page":7}`},
		{&events.StepProgressed{Step: "s", Attempt: 1, CompleteBy: 1000}, `step "s" is alive, and must end or show progress by 1970-01-01T00:00:01.000Z`},
		{&events.WaitStarted{Step: "s", Within: 1, Until: 1000}, `step "s" sleeps until 1970-01-01T00:00:01.000Z`},
		{&events.WaitStarted{Step: "s", Signals: []string{"yes", "no"}}, `step "s" waits for the signal yes or no`},
		{&events.WaitStarted{Step: "s", Signals: []string{"yes"}, Until: 1000}, `step "s" waits for the signal yes, until 1970-01-01T00:00:01.000Z`},
		{&events.StepCompleted{Step: "s", Attempt: 1}, `step "s" is completed`},
		{&events.StepCompleted{Step: "s", Attempt: 3}, `step "s" is completed, attempt 3`},
		{&events.StepCompleted{Step: "s", Attempt: 1, Operator: ada}, `ada completed step "s" by hand: known`},
		{&events.StepCompleted{Step: "s", Signal: "q", Output: []byte(`{"signal":"yes"}`)}, `step "s" takes the signal: yes`},
		{&events.StepFailed{Step: "s", Attempt: 1, Error: no, Verdict: retry}, `step "s" failed (http_402): card refused; retry at 1970-01-01T00:00:02.000Z: attempt 1 of 5`},
		{&events.StepFailed{Step: "s", Attempt: 2, Error: no, Verdict: events.Verdict{Action: events.ActionUndo, Reason: "no retry can help: card refused"}},
			`step "s" failed, attempt 2 (http_402); the task turns back: no retry can help: card refused`},
		{&events.StepFailed{Step: "s", Attempt: 1, Error: events.Error{Message: "known"}, Verdict: events.Verdict{Action: events.ActionPark, Reason: "no retry can help: known"}, Operator: ada},
			`ada failed the attempt of step "s"; the task waits for an operator: no retry can help: known`},
		{&events.StepFailed{Step: "s", Operator: events.Operator{Request: "q"}}, `an operator ended the wait of step "s" for its next attempt`},
		{&events.Timeout{Step: "s", Operation: events.Do, Attempt: 1, CompleteBy: 1000, Verdict: events.Verdict{Action: events.ActionContinue}},
			`step "s" had no result by 1970-01-01T00:00:01.000Z; the task goes on without it`},
		{&events.Timeout{Step: "s", Operation: events.Undo, Attempt: 2, CompleteBy: 1000, Verdict: events.Verdict{Action: events.ActionCoolDown, At: 2000, Reason: "round 1 of 3"}},
			`the undo of step "s" had no result by 1970-01-01T00:00:01.000Z, attempt 2; after a cool-down it starts again at 1970-01-01T00:00:02.000Z: round 1 of 3`},
		{&events.Timeout{Step: "s", Operation: events.Do, StartBy: 1000, Verdict: events.Verdict{Action: events.ActionUndo}},
			`step "s" could not start by 1970-01-01T00:00:01.000Z; the task turns back`},
		{&events.Timeout{Step: "s", Operation: events.Do, Verdict: events.Verdict{Action: events.ActionContinue}}, `step "s" has waited for all its time; the task goes on without it`},
		{&events.StepSkipped{Step: "s", Why: events.SkipOperator, Operator: ada}, `ada skipped step "s": known`},
		{&events.StepSkipped{Step: "s", Why: events.SkipOperator, Left: true, Operator: ada}, `ada skipped the undo of step "s", so what the step did stays: known`},
		{&events.StepSkipped{Step: "s", Why: events.SkipCondition, Condition: "input.n > 1"}, `step "s" is skipped, because its condition is false: input.n > 1`},
		{&events.StepSkipped{Step: "s", Why: events.SkipNeeds}, `step "s" is skipped, because a step that it needs was`},
		{&events.CompensationStarted{Step: "s", Agent: "card", Attempt: 1, CompleteBy: 1000}, `the undo of step "s" starts, by agent card, to end by 1970-01-01T00:00:01.000Z`},
		{&events.Compensated{Step: "s", Attempt: 1}, `step "s" is undone`},
		{&events.Compensated{Step: "s", Attempt: 1, Operator: ada}, `ada completed the undo of step "s" by hand: known`},
		{&events.Compensated{Step: "s", Attempt: 1, Child: "t/s", Operator: ada}, `ada undid by hand what task "t/s", the child of step "s", did: known`},
		{&events.Compensated{Step: "s", Attempt: 1, Left: true}, `step "s" is undone, but an operator left what some steps of its child did`},
		{&events.StepSkipped{Step: "s", Why: events.SkipOperator, Left: true, Child: "t/s", Operator: ada}, `ada skipped the undo of task "t/s", the child of step "s", so what that task did stays: known`},
		{&events.CompensationFailed{Step: "s", Attempt: 1, Error: no, Verdict: retry},
			`the undo of step "s" failed (http_402): card refused; retry at 1970-01-01T00:00:02.000Z: attempt 1 of 5`},
		{&events.CompensationFailed{Step: "s", Attempt: 1, Operator: ada}, `ada failed the attempt to undo step "s"`},
		{&events.CompensationFailed{Step: "s", Operator: ada}, `ada ended the wait for the next attempt to undo step "s"`},
		{&events.DeadlinePassed{Deadline: 1000, Action: "undo"}, "the deadline 1970-01-01T00:00:01.000Z has passed; the task turns back"},
		{&events.DeadlinePassed{Deadline: 1000, Action: "alert"}, "the deadline 1970-01-01T00:00:01.000Z has passed; an alert is sent"},
		{&events.SoftLimitPassed{Step: "s", Since: 1000, SoftAt: 2000}, `step "s" is not over 1s (remind_after) after 1970-01-01T00:00:01.000Z; an alert is sent`},
		{&events.TaskProcessed{}, "the task is processed"},
		{&events.TaskUndone{Reason: "cancelled", Left: []string{"a", "b"}}, `the task is undone: cancelled; an operator left what these did: step "a", step "b"`},
		{&events.TaskParked{Step: "s", Reason: "attempts used up"}, "the task is parked and waits for an operator: attempts used up"},
		{&events.TaskReminded{Reminder: 1, Since: 1000, Reason: "no"}, "the task has been parked since 1970-01-01T00:00:01.000Z; the alert is sent again: no"},
		{&events.TaskReopened{Request: "q", Steps: []string{"s"}, With: []byte(`{"n":1}`), By: "ada", Reason: "wrong address"}, `ada retried step "s" with another input: wrong address`},
		{&events.TaskReopened{Request: "q", By: "ada"}, "ada retried the task"},
		{&events.CancelRequested{Request: "q", By: "ada"}, "ada cancelled the task"},
		{&events.TaskPaused{Request: "q", By: "ada"}, "ada paused the task"},
		{&events.TaskResumed{Request: "q"}, "an operator resumed the task"},
		{&events.TaskTerminated{Request: "q", By: "ada", Reason: "known", NotUndone: []string{"a"}}, `ada terminated the task: known; not undone: step "a"`},
		{&events.TaskTerminated{Request: "q", By: "ada", NotUndone: strings.Split(strings.Repeat("a,", 20)+"b", ","), MoreNotUndone: 5}, `ada terminated the task; not undone: ` + strings.Repeat(`step "a", `, 20) + `and 6 more`},
		{&events.TaskRerun{Request: "q", By: "ada", From: "s", Input: []byte(`{"n":1}`), Reason: "wrong address"}, `ada reran the task from step "s" with another input: wrong address`},
		{&events.TaskRerun{Request: "q"}, "an operator reran the task"},
		{&events.RunBegun{Run: 2}, "run 2 begins"},
		{&events.RequestRefused{Request: "q", Verb: events.RequestCancel, Reason: "no", By: "ada"}, "ada's request to cancel was refused: no"},
		{&events.SignalReceived{Request: "q", Signal: "yes"}, "the signal yes came"},
		{&events.SignalReceived{Request: "q", Signal: "yes", By: "ada"}, "ada sent the signal yes"},
		{&events.SignalReceived{Request: "q", Signal: "yes", By: "ada", Payload: json.RawMessage(`{"ok":true}`), Reason: "she may"}, `ada sent the signal yes with {"ok":true}: she may`},
		{&events.SignalReceived{Request: "q", Signal: "yes", Payload: json.RawMessage(strings.Repeat("1", 101))}, "the signal yes came with a payload of 101 bytes"},
		{&events.PermitAsked{Limit: "concurrency/w/k"}, "the task needs a permit of w/k"},
		{&events.PermitAsked{Limit: "concurrency/w/k", Repeat: true}, "the task still waits for a permit of w/k"},
		{&events.PermitGranted{Limit: "concurrency/w/k"}, "the task has a permit of w/k"},
		{&events.PermitReleased{Limit: "limit/bank", Link: events.Link{Path: "charge", Operation: events.Do}}, `step "charge" gave back its permit of bank`},
		{&events.PermitReturned{Limit: "limit/bank", Link: events.Link{Path: "charge", Operation: events.Undo}}, `the undo of step "charge" gave back a permit of bank that it no longer needs`},
		{&events.PermitBlocked{Limit: "concurrency/w/k"}, "others wait for the task's permit of w/k"},
		{&events.TimeCorrected{To: 1000}, "a clock was ahead; what began by that clock counts from 1970-01-01T00:00:01.000Z instead"},
	} {
		data, err := json.Marshal(c.body)
		require.NoError(t, err)
		require.Equal(t, c.want, sentence.Of(string(c.body.Name()), data), string(data))
	}
}

// A build meets facts of later ones, and facts with less than it expects.
func TestAnUnknownFactIsNamed(t *testing.T) {
	t.Parallel()
	require.Equal(t, "something new", sentence.Of("SomethingNew", []byte(`{"x":1}`)))
	require.Equal(t, "step failed", sentence.Of("StepFailed", []byte(`{"step":7}`)))
	require.Empty(t, sentence.Of("", nil))
	for _, name := range events.Names() {
		for _, data := range []string{"", "{}", "null", "[]", "{"} {
			require.NotEmpty(t, strings.TrimSpace(sentence.Of(string(name), []byte(data))), name)
		}
	}
}
