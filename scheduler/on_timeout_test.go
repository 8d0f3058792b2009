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

func TestAStepThatMustStartInTimeIsQueuedFirst(t *testing.T) {
	t.Parallel()
	p := program(t, head+"  a: {agent: a, start_within: 12h, retry: {within: 24h}, undo: {retry: {within: 1h}}}")
	step, _ := p.Step("a")
	body, err := json.Marshal(p.Definition())
	require.NoError(t, err)
	s := scheduler.New()
	require.NoError(t, s.Prepare("h", body))
	task := &events.Task{ID: "t", Workflow: "w", Definition: "h", State: events.TaskStatePending}
	plan, err := s.Plan(task)
	require.NoError(t, err)
	require.Equal(t, []events.Body{&events.StepQueued{Step: "a", StartWithin: step.StartWithin}}, plan.Facts)
	require.Empty(t, plan.Ready)

	task.Steps = []*events.Step{{Path: "a", State: events.StepStateWaiting}}
	plan, err = s.Plan(task)
	require.NoError(t, err)
	require.Len(t, plan.Facts, 1, "an operator reopened it before it ever started")

	task.Steps[0].StartBy = 1
	plan, err = s.Plan(task)
	require.NoError(t, err)
	require.Empty(t, plan.Facts)
	require.Len(t, plan.Ready, 1)
	for op, within := range map[events.Operation]string{events.Do: "24h0m0s", events.Undo: "1h0m0s"} {
		start, err := s.Start(task, "a", op)
		require.NoError(t, err)
		require.Equal(t, within, start.Within.Std().String())
	}
}
