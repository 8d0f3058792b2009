package api_test

import (
	"fmt"
	"testing"

	"github.com/sagalog/sagalog/events"
	"github.com/sagalog/sagalog/internal/api"
	"github.com/sagalog/sagalog/internal/api/apitest"
	"github.com/stretchr/testify/require"
)

// linkOf returns a link of a task, which has a permit if granted is not zero.
func linkOf(t *events.Task, granted events.Instant) events.Permit {
	return events.Permit{GrantedAt: granted, Link: events.Link{Task: t.ID, Incarnation: t.Incarnation, Run: 1, N: 1}}
}

func TestALimitNamesItsHoldersAndWaiters(t *testing.T) {
	t.Parallel()
	w := setup(t)
	const limit = "concurrency/payment/c/17"
	waiting := map[string]events.PermitState{"x": events.PermitStateAsked, "order-9": events.PermitStateGranted, "order-8": events.PermitStateGranted}
	links := map[string]events.Permit{}
	for id, state := range waiting {
		w.do("PUT", "/v1/tasks/"+id, good)
		w.engine.Change(id, &events.PermitAsked{}, func(t *events.Task) {
			t.Permit = &events.TaskPermit{Concurrency: events.Concurrency{Limit: limit, Max: 2}, N: 1, State: state, At: 5}
			links[id] = linkOf(t, 0)
			if id == "order-9" {
				t.State, t.ParkedAt = events.TaskStateError, 7
			}
		})
	}
	held := func(id string, ends events.Instant) events.Permit {
		x := links[id]
		x.GrantedAt, x.EndsAt = 6, ends
		return x
	}
	gone := events.Permit{Link: events.Link{Task: "gone", Incarnation: "1-a/1", Run: 1, N: 1}, Priority: 3}
	w.engine.PutLimit(t, limit, 2, held("order-9", 0), held("order-8", 9), links["x"], gone)
	w.engine.PutLimit(t, "concurrency/payment/idle", 1, held("order-8", 0))

	r := w.do("GET", "/v1/limits/payment%2Fc%2F17", "")
	require.Equal(t, 200, r.status, r.body)
	require.Equal(t, api.LimitDocument{
		Limit: "payment/c/17", Max: 2, Held: 2, Halted: 1, Waiting: 2,
		Holders: []api.LimitLink{
			{Task: "order-9", State: events.TaskStateError, Since: 5, Halted: "parked", HaltedAt: 7},
			{Task: "order-8", State: events.TaskStatePending, Since: 5, FreeAt: 9},
		},
		Waiters: []api.LimitLink{{Task: "gone", Priority: 3}, {Task: "x", State: events.TaskStatePending, Since: 5}},
	}, into[api.LimitDocument](t, r))

	first := into[api.WaitingList](t, w.do("GET", "/v1/limits/payment%2Fc%2F17/waiting?limit=1", ""))
	require.Equal(t, []any{2, []api.LimitLink{{Task: "gone", Priority: 3}}}, []any{first.Waiting, first.Waiters})
	second := into[api.WaitingList](t, w.do("GET", "/v1/limits/payment%2Fc%2F17/waiting?limit=1&cursor="+first.Next, ""))
	require.Equal(t, []api.LimitLink{{Task: "x", State: events.TaskStatePending, Since: 5}}, second.Waiters)
	require.Empty(t, second.Next)
	require.Equal(t, 422, w.do("GET", "/v1/limits/payment%2Fc%2F17/waiting?cursor=x", "").status)
	require.Equal(t, 404, w.do("GET", "/v1/limits/payment%2Fnobody/waiting", "").status)

	list := into[api.LimitsList](t, w.do("GET", "/v1/limits", ""))
	require.Equal(t, []api.LimitDocument{{Limit: "payment/c/17", Max: 2, Held: 2, Halted: 1, Waiting: 2}}, list.Limits)
	require.Len(t, into[api.LimitsList](t, w.do("GET", "/v1/limits?all=true", "")).Limits, 2)

	r = w.do("GET", "/v1/limits/payment%2Fc-18", "")
	require.Equal(t, 404, r.status)
	require.Contains(t, r.body, `There is no limit \"payment/c-18\"`)
}

// The list is cut at the limits with the fewest waiting tasks, and says how many it leaves out.
func TestAListOfLimitsIsBounded(t *testing.T) {
	t.Parallel()
	w := setup(t)
	link := func(id string) events.Permit { return events.Permit{Link: events.Link{Task: id, Run: 1, N: 1}} }
	for i := range 1001 {
		w.engine.PutLimit(t, fmt.Sprintf("concurrency/payment/%04d", i), 1, link("a"))
	}
	w.engine.PutLimit(t, "concurrency/payment/most", 1, link("a"), link("b"))
	list := into[api.LimitsList](t, w.do("GET", "/v1/limits", ""))
	require.Len(t, list.Limits, 1000)
	require.Equal(t, "payment/most", list.Limits[0].Limit)
	require.Equal(t, 2, list.More)
}

// A limit is paused by a record with its name as the key, in its home partition, whether a task knows the limit or only its workflow exists.
func TestALimitIsPausedAndResumed(t *testing.T) {
	t.Parallel()
	w := setup(t)
	w.engine.PutLimit(t, "concurrency/payment/c-17", 1, events.Permit{GrantedAt: 1, Link: events.Link{Task: "order-9", Run: 1, N: 1}})
	r := w.do("POST", "/v1/limits/payment%2Fc-17/pause?wait=5s", `{"reason":"why","by":"ada"}`, "Idempotency-Key", "q1")
	require.Equal(t, 200, r.status, r.body)
	d := into[api.LimitReceipt](t, r)
	require.Equal(t, []any{"q1", "payment/c-17", "granted", "ada"}, []any{d.Request, d.Limit, d.Result, d.Paused.By})
	asked := w.engine.Inputs(events.Reports)
	require.Len(t, asked, 1)
	require.JSONEq(t, `{"id":"q1","limit":"concurrency/payment/c-17","reason":"why","by":"ada"}`, string(asked[0].Value))
	require.Equal(t, "concurrency/payment/c-17", string(asked[0].Key))
	require.Equal(t, events.TypeLimitPause, asked[0].Header(events.HeaderType))
	require.Equal(t, events.Home("concurrency/payment/c-17", apitest.Partitions), asked[0].Partition)
	require.Equal(t, "why", into[api.LimitDocument](t, w.do("GET", "/v1/limits/payment%2Fc-17", "")).Paused.Reason)
	require.Len(t, into[api.LimitsList](t, w.do("GET", "/v1/limits", "")).Limits, 1, "a paused limit is listed, although nothing waits")

	require.Equal(t, 202, w.do("POST", "/v1/limits/order%2Fnew/pause", "").status, "its workflow exists")
	d = into[api.LimitReceipt](t, w.do("POST", "/v1/limits/payment%2Fc-17/resume?wait=5s", ""))
	require.Equal(t, "granted", d.Result)
	require.Nil(t, d.Paused)
	for name, want := range map[string]string{"nobody%2Fnew": `there is no workflow \"nobody\"`, "order": `There is no limit \"order\"`} {
		r := w.do("POST", "/v1/limits/"+name+"/pause", "")
		require.Equal(t, 404, r.status)
		require.Contains(t, r.body, want)
	}
	require.Equal(t, 422, w.do("POST", "/v1/limits/order%2Fnew/pause", `{"why":"x"}`).status)
}

// The order of one limit says nothing of that of another.
func TestACursorOfAnotherLimitIsRefused(t *testing.T) {
	t.Parallel()
	w := setup(t)
	at := func(epoch, seq uint64, id string) events.Permit {
		return events.Permit{Asked: events.Position{Epoch: events.Epoch{N: epoch, ID: "e"}, Sequence: seq}, Link: events.Link{Task: id, Run: 1, N: 1}}
	}
	w.engine.PutLimit(t, "concurrency/payment/a", 1, at(9, 1, "a1"), at(9, 2, "a2"))
	w.engine.PutLimit(t, "concurrency/payment/b", 1, at(1, 1, "b1"), at(1, 2, "b2"))
	first := into[api.WaitingList](t, w.do("GET", "/v1/limits/payment%2Fa/waiting?limit=1", ""))
	r := w.do("GET", "/v1/limits/payment%2Fb/waiting?cursor="+first.Next, "")
	require.Equal(t, 422, r.status, r.body)
}

func TestNobodyWaitsIsAnEmptyList(t *testing.T) {
	t.Parallel()
	w := setup(t)
	w.do("PUT", "/v1/limits/bank", `{"max":2}`)
	r := w.do("GET", "/v1/limits/bank/waiting", "")
	require.Equal(t, 200, r.status, r.body)
	require.NotContains(t, r.body, "null")
}
