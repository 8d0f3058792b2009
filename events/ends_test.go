package events_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sagalog/sagalog/events"
)

// A fact names as many steps as a record has room for, and counts the others: a task of many items can be terminated too.
func TestATerminatedTaskOfManyItemsNamesSomeOfThem(t *testing.T) {
	t.Parallel()
	task := &events.Task{ID: "t"}
	for i := range events.MaxNamed + 3 {
		task.Steps = append(task.Steps, &events.Step{Path: events.ItemPath("a", i), Touched: true})
	}
	b := events.Terminated(task, &events.Request{ID: "q", By: "ada"})
	require.Len(t, b.NotUndone, events.MaxNamed)
	require.Equal(t, "a[0]", b.NotUndone[0])
	require.Equal(t, 3, b.MoreNotUndone)
	task.Steps = task.Steps[:2]
	b = events.Terminated(task, &events.Request{ID: "q"})
	require.Equal(t, []string{"a[0]", "a[1]"}, b.NotUndone)
	require.Zero(t, b.MoreNotUndone)
}
