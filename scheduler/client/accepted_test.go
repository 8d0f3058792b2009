package client_test

import (
	"context"
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"github.com/sagalog/sagalog/sagalogtest"
	"github.com/sagalog/sagalog/scheduler/client"
	"github.com/stretchr/testify/require"
)

// holding is an engine with a workflow that waits for a signal, and whose input has a schema.
func holding(t *testing.T) *sagalogtest.Engine {
	t.Helper()
	e := sagalogtest.Start(t)
	e.Apply("workflow: hold\ninput: {type: object, required: [n]}\nsteps:\n  wait: {wait: {signal: go}}\n")
	return e
}

func held(id string, n int) client.Submission {
	return client.Submission{ID: id, Workflow: "hold", Input: json.RawMessage(fmt.Sprintf(`{"n":%d}`, n))}
}

// The engine has hardly read a submission when the producer asks for its task.
func TestAcceptedWaitsForASubmissionOverKafka(t *testing.T) {
	t.Parallel()
	e := holding(t)
	k, err := client.Kafka(t.Context(), e.Brokers()...)
	require.NoError(t, err)
	defer k.Close()
	for i := range 30 {
		r, err := k.Submit(t.Context(), held(fmt.Sprintf("k-%d", i), i))
		require.NoError(t, err)
		task, err := e.Client().Accepted(t.Context(), r)
		require.NoError(t, err)
		require.Equal(t, r.ID, task.ID)
	}
	again, err := k.Submit(t.Context(), held("k-1", 1))
	require.NoError(t, err)
	_, err = e.Client().Accepted(t.Context(), again)
	require.NoError(t, err, "a repeat is the accepted task")
}

func TestAcceptedSaysWhyASubmissionWasRejected(t *testing.T) {
	t.Parallel()
	e := holding(t)
	k, err := client.Kafka(t.Context(), e.Brokers()...)
	require.NoError(t, err)
	defer k.Close()
	first, err := k.Submit(t.Context(), held("k-1", 1))
	require.NoError(t, err)
	_, err = e.Client().Accepted(t.Context(), first)
	require.NoError(t, err)

	accepted := func(s client.Submission) *client.Error {
		t.Helper()
		r, err := k.Submit(t.Context(), s)
		require.NoError(t, err)
		task, err := e.Client().Accepted(t.Context(), r)
		require.Nil(t, task)
		var refused *client.Error
		require.ErrorAs(t, err, &refused)
		return refused
	}
	conflict := accepted(held("k-1", 2))
	require.ErrorIs(t, conflict, client.ErrConflict)
	require.Equal(t, "conflict", conflict.Reason)
	unfit := accepted(client.Submission{ID: "k-2", Workflow: "hold", Input: json.RawMessage(`{}`)})
	require.ErrorIs(t, unfit, client.ErrInvalid)
	require.Equal(t, "schema", unfit.Reason)
	require.Contains(t, unfit.Error(), "dead letters")
	unknown := accepted(client.Submission{ID: "k-3", Workflow: "hol"})
	require.ErrorIs(t, unknown, client.ErrUnknownWorkflow)
	require.Equal(t, "unknown_workflow", unknown.Reason)
}

func TestAcceptedWaitsForEachOfABatch(t *testing.T) {
	t.Parallel()
	e := holding(t)
	list := make([]client.Submission, 30)
	for i := range list {
		list[i] = held(fmt.Sprintf("h-%d", i), i)
	}
	for _, r := range e.Client().SubmitAll(t.Context(), list) {
		require.NoError(t, r.Err)
		_, err := e.Client().Accepted(t.Context(), r.Receipt)
		require.NoError(t, err)
	}
}

func TestAWaitThatEndsSaysWhatTheTaskWaitsFor(t *testing.T) {
	engine(t, func(t *testing.T, w *world) {
		w.submit(order("o-1", true))
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
		defer cancel()
		task, err := w.Wait(ctx, "o-1")
		require.ErrorIs(t, err, client.ErrUnavailable)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.EqualError(t, err, `no answer in time: task "o-1" is still processing, waits for signal approval (step approve): context deadline exceeded`)
		require.Equal(t, client.StateProcessing, task.State)
	})
}

func TestAnInputThatIsNotJSONHasItsPlace(t *testing.T) {
	t.Parallel()
	c, err := client.HTTP("http://127.0.0.1:1")
	require.NoError(t, err)
	defer c.Close()
	_, err = c.Submit(t.Context(), client.Submission{Workflow: "hold", Input: json.RawMessage(`hello`)})
	require.ErrorIs(t, err, client.ErrInvalid)
	require.EqualError(t, err, "not valid; /input: is not JSON: a text needs quotes, as json.Marshal writes them")
}
