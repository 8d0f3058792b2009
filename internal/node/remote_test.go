package node_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/sagalog/sagalog/events"
	"github.com/sagalog/sagalog/internal/node"
	"github.com/stretchr/testify/require"
)

// answering makes a node share the partitions, follow no others, and serve the API.
func answering(c *node.Config) {
	c.Alone, c.HTTP = false, "127.0.0.1:0"
	c.Roles = node.Roles{Owner: true, API: true}
}

// knows waits until the node knows the owner of each partition.
func (w *world) knows(s *site) {
	w.t.Helper()
	for {
		var list []struct {
			Owner string `json:"owner"`
		}
		require.Equal(w.t, 200, s.call("GET", "/v1/partitions", "", "", &list))
		require.Len(w.t, list, int(w.parts))
		known := 0
		for _, p := range list {
			if p.Owner != "" {
				known++
			}
		}
		if known == int(w.parts) {
			return
		}
		w.pause(w.t.Context(), "each partition to have an owner that answers")
	}
}

// walk pages through all tasks and asks several nodes in turn.
func walk(t *testing.T, limit int, sites ...*site) (all []string) {
	t.Helper()
	for cursor, i := "", 0; ; i++ {
		var page struct {
			Tasks []struct {
				ID string `json:"id"`
			} `json:"tasks"`
			Next string `json:"next"`
		}
		require.Equal(t, 200, sites[i%len(sites)].call("GET", fmt.Sprintf("/v1/tasks?limit=%d&cursor=%s", limit, cursor), "", "", &page))
		for _, task := range page.Tasks {
			all = append(all, task.ID)
		}
		if cursor = page.Next; cursor == "" {
			return all
		}
	}
}

func TestNodesAnswerForEachOther(t *testing.T) {
	t.Parallel()
	w := setup(t, 4)
	one := w.node(t.TempDir(), answering)
	a := w.site(one)
	require.Equal(t, 200, s200(a.call("PUT", "/v1/workflows/order", "application/yaml", order, nil)))
	w.hire(nil)
	w.shared("node-1")
	two := w.node(t.TempDir(), answering)
	b := w.site(two)
	w.shared("node-1", "node-2")
	w.knows(a)
	w.knows(b)

	tasks := ids("t", 24)
	for i, id := range tasks {
		var receipt struct {
			Token string `json:"token"`
		}
		sites := []*site{a, b}
		require.Equal(t, 202, sites[i%2].call("PUT", "/v1/tasks/"+id, "application/json", `{"workflow":"order","input":{"n":1}}`, &receipt))
		var task struct {
			ID, State string
		}
		require.Equal(t, 200, sites[i/2%2].call("GET", "/v1/tasks/"+id+"?wait=30s&token="+receipt.Token, "", "", &task))
		require.Equal(t, string(events.TaskStateProcessed), task.State, "%s of partition %d", id, events.Home(id, w.parts))
	}
	for _, id := range tasks {
		var here, there json.RawMessage
		require.Equal(t, 200, a.call("GET", "/v1/tasks/"+id+"/history?limit=1000", "", "", &here))
		require.Equal(t, 200, b.call("GET", "/v1/tasks/"+id+"/history?limit=1000", "", "", &there))
		require.Equal(t, string(here), string(there))
	}
	require.ElementsMatch(t, tasks, walk(t, 1000, a))
	require.Equal(t, walk(t, 1000, a), walk(t, 5, a, b))
	w.sameEverywhere(a, b)

	// A node that owns nothing answers every request, too.
	three := w.node(t.TempDir(), answering, func(c *node.Config) { c.Roles.Owner = false })
	c := w.site(three)
	w.knows(c)
	require.Equal(t, walk(t, 1000, a), walk(t, 1000, c))
	w.sameEverywhere(a, c)
	require.Equal(t, 404, c.call("POST", "/v1/tasks/none/cancel", "", "", nil))
	require.Equal(t, 409, c.call("POST", "/v1/tasks/"+tasks[0]+"/cancel", "", "", nil))
	require.Equal(t, 202, c.call("PUT", "/v1/tasks/"+tasks[0], "application/json", `{"workflow":"order","input":{"n":2}}`, nil), "the owner decides later")
	w.letters(1, a, b, c)

	w.answersForTheDead(tasks, two, a, c)
}

func s200(status int) int { return status / 100 * 100 }

// A workflow that is applied at one node is current at every node at once, and so is its input schema.
func TestADefinitionIsCurrentAtEachNode(t *testing.T) {
	t.Parallel()
	w := setup(t, 2)
	a := w.site(w.node(t.TempDir(), answering))
	w.shared("node-1")
	b := w.site(w.node(t.TempDir(), answering, func(c *node.Config) { c.Roles.Owner = false }))
	for i := range 100 {
		source := fmt.Sprintf("workflow: w\ninput: {type: object, required: [v%d]}\nsteps:\n  only: {agent: stock}\n", i)
		require.Equal(t, 200, s200(a.call("PUT", "/v1/workflows/w", "application/yaml", source, nil)))
		body := fmt.Sprintf(`{"workflow":"w","input":{"v%d":1}}`, i)
		if i%2 == 0 {
			require.Equal(t, 202, b.call("PUT", fmt.Sprintf("/v1/tasks/t-%d", i), "application/json", body, nil), "the input fits the new schema")
		}
		var now struct{ Version int }
		require.Equal(t, 200, b.call("GET", "/v1/workflows/w", "", "", &now))
		require.Equal(t, 1+i, now.Version)
		require.Equal(t, 422, b.call("PUT", "/v1/tasks/bad", "application/json", `{"workflow":"w","input":{}}`, nil))
	}
}

// sameEverywhere checks that every node immediately gives the same answers from the log and from heartbeats.
func (w *world) sameEverywhere(sites ...*site) {
	w.t.Helper()
	for i, s := range sites {
		name := fmt.Sprintf("w%d-%d", w.serial, i)
		require.Equal(w.t, 200, s200(s.call("PUT", "/v1/workflows/"+name, "application/yaml", single(name, 1), nil)))
		for _, other := range sites {
			require.Equal(w.t, 200, other.call("GET", "/v1/workflows/"+name, "", "", nil))
			require.Equal(w.t, 200, s200(s.call("PUT", "/v1/workflows/"+name, "application/yaml", strings.Replace(single(name, 1), "number 1", other.base, 1), nil)))
			var now struct {
				Version     int
				Description string
			}
			require.Equal(w.t, 200, other.call("GET", "/v1/workflows/"+name, "", "", &now))
			require.Equal(w.t, other.base, now.Description, "what was applied at one node is current at each")
			require.Equal(w.t, 202, other.call("POST", "/v1/tasks", "application/json", `{"id":"`+fmt.Sprint(name, other.base)+`","workflow":"`+name+`"}`, nil))
		}
	}
	for {
		same := true
		var first string
		for i, s := range sites {
			var agents struct {
				Agents []struct{ Agent, Instance string }
			}
			require.Equal(w.t, 200, s.call("GET", "/v1/agents", "", "", &agents))
			text := fmt.Sprint(agents)
			if i == 0 {
				first = text
			}
			same = same && text == first && len(agents.Agents) == 4
		}
		if same {
			return
		}
		w.pause(w.t.Context(), "all nodes to know the agents")
	}
}

// letters waits until each node shows n dead letters.
func (w *world) letters(n int, sites ...*site) {
	w.t.Helper()
	for _, s := range sites {
		for {
			var list struct {
				DeadLetters []struct {
					ID string `json:"id"`
				} `json:"dead_letters"`
			}
			require.Equal(w.t, 200, s.call("GET", "/v1/dead-letters", "", "", &list))
			if len(list.DeadLetters) == n {
				require.Equal(w.t, 200, s.call("GET", "/v1/dead-letters/"+list.DeadLetters[0].ID, "", "", nil))
				break
			}
			w.pause(w.t.Context(), "the dead letters")
		}
	}
}

// answersForTheDead kills a node. Until its partitions are taken over, reads of them say so, waits continue,
// submissions are accepted, and the partitions are listed. After the take-over everything is available again.
func (w *world) answersForTheDead(tasks []string, dead *process, sites ...*site) {
	w.t.Helper()
	before := len(walk(w.t, 1000, sites[0]))
	lost := map[int32]bool{}
	for p := range w.parts {
		if status, err := dead.Status(p); err == nil && status.Phase == "owning" {
			lost[p] = true
		}
	}
	require.Len(w.t, lost, 2)
	var id string
	for _, t := range tasks {
		if lost[events.Home(t, w.parts)] {
			id = t
		}
	}
	dead.kill()
	begun := time.Now()
	late := "late-" + id
	for i := 0; !lost[events.Home(late, w.parts)]; i++ {
		late = fmt.Sprintf("late-%d", i)
	}
	var receipt struct {
		Token string `json:"token"`
	}
	require.Equal(w.t, 202, sites[0].call("PUT", "/v1/tasks/"+late, "application/json", `{"workflow":"order","input":{"n":1}}`, &receipt))
	var task struct{ State string }
	require.Equal(w.t, 200, sites[1].call("GET", "/v1/tasks/"+late+"?wait=30s&token="+receipt.Token, "", "", &task), "a wait continues at the next owner")
	require.Equal(w.t, string(events.TaskStateProcessed), task.State)
	w.t.Logf("a submission right after the death had ended after %s", time.Since(begun))
	for _, s := range sites {
		w.knows(s)
		require.Equal(w.t, http.StatusOK, s.call("GET", "/v1/tasks/"+id, "", "", nil))
		require.Len(w.t, walk(w.t, 7, s), before+1)
	}
}

func TestReadsSayThatAPartitionIsTakenOver(t *testing.T) {
	t.Parallel()
	w := setup(t, 4)
	one := w.node(t.TempDir(), answering)
	w.apply(one, order)
	w.shared("node-1")
	reader := w.site(w.node(t.TempDir(), answering, func(c *node.Config) { c.Roles.Owner = false }))
	w.knows(reader)
	require.Equal(t, 404, reader.call("GET", "/v1/tasks/t-1", "", "", nil))
	one.kill()
	var problem struct {
		Type       string
		Partitions []int32
	}
	require.Equal(t, 503, reader.call("GET", "/v1/tasks/t-1", "", "", &problem))
	require.Equal(t, "urn:sagalog:problem:taking-over", problem.Type)
	require.Equal(t, []int32{events.Home("t-1", 4)}, problem.Partitions)
	require.Equal(t, 503, reader.call("GET", "/v1/tasks", "", "", &problem))
	require.Equal(t, []int32{0, 1, 2, 3}, problem.Partitions)
	var list []map[string]any
	require.Equal(t, 200, reader.call("GET", "/v1/partitions", "", "", &list))
	require.Len(t, list, 4)
	require.Equal(t, 1.0, list[1]["partition"])
	require.NotContains(t, list[1], "owner")
	require.NotContains(t, list[1], "epoch")
	require.Contains(t, list[1], "end_offset")
	require.Equal(t, 202, reader.call("PUT", "/v1/tasks/t-1", "application/json", `{"workflow":"order","input":{"n":1}}`, nil))
	require.Equal(t, 200, reader.call("GET", "/healthz", "", "", nil))
}
