package node_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
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
		counted := func(name string) []string {
			return slices.DeleteFunc(series(name), func(line string) bool { return strings.HasSuffix(line, " 0") })
		}
		require.Equal(t, []string{`{workflow="w"} 5`}, counted("tasks_accepted_total"))
		require.Equal(t, []string{`{state="processed",workflow="w"} 3`, `{state="undone",workflow="w"} 2`}, counted("tasks_ended_total"))
		require.Equal(t, []string{`{state="processed",workflow="w"} 3`, `{state="undone",workflow="w"} 2`}, counted("task_duration_seconds_count"))
		require.ElementsMatch(t, []string{
			`{operation="do",outcome="completed",step="first",workflow="w"} 5`,
			`{operation="do",outcome="completed",step="second",workflow="w"} 3`,
			`{operation="do",outcome="failed",step="second",workflow="w"} 4`,
			`{operation="undo",outcome="completed",step="first",workflow="w"} 2`,
		}, counted("attempts_total"))
		require.Equal(t, []string{`{class="retryable",effect="in_doubt",step="second",workflow="w"} 4`}, series("attempt_failures_total"))
		require.Equal(t, []string{`{action="retry",workflow="w"} 2`, `{action="undo",workflow="w"} 2`}, counted("verdicts_total"))
		require.Equal(t, []string{`{operation="do",step="first",workflow="w"} 5`, `{operation="do",step="second",workflow="w"} 7`, `{operation="undo",step="first",workflow="w"} 2`},
			counted("attempt_duration_seconds_count"))
		require.Equal(t, []string{`{workflow="w"} 5`}, counted("task_start_delay_seconds_count"))
		require.Equal(t, []string{`{agent="stock"} 14`}, series("dispatch_delay_seconds_count"))
		require.Subset(t, counted("inputs_total"), []string{`{result="accepted",topic="submissions"} 5`, `{result="rejected",topic="submissions"} 1`})
		require.Contains(t, series("facts_total"), `{type="Submitted"} 5`)
		require.Equal(t, []string{`{partition="0"} 1`, `{partition="1"} 1`}, series("partition_owned"))
		require.Equal(t, []string{`state="error",workflow="w"} 0`, `state="pending",workflow="w"} 0`, `state="processing",workflow="w"} 0`, `state="undoing",workflow="w"} 0`}, series("tasks{"))
		require.Equal(t, []string{`{partition="0"} 0`, `{partition="1"} 0`}, series("projection_lag_records"))
		require.Equal(t, []string{`{reason="unknown_workflow",topic="submissions"} 1`}, counted("dead_letters_total"))
		require.Equal(t, []string{`{kind="undone"} 2`}, series("alerts_total"))
		require.Equal(t, []string{`{agent="stock"} 1`}, series("agent_live_instances"))
		require.Empty(t, series("agent_missing_seconds"))
		crew.leave()
		<-time.After(3 * time.Second)
		w.urge(0, "later")
		<-time.After(5 * time.Second)
		require.Equal(t, []string{`{agent="stock"} 0`}, series("agent_live_instances"))
		require.Len(t, series("agent_missing_seconds"), 1)
		require.Equal(t, []string{`{agent="stock"} 1`}, series("agent_ready_steps"))
		require.Equal(t, []string{`{state="error"} 0`, `{state="pending"} 5`, `{state="processing"} 0`, `{state="undoing"} 0`}, series("task_oldest_seconds"))
		require.Equal(t, []string{`{agent="stock"} 5`}, series("agent_ready_oldest_seconds"))
		require.Equal(t, []string{`state="pending",workflow="w"} 1`}, counted("tasks{"))
		require.NoError(t, n.stop())
	})
}

// Each kind of wait is counted for the partitions that a node owns, and a kind that nothing waits for is 0.
func TestMetricsSayWhatStepsWaitFor(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w := setup(t, 2)
		w.kinds = []string{"stock"}
		r := prometheus.NewRegistry()
		n := w.node(t.TempDir(), func(c *node.Config) { c.Registry = r })
		w.apply(n, `
workflow: w
steps:
  sign: {wait: {signal: approval}}
  nap: {sleep: 1h}
  ship: {agent: stock, retry: {attempts: 1, then: park}}
`)
		waiting := func() map[string]float64 {
			families, err := r.Gather()
			require.NoError(t, err)
			found := map[string]float64{}
			for _, f := range families {
				for _, m := range f.GetMetric() {
					if f.GetName() == "sagalog_steps_waiting" {
						found[m.GetLabel()[0].GetValue()] = m.GetGauge().GetValue()
					}
				}
			}
			return found
		}
		want := func(counts map[events.Waiting]float64) map[string]float64 {
			all := map[string]float64{}
			for _, kind := range events.Waitings() {
				all[string(kind)] = counts[kind]
			}
			return all
		}
		w.urge(0, ids("t", 6)...)
		<-time.After(5 * time.Second)
		require.Equal(t, want(map[events.Waiting]float64{events.WaitingSignal: 6, events.WaitingSleep: 6, events.WaitingAgent: 6}), waiting())
		_, err := n.Pauses().PauseAgent(t.Context(), events.AgentPause{Agent: "stock", Paused: true})
		require.NoError(t, err)
		<-time.After(time.Second)
		require.Equal(t, want(map[events.Waiting]float64{events.WaitingSignal: 6, events.WaitingSleep: 6, events.WaitingPaused: 6}), waiting())
		_, err = n.Pauses().PauseAgent(t.Context(), events.AgentPause{Agent: "stock"})
		require.NoError(t, err)
		w.hire(func(context.Context, agent.Attempt) error { return errRefused })
		<-time.After(time.Minute)
		require.Equal(t, want(map[events.Waiting]float64{events.WaitingSignal: 6, events.WaitingSleep: 6, events.WaitingOperator: 6}), waiting())
		require.NoError(t, n.stop())
		require.Equal(t, want(nil), waiting(), "a node counts only what it owns")
	})
}

// Names come from outside, so their number is bounded. The rest is counted as _other, so no sum over all names lacks anything.
func TestMetricsBoundTheirNames(t *testing.T) {
	r := prometheus.NewPedanticRegistry()
	m, err := node.NewTaskMetrics(r)
	require.NoError(t, err)
	for i := range 300 {
		name := fmt.Sprint("w", i)
		m.Count(nil, &events.Fact{Body: &events.Submitted{Workflow: name}})
		task := &events.Task{Workflow: name, Steps: []*events.Step{{Path: "s", Agent: "agent-" + name}}}
		m.Count(task, &events.Fact{Body: &events.StepCompleted{Step: "s", Attempt: 1}})
		one := &events.Task{Workflow: "w0", Steps: []*events.Step{{Path: name, Agent: "agent-" + name}}}
		m.Count(one, &events.Fact{Body: &events.StepCompleted{Step: name, Attempt: 1}})
	}
	m.Count(nil, &events.Fact{Body: &events.Submitted{Workflow: "w7"}})
	var b node.Heartbeats
	for i := range 300 {
		p := instance(fmt.Sprint("i", i), nil, nil)
		p.Agents = []string{fmt.Sprint("a", i)}
		b.Record(beatOf(t, p))
	}
	require.NoError(t, b.RegisterAgents(r))
	families, err := r.Gather()
	require.NoError(t, err)
	found := map[string]bool{}
	for _, f := range families {
		found[f.GetName()] = true
		total, other := 0.0, 0.0
		values := map[string]map[string]bool{}
		for _, x := range f.GetMetric() {
			v := x.GetCounter().GetValue() + x.GetGauge().GetValue()
			total += v
			for _, l := range x.GetLabel() {
				if values[l.GetName()] == nil {
					values[l.GetName()] = map[string]bool{}
				}
				values[l.GetName()][l.GetValue()] = true
				if l.GetValue() == "_other" && l.GetName() != "step" && l.GetName() != "agent" || f.GetName() == "sagalog_agent_live_instances" && l.GetValue() == "_other" {
					other += v
				}
			}
		}
		for name, of := range values {
			require.LessOrEqual(t, len(of), 201, "%s %s", f.GetName(), name)
		}
		switch f.GetName() {
		case "sagalog_tasks_accepted_total":
			require.Equal(t, [2]float64{301, 100}, [2]float64{total, other})
		case "sagalog_attempts_total":
			require.Equal(t, [2]float64{600, 100}, [2]float64{total, other}, "a workflow with too many steps keeps its name")
		case "sagalog_agent_live_instances":
			require.Equal(t, [2]float64{300, 100}, [2]float64{total, other})
		}
	}
	require.True(t, found["sagalog_attempts_total"] && found["sagalog_agent_live_instances"])
}
