package node_test

import (
	"context"
	"encoding/json"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sagalog/sagalog/agent"
	"github.com/sagalog/sagalog/events"
	"github.com/sagalog/sagalog/internal/node"
	"github.com/sagalog/sagalog/supervisor"
	"github.com/stretchr/testify/require"
)

// All agents are gone for ten minutes under load. Steps wait and use up no attempt, one alert is raised, and once the agents
// are back all tasks end.
func TestAgentsThatAreAwayUseUpNoAttempts(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w := setup(t, 4)
		w.kinds = []string{"stock"}
		n := w.node(t.TempDir(), together)
		other := w.node(t.TempDir(), together)
		w.apply(n, `
workflow: w
steps:
  only: {agent: stock, complete_within: 30s, retry: {attempts: 1, then: park}}
`)
		crew := w.hire(nil, agent.Concurrency(32))
		w.windowKnown(n, "stock")
		before := ids("b", 50)
		w.urge(0, before...)
		w.watch.ended(before...)
		crew.leave()
		<-time.After(3 * time.Second)
		during := ids("d", 150)
		for i, id := range during {
			w.urge(0, id)
			if i%3 == 0 {
				<-time.After(4 * time.Second) // three minutes in all
			}
		}
		w.watch.mu.Lock()
		running := started(w.watch)
		w.watch.mu.Unlock()
		require.Equal(t, 50, running, "nothing starts")
		w.hire(nil, agent.Concurrency(32))
		w.watch.ended(append(before, during...)...)
		for _, s := range w.watch.log() {
			switch b := s.fact.Body.(type) {
			case *events.StepStarted:
				require.Equal(t, 1, b.Attempt, s.fact.Task)
			case *events.Timeout, *events.TaskParked, *events.TaskUndone:
				require.Fail(t, "the absence of the agents affects a task", "%v", b)
			}
		}
		alerts := w.read(w.topics.Alerts(), 0)
		require.Len(t, alerts, 1, "one alert, though two nodes wait")
		var a supervisor.Alert
		require.NoError(t, json.Unmarshal(alerts[0].Value, &a))
		require.Equal(t, [...]string{supervisor.AlertMissing, "stock", "do", ""}, [...]string{a.Kind, a.Agent, string(a.Operation), a.Task})
		require.NoError(t, n.stop())
		require.NoError(t, other.stop())
		w.watch.verify()
	})
}

// A partition whose steps wait for an agent moves to another node. The agent has been missing all the time, so there is no second
// alert. When it has been there and leaves again, there is.
func TestAnAgentIsAlertedOnceThoughPartitionsMove(t *testing.T) {
	minutes(t)
	bubble(t, func(t *testing.T) {
		w := setup(t, 1)
		w.kinds = []string{"stock"}
		one := w.node(t.TempDir(), together)
		w.apply(one, single("w", 1))
		w.shared("node-1")
		crew := w.hire(nil)
		w.windowKnown(one, "stock")
		w.urge(0, "before")
		w.watch.ended("before")
		crew.leave()
		<-time.After(3 * time.Second)
		w.urge(0, "during")
		two := w.node(t.TempDir(), together, func(c *node.Config) { c.Name = "node-2" })
		alerts := func() int { return len(w.read(w.topics.Alerts(), 0)) }
		<-time.After(time.Minute)
		require.Equal(t, 1, alerts())
		if one.ClusterView().Owner(0) != "node-1" {
			one, two = two, one
		}
		require.NoError(t, one.stop())
		<-time.After(3 * time.Minute)
		require.Equal(t, 1, alerts(), "it was missing all the time")
		crew = w.hire(nil)
		w.watch.ended("during")
		<-time.After(3 * time.Second)
		crew.leave()
		<-time.After(3 * time.Second)
		w.urge(0, "after")
		<-time.After(time.Minute)
		require.Equal(t, 2, alerts())
		require.NoError(t, two.stop())
	})
}

// A service fails for two minutes behind a circuit breaker. An attempt counts only if the service was called, so most of the
// tasks submitted in that time succeed later.
func TestAnOpenBreakerUsesUpNoAttempts(t *testing.T) {
	minutes(t)
	bubble(t, func(t *testing.T) {
		const attempts = 3
		w := setup(t, 2)
		w.kinds = []string{"stock"}
		n := w.node(t.TempDir())
		w.apply(n, `
workflow: w
steps:
  only: {agent: stock, complete_within: 2s, retry: {attempts: 3, backoff: 100ms, max_backoff: 5s, then: undo}}
`)
		var broken atomic.Bool
		broken.Store(true)
		crew := w.hire(func(context.Context, agent.Attempt) error {
			if broken.Load() {
				return errRefused
			}
			return nil
		}, agent.Concurrency(8), agent.WithBreaker(agent.Breaker{Open: 20 * time.Second}))
		w.windowKnown(n, "stock")
		tasks := ids("t", 100)
		w.urge(0, tasks...)
		<-time.After(2 * time.Minute)
		broken.Store(false)
		w.watch.ended(tasks...)
		undone := 0
		for _, id := range tasks {
			task := w.found(id)
			if task.State == events.TaskStateUndone {
				undone++
				require.Len(t, crew.of(id, "only", events.Do), attempts, id)
			}
		}
		require.Less(t, undone, 50, "each of them was called three times")
		t.Logf("%d of %d tasks were undone", undone, len(tasks))
		require.NoError(t, n.stop())
		w.watch.verify()
	})
}

// Nor does an undo count while the breaker is open, so few tasks need an operator.
func TestAnOpenBreakerUsesUpNoUndoAttempts(t *testing.T) {
	minutes(t)
	bubble(t, func(t *testing.T) {
		const attempts = 3
		w := setup(t, 2)
		w.kinds = []string{"stock", "bank"}
		n := w.node(t.TempDir())
		w.apply(n, `
workflow: w
steps:
  first: {agent: stock, undo: {complete_within: 2s, retry: {attempts: 3, backoff: 100ms, max_backoff: 5s}}}
  second: {agent: bank, needs: [first], retry: {attempts: 1, then: undo}}
`)
		var broken atomic.Bool
		broken.Store(true)
		crew := w.hire(func(_ context.Context, a agent.Attempt) error {
			switch {
			case a.Step == "second":
				return agent.Permanent(agent.NoEffect(errRefused))
			case a.Operation == events.Undo && broken.Load():
				return errRefused
			}
			return nil
		}, agent.Concurrency(8), agent.WithBreaker(agent.Breaker{Open: 20 * time.Second}))
		w.windowKnown(n, "stock")
		tasks := ids("t", 100)
		w.urge(0, tasks...)
		<-time.After(10 * time.Minute)
		broken.Store(false)
		parked := 0
		for _, id := range tasks {
			if task := w.watch.state(id, events.TaskStateUndone, events.TaskStateError); task.State == events.TaskStateError {
				parked++
				require.Len(t, crew.of(id, "first", events.Undo), attempts, id)
			}
		}
		require.Less(t, parked, 50, "each of them was called three times")
		t.Logf("%d of %d tasks were parked", parked, len(tasks))
		require.NoError(t, n.stop())
		w.watch.verify()
	})
}
