package api_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/sagalog/sagalog/events"
	"github.com/sagalog/sagalog/internal/api"
	"github.com/sagalog/sagalog/internal/api/apitest"
	"github.com/stretchr/testify/require"
)

func contextOf(testing.TB) (context.Context, context.CancelFunc) {
	return context.WithCancel(context.Background())
}

func TestATaskIsShownWithAllStepsOfItsDefinition(t *testing.T) {
	t.Parallel()
	w := setup(t)
	w.do("PUT", "/v1/tasks/x", `{"workflow":"order","input":{"item":"lamp","big":12345678901234567890},"labels":{"region":"north"}}`)
	w.engine.Change("x", &events.StepStarted{Step: "reserve"}, func(t *events.Task) {
		t.State = events.TaskStateProcessing
		t.Steps = []*events.Step{{Path: "reserve", Agent: "stock", State: events.StepStateRunning, Attempt: 2, StartedAt: t.UpdatedAt,
			CompleteBy: t.UpdatedAt.Add(5 * time.Second), FailureCount: 1, Error: &events.Error{Class: events.ClassRetryable, Message: "busy"}}}
		t.FailureCount, t.Reason = 1, "why it was parked before it went on"
	})
	r := w.do("GET", "/v1/tasks/x", "")
	require.Equal(t, 200, r.status)
	require.JSONEq(t, `{"id":"x","run":1,"workflow":"order","version":1,"state":"processing","priority":0,"labels":{"region":"north"},
		"input":{"item":"lamp","big":12345678901234567890},"submitted_at":"2026-11-21T14:00:02.000Z","updated_at":"2026-11-21T14:00:03.000Z",
		"locked_by":"node-a","complete_by":"2026-11-21T14:00:08.000Z","failure_count":1,"steps":[
		{"id":"reserve","agent":"stock","state":"running","attempt":2,"started_at":"2026-11-21T14:00:03.000Z","complete_by":"2026-11-21T14:00:08.000Z",
		 "failure_count":1,"error":{"class":"retryable","message":"busy"}},
		{"id":"charge","agent":"bank","state":"not_started","attempt":0,"failure_count":0},
		{"id":"ship","agent":"post","state":"not_started","attempt":0,"failure_count":0}]}`, r.body)
	require.Contains(t, r.body, `"big":12345678901234567890`, "numbers keep their digits")

	w.engine.Finish("x")
	require.NotContains(t, w.do("GET", "/v1/tasks/x", "").json(t), "locked_by")
	require.Equal(t, 404, w.do("GET", "/v1/tasks/y", "").status)
}

func TestAReadWithATokenIsNotOlderThanTheSubmission(t *testing.T) {
	t.Parallel()
	w := setup(t)
	w.engine.Manual = true
	tok := w.do("PUT", "/v1/tasks/x", good).json(t)["token"].(string)
	require.Equal(t, 404, w.do("GET", "/v1/tasks/x", "").status)

	late := w.do("GET", "/v1/tasks/x?wait=10ms&token="+tok, "")
	require.Equal(t, 503, late.status)
	require.Equal(t, "not-yet", late.problem(t).Code())
	require.Equal(t, "1", late.header.Get("Retry-After"))

	got := make(chan reply)
	go func() { got <- w.do("GET", "/v1/tasks/x?token="+tok, "") }()
	w.engine.Judge()
	r := <-got
	require.Equal(t, 200, r.status, r.body)
	require.Equal(t, "pending", r.json(t)["state"])
}

func TestAReadWithATokenSaysWhyAnInputWasRejected(t *testing.T) {
	t.Parallel()
	w := setup(t)
	w.engine.Manual = true
	first := w.do("PUT", "/v1/tasks/x", good).json(t)["token"].(string)
	other := w.do("PUT", "/v1/tasks/x", `{"workflow":"order","input":{"item":"desk"}}`)
	require.Equal(t, 202, other.status, "the owner has not decided yet")
	second := w.do("PUT", "/v1/tasks/x", good).json(t)["token"].(string)
	w.engine.Judge()
	require.Equal(t, 200, w.do("GET", "/v1/tasks/x?token="+first, "").status)
	require.Equal(t, 200, w.do("GET", "/v1/tasks/x?token="+second, "").status, "a duplicate is answered with the task")
	r := w.do("GET", "/v1/tasks/x?token="+other.json(t)["token"].(string), "")
	require.Equal(t, 409, r.status, r.body)
	require.Equal(t, "conflict", r.problem(t).Reason)

	w.engine.Finish("x")
	w.engine.Manual = true
	for _, bad := range []string{"zzz", "cy8", "!", "cy85OS8w", "cy8wLy05"} {
		require.Equal(t, 422, w.do("GET", "/v1/tasks/x?token="+bad, "").status, bad)
	}
}

func TestWaitReturnsWhenTheTaskHasEndedOrIsParkedOrTheTimeIsOver(t *testing.T) {
	t.Parallel()
	w := setup(t)
	w.do("PUT", "/v1/tasks/x", good)
	r := w.do("GET", "/v1/tasks/x?wait=20ms", "")
	require.Equal(t, "pending", r.json(t)["state"])
	for _, end := range []struct {
		id, state string
		end       func(string)
	}{{"p", "processed", w.engine.Finish}, {"q", "error", func(id string) { w.engine.Park(id, "why") }}} {
		w.do("PUT", "/v1/tasks/"+end.id, good)
		got := make(chan reply)
		go func() { got <- w.do("GET", "/v1/tasks/"+end.id+"?wait=30s", "") }()
		w.engine.Change(end.id, &events.StepStarted{}, func(t *events.Task) { t.State = events.TaskStateProcessing })
		end.end(end.id)
		require.Equal(t, end.state, (<-got).json(t)["state"])
	}
}

func TestTheListFiltersAndPages(t *testing.T) {
	t.Parallel()
	w := setup(t)
	for _, id := range []string{"a", "b", "c", "d", "e"} {
		w.do("PUT", "/v1/tasks/"+id, `{"workflow":"order","input":{"item":"x"},"labels":{"k":"`+id+`","all":"1"}}`)
	}
	w.engine.Finish("b")
	ids := func(query string) (list []string, next string) {
		r := w.do("GET", "/v1/tasks?"+query, "")
		require.Equal(t, 200, r.status, r.body)
		v := r.json(t)
		for _, x := range v["tasks"].([]any) {
			list = append(list, x.(map[string]any)["id"].(string))
		}
		next, _ = v["next"].(string)
		return list, next
	}
	all, next := ids("")
	require.Equal(t, []string{"e", "d", "c", "b", "a"}, all)
	require.Empty(t, next)
	page, next := ids("limit=2")
	require.Equal(t, []string{"e", "d"}, page)
	w.do("PUT", "/v1/tasks/f", good)
	page, _ = ids("limit=2&cursor=" + next)
	require.Equal(t, []string{"c", "b"}, page, "writes in between do not shift the pages")
	list, _ := ids("state=processed")
	require.Equal(t, []string{"b"}, list)
	list, _ = ids("label=k:c&label=all:1&workflow=order")
	require.Equal(t, []string{"c"}, list)
	list, _ = ids("workflow=nope")
	require.Empty(t, list)
	list, _ = ids("until=2026-11-21T14:00:00Z")
	require.Empty(t, list)
	list, _ = ids("since=1h&limit=1")
	require.Equal(t, []string{"f"}, list)

	for query, parameter := range map[string]string{
		"state=processing2": "state", "limit=0": "limit", "limit=1001": "limit", "limit=x": "limit", "label=k": "label",
		"since=yesterday": "since", "until=x": "until", "cursor=x": "cursor", "stat=error": "stat",
	} {
		r := w.do("GET", "/v1/tasks?"+query, "")
		require.Equal(t, 422, r.status, query)
		require.Equal(t, parameter, r.problem(t).Errors[0].Parameter, query)
	}
}

func TestACancelAndARetryAreRequestsInTheLog(t *testing.T) {
	t.Parallel()
	w := setup(t)
	w.do("PUT", "/v1/tasks/a%2Fb", good)
	r := w.do("POST", "/v1/tasks/a%2Fb/cancel", `{"reason":"changed my mind"}`, "Idempotency-Key", "k-1")
	require.Equal(t, 202, r.status, r.body)
	require.Equal(t, "k-1", r.json(t)["request"])
	read := w.do("GET", "/v1/tasks/a%2Fb?token="+r.json(t)["token"].(string), "")
	require.Equal(t, "undoing", read.json(t)["state"])
	in := w.engine.Inputs(events.Reports)
	require.Len(t, in, 1)
	require.Equal(t, events.RequestCancel.Type(), in[0].Header(events.HeaderType))
	require.JSONEq(t, `{"id":"k-1","kind":"cancel","task":"a/b","reason":"changed my mind"}`, string(in[0].Value))

	again := w.do("POST", "/v1/tasks/a%2Fb/cancel", "", "Idempotency-Key", "k-1")
	require.Equal(t, 200, again.status)
	require.Len(t, w.engine.Inputs(events.Reports), 1)

	w.do("PUT", "/v1/tasks/p", good)
	w.engine.Park("p", "drone broken")
	w.engine.Change("p", &events.StepFailed{}, func(t *events.Task) { t.Steps = []*events.Step{{Path: "charge", State: events.StepStateFailed}} })
	r = w.do("POST", "/v1/tasks/p/retry", `{"step":"charge"}`)
	require.Equal(t, 202, r.status, r.body)
	require.NotEmpty(t, r.json(t)["request"])
	require.Equal(t, "processing", w.do("GET", "/v1/tasks/p?token="+r.json(t)["token"].(string), "").json(t)["state"])
}

func TestAnImpossibleRequestIsRefused(t *testing.T) {
	t.Parallel()
	w := setup(t)
	w.do("PUT", "/v1/tasks/x", good)
	w.do("PUT", "/v1/tasks/ended", good)
	w.engine.Finish("ended")
	w.do("PUT", "/v1/tasks/pivot", good)
	w.engine.Change("pivot", &events.StepCompleted{}, func(t *events.Task) { t.PivotPassed = true })
	for _, c := range []struct {
		path, body string
		status     int
		pointer    string
	}{
		{"/v1/tasks/none/cancel", "", 404, ""},
		{"/v1/tasks/ended/cancel", "", 409, ""},
		{"/v1/tasks/pivot/cancel", "", 409, ""},
		{"/v1/tasks/x/retry", `{"step":"chrge"}`, 422, "/step"},
		{"/v1/tasks/x/retry", `{"stp":"charge"}`, 422, "/stp"},
		{"/v1/tasks/x/retry", `{"step":7}`, 422, "/step"},
		{"/v1/tasks/x/retry", `{"step"`, 400, ""},
		{"/v1/tasks/x/retry", `[]`, 422, ""},
		{"/v1/tasks/x/retry", strings.Repeat(" ", events.MaxPayloadBytes+20_000), 413, ""},
	} {
		r := w.do("POST", c.path, c.body)
		require.Equal(t, c.status, r.status, c.path+c.body+r.body)
		p := r.problem(t)
		if c.pointer != "" {
			require.Equal(t, c.pointer, p.Errors[0].Pointer)
		}
	}
	require.Equal(t, 422, w.do("POST", "/v1/tasks/x/cancel", "", "Idempotency-Key", strings.Repeat("k", 300)).status)
	require.Empty(t, w.engine.Inputs(events.Reports))
}

// Such a cancel has no effect: the task is being undone already, and only a retry goes on with that.
func TestACancelOfATaskParkedInItsUndoIsRefused(t *testing.T) {
	t.Parallel()
	w := setup(t)
	for _, id := range []string{"undoing", "going"} {
		w.do("PUT", "/v1/tasks/"+id, good)
	}
	require.Equal(t, 202, w.do("POST", "/v1/tasks/undoing/cancel", "", "Idempotency-Key", "k-1").status)
	for id, from := range map[string]events.TaskState{"undoing": events.TaskStateUndoing, "going": events.TaskStateProcessing} {
		w.engine.Park(id, "the undo of charge failed")
		w.engine.Change(id, &events.TaskParked{}, func(t *events.Task) { t.ParkedFrom = from })
	}
	r := w.do("POST", "/v1/tasks/undoing/cancel", "")
	require.Equal(t, 409, r.status, r.body)
	require.Equal(t, "refused", r.problem(t).Code())
	require.Equal(t, "error", r.problem(t).State)
	require.Contains(t, r.problem(t).Detail, "then retry the task")
	require.Len(t, w.engine.Inputs(events.Reports), 1, "nothing was appended")
	require.Equal(t, 200, w.do("POST", "/v1/tasks/undoing/cancel", "", "Idempotency-Key", "k-1").status, "a repeat of the cancel that had its effect")
	require.Equal(t, 202, w.do("POST", "/v1/tasks/undoing/retry", "").status)
	require.Equal(t, 202, w.do("POST", "/v1/tasks/going/cancel", "").status, "a task that is parked on its way forward is undone")
}

func TestARequestThatWaitsIsAnsweredWithItsOutcome(t *testing.T) {
	t.Parallel()
	w := setup(t)
	w.do("PUT", "/v1/tasks/x", good)
	r := w.do("POST", "/v1/tasks/x/retry?wait=5s", "", "Idempotency-Key", "k-1")
	require.Equal(t, 409, r.status, r.body)
	require.Equal(t, "refused", r.problem(t).Code())
	require.Contains(t, r.problem(t).Reason, "nothing can be retried")
	require.Equal(t, "pending", r.problem(t).State)
	r = w.do("POST", "/v1/tasks/x/retry", "", "Idempotency-Key", "k-1")
	require.Equal(t, 409, r.status, "the same request again is answered the same")
	require.Len(t, w.engine.Inputs(events.Reports), 1)
	r = w.do("POST", "/v1/tasks/x/resume", "", "Idempotency-Key", "k-0")
	require.Equal(t, 202, r.status, r.body)
	r = w.do("GET", fmt.Sprintf("/v1/tasks/x?token=%v", r.json(t)["token"]), "")
	require.Equal(t, 409, r.status, "a read with its token says that the request is refused: %s", r.body)
	require.Contains(t, r.problem(t).Reason, "not paused")
	r = w.do("POST", "/v1/tasks/x/cancel?wait=5s", "", "Idempotency-Key", "k-2")
	require.Equal(t, 200, r.status, r.body)
	got := r.json(t)
	require.Equal(t, []any{"k-2", "x", "cancel", "granted", "1-e/3", "undoing"}, []any{got["request"], got["id"], got["verb"], got["result"], got["position"], got["state"]})

	require.Equal(t, map[string]any{"request": "k-2", "task": "x", "verb": "cancel", "result": "granted", "position": "1-e/3", "state": "undoing"},
		w.do("GET", "/v1/requests/k-2?task=x", "").json(t))
	asked := w.do("GET", "/v1/requests/k-1?task=x", "").json(t)
	require.Equal(t, "refused", asked["result"])
	require.Contains(t, asked["reason"], "nothing can be retried")
	for _, unknown := range []string{"k-3?task=x", "k-1?task=y"} {
		require.Equal(t, "unknown", w.do("GET", "/v1/requests/"+unknown, "").json(t)["result"])
	}
	require.Equal(t, 422, w.do("GET", "/v1/requests/k-1", "").status)
	require.Equal(t, 422, w.do("POST", "/v1/tasks/x/cancel?wait=x", "").status)

	w.engine.Manual = true
	r = w.do("POST", "/v1/tasks/x/retry?wait=1ms", "")
	require.Equal(t, 202, r.status, "it is not judged in time")
	require.NotContains(t, r.json(t), "result")
}

func TestACancelRightAfterItsSubmissionFindsTheTask(t *testing.T) {
	t.Parallel()
	w := setup(t)
	w.engine.Manual = true
	w.do("PUT", "/v1/tasks/x", good)
	got := make(chan reply)
	go func() { got <- w.do("POST", "/v1/tasks/x/cancel", "") }()
	w.engine.Judge()
	require.Equal(t, 202, (<-got).status)
}

func TestWorkflowsAreListedReadAndApplied(t *testing.T) {
	t.Parallel()
	w := setup(t)
	r := w.do("PUT", "/v1/workflows/new", "workflow: new\n", "Content-Type", "application/yaml")
	require.JSONEq(t, `{"name":"new","version":1,"hash":"hash-new-1","changed":true}`, r.body)
	dry := w.do("PUT", "/v1/workflows/new?dry_run=true", "workflow: new2\n")
	require.JSONEq(t, `{"name":"new","version":2,"hash":"hash-new-2","changed":true,"dry_run":true}`, dry.body)
	require.JSONEq(t, `{"name":"new","version":1,"hash":"hash-new-1","changed":false}`, w.do("PUT", "/v1/workflows/new", "workflow: new\n").body)
	bad := w.do("PUT", "/v1/workflows/new", "bad")
	require.Equal(t, 422, bad.status)
	p := bad.problem(t)
	require.Equal(t, []api.ProblemPlace{
		{Pointer: "/steps/a", Message: "has no agent", Line: 3, Column: 5},
		{Pointer: "/steps/b/needs/0", Message: `is not a step; did you mean "a"?`, Line: 7, Column: 12},
	}, p.Errors)

	list := w.do("GET", "/v1/workflows", "").json(t)["workflows"].([]any)
	require.Len(t, list, 2)
	one := w.do("GET", "/v1/workflows/order?version=1", "").json(t)
	require.Equal(t, map[string]any{"workflow": "order"}, one["definition"])
	require.Len(t, one["steps"], 3)
	require.Equal(t, 404, w.do("GET", "/v1/workflows/ordr", "").status)
	require.Equal(t, 404, w.do("GET", "/v1/workflows/order?version=2", "").status)
	require.Equal(t, 422, w.do("GET", "/v1/workflows/order?version=0", "").status)
	require.Equal(t, 413, w.do("PUT", "/v1/workflows/new", strings.Repeat("#", api.DefaultDefinitionBytes+1)).status)
}

func TestTheEngineIsDescribed(t *testing.T) {
	t.Parallel()
	w := setup(t)
	agents := w.do("GET", "/v1/agents", "").json(t)["agents"].([]any)
	require.Equal(t, map[string]any{"agent": "bank", "instance": "i-1", "node": "node-a", "operations": []any{"do"}, "capacity": 8.0,
		"in_flight": 0.0, "health": "degraded", "partitions": []any{}, "started_at": "2026-11-21T14:00:00.000Z",
		"last_seen": "2026-11-21T14:01:00.000Z"}, agents[0])
	var partitions []map[string]any
	require.NoError(t, json.Unmarshal([]byte(w.do("GET", "/v1/partitions", "").body), &partitions))
	require.Len(t, partitions, apitest.Partitions)
	require.Equal(t, map[string]any{"partition": 0.0, "owner": "node-a", "epoch": "1-e", "since": "2026-11-21T14:00:00.000Z", "applied_offset": 0.0,
		"end_offset": 0.0, "begins": beginsOf(0), "state_hash": strings.Repeat("0", 32), "live": 0.0, "due": 0.0}, partitions[0])
	require.JSONEq(t, `{"version":"1.2.3","namespace":"test","node":"node-a","partitions":4,"demo":true}`, w.do("GET", "/v1/info", "").body)
	require.Equal(t, 200, w.do("GET", "/healthz", "").status)
	require.Equal(t, 200, w.do("GET", "/readyz", "").status)
	w.engine.Late = []string{"partition 0: an effect for alerts has waited for 2m0s"}
	require.JSONEq(t, `{"status":"ok","delayed":["partition 0: an effect for alerts has waited for 2m0s"]}`, w.do("GET", "/readyz", "").body)
	w.engine.NotReady = http.ErrServerClosed
	require.Equal(t, 503, w.do("GET", "/readyz", "").status)
	metrics := w.do("GET", "/metrics", "").body
	require.Contains(t, metrics, `sagalog_api_requests_total{code="200",method="GET",route="/v1/agents"} 1`)
	require.Contains(t, metrics, `sagalog_api_request_duration_seconds_count{code="200",method="GET",route="/v1/agents"} 1`)
}

func TestTheExampleIsBrokenAndFixed(t *testing.T) {
	t.Parallel()
	w := setup(t)
	r := w.do("PUT", "/v1/demo/break", `{"service":"drone","mode":"hang","for":"5s"}`)
	require.Equal(t, 200, r.status, r.body)
	b, _ := w.engine.Broken("drone")
	require.Equal(t, api.Breakage{Service: "drone", Mode: "hang", For: 5 * time.Second}, b)
	r = w.do("PUT", "/v1/demo/break", `{"service":"dron","mode":"slo","for":"5"}`)
	require.Equal(t, 422, r.status)
	require.Len(t, r.problem(t).Errors, 3)
	require.Equal(t, 204, w.do("DELETE", "/v1/demo/break?service=drone", "").status)
	_, broken := w.engine.Broken("drone")
	require.False(t, broken)
	require.Equal(t, 422, w.do("DELETE", "/v1/demo/break?service=x", "").status)

	none := setup(t, func(c *api.Config) { c.Demo = nil })
	require.Equal(t, 404, none.do("PUT", "/v1/demo/break", `{}`).status)
}

func TestDeadLettersAreListedReadAndRedriven(t *testing.T) {
	t.Parallel()
	w := setup(t)
	bury := func(key, value, reason string) {
		w.engine.Bury(events.Submissions, events.Record{Partition: events.Home(key, apitest.Partitions), Offset: 7, Key: []byte(key), Value: []byte(value),
			Headers: []events.Header{{Key: "team", Value: []byte("red")}, {Key: events.HeaderDefinition, Value: []byte("old")}}}, reason)
	}
	for _, k := range []string{"a", "b", "c", "d", "e"} {
		bury(k, `{"workflow":"order","input":{"item":"x"}}`, "unknown_workflow")
	}
	bury("bytes", "\xff\x00", "unreadable")
	var keys []string
	cursor := ""
	for {
		v := w.do("GET", "/v1/dead-letters?limit=2&cursor="+cursor, "").json(t)
		for _, d := range v["dead_letters"].([]any) {
			keys = append(keys, d.(map[string]any)["key"].(string))
		}
		var more bool
		if cursor, more = v["next"].(string); !more {
			break
		}
		bury("late"+cursor[:3], "{}", "unreadable") // dead letters that arrive meanwhile do not shift the pages
	}
	require.Equal(t, []string{"bytes", "e", "d", "c", "b", "a"}, keys)

	list := w.do("GET", "/v1/dead-letters?limit=1000", "").json(t)["dead_letters"].([]any)
	byKey := map[string]map[string]any{}
	for _, d := range list {
		byKey[d.(map[string]any)["key"].(string)] = d.(map[string]any)
	}
	require.Equal(t, "/wA=", byKey["bytes"]["value_base64"])
	id := byKey["a"]["id"].(string)
	one := w.do("GET", "/v1/dead-letters/"+id, "").json(t)
	require.Equal(t, byKey["a"], one)
	require.Equal(t, "unknown_workflow", one["reason"])
	require.Equal(t, "test.submissions", one["topic"])
	require.EqualValues(t, 7, one["offset"])
	require.Equal(t, map[string]any{"team": "red", "sagalog-definition": "old"}, one["headers"])
	require.Equal(t, `{"workflow":"order","input":{"item":"x"}}`, one["value"])

	r := w.do("POST", "/v1/dead-letters/"+id+"/redrive", "")
	require.Equal(t, 202, r.status, r.body)
	require.Equal(t, "a", r.json(t)["id"])
	in := w.engine.Inputs(events.Submissions)
	require.Len(t, in, 1)
	require.Equal(t, "red", in[0].Header("team"))
	require.Equal(t, "hash-order-1", in[0].Header(events.HeaderDefinition))
	require.Empty(t, in[0].Header(api.DeadHeaderReason))
	require.Equal(t, 200, w.do("POST", "/v1/dead-letters/"+id+"/redrive", "").status, "a second redrive changes nothing")
	require.Equal(t, 400, w.do("POST", "/v1/dead-letters/"+byKey["bytes"]["id"].(string)+"/redrive", "").status)
	for _, missing := range []string{"x", "submissions-0-999", "submissions-9-0", "reports-0-0", "submissions--1-0"} {
		require.Equal(t, 404, w.do("GET", "/v1/dead-letters/"+missing, "").status, missing)
	}
	require.Equal(t, 422, w.do("GET", "/v1/dead-letters?cursor=x", "").status)
}

func TestARejectedReportIsRedrivenToItsHome(t *testing.T) {
	t.Parallel()
	w := setup(t)
	w.do("PUT", "/v1/tasks/x", good)
	w.engine.Bury(events.Reports, events.Record{Partition: 0, Key: []byte("x"), Value: []byte(`{}`),
		Headers: []events.Header{{Key: events.HeaderType, Value: []byte(events.RequestCancel.Type())}, {Key: events.HeaderID, Value: []byte("r")}}}, "expired")
	r := w.do("POST", "/v1/dead-letters/reports-0-0/redrive", "")
	require.Equal(t, 202, r.status, r.body)
	require.Equal(t, "undoing", w.do("GET", "/v1/tasks/x?token="+url.QueryEscape(r.json(t)["token"].(string)), "").json(t)["state"])
}
