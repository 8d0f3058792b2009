package node_test

import (
	"bufio"
	"context"
	"net/http"
	"strings"
	"testing"

	"github.com/sagalog/sagalog/internal/node"
	"github.com/stretchr/testify/require"
)

// changes reads a stream of tasks from a cursor until a task with that ID is in one of the states, and returns the last ID and all data.
func (s *site) changes(cursor, id, state string, then func()) (last string, rows []string) {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, "GET", s.base+"/v1/stream?topics=tasks&cursor="+cursor, nil)
	require.NoError(s.t, err)
	r.Header.Set("Accept", "text/event-stream")
	resp, err := s.http.Do(r)
	require.NoError(s.t, err)
	defer resp.Body.Close()
	require.Equal(s.t, 200, resp.StatusCode)
	lines := bufio.NewScanner(resp.Body)
	for found := false; lines.Scan(); {
		line := lines.Text()
		if text, ok := strings.CutPrefix(line, "id: "); ok {
			last = text
		}
		if line == "event: open" && then != nil {
			then()
		}
		if strings.HasPrefix(line, "data: ") {
			rows = append(rows, line)
			found = found || strings.Contains(line, `"id":"`+id+`"`) && strings.Contains(line, `"state":"`+state+`"`)
		}
		if found && line == "" && last != "" {
			return last, rows
		}
	}
	require.NoError(s.t, lines.Err())
	return last, rows
}

// The commits of the store feed a stream, and its cursor resumes from the log, also after a restart of the node.
func TestAStreamFollowsTheStoreAndResumesAfterARestart(t *testing.T) {
	t.Parallel()
	w := setup(t, 2)
	dir := t.TempDir()
	with := func(c *node.Config) { c.HTTP = "127.0.0.1:0" }
	n := w.node(dir, with)
	s := w.site(n)
	require.Equal(t, 200, s.call("PUT", "/v1/workflows/order", "application/yaml", order, nil)/100*100)
	w.hire(nil)
	submit := func(s *site, id string) func() {
		return func() {
			require.Equal(t, 202, s.call("PUT", "/v1/tasks/"+id, "application/json", `{"workflow":"order","input":{"n":1}}`, nil))
		}
	}
	last, _ := s.changes("", "t-1", "processed", submit(s, "t-1"))
	require.NotEmpty(t, last)
	submit(s, "t-2")()
	require.Equal(t, 200, s.call("GET", "/v1/tasks/t-2?wait=60s", "", "", nil))
	require.NoError(t, n.stop())
	again := w.site(w.node(dir, with))
	_, rows := again.changes(last, "t-2", "processed", nil)
	require.Contains(t, strings.Join(rows, "\n"), `"was":["unknown"]`, "it was found in the log")
}
