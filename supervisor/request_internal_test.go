package supervisor

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/sagalog/sagalog/events"
	"github.com/stretchr/testify/require"
)

// A task remembers each request that it ever granted, so the number is bounded. An earlier one that comes again is no further one.
func TestATaskGrantsABoundedNumberOfRequests(t *testing.T) {
	t.Parallel()
	task := &events.Task{State: events.TaskStateProcessing}
	for i := range events.MaxRequests - 1 {
		task.Requests = append(task.Requests, events.JudgedRequest{ID: fmt.Sprint("q", i)})
	}
	slices.SortFunc(task.Requests, func(a, b events.JudgedRequest) int { return strings.Compare(a.ID, b.ID) })
	body, no := JudgeRequest(task, &events.Request{ID: "last", Kind: events.RequestCancel})
	require.Empty(t, no)
	require.NotNil(t, body)
	task.Held = []events.Request{{ID: "last"}}
	body, no = JudgeRequest(task, &events.Request{ID: "further", Kind: events.RequestCancel})
	require.Nil(t, body)
	require.Equal(t, "the task has had 10000 requests, the most that a task may have: submit another task if this one cannot end", no.Reason)
	require.True(t, task.HasRequest("q7"))
}
