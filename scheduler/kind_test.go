package scheduler_test

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sagalog/sagalog/events"
	"github.com/sagalog/sagalog/scheduler"
)

const packing = `
workflow: w
steps:
  pack:
    for: {each: "${ input }", as: parcel}
    agent: packer
    with: {parcel: "${ parcel }", place: "${ index }"}
    retry: {attempts: 3}
    undo: {agent: unpacker, with: {of: "${ step.output }", parcel: "${ parcel }", place: "${ index }"}}
`

// The items of a fan-out step share the step's definition, and each has a separate state.
func TestAnItemHasTheDefinitionOfItsStep(t *testing.T) {
	t.Parallel()
	src, _ := scheduler.Parse("f", []byte(packing), nil)
	d, err := scheduler.Complete(src.Body)
	require.NoError(t, err)
	body, err := json.Marshal(d)
	require.NoError(t, err)
	s := scheduler.New()
	require.NoError(t, s.Prepare("h", body))
	task := &events.Task{ID: "t", Workflow: "w", Definition: "h", State: events.TaskStateUndoing, Input: json.RawMessage(`["a","b","c"]`), Steps: []*events.Step{
		{Path: "pack", State: events.StepStateWaiting, Fan: &events.FanOut{Count: 3, Collect: events.CollectOutputs, Begun: 2, Completed: 1}},
		{Path: "pack[1]", State: events.StepStateCompleted, Touched: true, Undoable: true, Completion: 1, Output: json.RawMessage(`17`)},
	}}

	require.Equal(t, s.Policy(task, "pack", events.Do), s.Policy(task, "pack[1]", events.Do))
	plan, err := s.Plan(task)
	require.NoError(t, err)
	require.Equal(t, []events.Ready{{Task: "t", Path: "pack[1]", Operation: events.Undo, Agent: "unpacker"}}, plan.Ready)
	start, err := s.Start(task, "pack[1]", events.Undo)
	require.NoError(t, err)
	require.JSONEq(t, `{"of": 17, "parcel": "b", "place": 1}`, string(start.Input))
}

func TestAStepNamesTheOperationsThatItCalls(t *testing.T) {
	t.Parallel()
	step, ok := program(t, packing).Step("pack")
	require.True(t, ok)
	require.Equal(t, []events.Call{{Agent: "packer", Operation: events.Do}, {Agent: "unpacker", Operation: events.Undo}}, step.Calls())
}

// An undo that names no operation is that of the step's operation, unless another agent does it.
func TestAStepNamesTheOperationOfItsAgent(t *testing.T) {
	t.Parallel()
	for undo, want := range map[string]events.Call{
		"{}":                                {Agent: "bank", Function: "authorize", Operation: events.Undo},
		"{agent: bank}":                     {Agent: "bank", Function: "authorize", Operation: events.Undo},
		"{operation: void}":                 {Agent: "bank", Function: "void", Operation: events.Undo},
		"{agent: clerk}":                    {Agent: "clerk", Operation: events.Undo},
		"{agent: clerk, operation: cancel}": {Agent: "clerk", Function: "cancel", Operation: events.Undo},
	} {
		p := program(t, "workflow: w\nsteps:\n  hold: {agent: bank, operation: authorize, undo: "+undo+"}\n")
		step, ok := p.Step("hold")
		require.True(t, ok)
		do := events.Call{Agent: "bank", Function: "authorize", Operation: events.Do}
		require.Equal(t, []events.Call{do, want}, step.Calls(), undo)

		s := scheduler.New()
		body, err := json.Marshal(p.Definition())
		require.NoError(t, err)
		require.NoError(t, s.Prepare("h", body))
		task := &events.Task{ID: "t", Workflow: "w", Definition: "h", State: events.TaskStatePending}
		plan, err := s.Plan(task)
		require.NoError(t, err)
		require.Equal(t, do, plan.Ready[0].Call())
		task.State = events.TaskStateUndoing
		task.Steps = []*events.Step{{Path: "hold", State: events.StepStateCompleted, Touched: true, Undoable: true, Completion: 1}}
		plan, err = s.Plan(task)
		require.NoError(t, err)
		require.Equal(t, want, plan.Ready[0].Call(), undo)
	}
}
