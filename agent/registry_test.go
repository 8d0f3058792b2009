package agent_test

import (
	"context"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"github.com/sagalog/sagalog/agent"
	"github.com/sagalog/sagalog/agent/agenttest"
	"github.com/sagalog/sagalog/agent/transport"
	"github.com/sagalog/sagalog/events"
)

func TestNilFunctionsAndOptionsAreMistakes(t *testing.T) {
	t.Parallel()
	undo := agent.WithUndo(func(context.Context, agent.Undo[parcel, parcel]) error { return nil })
	r := agent.NewRegistry()
	agent.Handle[int, int](r, "a", nil)
	agent.HandleRaw(r, "b", nil)
	agent.HandleOperation[int, int](r, "c", "pay", nil)
	agent.HandleRawOperation(r, "c", "take", nil)
	agent.Handle(r, "d", echo, agent.WithUndo[int, int](nil))
	agent.Handle(r, "e", echo, agent.WithRawUndo(nil))
	agent.Handle(r, "f", echo, undo, undo)
	agent.Handle(r, "g", echo, agent.Concurrency(1), nil)
	agent.HandleOperation(r, "h", "pay", echo, undo)
	agent.HandleOperation(r, "h", "take", echo, undo)
	require.EqualError(t, r.Err(), `agent "a": the function is nil
agent "b": the function is nil
agent "c", operation "pay": the function is nil
agent "c", operation "take": the function is nil
agent "d": the undo function is nil
agent "e": the undo function is nil
agent "f": the undo is given twice: an operation has one
agent "g": option 2 is nil`)
}

func TestANilRegistryIsNamed(t *testing.T) {
	t.Parallel()
	const message = "the registry of the agents is nil: NewRegistry makes one"
	var r *agent.Registry
	require.EqualError(t, r.Err(), message)
	require.Empty(t, r.Agents())
	require.PanicsWithError(t, message, func() { agent.Handle(r, "a", echo) })
	require.PanicsWithError(t, message, func() { agent.HandleOperation(r, "a", "pay", echo) })
	_, err := agent.NewRunner(r, agent.Config{})
	require.ErrorContains(t, err, message)
	_, err = agent.Dial(t.Context(), r, agent.DialConfig{})
	require.ErrorContains(t, err, message)
	_, err = agent.Attach(t.Context(), nil, r, agent.Config{})
	require.ErrorContains(t, err, message)
}

func TestTheZeroRegistryIsEmpty(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var r agent.Registry
		require.NoError(t, r.Err())
		require.Empty(t, r.Agents())
		agent.Handle(&r, "package", echo)
		require.Equal(t, events.ResultCompleted, agenttest.Start(t, &r).Do("package", parcel{}).Result)
	})
}

func TestARunnerRunsOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		runner, err := agent.NewRunner(handle(echo), agent.Config{
			Instance: "i", Sink: agenttest.NewSink(), Sources: map[string]transport.Source{"package": agenttest.NewSource(0)},
		})
		require.NoError(t, err)
		ctx, cancel := context.WithCancel(t.Context())
		first := make(chan error, 1)
		go func() { first <- runner.Run(ctx) }()
		synctest.Wait()
		require.ErrorContains(t, runner.Run(ctx), "run was called before")
		cancel()
		require.NoError(t, <-first)
		require.ErrorContains(t, runner.Run(t.Context()), "run was called before")
	})
}
