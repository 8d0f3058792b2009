package node_test

import (
	"testing"

	"github.com/sagalog/sagalog/internal/api"
	"github.com/sagalog/sagalog/internal/node"
	"github.com/stretchr/testify/require"
)

// Whichever node is asked says what tasks wait for, also one that only follows their partitions.
func TestEachNodeSaysWhatTasksWaitFor(t *testing.T) {
	t.Parallel()
	w := setup(t, 4)
	serves := func(c *node.Config) { c.Alone, c.HTTP = false, "127.0.0.1:0" }
	a := w.site(w.node(t.TempDir(), serves))
	require.Equal(t, 200, s200(a.call("PUT", "/v1/workflows/w", "application/yaml", "workflow: w\nsteps:\n  only: {agent: stock}\n  nap: {sleep: 1h}\n", nil)))
	w.shared("node-1")
	b := w.site(w.node(t.TempDir(), serves))
	w.shared("node-1", "node-2")
	w.knows(a)
	w.knows(b)
	tasks := ids("t", 12)
	for _, id := range tasks {
		require.Equal(t, 202, a.call("PUT", "/v1/tasks/"+id, "application/json", `{"workflow":"w","input":{}}`, nil))
	}
	for _, s := range []*site{a, b} {
		for _, id := range tasks {
			for {
				var task struct {
					WaitingFor []api.WaitingDocument `json:"waiting_for"`
				}
				if s.call("GET", "/v1/tasks/"+id, "", "", &task) == 200 && len(task.WaitingFor) == 2 {
					break
				}
				w.pause(t.Context(), "the node to say what task "+id+" waits for")
			}
		}
		for _, query := range []string{"", "&workflow=w"} {
			var counts api.CountsDocument
			require.Equal(t, 200, s.call("GET", "/v1/counts?by=waiting_for"+query, "", "", &counts))
			for i := range counts.Counts {
				counts.Counts[i].Oldest = 0 // known only where tasks are looked at
			}
			require.ElementsMatch(t, []api.TaskCount{{Key: "agent", Count: 12}, {Key: "sleep", Count: 12}}, counts.Counts, "query %q", query)
		}
		var list api.TaskList
		require.Equal(t, 200, s.call("GET", "/v1/tasks?waiting_for=agent&limit=100", "", "", &list))
		require.Len(t, list.Tasks, 12)
	}
}
