package api_test

import (
	"testing"
	"time"

	"github.com/sagalog/sagalog/events"
	"github.com/sagalog/sagalog/internal/api"
	"github.com/stretchr/testify/require"
)

func TestATaskSaysWhatItsStepsWaitFor(t *testing.T) {
	t.Parallel()
	w := setup(t)
	w.do("PUT", "/v1/tasks/x", good)
	later := events.At(time.Now().Add(time.Hour))
	w.engine.Change("x", &events.StepStarted{Step: "reserve"}, func(t *events.Task) {
		t.State = events.TaskStateProcessing
		t.Steps = []*events.Step{
			{Path: "charge", State: events.StepStateWaiting, Tries: 1, RetryAt: later},
			{Path: "pack", Agent: "box", State: events.StepStateWaiting, RetryAt: later, Error: &events.Error{Class: events.ClassUnavailable}},
			{Path: "ship", State: events.StepStateWaiting, CoolDowns: 1, RetryAt: later},
		}
	})
	w.engine.Waiting = map[string][]events.ReadyKey{"x": {{Agent: "bank", Function: "capture", Path: "pay", Operation: events.Do}}}
	w.engine.Gone = []events.Missing{{Agent: "bank", Function: "authorize", Operation: events.Do, Since: later}, {Agent: "bank", Function: "capture", Operation: events.Do, Since: later}}
	require.Equal(t, map[string]any{"step": "pay", "kind": "agent", "for": "do of agent bank, operation capture: no live instance offers it", "since": later.String()},
		w.do("GET", "/v1/tasks/x", "").json(t)["waiting_for"].([]any)[3])
	require.Equal(t, map[string]any{"agent": "bank", "function": "capture", "operation": "do", "since": later.String()},
		w.do("GET", "/v1/agents", "").json(t)["missing"].([]any)[1])
	w.engine.Gone = nil
	w.engine.Waiting = map[string][]events.ReadyKey{"x": {{Agent: "stock", Path: "reserve", Operation: events.Do}}}
	require.Equal(t, []any{
		map[string]any{"step": "charge", "kind": "retry", "until": later.String()},
		map[string]any{"step": "pack", "kind": "agent", "for": "do of agent box: its service is failing", "until": later.String()},
		map[string]any{"step": "ship", "kind": "cool_down", "until": later.String()},
		map[string]any{"step": "reserve", "kind": "capacity", "for": "do of agent stock"},
	}, w.do("GET", "/v1/tasks/x", "").json(t)["waiting_for"])
	w.engine.Gone = []events.Missing{{Agent: "stock", Operation: events.Do, Since: later}}
	require.Equal(t, map[string]any{"step": "reserve", "kind": "agent", "for": "do of agent stock: no live instance offers it", "since": later.String()},
		w.do("GET", "/v1/tasks/x", "").json(t)["waiting_for"].([]any)[3])
	require.Equal(t, []any{map[string]any{"agent": "stock", "operation": "do", "since": later.String()}},
		w.do("GET", "/v1/agents", "").json(t)["missing"])
	w.engine.Gone = []events.Missing{{Agent: "stock", Operation: events.Do, Since: later, Behind: true}}
	require.Equal(t, map[string]any{"step": "reserve", "kind": "agent", "for": "do of agent stock: the brokers take no requests for it", "since": later.String()},
		w.do("GET", "/v1/tasks/x", "").json(t)["waiting_for"].([]any)[3])
	w.engine.Gone = []events.Missing{{Agent: "stock", Operation: events.Do, Since: later, NoTopic: "no room"}}
	require.Equal(t, map[string]any{"step": "reserve", "kind": "agent", "for": "do of agent stock: it has no work topic: no room", "since": later.String()},
		w.do("GET", "/v1/tasks/x", "").json(t)["waiting_for"].([]any)[3])
	require.Equal(t, true, w.do("POST", "/v1/agents/stock/pause", `{"by":"ada","reason":"repair"}`).json(t)["changed"])
	require.Equal(t, false, w.do("POST", "/v1/agents/stock/pause", "").json(t)["changed"])
	require.Equal(t, map[string]any{"step": "reserve", "kind": "paused", "for": "do of agent stock, paused by ada: repair", "since": events.Instant(1).String()},
		w.do("GET", "/v1/tasks/x", "").json(t)["waiting_for"].([]any)[3])
	require.Equal(t, []any{map[string]any{"agent": "stock", "by": "ada", "reason": "repair", "since": events.Instant(1).String()}}, w.do("GET", "/v1/agents", "").json(t)["paused"])
	require.Equal(t, 422, w.do("POST", "/v1/agents/Stock!/pause", "").status)
	w.do("POST", "/v1/agents/stock/resume", "")
	w.do("POST", "/v1/agents/stock/pause", `{"reason":"repair"}`)
	require.Equal(t, "do of agent stock, paused by an operator: repair", w.do("GET", "/v1/tasks/x", "").json(t)["waiting_for"].([]any)[3].(map[string]any)["for"])
	require.Equal(t, true, w.do("POST", "/v1/agents/stock/resume", "").json(t)["changed"])
	require.NotContains(t, w.do("GET", "/v1/agents", "").json(t), "paused")
	w.engine.Change("x", &events.TaskPaused{}, func(t *events.Task) { t.Paused = &events.Paused{By: "ada", Since: later, Reason: "wait"} })
	require.Equal(t, []any{map[string]any{"kind": "paused", "for": "ada: wait", "since": later.String()}}, w.do("GET", "/v1/tasks/x", "").json(t)["waiting_for"])
	w.engine.Park("x", "attempts used up")
	require.Equal(t, map[string]any{"kind": "operator", "for": "attempts used up"}, w.do("GET", "/v1/tasks/x", "").json(t)["waiting_for"].([]any)[1])
	require.Contains(t, w.do("GET", "/openapi.json", "").body, `"cool_down","quiet","paused","not_before","operator"`)
	w.engine.Finish("x")
	require.NotContains(t, w.do("GET", "/v1/tasks/x", "").json(t), "waiting_for")
}

// A step waits for its agent, and a task must not turn back before somebody learns that nothing can undo it.
func TestApplyNamesOperationsThatNobodyOffers(t *testing.T) {
	t.Parallel()
	w := setup(t)
	w.engine.Drafted = []api.Step{{ID: "charge", Agent: "bank", HasUndo: true, Calls: []events.Call{{Agent: "bank", Operation: events.Do}, {Agent: "bank", Operation: events.Undo}}}}
	require.NotContains(t, w.do("PUT", "/v1/workflows/new", "workflow: new\n").json(t), "warnings")
	w.engine.Gone = []events.Missing{{Agent: "bank", Operation: events.Undo}}
	warnings := w.do("PUT", "/v1/workflows/new", "workflow: new\n").json(t)["warnings"].([]any)
	require.Len(t, warnings, 1)
	require.Equal(t, "/steps/charge/undo", warnings[0].(map[string]any)["pointer"])
	require.Contains(t, warnings[0].(map[string]any)["message"], `no live instance of agent "bank" offers the operation undo of step "charge"`)

	w.engine.Drafted = []api.Step{{ID: "charge", Agent: "bank", Operation: "capture", Calls: []events.Call{{Agent: "bank", Function: "capture", Operation: events.Do}}}}
	require.NotContains(t, w.do("PUT", "/v1/workflows/new", "workflow: new\n").json(t), "warnings")
	w.engine.Gone = []events.Missing{{Agent: "bank", Function: "capture", Operation: events.Do}}
	warnings = w.do("PUT", "/v1/workflows/new", "workflow: new\n").json(t)["warnings"].([]any)
	require.Contains(t, warnings[0].(map[string]any)["message"], `no live instance of agent "bank" offers the operation do capture of step "charge"`)
}

// An undo waits until no request of an attempt without an answer can take effect any more.
func TestAnUndoThatWaitsForRequestsInDoubtSaysSo(t *testing.T) {
	t.Parallel()
	w := setup(t)
	w.do("PUT", "/v1/tasks/x", good)
	later := events.At(time.Now().Add(time.Hour))
	undoing := func(s events.StepState) {
		w.engine.Change("x", &events.CancelRequested{}, func(t *events.Task) {
			t.State, t.QuietAt = events.TaskStateUndoing, later
			t.Steps = []*events.Step{{Path: "reserve", State: events.StepStateTimedOut}, {Path: "charge", State: s}}
		})
	}
	undoing(events.StepStateTimedOut)
	require.Equal(t, []any{map[string]any{"kind": "quiet", "until": later.String()}}, w.do("GET", "/v1/tasks/x", "").json(t)["waiting_for"])
	undoing(events.StepStateRunning) // its end comes first
	require.NotContains(t, w.do("GET", "/v1/tasks/x", "").json(t), "waiting_for")
}

// An attempt that was not made leaves no try behind, also after a cool-down. The step then waits for its agent.
func TestAStepThatWaitsForItsServiceAfterACoolDownSaysSo(t *testing.T) {
	t.Parallel()
	w := setup(t)
	w.do("PUT", "/v1/tasks/x", good)
	later := events.At(time.Now().Add(time.Hour))
	w.engine.Change("x", &events.StepStarted{Step: "reserve"}, func(t *events.Task) {
		t.State = events.TaskStateProcessing
		t.Steps = []*events.Step{{Path: "ship", Agent: "van", State: events.StepStateWaiting, CoolDowns: 1, RetryAt: later, Error: &events.Error{Class: events.ClassUnavailable}}}
	})
	require.Equal(t, []any{map[string]any{"step": "ship", "kind": "agent", "for": "do of agent van: its service is failing", "until": later.String()}},
		w.do("GET", "/v1/tasks/x", "").json(t)["waiting_for"])
}

// The heartbeats of all instances are gone through once for a request, not once for each of the task's steps.
func TestOffersAreLookedAtOnceForATask(t *testing.T) {
	t.Parallel()
	w := setup(t)
	w.do("PUT", "/v1/tasks/x", good)
	w.engine.Change("x", &events.StepStarted{Step: "reserve"}, func(t *events.Task) { t.State = events.TaskStateProcessing })
	var queued []events.ReadyKey
	for range 50 {
		queued = append(queued, events.ReadyKey{Agent: "stock", Path: "reserve", Operation: events.Do})
	}
	w.engine.Waiting = map[string][]events.ReadyKey{"x": queued}
	before := w.engine.OffersBuilt.Load()
	require.Len(t, w.do("GET", "/v1/tasks/x", "").json(t)["waiting_for"], 50)
	require.EqualValues(t, 1, w.engine.OffersBuilt.Load()-before)
}

// A sleep goes on while its task is paused, so it is said then too.
func TestATaskSaysUntilWhenItsStepsSleep(t *testing.T) {
	t.Parallel()
	w := setup(t)
	w.do("PUT", "/v1/tasks/x", good)
	now := events.At(time.Now())
	later := now.Add(time.Hour)
	w.engine.Change("x", &events.StepStarted{Step: "reserve"}, func(t *events.Task) {
		t.State = events.TaskStateProcessing
		t.Steps = []*events.Step{{Path: "charge", State: events.StepStateWaiting, StartedAt: now, Wait: &events.Wait{Until: later}}}
	})
	sleeps := map[string]any{"step": "charge", "kind": "sleep", "since": now.String(), "until": later.String()}
	require.Equal(t, []any{sleeps}, w.do("GET", "/v1/tasks/x", "").json(t)["waiting_for"])
	w.engine.Change("x", &events.TaskPaused{}, func(t *events.Task) { t.Paused = &events.Paused{Since: later} })
	require.Contains(t, w.do("GET", "/v1/tasks/x", "").json(t)["waiting_for"], sleeps)
}

// A task that needs a permit says who has it, and whether that task goes on.
func TestATaskSaysWhoHoldsItsPermit(t *testing.T) {
	t.Parallel()
	w := setup(t)
	const limit = "concurrency/payment/c-17"
	for _, id := range []string{"x", "order-9"} {
		w.do("PUT", "/v1/tasks/"+id, good)
	}
	asked := events.At(time.Now().Add(-time.Minute))
	w.engine.Change("x", &events.PermitAsked{}, func(t *events.Task) {
		t.Permit = &events.TaskPermit{Concurrency: events.Concurrency{Limit: limit, Max: 1}, N: 1, State: events.PermitStateAsked, At: asked}
	})
	waits := func() any { return w.do("GET", "/v1/tasks/x", "").json(t)["waiting_for"].([]any)[0] }
	require.Equal(t, map[string]any{"kind": "concurrency", "for": "payment/c-17", "since": asked.String()}, waits())
	w.engine.PutLimit(t, limit, 1, events.Permit{GrantedAt: 1, Link: events.Link{Task: "order-9", Run: 1, N: 1}}, events.Permit{Link: events.Link{Task: "x", Run: 1, N: 1}})
	require.Equal(t, "payment/c-17: held by order-9", waits().(map[string]any)["for"])
	now := w.engine.Now() // it cannot be asked while the engine changes
	w.engine.Change("order-9", &events.TaskParked{}, func(t *events.Task) {
		t.State, t.ParkedAt = events.TaskStateError, events.At(now.Add(-3*time.Hour-100*time.Millisecond))
	})
	require.Contains(t, waits().(map[string]any)["for"], "payment/c-17: held by order-9 (parked 3h")
	w.engine.Change("order-9", &events.TaskPaused{}, func(t *events.Task) {
		t.State, t.Paused = events.TaskStateProcessing, &events.Paused{Since: events.At(now.Add(-2*time.Hour - 100*time.Millisecond))}
	})
	require.Contains(t, waits().(map[string]any)["for"], "held by order-9 (paused 2h")
}

func TestAListSaysWhatTasksWaitForIfAsked(t *testing.T) {
	t.Parallel()
	w := setup(t)
	const limit = "concurrency/payment/c-17"
	for _, id := range []string{"queued", "asks", "ended"} {
		w.do("PUT", "/v1/tasks/"+id, good)
	}
	w.engine.Change("queued", &events.StepStarted{Step: "reserve"}, func(t *events.Task) { t.State = events.TaskStateProcessing })
	w.engine.Waiting = map[string][]events.ReadyKey{"queued": {{Agent: "stock", Path: "reserve", Operation: events.Do}}}
	w.engine.Change("asks", &events.PermitAsked{}, func(t *events.Task) {
		t.Permit = &events.TaskPermit{Concurrency: events.Concurrency{Limit: limit, Max: 1}, N: 1, State: events.PermitStateAsked, At: 5}
	})
	w.engine.PutLimit(t, limit, 1, events.Permit{GrantedAt: 1, Link: events.Link{Task: "queued", Run: 1, N: 1}})
	w.engine.Finish("ended")
	for _, fields := range []string{"id,waiting_for", "id,waiting_for,steps"} { // without the steps, and with them
		require.Equal(t, map[string]any{
			"queued": []any{map[string]any{"step": "reserve", "kind": "capacity", "for": "do of agent stock"}},
			"asks":   []any{map[string]any{"kind": "concurrency", "for": "payment/c-17", "since": events.Instant(5).String()}}, "ended": nil,
		}, waitingOf(t, w.do("GET", "/v1/tasks?fields="+fields, "")))
	}
	require.NotContains(t, w.do("GET", "/v1/tasks", "").body, "waiting_for")
}

// waitingOf returns what each task of a list waits for, by its ID.
func waitingOf(t *testing.T, r reply) map[string]any {
	t.Helper()
	require.Equal(t, 200, r.status, r.body)
	waits := map[string]any{}
	for _, task := range r.json(t)["tasks"].([]any) {
		d := task.(map[string]any)
		waits[d["id"].(string)] = d["waiting_for"]
	}
	return waits
}

func TestAListOfTasksByWhatTheyWaitFor(t *testing.T) {
	t.Parallel()
	w := setup(t)
	for _, id := range []string{"queued", "parked", "signal", "ended"} {
		w.do("PUT", "/v1/tasks/"+id, good)
	}
	w.engine.Change("queued", &events.StepStarted{Step: "reserve"}, func(t *events.Task) { t.State = events.TaskStateProcessing })
	w.engine.Waiting = map[string][]events.ReadyKey{"queued": {{Agent: "stock", Path: "reserve", Operation: events.Do}}}
	w.engine.Change("parked", &events.TaskParked{}, func(t *events.Task) { t.State = events.TaskStateError })
	w.engine.Change("signal", &events.StepStarted{Step: "approve"}, func(t *events.Task) {
		t.State = events.TaskStateProcessing
		t.Steps = append(t.Steps, &events.Step{Path: "approve", State: events.StepStateWaiting, Wait: &events.Wait{Signals: []string{"approval"}}})
	})
	w.engine.Finish("ended")
	for query, want := range map[string][]string{
		"waiting_for=capacity":               {"queued"},
		"waiting_for=agent":                  {},
		"waiting_for=signal":                 {"signal"},
		"waiting_for=operator":               {"parked"},
		"agent=stock":                        {"queued"},
		"agent=card":                         {},
		"agent=stock&waiting_for=signal":     {},
		"waiting_for=signal&state=processed": {},
		"agent=stock&state=processing":       {"queued"},
	} {
		for _, fields := range []string{"", "&fields=id", "&fields=id,waiting_for"} {
			ids := []string{}
			for id := range waitingOf(t, w.do("GET", "/v1/tasks?"+query+fields, "")) {
				ids = append(ids, id)
			}
			require.Equal(t, want, ids, query+fields)
		}
	}
	r := w.do("GET", "/v1/tasks?waiting_for=signl", "")
	require.Equal(t, 422, r.status)
	require.Contains(t, r.body, `did you mean \"signal\"`)
}
