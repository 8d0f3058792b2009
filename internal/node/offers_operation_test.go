package node_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/sagalog/sagalog/agent"
	"github.com/sagalog/sagalog/events"
	"github.com/sagalog/sagalog/internal/kafka"
	"github.com/sagalog/sagalog/internal/kafka/work"
	"github.com/sagalog/sagalog/internal/node"
	"github.com/stretchr/testify/require"
)

// hireDoer starts a process with an older build of the agents, which has no undo yet.
func (w *world) hireDoer(name string) {
	w.t.Helper()
	reg := agent.NewRegistry()
	agent.Handle(reg, name, func(context.Context, input) (output, error) { return output{}, nil })
	way := w.way()
	cc := w.broker.ClusterConfig()
	cc.Dialer, cc.Logger = way.Dial, w.logs.logger()
	cluster, err := kafka.Connect(cc)
	require.NoError(w.t, err)
	ctx, cancel := context.WithCancel(context.Background())
	conn, err := agent.Attach(ctx, work.Over(cluster), reg, agent.Config{Log: w.logs.logger()})
	require.NoError(w.t, err)
	ended := make(chan error, 1)
	go func() { ended <- conn.Run(ctx) }()
	w.t.Cleanup(func() { cancel(); <-ended; cluster.Close(); way.cut() })
}

// During a deployment, one instance offers the undo and another one does not yet. Undos go to the one that offers them.
func TestAnUndoGoesToAnInstanceThatOffersIt(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w := setup(t, 4)
		w.kinds = []string{"stock"}
		n := w.node(t.TempDir())
		w.apply(n, `
workflow: w
defaults: {retry: {attempts: 1, then: undo}}
steps:
  first: {agent: stock, with: {id: "${ task.id }"}, undo: {}}
  second: {agent: bank, needs: [first], with: {id: "${ task.id }"}}
`)
		w.hireDoer("stock")
		w.hire(nil)
		w.kinds = []string{"bank"}
		w.hire(func(context.Context, agent.Attempt) error { return agent.Permanent(errors.New("no")) })
		w.targetsKnown(n, "stock", 2)
		w.targetsKnown(n, "bank", 1)
		tasks := ids("t", 40)
		w.urge(0, tasks...)
		for _, id := range tasks {
			x := w.watch.state(id, events.TaskStateUndone)
			require.Zero(t, x.Step("first").Undo.FailureCount, "the first attempt goes to the instance that offers it")
		}
		require.NoError(t, n.stop())
	})
}

// The agent is there all the time, so the timeout of the only attempt counts, also in a node that has just started.
func TestATimeoutAtAStartIsNotForAMissingAgent(t *testing.T) {
	minutes(t)
	for name, alone := range map[string]bool{"alone": true, "in a group": false} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				w := setup(t, 1)
				w.kinds = []string{"stock"}
				dir := t.TempDir()
				n := w.node(dir, func(c *node.Config) { c.Alone = alone })
				w.apply(n, `
workflow: w
defaults: {complete_within: 5s, retry: {attempts: 1, then: park}}
steps:
  only: {agent: stock, with: {id: "${ task.id }"}}
`)
				c := w.hire(func(ctx context.Context, _ agent.Attempt) error {
					<-ctx.Done()
					<-time.After(2 * time.Minute)
					return nil
				})
				w.targetsKnown(n, "stock", 1)
				w.urge(0, "t0")
				w.watch.await("t0 runs", func() bool { return len(c.all()) == 1 })
				require.NoError(t, n.stop())
				<-time.After(20 * time.Second)
				n = w.node(dir, func(c *node.Config) { c.Alone = alone })
				<-time.After(time.Minute)
				calls := len(c.all())
				w.watch.state("t0", events.TaskStateError)
				require.NoError(t, n.stop())
				<-time.After(3 * time.Minute)
				require.Equal(t, 1, calls, "the workflow allows one attempt")
			})
		})
	}
}
