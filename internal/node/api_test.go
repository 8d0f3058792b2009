package node_test

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"testing"

	"github.com/sagalog/sagalog/events"
	"github.com/sagalog/sagalog/internal/node"
	"github.com/stretchr/testify/require"
)

// site is a node's API over a real socket.
type site struct {
	t    *testing.T
	base string
	http *http.Client
}

func (w *world) site(n *process) *site {
	transport := &http.Transport{}
	w.t.Cleanup(transport.CloseIdleConnections)
	return &site{w.t, "http://" + n.Addr(), &http.Client{Transport: transport}}
}

func (s *site) call(method, path, kind, body string, into any) int {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, method, s.base+path, bytes.NewBufferString(body))
	require.NoError(s.t, err)
	if kind != "" {
		r.Header.Set("Content-Type", kind)
	}
	resp, err := s.http.Do(r)
	require.NoError(s.t, err)
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	require.NoError(s.t, err)
	if into != nil {
		require.NoError(s.t, json.Unmarshal(b, into), "%s %s: %d %s", method, path, resp.StatusCode, b)
	}
	return resp.StatusCode
}

func TestATaskSubmittedByTheAPIEnds(t *testing.T) {
	t.Parallel()
	w := setup(t, 2)
	n := w.node(t.TempDir(), func(c *node.Config) { c.HTTP = "127.0.0.1:0" })
	s := w.site(n)
	require.Equal(t, 200, s.call("PUT", "/v1/workflows/order", "application/yaml", order, nil)/100*100)
	w.hire(nil)
	var receipt struct {
		Token string `json:"token"`
	}
	require.Equal(t, 202, s.call("PUT", "/v1/tasks/t-1", "application/json", `{"workflow":"order","input":{"n":1}}`, &receipt))
	var task struct {
		State  string          `json:"state"`
		Output json.RawMessage `json:"output"`
	}
	require.Equal(t, 200, s.call("GET", "/v1/tasks/t-1?wait=30s&token="+receipt.Token, "", "", &task))
	require.Equal(t, string(events.TaskStateProcessed), task.State)
	require.JSONEq(t, `{"did":"ship"}`, string(task.Output))
	require.Equal(t, 200, s.call("PUT", "/v1/tasks/t-1", "application/json", `{"workflow":"order","input":{"n":1}}`, &receipt), "a repeat")
	require.Equal(t, 409, s.call("PUT", "/v1/tasks/t-1", "application/json", `{"workflow":"order","input":{"n":2}}`, nil), "a conflict")
	require.Equal(t, 404, s.call("PUT", "/v1/tasks/t-2", "application/json", `{"workflow":"ordre"}`, nil))
	require.Equal(t, 404, s.call("GET", "/v1/tasks/t-2", "", "", nil))
	var facts struct {
		Facts []struct {
			Type string `json:"type"`
		} `json:"facts"`
	}
	s.call("GET", "/v1/tasks/t-1/history", "", "", &facts)
	t.Logf("%d facts", len(facts.Facts))
	require.Equal(t, 200, s.call("GET", "/metrics", "", "", nil))
}

// A cancel that comes before its task by Kafka is held, and the API says so until the task comes and is undone by it. The API itself takes
// no request about a task of which it knows that nobody has submitted it.
func TestACancelBeforeItsTaskIsSaidToBeHeld(t *testing.T) {
	t.Parallel()
	w := setup(t, 2)
	n := w.node(t.TempDir(), func(c *node.Config) { c.HTTP = "127.0.0.1:0" })
	s := w.site(n)
	require.Equal(t, 200, s.call("PUT", "/v1/workflows/order", "application/yaml", order, nil)/100*100)
	w.hire(nil)
	require.Equal(t, 404, s.call("POST", "/v1/tasks/t-1/cancel?wait=30s", "application/json", `{"reason":"early"}`, nil))
	w.request(events.RequestCancel, "t-1", "c-1")
	var outcome struct {
		Result string `json:"result"`
	}
	const path = "/v1/requests/c-1?task=t-1"
	w.soon("the cancel is held", func() bool {
		return s.call("GET", path, "", "", &outcome) == 200 && outcome.Result == "held"
	})
	var receipt, task struct {
		Token string `json:"token"`
		State string `json:"state"`
	}
	require.Equal(t, 202, s.call("PUT", "/v1/tasks/t-1", "application/json", `{"workflow":"order","input":{"n":1}}`, &receipt))
	require.Equal(t, 200, s.call("GET", "/v1/tasks/t-1?wait=30s&token="+receipt.Token, "", "", &task))
	require.Equal(t, string(events.TaskStateUndone), task.State)
	require.Equal(t, 200, s.call("GET", path, "", "", &outcome))
	require.Equal(t, "granted", outcome.Result)
}

func TestTasksAreFoundByTheLabelsOfTheirWorkflow(t *testing.T) {
	t.Parallel()
	w := setup(t, 2)
	n := w.node(t.TempDir(), func(c *node.Config) { c.HTTP = "127.0.0.1:0" })
	s := w.site(n)
	const labelled = `{"workflow":"labelled","labels":{"customer":"${ input.customer }"},"priority":"${ task.labels.customer == 'acme' ? 7 : 0 }","steps":{"reserve":{"agent":"stock"}}}`
	require.Equal(t, 200, s.call("PUT", "/v1/workflows/labelled", "application/json", labelled, nil))
	w.hire(nil)
	var receipt struct {
		Token string `json:"token"`
	}
	require.Equal(t, 202, s.call("PUT", "/v1/tasks/l-1", "application/json", `{"workflow":"labelled","input":{"customer":"acme"}}`, &receipt))
	require.Equal(t, 202, s.call("PUT", "/v1/tasks/l-2", "application/json", `{"workflow":"labelled","input":{"customer":"other"}}`, nil))
	require.Equal(t, 200, s.call("GET", "/v1/tasks/l-1?wait=30s&token="+receipt.Token, "", "", nil))
	var found struct {
		Tasks []struct {
			ID       string            `json:"id"`
			Labels   map[string]string `json:"labels"`
			Priority int               `json:"priority"`
		} `json:"tasks"`
	}
	require.Equal(t, 200, s.call("GET", "/v1/tasks?label=customer:acme", "", "", &found))
	require.Len(t, found.Tasks, 1)
	require.Equal(t, "l-1", found.Tasks[0].ID)
	require.Equal(t, map[string]string{"customer": "acme"}, found.Tasks[0].Labels)
	require.Equal(t, 7, found.Tasks[0].Priority)

	var problem, preview map[string]any
	require.Equal(t, 422, s.call("PUT", "/v1/tasks/l-3", "application/json", `{"workflow":"labelled","input":{"customer":{}}}`, &problem))
	require.Contains(t, problem["detail"], "The labels, the priority or the fair_by that workflow labelled, version 1, gives to this task cannot be used.")
	require.Equal(t, 200, s.call("POST", "/v1/workflows/labelled/preview", "application/json", `{"input":{"customer":"acme"}}`, &preview))
	require.Equal(t, map[string]any{"customer": "acme"}, preview["labels"])
	require.InEpsilon(t, 7, preview["priority"], 0)
}
