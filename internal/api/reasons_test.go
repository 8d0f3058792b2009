package api_test

import (
	"context"
	"testing"
	"time"

	"github.com/sagalog/sagalog/events"
	"github.com/sagalog/sagalog/internal/api"
	"github.com/sagalog/sagalog/internal/proxy"
	"github.com/sagalog/sagalog/supervisor"
	"github.com/stretchr/testify/require"
)

// A task says who lacks a key of it: the agent that refused an attempt, or its owner. It also says if its owner has not planned it.
func TestATaskSaysWhoLacksAKey(t *testing.T) {
	t.Parallel()
	w := setup(t)
	w.do("PUT", "/v1/tasks/x", good)
	later := events.At(time.Now().Add(time.Hour))
	w.engine.Change("x", &events.StepStarted{Step: "reserve"}, func(t *events.Task) {
		t.State = events.TaskStateProcessing
		t.Steps = []*events.Step{{Path: "reserve", Agent: "stock", State: events.StepStateWaiting, RetryAt: later,
			Error: &events.Error{Class: events.ClassUnavailable, Code: events.CodeNoKey, Message: "it lacks the key k1"}}}
	})
	refused := map[string]any{"step": "reserve", "kind": "key", "for": "do of agent stock: it lacks the key k1", "until": later.String()}
	w.engine.Rows = map[string]events.Keys{"x": {Waits: []events.WaitCount{{Kind: events.WaitingKey, N: 1}}}}
	require.Equal(t, []any{refused}, w.do("GET", "/v1/tasks/x", "").json(t)["waiting_for"])
	w.engine.Rows["x"] = events.Keys{Waits: []events.WaitCount{{Kind: events.WaitingKey, N: 2}}, Unplanned: true}
	waits := w.do("GET", "/v1/tasks/x", "").json(t)["waiting_for"].([]any)
	require.Len(t, waits, 3)
	require.Equal(t, "owner", waits[0].(map[string]any)["kind"], "everything else is as old as its latest decision")
	require.Equal(t, "key", waits[2].(map[string]any)["kind"])
	require.NotContains(t, waits[2].(map[string]any), "step")
	for _, kind := range []string{"key", "owner"} {
		require.Len(t, into[api.TaskList](t, w.do("GET", "/v1/tasks?waiting_for="+kind, "")).Tasks, 1, kind)
	}
}

// Whoever gets the alert about a late task reads what the task is waiting for.
func TestAnAlertAboutALateTaskSaysWhatItWaitsFor(t *testing.T) {
	t.Parallel()
	w := setup(t)
	w.do("PUT", "/v1/tasks/x", good)
	w.engine.Waiting = map[string][]events.ReadyKey{"x": {{Agent: "bank", Path: "pay", Operation: events.Do}}}
	w.engine.Gone = []events.Missing{{Agent: "bank", Operation: events.Do, Since: 5}}
	alert := func(kind, task string) api.Alert {
		return api.Alert{Kind: kind, Task: task, Since: 50, Reason: "late"}.Named(50)
	}
	w.engine.SetAlerts([]api.Alert{alert(supervisor.AlertDeadline, "x"), alert(supervisor.AlertSoftLimit, "gone"), alert(supervisor.AlertBlocked, "x")}, nil)
	reasons := map[string]string{}
	for _, a := range into[api.AlertList](t, w.do("GET", "/v1/alerts", "")).Alerts {
		reasons[a.Kind] = a.Reason
	}
	require.Equal(t, map[string]string{
		supervisor.AlertDeadline: "late; step pay waits for: agent, do of agent bank: no live instance offers it", supervisor.AlertSoftLimit: "late", supervisor.AlertBlocked: "late",
	}, reasons)
}

// No list says that a partition is being taken over if it has stopped.
func TestEachListSaysThatAPartitionHasStopped(t *testing.T) {
	t.Parallel()
	n := setupNodes(t, "a", "b")
	a := n.members[0]
	a.share.Direct(2, proxy.Route{Stopped: "input_lost: records are gone (node b)"})
	want := []api.MissingPartition{{Partition: 2, Reason: "stopped", Detail: "input_lost: records are gone (node b)"}}
	for _, path := range []string{"/v1/alerts", "/v1/counts", "/v1/tasks", "/v1/limits"} {
		require.Equal(t, want, into[struct{ Missing []api.MissingPartition }](t, a.do("GET", path, "")).Missing, path)
	}
}

// keyless seals nothing, since a key is not there now.
type keyless struct{ api.Keys }

func (keyless) Prepare(context.Context, ...string) error { return noKey }

func (keyless) Open([]byte) ([]byte, error) { return nil, noKey }

func (keyless) SealInput(context.Context, string, string, []byte) ([]byte, error) { return nil, noKey }

func (keyless) Seal(context.Context, string, []byte) ([]byte, error) { return nil, noKey }

var noKey = &events.NoKeyError{Missing: "k1", Reason: "seal.key does not hold the key k1"}

// A request that cannot be sealed is refused with the key that is missing: it is not the brokers that do not answer.
func TestAMissingKeyIsNotABrokerThatDoesNotAnswer(t *testing.T) {
	t.Parallel()
	w := setup(t, func(c *api.Config) { c.Keys = keyless{} })
	for _, r := range []reply{
		w.do("PUT", "/v1/tasks/x", good), w.do("POST", "/v1/tasks/y/signal", `{"signal":"go","payload":{"a":1}}`),
	} {
		require.Equal(t, 503, r.status, r.body)
		require.Equal(t, "no-key", r.problem(t).Code(), r.body)
		require.Equal(t, "5", r.header.Get("Retry-After"))
		require.Contains(t, r.problem(t).Detail, "seal.key does not hold the key k1")
	}
}
