package node_test

import (
	"context"
	"fmt"
	"maps"
	"testing"
	"time"

	"github.com/sagalog/sagalog/events"
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
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	for _, s := range []*site{a, b} {
		for _, id := range tasks {
			var task struct {
				WaitingFor []api.WaitingDocument `json:"waiting_for"`
			}
			// A node that has not yet heard of the owner of a partition says so first.
			for !waitsForBoth(task.WaitingFor) {
				w.pause(ctx, fmt.Sprintf("the node to say what task %s waits for: %+v", id, task.WaitingFor))
				s.call("GET", "/v1/tasks/"+id, "", "", &task)
			}
		}
		for _, query := range []string{"", "&workflow=w"} {
			counted := map[string]int64{}
			// The counts of followed partitions are up to 10 s old.
			for !maps.Equal(counted, map[string]int64{"agent": 12, "sleep": 12}) {
				w.pause(ctx, fmt.Sprintf("the counts of query %q: %v", query, counted))
				var counts api.CountsDocument
				require.Equal(t, 200, s.call("GET", "/v1/counts?by=waiting_for"+query, "", "", &counts))
				clear(counted)
				for _, c := range counts.Counts {
					counted[c.Key] = c.Count
				}
			}
		}
		var list api.TaskList
		require.Equal(t, 200, s.call("GET", "/v1/tasks?waiting_for=agent&limit=100", "", "", &list))
		require.Len(t, list.Tasks, 12)
	}
}

func waitsForBoth(all []api.WaitingDocument) bool {
	kinds := map[events.Waiting]bool{}
	for _, x := range all {
		kinds[x.Kind] = true
	}
	return maps.Equal(kinds, map[events.Waiting]bool{"agent": true, "sleep": true})
}
