package scheduler_test

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sagalog/sagalog/events"
	"github.com/sagalog/sagalog/scheduler"
)

const optional = `
workflow: w
steps:
  ask: {agent: asker, on_timeout: continue, undo: {}}
  use: {needs: [ask], agent: user, with: {answer: "${ steps.ask.output ?? 'nothing' }", why: "${ steps.ask.error?.class }"}}
`

// timedOut returns a task of the workflow optional whose first step timed out.
func timedOut(t *testing.T) (*scheduler.Scheduler, *events.Task) {
	src, faults := scheduler.Parse("f", []byte(optional), nil)
	require.NotNil(t, src, faults)
	d, err := scheduler.Complete(src.Body)
	require.NoError(t, err)
	body, err := json.Marshal(d)
	require.NoError(t, err)
	s := scheduler.New()
	require.NoError(t, s.Prepare("h", body))
	return s, &events.Task{ID: "t", Workflow: "w", Definition: "h", State: events.TaskStateProcessing, Steps: []*events.Step{{
		Path: "ask", State: events.StepStateTimedOut, Touched: true, Undoable: true, Attempt: 1,
		Error: &events.Error{Class: events.ClassTimeout, Message: "its time was over"},
	}}}
}

func TestTheNeedsOfAStepHoldOnceTheTaskContinues(t *testing.T) {
	t.Parallel()
	s, task := timedOut(t)
	plan, err := s.Plan(task)
	require.NoError(t, err)
	require.Empty(t, plan.Ready, "it has failed")

	task.Steps[0].Continued = true
	plan, err = s.Plan(task)
	require.NoError(t, err)
	require.Equal(t, []events.Ready{{Task: "t", Path: "use", Operation: events.Do, Agent: "user"}}, plan.Ready)
	start, err := s.Start(task, "use", events.Do)
	require.NoError(t, err)
	require.JSONEq(t, `{"answer": "nothing", "why": "timeout"}`, string(start.Input))

	task.Steps = append(task.Steps, &events.Step{Path: "use", State: events.StepStateCompleted, Completion: 1, Touched: true})
	plan, err = s.Plan(task)
	require.NoError(t, err)
	require.Equal(t, []events.Body{&events.TaskProcessed{Output: json.RawMessage("null")}}, plan.Facts)
}

func TestAContinuedStepIsUndoneIfItMayHaveActed(t *testing.T) {
	t.Parallel()
	for touched, want := range map[bool]int{true: 1, false: 0} {
		s, task := timedOut(t)
		task.State, task.Steps[0].Continued, task.Steps[0].Touched = events.TaskStateUndoing, true, touched
		plan, err := s.Plan(task)
		require.NoError(t, err)
		require.Len(t, plan.Ready, want)
	}
}

func TestThePolicySaysWhatATimeoutMeans(t *testing.T) {
	t.Parallel()
	s, task := timedOut(t)
	require.Equal(t, events.ActionContinue, s.Policy(task, "ask", events.Do).OnTimeout)
	require.Empty(t, s.Policy(task, "ask", events.Undo).OnTimeout)
	require.Empty(t, s.Policy(task, "use", events.Do).OnTimeout)
}
