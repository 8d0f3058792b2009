package supervisor

import (
	"fmt"
	"slices"
	"testing"

	"github.com/sagalog/sagalog/events"
	"github.com/stretchr/testify/require"
)

// A task remembers each request that it ever granted, so the number is bounded. An earlier one that comes again is no further one.
func TestATaskGrantsABoundedNumberOfRequests(t *testing.T) {
	t.Parallel()
	task := &events.Task{State: events.TaskStateProcessing}
	for i := range events.MaxRequests - 1 {
		task.Requests = append(task.Requests, fmt.Sprint("q", i))
	}
	slices.Sort(task.Requests)
	body, why := requested(task, &events.Request{ID: "last", Kind: events.RequestCancel})
	require.Empty(t, why)
	require.NotNil(t, body)
	task.Held = []events.Request{{ID: "last"}}
	body, why = requested(task, &events.Request{ID: "further", Kind: events.RequestCancel})
	require.Nil(t, body)
	require.Equal(t, "the task has had 10000 requests, which is the limit", why)
	require.True(t, task.HasRequest("q7"))
}
