package agent_test

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"github.com/sagalog/sagalog/agent"
	"github.com/sagalog/sagalog/agent/agenttest"
	"github.com/sagalog/sagalog/events"
)

type hold struct {
	Of string `json:"of"`
	By string `json:"by"`
}

// bank has an operation without a name, and two with one, of which one can be undone.
func bank(undone *string) *agent.Registry {
	r := agent.NewRegistry()
	does := func(by string) func(context.Context, hold) (hold, error) {
		return func(ctx context.Context, in hold) (hold, error) {
			a, _ := agent.FromContext(ctx)
			return hold{Of: in.Of, By: by + "/" + a.Function}, nil
		}
	}
	agent.HandleOperation(r, "bank", "authorize", does("authorize"), agent.Concurrency(3), agent.WithUndo(func(_ context.Context, u agent.Undo[hold, hold]) error {
		*undone = u.Output.By
		return nil
	}))
	agent.HandleOperation(r, "bank", "capture", does("capture"))
	agent.Handle(r, "bank", does("pay"))
	return r
}

func TestAnAttemptCallsTheOperationThatItNames(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var undone string
		h := agenttest.Start(t, bank(&undone))
		for operation, by := range map[string]string{"": "pay/", "authorize": "authorize/authorize", "capture": "capture/capture"} {
			w := h.Work("bank", events.Do, hold{Of: "x"})
			w.Function = operation
			h.Send(w)
			r, ok := h.Await(w)
			require.True(t, ok, operation)
			require.JSONEq(t, `{"of":"x","by":"`+by+`"}`, string(r.Output), operation)
		}
		w := h.Work("bank", events.Undo, hold{Of: "x"})
		w.Function, w.Output = "authorize", []byte(`{"by":"b"}`)
		h.Send(w)
		r, ok := h.Await(w)
		require.True(t, ok)
		require.Nil(t, r.Error)
		require.Equal(t, "b", undone)
		for call, message := range map[events.Call]string{
			{Function: "capture", Operation: events.Undo}: "agent bank, undo capture", {Operation: events.Undo}: "agent bank, undo", {Function: "refund", Operation: events.Do}: "agent bank, do refund",
		} {
			w := h.Work("bank", call.Operation, hold{})
			w.Function = call.Function
			h.Send(w)
			r, ok := h.Await(w)
			require.True(t, ok, call)
			require.Equal(t, "no_operation", r.Error.Code)
			require.Equal(t, "this instance does not offer the operation: "+message+"; it offers do, do authorize, do capture, undo authorize", r.Error.Message)
			require.Equal(t, events.EffectNone, r.Effect)
		}
	})
}

func TestAHeartbeatListsTheOperations(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var undone string
		r := bank(&undone)
		agent.Handle(r, "post", func(_ context.Context, in hold) (hold, error) { return in, nil })
		agent.HandleOperation(r, "depot", "store", func(_ context.Context, in hold) (hold, error) { return in, nil })
		h := agenttest.Start(t, r)
		synctest.Wait()
		p := h.Heartbeats()[0]
		require.Equal(t, map[string][]events.Operation{"bank": {events.Do}, "depot": {}, "post": {events.Do}}, p.Operations)
		require.Equal(t, map[string]map[string][]events.Operation{
			"bank": {"authorize": {events.Do, events.Undo}, "capture": {events.Do}}, "depot": {"store": {events.Do}},
		}, p.Functions)
		require.Equal(t, 3, p.Capacity["bank"])
	})
}

func TestMistakesOfOperationsAreReported(t *testing.T) {
	t.Parallel()
	r := agent.NewRegistry()
	same := func(_ context.Context, in hold) (hold, error) { return in, nil }
	agent.HandleOperation(r, "bank", "capture", same)
	agent.HandleOperation(r, "bank", "capture", same)
	agent.HandleOperation(r, "bank", "do", same)
	agent.HandleOperation(r, "bank", "Capture", same)
	agent.HandleOperation(r, "bank", "", same)
	agent.HandleOperation(r, "bank", "refund", same, agent.Concurrency(0))
	require.EqualError(t, r.Err(), `agent "bank", operation "capture" is registered twice
agent "bank", operation: "do" names no operation: an operation has a do and an undo
agent "bank", operation: "Capture" is not a valid name: use a lower-case letter, followed by up to 63 of a-z, 0-9, _ and -
agent "bank", operation: "" is not a valid name: use a lower-case letter, followed by up to 63 of a-z, 0-9, _ and -
agent "bank", operation "refund": concurrency is 0, not between 1 and 10000`)
}

func TestAnAgentHasALimitedNumberOfOperations(t *testing.T) {
	t.Parallel()
	r := agent.NewRegistry()
	same := func(_ context.Context, in hold) (hold, error) { return in, nil }
	for i := range events.MaxFunctions {
		agent.HandleOperation(r, "bank", fmt.Sprintf("o%d", i), same)
	}
	agent.Handle(r, "bank", same)
	require.NoError(t, r.Err())
	agent.HandleOperation(r, "bank", "last", same)
	require.EqualError(t, r.Err(), `agent "bank", operation "last" is one more than the 1000 operations that an agent may have: divide them among several agents`)
}

func TestTheHarnessNamesAnOperationBehindASlash(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var undone string
		h := agenttest.Start(t, bank(&undone))
		require.JSONEq(t, `{"of":"x","by":"capture/capture"}`, string(h.Do("bank/capture", hold{Of: "x"}).Output))
		require.Equal(t, events.ResultCompleted, h.Undo("bank/authorize", hold{Of: "x"}, hold{By: "b"}).Result)
		require.Equal(t, "b", undone)
	})
}
