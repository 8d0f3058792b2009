package node_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"github.com/sagalog/sagalog/agent"
	"github.com/sagalog/sagalog/events"
	"github.com/sagalog/sagalog/internal/node"
	"github.com/stretchr/testify/require"
)

// The metrics count the outcomes of tasks, attempts and inputs, and show which agents are alive.
func TestMetricsSayWhatBecameOfTasks(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w := setup(t, 2)
		w.kinds = []string{"stock"}
		r := prometheus.NewRegistry()
		n := w.node(t.TempDir(), func(c *node.Config) { c.Registry = r })
		w.apply(n, `
workflow: w
steps:
  first: {agent: stock, undo: {}}
  second: {agent: stock, needs: [first], retry: {attempts: 2, backoff: 100ms, then: undo}}
`)
		crew := w.hire(func(_ context.Context, a agent.Attempt) error {
			if a.Step == "second" && strings.HasPrefix(a.Task, "bad") {
				return errRefused
			}
			return nil
		})
		w.windowKnown(n, "stock")
		tasks := append(ids("good", 3), ids("bad", 2)...)
		w.urge(0, tasks...)
		w.watch.ended(tasks...)
		w.produce(w.topics.Submissions(), -1, events.Record{Key: []byte("x"), Value: []byte(`{"workflow":"none"}`)})
		w.watch.await("the input is rejected", func() bool { return rejected(w, "x") != "" })
		<-time.After(time.Second)
		series := func(name string) (lines []string) {
			scrape := httptest.NewRecorder()
			promhttp.HandlerFor(r, promhttp.HandlerOpts{}).ServeHTTP(scrape, httptest.NewRequest(http.MethodGet, "/metrics", nil))
			for line := range strings.Lines(scrape.Body.String()) {
				if rest, ok := strings.CutPrefix(line, "sagalog_"+name); ok {
					lines = append(lines, strings.TrimSpace(rest))
				}
			}
			return lines
		}
		require.Equal(t, []string{`{workflow="w"} 5`}, series("tasks_accepted_total"))
		require.Equal(t, []string{`{state="processed",workflow="w"} 3`, `{state="undone",workflow="w"} 2`}, series("tasks_ended_total"))
		require.Equal(t, []string{`{state="processed",workflow="w"} 3`, `{state="undone",workflow="w"} 2`}, series("task_duration_seconds_count"))
		require.ElementsMatch(t, []string{
			`{agent="stock",operation="do",outcome="completed",step="first",workflow="w"} 5`,
			`{agent="stock",operation="do",outcome="completed",step="second",workflow="w"} 3`,
			`{agent="stock",operation="do",outcome="failed",step="second",workflow="w"} 4`,
			`{agent="stock",operation="undo",outcome="completed",step="first",workflow="w"} 2`,
		}, series("attempts_total"))
		require.Equal(t, []string{`{reason="unknown_workflow",topic="submissions"} 1`}, series("dead_letters_total"))
		require.Equal(t, []string{`{kind="undone"} 2`}, series("alerts_total"))
		require.Equal(t, []string{`{agent="stock"} 1`}, series("agent_live_instances"))
		require.Empty(t, series("agent_missing_seconds"))
		crew.leave()
		<-time.After(3 * time.Second)
		w.urge(0, "later")
		<-time.After(5 * time.Second)
		require.Equal(t, []string{`{agent="stock"} 0`}, series("agent_live_instances"))
		require.Len(t, series("agent_missing_seconds"), 1)
		require.NoError(t, n.stop())
	})
}
