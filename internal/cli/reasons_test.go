package cli_test

import (
	"testing"

	"github.com/sagalog/sagalog/events"
	"github.com/sagalog/sagalog/internal/api"
	"github.com/sagalog/sagalog/internal/api/apitest"
	"github.com/stretchr/testify/require"
)

// The first command of the alert about a partition without an owner shows which owner is silent.
func TestPartitionsSayThatTheirOwnerIsSilent(t *testing.T) {
	t.Parallel()
	e := setup(t, func(c *api.Config) {
		c.Node, c.Nodes = "node-b", apitest.Heard{{Node: "node-a", Silent: true, LastSeen: 5000}, {Node: "node-b"}}
	})
	r := e.run("partitions", "list")
	require.Equal(t, 0, r.code, r.err)
	require.Regexp(t, `(?m)^0 +node-a \(silent since `+events.Instant(5000).String()+`\) `, r.out)
	e.submit(t, "x")
	e.Rows = map[string]events.Keys{"x": {Unplanned: true}}
	r = e.run("task", "get", "x")
	require.Regexp(t, `(?m)^- +owner: partition [0-9]+, which is stalled: its owner, node node-a, has sent no heartbeat since `, r.out)
	require.Contains(t, e.run("task", "get", "y").err, "its submission is still waiting")
}

// Whoever decides about a parked task reads what may have been done, and what to do in either case.
func TestAParkedTaskSaysWhatToDoIfInDoubt(t *testing.T) {
	t.Parallel()
	e := setup(t)
	e.submit(t, "x")
	e.Change("x", &events.TaskParked{Reason: "no answer"}, func(t *events.Task) {
		t.State, t.Reason = events.TaskStateError, "no answer"
		t.Steps = []*events.Step{{Path: "reserve", Agent: "stock", State: events.StepStateTimedOut, Touched: true, Error: &events.Error{Class: events.ClassTimeout}}}
	})
	require.Regexp(t, `operator: see REASON; step "reserve" may have taken effect \(Idempotency-Key [0-9a-f-]{36}\): ask its service\. If it took effect, .sagalog task complete.; if it did not, or if the service knows its keys and does nothing twice, .sagalog task retry.`,
		e.run("task", "get", "x").out)
}
