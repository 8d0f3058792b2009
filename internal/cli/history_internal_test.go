package cli

import (
	"encoding/json"
	"testing"

	"github.com/sagalog/sagalog/events"
	"github.com/sagalog/sagalog/internal/api"
	"github.com/stretchr/testify/require"
)

func TestAHistorySaysWhatAnOperatorDecided(t *testing.T) {
	t.Parallel()
	ada := events.Operator{Request: "q", Reason: "known", By: "ada"}
	for _, c := range []struct {
		body events.Body
		want string
	}{
		{&events.StepSkipped{Step: "s", Why: events.SkipOperator, Operator: ada}, "ada skipped it; known"},
		{&events.StepSkipped{Step: "s", Why: events.SkipOperator, Left: true, Operator: ada}, "ada skipped the undo, so what the step did stays; known"},
		{&events.StepSkipped{Step: "s", Why: events.SkipCondition}, ""},
		{&events.StepCompleted{Step: "s", Attempt: 1, Operator: ada}, "ada completed it by hand; known"},
		{&events.StepCompleted{Step: "s", Attempt: 1}, ""},
		{&events.Compensated{Step: "s", Attempt: 1, Operator: ada}, "ada completed its undo by hand; known"},
		{&events.StepFailed{Step: "s", Attempt: 1, Error: events.Error{Message: "known"}, Verdict: events.Verdict{Action: events.ActionPark, Reason: "no retry can help: known"}, Operator: ada},
			"ada failed the attempt; park; no retry can help: known"},
		{&events.StepFailed{Step: "s", Operator: events.Operator{Request: "q"}}, "an operator ended the wait for its next attempt"},
		{&events.CompensationFailed{Step: "s", Attempt: 1, Operator: ada}, "ada failed the attempt to undo it; known"},
		{&events.CompensationFailed{Step: "s", Operator: ada}, "ada ended the wait for the next attempt to undo it; known"},
		{&events.TaskReopened{Request: "q", Steps: []string{"s"}, With: []byte(`{"n":1}`), By: "ada", Reason: "wrong address"}, "ada retried s with another input; wrong address"},
		{&events.TaskReopened{Request: "q", By: "ada"}, "ada retried the task"},
		{&events.CancelRequested{Request: "q", By: "ada"}, "ada cancelled the task"},
		{&events.TaskPaused{Request: "q", By: "ada"}, "ada paused the task"},
		{&events.TaskResumed{Request: "q", By: "ada"}, "ada resumed the task"},
		{&events.TaskTerminated{Request: "q", By: "ada", Reason: "known"}, "ada terminated the task; known"},
		{&events.TaskRerun{Request: "q", By: "ada", From: "s", Input: []byte(`{"n":1}`), Reason: "wrong address"}, "ada reran the task from s with another input; wrong address"},
		{&events.TaskRerun{Request: "q"}, "an operator reran the task"},
		{&events.RunBegun{Run: 2}, "run 2 begins"},
		{&events.RequestRefused{Request: "q", Verb: events.RequestCancel, Reason: "no"}, "an operator's request to cancel was refused; no"},
		{&events.RequestRefused{Request: "q", Verb: events.RequestCancel, Reason: "no", By: "ada"}, "ada's request to cancel was refused; no"},
		{&events.Submitted{NotBefore: 1000}, "no step starts before 1970-01-01T00:00:01.000Z"},
		{&events.NotBeforePassed{NotBefore: 1000}, "the task may start"},
		{&events.WaitStarted{Step: "s", Within: 1, Until: 1000}, "sleeps until 1970-01-01T00:00:01.000Z"},
		{&events.WaitStarted{Step: "s", Signals: []string{"yes", "no"}}, "waits for the signal yes or no"},
		{&events.WaitStarted{Step: "s", Signals: []string{"yes"}, Until: 1000}, "waits for the signal yes, until 1970-01-01T00:00:01.000Z"},
		{&events.StepQueued{Step: "s", StartBy: 1000}, "its first attempt must start by 1970-01-01T00:00:01.000Z"},
		{&events.SoftLimitPassed{Step: "s", Since: 1000, SoftAt: 2000}, "not over when remind_after, counted from 1970-01-01T00:00:01.000Z, had passed: an alert was sent"},
		{&events.SignalReceived{Request: "q", Signal: "yes"}, "the signal yes"},
		{&events.StepProgressed{Step: "s", Attempt: 1, Progress: []byte(`{"page":7}`)}, `progress: {"page":7}`},
		{&events.StepProgressed{Step: "s", Attempt: 1}, ""},
		{&events.StepStarted{Step: "s", Attempt: 2, Progress: []byte(`{"page":7}`)}, `continues after the progress {"page":7}`},
		{&events.StepStarted{Step: "s", Attempt: 1}, ""},
		{&events.PermitAsked{Limit: "concurrency/w/k"}, "the task needs a permit of w/k"},
		{&events.PermitAsked{Limit: "concurrency/w/k", Repeat: true}, "the task still waits for a permit of w/k"},
		{&events.PermitGranted{Limit: "concurrency/w/k"}, "the task has a permit of w/k"},
		{&events.PermitReleased{Limit: "concurrency/w/k"}, "the task gave back its permit of w/k"},
		{&events.PermitBlocked{Limit: "concurrency/w/k"}, "others wait for the task's permit of w/k"},
		{&events.PermitAsked{Limit: "limit/bank", Link: events.Link{Path: "charge", Operation: events.Do}}, "step charge needs a permit of bank"},
		{&events.PermitGranted{Limit: "limit/bank", Link: events.Link{Path: "charge", Operation: events.Undo}}, "the undo of step charge has a permit of bank"},
		{&events.PermitReleased{Limit: "limit/bank", Link: events.Link{Path: "charge", Operation: events.Do}}, "step charge gave back its permit of bank"},
		{&events.SignalReceived{Request: "q", Signal: "yes", By: "ada"}, "ada sent the signal yes"},
		{&events.StepCompleted{Step: "s", Signal: "q", Output: []byte(`{"signal":"yes"}`)}, "took the signal yes"},
	} {
		data, err := json.Marshal(c.body)
		require.NoError(t, err)
		row := factRow(api.HistoryEvent{Type: string(c.body.Name()), Data: data})
		require.Equal(t, c.want, row[len(row)-1], string(data))
	}
}
