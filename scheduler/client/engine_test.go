package client_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sagalog/sagalog/agent"
	"github.com/sagalog/sagalog/sagalogtest"
	"github.com/sagalog/sagalog/scheduler/client"
	"github.com/stretchr/testify/require"
)

// shipping is a workflow with an approval and a point of no return.
const shipping = `
workflow: shipping
defaults:
  complete_within: 1m
  retry: {attempts: 2, backoff: 1s, factor: 1, then: undo}
steps:
  reserve: {agent: stock, undo: {}}
  approve: {needs: [reserve], if: "${ input.ask }", wait: {signal: approval, schema: {type: object, required: [by]}}}
  ship: {needs: [approve], agent: carrier, pivot: true}
  notify: {needs: [ship], agent: mail, retry: {attempts: 2, backoff: 1s, factor: 1, then: park}}
output: "${ steps.ship.output }"
`

// world is an engine with the agents of shipping, in a bubble.
type world struct {
	*client.Engine
	t *testing.T

	mu sync.Mutex
	// mu guards the fields below.
	act    func(ctx context.Context, agent string) error
	undone int
}

// engine runs a test in a bubble, with an engine on which everything succeeds.
func engine(t *testing.T, test func(t *testing.T, w *world)) {
	t.Helper()
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		e := sagalogtest.Start(t)
		w := &world{Engine: e.Client(), t: t}
		e.Apply(shipping)
		reg := agent.NewRegistry()
		for _, name := range []string{"stock", "carrier", "mail"} {
			agent.Handle(reg, name, func(ctx context.Context, _ any) (string, error) { return name, w.called(ctx, name) },
				agent.WithUndo(func(context.Context, agent.Undo[any, string]) error {
					w.mu.Lock()
					defer w.mu.Unlock()
					w.undone++
					return nil
				}))
		}
		e.Serve(reg)
		test(t, w)
	})
}

func (w *world) called(ctx context.Context, name string) error {
	w.mu.Lock()
	act := w.act
	w.mu.Unlock()
	if act == nil {
		return nil
	}
	return act(ctx, name)
}

func (w *world) undos() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.undone
}

// when makes the agents do this from now on.
func (w *world) when(act func(ctx context.Context, agent string) error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.act = act
}

// refusing makes one agent refuse its work for good.
func refusing(name string) func(context.Context, string) error {
	return func(_ context.Context, agentName string) error {
		if agentName != name {
			return nil
		}
		return agent.NoEffect(agent.Permanent(fmt.Errorf("%s is on strike", name)))
	}
}

// hanging makes one agent hang until its attempt is over.
func hanging(name string) func(context.Context, string) error {
	return func(ctx context.Context, agentName string) error {
		if agentName == name {
			<-ctx.Done()
		}
		return ctx.Err()
	}
}

func order(id string, ask bool) client.Submission {
	return client.Submission{ID: id, Workflow: "shipping", Input: json.RawMessage(fmt.Sprintf(`{"ask":%t}`, ask))}
}

func (w *world) submit(s client.Submission) {
	w.t.Helper()
	r, err := w.Submit(w.t.Context(), s)
	require.NoError(w.t, err)
	_, err = w.Accepted(w.t.Context(), r)
	require.NoError(w.t, err)
}

// ends runs a task and says how it should end.
func (w *world) ends(s client.Submission, state client.State) *client.Task {
	w.t.Helper()
	task, err := w.Run(w.t.Context(), s)
	require.NoError(w.t, err)
	require.Equal(w.t, state, task.State, task.Reason)
	return task
}

// awaits waits for a task that was submitted.
func (w *world) awaits(id string, state client.State) *client.Task {
	w.t.Helper()
	task, err := w.Wait(w.t.Context(), id)
	require.NoError(w.t, err)
	require.Equal(w.t, state, task.State, task.Reason)
	return task
}

func TestARunReturnsTheTaskAndItsHistory(t *testing.T) {
	engine(t, func(t *testing.T, w *world) {
		s := order("a/b ü", false)
		s.Labels = map[string]string{"region": "north"}
		task := w.ends(s, client.StateProcessed)
		require.JSONEq(t, `"carrier"`, string(task.Output))
		require.Equal(t, map[string]string{"region": "north"}, task.Labels)
		require.Equal(t, 1, task.Run)
		require.False(t, task.SubmittedAt.IsZero())
		require.False(t, task.EndedAt.Before(task.SubmittedAt))
		require.Equal(t, client.StepSkipped, task.Step("approve").State)
		require.Nil(t, task.Step("nothing"))
		again, err := w.Get(t.Context(), "a/b ü")
		require.NoError(t, err)
		require.Equal(t, task, again)
		var types []string
		for f, err := range w.History(t.Context(), "a/b ü") {
			require.NoError(t, err)
			require.NotEmpty(t, f.Text)
			types = append(types, f.Type)
		}
		require.Equal(t, "Submitted", types[0])
		require.Equal(t, "TaskProcessed", types[len(types)-1])
	})
}

func TestAParkedTaskIsRetried(t *testing.T) {
	engine(t, func(t *testing.T, w *world) {
		w.when(refusing("carrier"))
		task := w.ends(order("o-1", false), client.StateParked)
		require.Contains(t, task.Reason, "carrier is on strike")
		require.Equal(t, "permanent", task.Step("ship").Error.Class)
		w.when(nil)
		g, err := w.Retry(t.Context(), "o-1", client.Retry{Step: "ship", Reason: "the strike is over"})
		require.NoError(t, err)
		require.NotEmpty(t, g.RequestID)
		w.awaits("o-1", client.StateProcessed)
	})
}

// The same request ID again changes nothing, and is not another request.
func TestARequestTakesEffectOnce(t *testing.T) {
	engine(t, func(t *testing.T, w *world) {
		w.submit(order("o-1", true))
		<-time.After(time.Minute) // until the first step is over
		r := client.Request{RequestID: "cancel-1", Reason: "the customer called"}
		for range 2 {
			g, err := w.Cancel(t.Context(), "o-1", r)
			require.NoError(t, err)
			require.Equal(t, "cancel-1", g.RequestID)
		}
		w.awaits("o-1", client.StateUndone)
		require.Equal(t, 1, w.undos())
		_, err := w.Pause(t.Context(), "o-1", r)
		require.ErrorIs(t, err, client.ErrConflict)
	})
}

func TestACancelPastThePivotIsRefused(t *testing.T) {
	engine(t, func(t *testing.T, w *world) {
		w.when(refusing("mail"))
		w.ends(order("o-1", false), client.StateParked)
		_, err := w.Cancel(t.Context(), "o-1", client.Request{Reason: "too late"})
		require.ErrorIs(t, err, client.ErrRefused)
		x, ok := errors.AsType[*client.Error](err)
		require.True(t, ok)
		require.Equal(t, client.StateParked, x.State)
		require.Contains(t, x.Reason, "no return")
		require.Contains(t, err.Error(), "/v1/tasks/o-1/cancel answered 409 Conflict: refused: the task is past")
		require.Zero(t, w.undos())
		_, err = w.Skip(t.Context(), "o-1", client.Decision{Step: "notify", Reason: "she was called"})
		require.NoError(t, err)
		w.awaits("o-1", client.StateProcessed)
	})
}

func TestASignalEndsAWait(t *testing.T) {
	engine(t, func(t *testing.T, w *world) {
		early, err := w.Signal(t.Context(), "o-1", client.Signal{Name: "approval", Payload: json.RawMessage(`{"by":"ada"}`)})
		require.NoError(t, err)
		require.True(t, early.Held)
		task := w.ends(order("o-1", true), client.StateProcessed)
		require.JSONEq(t, `{"signal":"approval","payload":{"by":"ada"}}`, string(task.Step("approve").Output))

		w.submit(order("o-2", true))
		_, err = w.Signal(t.Context(), "o-2", client.Signal{Name: "aproval"})
		require.ErrorIs(t, err, client.ErrInvalid)
		_, err = w.Signal(t.Context(), "o-2", client.Signal{Name: "approval", Payload: json.RawMessage(`{}`)})
		require.ErrorIs(t, err, client.ErrInvalid)
		_, err = w.Signal(t.Context(), "o-2", client.Signal{Name: "approval", Payload: json.RawMessage(`{`)})
		require.ErrorIs(t, err, client.ErrInvalid)
		_, err = w.Signal(t.Context(), "o-2", client.Signal{Name: "approval", Payload: json.RawMessage(`{"by":"bob"}`)})
		require.NoError(t, err)
		w.awaits("o-2", client.StateProcessed)
	})
}

func TestOperatorsSteerATask(t *testing.T) {
	engine(t, func(t *testing.T, w *world) {
		w.submit(order("paused", true))
		g, err := w.Pause(t.Context(), "paused", client.Request{Reason: "the stock is counted"})
		require.NoError(t, err)
		require.False(t, g.State.Ended())
		task, err := w.Get(t.Context(), "paused")
		require.NoError(t, err)
		require.Equal(t, "the stock is counted", task.Paused.Reason)
		_, err = w.Resume(t.Context(), "paused", client.Request{})
		require.NoError(t, err)
		<-time.After(time.Minute) // until the first step is over
		_, err = w.Terminate(t.Context(), "paused", client.Request{Reason: "done by hand"})
		require.NoError(t, err)
		w.awaits("paused", client.StateTerminated)
		_, err = w.Rerun(t.Context(), "paused", client.Rerun{Input: json.RawMessage(`{"ask":false}`)})
		require.NoError(t, err)
		task = w.awaits("paused", client.StateProcessed)
		require.Equal(t, 2, task.Run)

		w.when(hanging("carrier"))
		w.submit(order("hangs", false))
		<-time.After(10 * time.Second)
		_, err = w.Fail(t.Context(), "hangs", client.Failure{Step: "ship", Effect: "none", Error: &client.StepError{Class: "permanent", Code: "lost", Message: "the van is lost"}})
		require.NoError(t, err)
		task = w.awaits("hangs", client.StateParked)
		require.Equal(t, "lost", task.Step("ship").Error.Code)
		w.when(nil)
		_, err = w.Complete(t.Context(), "hangs", client.Decision{Step: "ship", Output: json.RawMessage(`"by bicycle"`)})
		require.NoError(t, err)
		task = w.awaits("hangs", client.StateProcessed)
		require.JSONEq(t, `"by bicycle"`, string(task.Output))
	})
}

func TestAListHasEachTaskOnce(t *testing.T) {
	engine(t, func(t *testing.T, w *world) {
		var all []client.Submission
		for i := range 25 {
			s := order(fmt.Sprintf("o-%02d", i), i%5 == 0)
			s.Labels = map[string]string{"turn": fmt.Sprint(i % 2)}
			all = append(all, s)
		}
		for _, r := range w.SubmitAll(t.Context(), all) {
			require.NoError(t, r.Err)
		}
		<-time.After(time.Minute)
		ids := func(q client.Query) (ids []string) {
			for task, err := range w.List(t.Context(), q) {
				require.NoError(t, err)
				require.Equal(t, q.Brief, task.Steps == nil)
				ids = append(ids, task.ID)
			}
			slices.Sort(ids)
			return ids
		}
		every := ids(client.Query{PageSize: 7})
		require.Len(t, every, 25)
		require.Equal(t, every, slices.Compact(slices.Clone(every)))
		require.Equal(t, every, ids(client.Query{PageSize: 1000, Brief: true}))
		require.Equal(t, []string{"o-00", "o-05", "o-10", "o-15", "o-20"}, ids(client.Query{States: []client.State{client.StatePending, client.StateProcessing}, PageSize: 2}))
		require.Equal(t, []string{"o-00", "o-10", "o-20"}, ids(client.Query{WaitingFor: "signal", Labels: map[string]string{"turn": "0"}}))
		require.Empty(t, ids(client.Query{Since: time.Now()}))
		require.Len(t, ids(client.Query{Until: time.Now(), Workflow: "shipping"}), 25)
		for task, err := range w.List(t.Context(), client.Query{PageSize: 3}) { // a loop may end early
			require.NoError(t, err)
			require.NotEmpty(t, task.ID)
			break
		}
		for _, err := range w.List(t.Context(), client.Query{States: []client.State{"open"}}) {
			require.ErrorIs(t, err, client.ErrInvalid)
		}
	})
}

func TestEachErrorHasItsKind(t *testing.T) {
	engine(t, func(t *testing.T, w *world) {
		_, err := w.Get(t.Context(), "nobody")
		require.ErrorIs(t, err, client.ErrNotFound)
		_, err = w.Wait(t.Context(), "nobody")
		require.ErrorIs(t, err, client.ErrNotFound)
		_, err = w.Cancel(t.Context(), "nobody", client.Request{})
		require.ErrorIs(t, err, client.ErrNotFound)
		for _, err := range w.History(t.Context(), "nobody") {
			require.ErrorIs(t, err, client.ErrNotFound)
		}
		_, err = w.Run(t.Context(), client.Submission{Workflow: "shiping"})
		require.ErrorIs(t, err, client.ErrUnknownWorkflow)

		w.submit(order("o-1", true))
		_, err = w.Run(t.Context(), order("o-1", false))
		require.ErrorIs(t, err, client.ErrConflict)
		_, err = w.Retry(t.Context(), "o-1", client.Retry{Step: "shop"})
		require.ErrorIs(t, err, client.ErrInvalid)
		bounded, cancel := context.WithTimeout(t.Context(), time.Hour/60)
		defer cancel()
		_, err = w.Wait(bounded, "o-1")
		require.ErrorIs(t, err, client.ErrUnavailable)
		require.ErrorIs(t, err, context.DeadlineExceeded)
	})
}

func TestADefinitionIsAppliedWithItsFaults(t *testing.T) {
	engine(t, func(t *testing.T, w *world) {
		a, err := w.Apply(t.Context(), []byte(shipping))
		require.NoError(t, err)
		require.Equal(t, "shipping", a.Name)
		require.Equal(t, 1, a.Version)
		require.False(t, a.Changed)
		a, err = w.Apply(t.Context(), []byte("workflow: other\nsteps:\n  one: {agent: nobody}\n"))
		require.NoError(t, err)
		require.True(t, a.Changed)
		require.Len(t, a.Warnings, 1)
		require.Contains(t, a.Warnings[0].Message, "nobody")

		_, err = w.Apply(t.Context(), []byte("workflow: bad\nsteps:\n  one: {agnt: x}\n"))
		require.ErrorIs(t, err, client.ErrInvalid)
		x, _ := errors.AsType[*client.Error](err)
		require.NotEmpty(t, x.Places)
		require.Equal(t, 3, x.Places[0].Line)
		for _, bad := range []string{"steps: {}", "workflow: [", ""} {
			_, err = w.Apply(t.Context(), []byte(bad))
			require.ErrorIs(t, err, client.ErrInvalid, bad)
		}
	})
}
