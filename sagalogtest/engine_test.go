package sagalogtest_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sagalog/sagalog/agent"
	"github.com/sagalog/sagalog/sagalogtest"
	"github.com/sagalog/sagalog/scheduler/client"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// payment is a workflow whose steps are tried again after an hour.
const payment = `
workflow: payment
defaults:
  retry: {attempts: 2, backoff: 1h, factor: 1, max_backoff: 1h, then: undo}
steps:
  reserve: {agent: stock, undo: {}}
  charge: {needs: [reserve], agent: bank}
`

// shop has the agents of payment; broken says how often the bank fails.
func shop(broken int64) (reg *agent.Registry, released *atomic.Int64) {
	released = new(atomic.Int64)
	reg = agent.NewRegistry()
	type order struct{ Item string }
	agent.Handle(reg, "stock", func(_ context.Context, o order) (string, error) { return "shelf of " + o.Item, nil },
		agent.WithUndo(func(context.Context, agent.Undo[order, string]) error { released.Add(1); return nil }))
	agent.Handle(reg, "bank", func(context.Context, order) (string, error) {
		if broken--; broken >= 0 {
			return "", agent.NoEffect(errors.New("the bank is closed"))
		}
		return "paid", nil
	})
	return reg, released
}

func lamp(id string) client.Submission {
	return client.Submission{ID: id, Workflow: "payment", Input: json.RawMessage(`{"Item":"lamp"}`)}
}

func TestATaskIsProcessedInRealTime(t *testing.T) {
	t.Parallel()
	e := sagalogtest.Start(t)
	e.Apply(payment)
	reg, _ := shop(0)
	e.Serve(reg)
	task, err := e.Client().Run(t.Context(), lamp("o-1"))
	require.NoError(t, err)
	require.Equal(t, client.StateProcessed, task.State)
	require.JSONEq(t, `"shelf of lamp"`, string(task.Step("reserve").Output))

	// The page is there for a person, and the broker for a producer.
	resp, err := http.Get(e.URL() + "/")
	require.NoError(t, err)
	require.NoError(t, resp.Body.Close())
	http.DefaultClient.CloseIdleConnections()
	require.Equal(t, http.StatusOK, resp.StatusCode)
	k, err := client.Kafka(t.Context(), e.Brokers()...)
	require.NoError(t, err)
	defer k.Close()
	_, err = k.Submit(t.Context(), lamp("o-2"))
	require.NoError(t, err)
	task, err = e.Client().Wait(t.Context(), "o-2")
	require.NoError(t, err)
	require.Equal(t, client.StateProcessed, task.State)
}

func TestHoursPassAtOnceInABubble(t *testing.T) {
	if testing.Short() {
		t.Skip("an hour of heartbeats, in which the race detector has nothing new to find")
	}
	t.Parallel()
	began := time.Now()
	synctest.Test(t, func(t *testing.T) {
		e := sagalogtest.Start(t, sagalogtest.Partitions(1))
		e.Apply(payment)
		reg, released := shop(1)
		e.Serve(reg)
		submitted := time.Now()
		task, err := e.Client().Run(t.Context(), lamp("o-1"))
		require.NoError(t, err)
		require.Equal(t, client.StateProcessed, task.State, task.Reason)
		require.Equal(t, 2, task.Step("charge").Attempt)
		require.GreaterOrEqual(t, time.Since(submitted), time.Hour)
		require.Zero(t, released.Load())
		t.Logf("%s of virtual time", time.Since(submitted))
	})
	t.Logf("%s of real time", time.Since(began))
}

func TestAFailedTaskIsUndoneInABubble(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		e := sagalogtest.Start(t)
		e.Apply(strings.ReplaceAll(payment, "1h", "1m"))
		reg, released := shop(3)
		e.Serve(reg)
		task, err := e.Client().Run(t.Context(), lamp("o-1"))
		require.NoError(t, err)
		require.Equal(t, client.StateUndone, task.State)
		require.Contains(t, task.Step("charge").Error.Message, "the bank is closed")
		require.EqualValues(t, 1, released.Load())
	})
}

// The node stops while a step runs and a client waits. The log keeps the task, and the client the question.
func TestATaskAndItsWaitOutliveARestart(t *testing.T) {
	t.Parallel()
	e := sagalogtest.Start(t)
	e.Apply("workflow: slow\nsteps:\n  only: {agent: slow}\n")
	reg := agent.NewRegistry()
	running, done := make(chan struct{}), make(chan struct{})
	agent.Handle(reg, "slow", func(ctx context.Context, _ any) (any, error) {
		close(running)
		select {
		case <-done:
			return "done", nil
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	})
	e.Serve(reg)
	c := e.Client()
	_, err := c.Submit(t.Context(), client.Submission{ID: "s-1", Workflow: "slow"})
	require.NoError(t, err)
	<-running
	type answer struct {
		task *client.Task
		err  error
	}
	waited := make(chan answer, 1)
	go func() {
		task, err := c.Wait(t.Context(), "s-1")
		waited <- answer{task, err}
	}()
	e.Restart()
	task, err := c.Get(t.Context(), "s-1")
	require.NoError(t, err)
	require.Equal(t, client.StepRunning, task.Step("only").State)
	close(done)
	a := <-waited
	require.NoError(t, a.err)
	require.Equal(t, client.StateProcessed, a.task.State)
}

// Steps wait for agents that were stopped, and go on with those that come.
func TestAgentsComeAndGo(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		e := sagalogtest.Start(t)
		e.Apply(payment)
		reg, _ := shop(0)
		stop := e.Serve(reg)
		_, err := e.Client().Run(t.Context(), lamp("o-1"))
		require.NoError(t, err)
		stop()
		<-time.After(10 * time.Second) // so that no request is sent to agents that are leaving
		_, err = e.Client().Submit(t.Context(), lamp("o-2"))
		require.NoError(t, err)
		<-time.After(time.Minute)
		task, err := e.Client().Get(t.Context(), "o-2")
		require.NoError(t, err)
		require.False(t, task.State.Ended())
		require.NotEmpty(t, task.WaitingFor)
		require.Equal(t, "agent", task.WaitingFor[0].Kind)
		reg, _ = shop(0)
		e.Serve(reg)
		e.Restart()
		task, err = e.Client().Wait(t.Context(), "o-2")
		require.NoError(t, err)
		require.Equal(t, client.StateProcessed, task.State)
	})
}

// Each of these used to wait for half a minute, or to fail with the address of a broker that was gone.
func TestAnEngineThatWasStoppedSaysSo(t *testing.T) {
	t.Parallel()
	e, stop := sagalogtest.Open()
	stop()
	const message = "the engine was stopped"
	require.PanicsWithValue(t, message, func() { e.Apply(payment) })
	require.PanicsWithValue(t, message, func() { e.Restart() })
	require.PanicsWithValue(t, message, func() { e.Serve(agent.NewRegistry()) })
	_, err := e.Client().Get(t.Context(), "o-1")
	require.ErrorIs(t, err, client.ErrClosed)
}

func TestPartitionsHasItsRange(t *testing.T) {
	t.Parallel()
	for _, n := range []int{-1, 0, 1 << 40} {
		require.PanicsWithValue(t, fmt.Sprintf("Partitions(%d): an engine has 1 to 1000", n), func() { sagalogtest.Open(sagalogtest.Partitions(n)) })
	}
}
