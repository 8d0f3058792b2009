package node_test

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sagalog/sagalog/agent"
	"github.com/sagalog/sagalog/events"
	"github.com/stretchr/testify/require"
)

// A backend that slows to a tenth soon gets less work, first because of the agent's limit and then because of the
// owners' windows. Nothing times out in a queue, and when the backend is fast again it gets as much as before.
func TestASlowBackendGetsLessWork(t *testing.T) {
	if testing.Short() {
		t.Skip("large, and the race detector has nothing to find: step test runs it")
	}
	bubble(t, func(t *testing.T) {
		const tasks = 3500
		w := setup(t, 4)
		w.kinds = []string{"stock"}
		n := w.node(t.TempDir())
		w.apply(n, `
workflow: w
steps:
  only: {agent: stock, complete_within: 8s, with: {id: "${ task.id }"}, retry: {attempts: 1, then: park}}
`)
		var took, running, done atomic.Int64
		took.Store(int64(50 * time.Millisecond))
		w.hire(func(context.Context, agent.Attempt) error {
			running.Add(1)
			defer running.Add(-1)
			<-time.After(time.Duration(took.Load()))
			done.Add(1)
			return nil
		}, agent.Concurrency(32))
		w.windowKnown(n, "stock")
		list := ids("t", tasks)
		w.urge(0, list...)
		most := func(d time.Duration) (calls, sent int) {
			for end := time.Now().Add(d); time.Now().Before(end); {
				<-time.After(20 * time.Millisecond)
				calls, sent = max(calls, int(running.Load())), max(sent, underWay(w.watch))
			}
			return calls, sent
		}
		calls, _ := most(time.Second)
		require.Greater(t, calls, 24)
		took.Store(int64(500 * time.Millisecond))
		<-time.After(10 * time.Second) // the agent notices, and finishes the work that was sent
		calls, sent := most(5 * time.Second)
		require.LessOrEqual(t, calls, 6, "a tenth of 32 slots, and some calls that already ended")
		require.LessOrEqual(t, sent, 8, "owners start no more than that")
		took.Store(int64(50 * time.Millisecond))
		<-time.After(4 * time.Second)
		again, _ := most(200 * time.Millisecond)
		require.Greater(t, again, 24, "%d of %d were done", done.Load(), tasks)
		t.Logf("slow: %d calls at once, %d under way; fast again: %d", calls, sent, again)
		w.watch.ended(list...)
		for _, s := range w.watch.log() {
			require.NotEqual(t, events.NameTimeout, s.fact.Body.Name(), "nothing timed out")
			require.NotEqual(t, events.NameStepFailed, s.fact.Body.Name())
		}
		require.NoError(t, n.stop())
		w.watch.verify()
	})
}

// underWay counts the attempts that were started and have no outcome yet.
func underWay(o *observer) (n int) {
	for _, s := range o.log() {
		switch s.fact.Body.(type) {
		case *events.StepStarted:
			n++
		case *events.StepCompleted, *events.StepFailed, *events.Timeout:
			n--
		}
	}
	return n
}
