package supervisor

import (
	"fmt"
	"testing"

	"github.com/sagalog/sagalog/events"
	"github.com/stretchr/testify/require"
)

// Each verb about a step, in each state of the task and of the step: the fact that grants it, or why it is refused.
func TestVerbsAboutStepsByTheStatesOfTaskAndStep(t *testing.T) {
	t.Parallel()
	const (
		running, over, unbegun  = "is running: fail it first", "already", "has begun"
		forward, back           = "is not being undone", "give operation undo"
		untried, none, finished = "no attempt to undo step", "none is to come", "the task has ended"
	)
	skip, complete, fail := events.RequestSkip, events.RequestComplete, events.RequestFail
	type row struct{ skip, complete, fail string }
	do := map[events.StepState]row{
		events.StepStateNotStarted: {"StepSkipped", unbegun, unbegun},
		events.StepStateRunning:    {running, running, "StepFailed"},
		events.StepStateWaiting:    {"StepSkipped", "StepCompleted", "StepFailed"},
		events.StepStateFailed:     {"StepSkipped", "StepCompleted", none},
		events.StepStateTimedOut:   {"StepSkipped", "StepCompleted", none},
		events.StepStateCompleted:  {over, over, none},
		events.StepStateSkipped:    {over, over, none},
	}
	undo := map[events.StepState]row{
		events.StepStateNotStarted: {untried, untried, unbegun},
		events.StepStateRunning:    {running, running, "CompensationFailed"},
		events.StepStateWaiting:    {"StepSkipped", "Compensated", "CompensationFailed"},
		events.StepStateFailed:     {"StepSkipped", "Compensated", none},
		events.StepStateUndone:     {over, over, none},
	}
	check := func(task *events.Task, q events.Request, want string) {
		t.Helper()
		q.ID, q.Step = "q", "s"
		body, no := JudgeRequest(task, &q)
		if body != nil {
			require.Equal(t, want, string(body.Name()), "%s of %+v, %s", q.Kind, task.Steps, task.State)
			require.Empty(t, no.Reason)
			return
		}
		require.Contains(t, no.Reason, want, "%s of %+v, %s", q.Kind, task.Steps, task.State)
	}
	of := func(r row, v events.Verb) string {
		return map[events.Verb]string{skip: r.skip, complete: r.complete, fail: r.fail}[v]
	}
	forwards := []events.Task{{State: events.TaskStatePending}, {State: events.TaskStateProcessing}, {State: events.TaskStateError, ParkedFrom: events.TaskStateProcessing}, {State: events.TaskStateProcessing, Paused: &events.Paused{}}}
	for _, verb := range []events.Verb{skip, complete, fail} {
		for state, r := range do {
			for _, task := range forwards {
				if task.Steps = []*events.Step{{Path: "s", State: state, Attempt: 2}}; state == events.StepStateNotStarted {
					task.Steps = nil
				}
				check(&task, events.Request{Kind: verb}, of(r, verb))
				check(&task, events.Request{Kind: verb, Operation: events.Undo}, forward)
			}
		}
		for state, r := range undo {
			for _, task := range []events.Task{{State: events.TaskStateUndoing}, {State: events.TaskStateError, ParkedFrom: events.TaskStateUndoing}} {
				s := &events.Step{Path: "s", State: events.StepStateUndoing, Attempt: 1, Undo: &events.UndoState{State: state, Attempt: 3}}
				if task.Steps = []*events.Step{s}; state == events.StepStateNotStarted {
					s.State, s.Undo = events.StepStateCompleted, nil
				}
				want := of(r, verb)
				if verb == fail && state == events.StepStateWaiting && task.State == events.TaskStateError {
					want = none
				}
				check(&task, events.Request{Kind: verb}, want)
				check(&task, events.Request{Kind: verb, Operation: events.Do}, back)
			}
		}
		for _, state := range []events.TaskState{events.TaskStateProcessed, events.TaskStateUndone, events.TaskStateTerminated} {
			check(&events.Task{State: state}, events.Request{Kind: verb}, finished)
		}
		// A do that runs in a task that is being undone can be failed, and nothing else.
		task := &events.Task{State: events.TaskStateUndoing, Steps: []*events.Step{{Path: "s", State: events.StepStateRunning, Attempt: 1}}}
		check(task, events.Request{Kind: verb}, of(row{running, running, "StepFailed"}, verb))
	}
	failed := &events.Task{State: events.TaskStateError, ParkedFrom: events.TaskStateProcessing, Steps: []*events.Step{{Path: "s", State: events.StepStateFailed, Attempt: 1, Pivot: true}}}
	check(failed, events.Request{Kind: skip}, "is the pivot, which cannot be skipped: if its work was done, complete it")
	check(failed, events.Request{Kind: complete}, "StepCompleted")
}

func TestAnInputIsGivenToExactlyOneStep(t *testing.T) {
	t.Parallel()
	for n := range 3 {
		task := &events.Task{State: events.TaskStateError, ParkedFrom: events.TaskStateProcessing}
		for i := range n {
			task.Steps = append(task.Steps, &events.Step{Path: fmt.Sprint("s", i), State: events.StepStateFailed, Attempt: 1})
		}
		body, no := JudgeRequest(task, &events.Request{ID: "q", Kind: events.RequestRetry, With: []byte(`{}`)})
		if n == 1 {
			require.JSONEq(t, `{}`, string(body.(*events.TaskReopened).With))
			continue
		}
		require.Contains(t, no.Reason, "name one")
	}
}
