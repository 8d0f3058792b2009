package api_test

import (
	"testing"

	"github.com/sagalog/sagalog/events"
	"github.com/sagalog/sagalog/internal/api"
	"github.com/sagalog/sagalog/internal/api/apitest"
	"github.com/stretchr/testify/require"
)

// An operator reads from the task itself that its owner is silent or that its partition has stopped. A submission that waits is no unknown task.
func TestATaskSaysWhyItsOwnerDecidesNothing(t *testing.T) {
	t.Parallel()
	x := events.Home("x", apitest.Partitions)
	silent := api.NodeDocument{Node: "node-a", Silent: true, LastSeen: 5000}
	for name, c := range map[string]struct {
		heard []api.NodeDocument
		why   string
	}{
		"alive":         {[]api.NodeDocument{{Node: "node-a"}, {Node: "node-b"}}, ""},
		"silent":        {[]api.NodeDocument{silent, {Node: "node-b"}}, "its owner, node node-a, has sent no heartbeat since " + events.Instant(5000).String()},
		"forgotten":     {[]api.NodeDocument{{Node: "node-b"}}, "its owner, node node-a, was stopped, or has sent no heartbeat for a minute"},
		"hears nobody":  {[]api.NodeDocument{silent}, ""},
		"stopped":       {[]api.NodeDocument{{Node: "node-a", Stopped: []events.StoppedPartition{{Partition: x, Reason: events.StoppedInputLost}}}}, "it has stopped at node node-a (input_lost)"},
		"other stopped": {[]api.NodeDocument{{Node: "node-a", Stopped: []events.StoppedPartition{{Partition: x + 1, Reason: events.StoppedInputLost}}}}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := setup(t, func(cfg *api.Config) { cfg.Node, cfg.Nodes = "node-b", apitest.Heard(c.heard) })
			unknown := w.do("GET", "/v1/tasks/x", "").problem(t).Detail
			w.do("PUT", "/v1/tasks/x", good)
			w.engine.Rows = map[string]events.Keys{"x": {Unplanned: true}}
			wait := w.do("GET", "/v1/tasks/x", "").json(t)["waiting_for"].([]any)[0].(map[string]any)["for"]
			if c.why == "" {
				require.Equal(t, "No task with this ID is known.", unknown)
				require.Contains(t, wait, "has not planned the task since taking over, or is running late")
				return
			}
			require.Contains(t, unknown, "its submission is still waiting: partition")
			require.Contains(t, unknown, c.why)
			require.Contains(t, wait, "which is stalled: "+c.why)
		})
	}
}
