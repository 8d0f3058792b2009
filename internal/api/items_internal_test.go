package api

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sagalog/sagalog/events"
)

// The fold counts as open what keeps a task from going on. People must see that nothing runs.
func TestItemsThatFailedDoNotRun(t *testing.T) {
	t.Parallel()
	fan := &events.Step{Path: "send", State: events.StepStateFailed, Fan: &events.FanOut{Count: 9, Begun: 6, Completed: 1, Failed: 1, Undone: 2}}
	failed := &events.Error{Class: events.ClassPermanent, Message: "no"}
	task := &events.Task{ID: "t", Steps: []*events.Step{
		fan,
		{Path: "send[0]", State: events.StepStateCompleted, Completion: 1},
		{Path: "send[1]", State: events.StepStateFailed, Continued: true, Error: failed},
		{Path: "send[2]", State: events.StepStateFailed, Error: failed},
		{Path: "send[3]", State: events.StepStateUndone, Error: failed, Undo: &events.UndoState{State: events.StepStateUndone}},
		{Path: "send[4]", State: events.StepStateUndone, Completion: 2, Left: true, Undo: &events.UndoState{State: events.StepStateUndone, Skipped: true}},
		{Path: "send[5]", State: events.StepStateRunning},
	}}
	require.Equal(t, &FanOutDocument{Count: 9, Begun: 6, Completed: 1, Failed: 2, Undone: 1, Left: 1, Running: 1}, fanOutDocument(task, fan))
	var ids []string
	for _, x := range itemPage(task, &ItemsQuery{Step: "send", After: -1, Limit: 100}, []string{"failed"}).Items {
		ids = append(ids, x.ID)
	}
	require.Equal(t, []string{"send[1]", "send[2]", "send[3]"}, ids)
}
