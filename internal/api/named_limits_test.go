package api_test

import (
	"strings"
	"testing"

	"github.com/sagalog/sagalog/events"
	"github.com/sagalog/sagalog/internal/api"
	"github.com/sagalog/sagalog/internal/api/apitest"
	"github.com/stretchr/testify/require"
)

// A named limit is applied once, shows the attempts that have its permits, and is deleted unless a workflow names it.
func TestANamedLimit(t *testing.T) {
	t.Parallel()
	w := setup(t)
	const bank = "/v1/limits/bank"
	r := w.do("PUT", bank, `{"limit":"bank","max":2}`)
	require.Equal(t, 200, r.status, r.body)
	d := into[api.LimitDocument](t, r)
	require.Equal(t, []any{"bank", true, 2, true}, []any{d.Limit, d.Named, d.Max, d.Changed})
	require.NotZero(t, d.AppliedAt)
	require.False(t, into[api.LimitDocument](t, w.do("PUT", bank, `{"limit":"bank","max":2}`)).Changed)

	var links []events.Permit
	for i, id := range []string{"a", "b"} {
		w.do("PUT", "/v1/tasks/"+id, good)
		w.engine.Change(id, &events.PermitAsked{}, func(t *events.Task) {
			p := events.StepPermit{Path: "charge", Operation: events.Do, Limit: "limit/bank", Run: 1, N: 1, State: events.PermitStateGranted, At: 5}
			x := events.Permit{GrantedAt: 5, Link: events.Link{Task: id, Incarnation: t.Incarnation, Run: 1, Path: "charge", Operation: events.Do, N: 1}}
			if i == 1 {
				p.State, x.GrantedAt = events.PermitStateAsked, 0
			}
			t.StepPermits = []events.StepPermit{p}
			links = append(links, x)
		})
	}
	w.engine.PutLimit(t, "limit/bank", 1, links...)
	d = into[api.LimitDocument](t, w.do("GET", bank, ""))
	require.Equal(t, []api.LimitLink{{Task: "a", Step: "charge", State: events.TaskStatePending, Since: 5}}, d.Holders)
	require.Equal(t, []api.LimitLink{{Task: "b", Step: "charge", State: events.TaskStatePending, Since: 5}}, d.Waiters)
	list := into[api.LimitsList](t, w.do("GET", "/v1/limits", "")).Limits
	require.Len(t, list, 1)
	require.Equal(t, []any{"bank", true, 1, 1}, []any{list[0].Limit, list[0].Named, list[0].Held, list[0].Waiting})

	r = w.do("POST", bank+"/pause?wait=5s", `{"reason":"why"}`)
	require.Equal(t, 200, r.status, r.body)
	asked := w.engine.Inputs(events.Reports)
	require.Equal(t, []any{"limit/bank", events.Home("limit/bank", apitest.Partitions)}, []any{string(asked[0].Key), asked[0].Partition})
	require.Equal(t, 202, w.do("POST", bank+"/resume", "").status)

	w.do("PUT", "/v1/limits/used", `{"max":1}`)
	r = w.do("DELETE", "/v1/limits/used", "")
	require.Equal(t, 409, r.status)
	require.Contains(t, r.body, "steps of order name it")
	r = w.do("DELETE", bank, "")
	require.Equal(t, 200, r.status, r.body)
	require.True(t, into[api.LimitDocument](t, r).Changed)
	for _, call := range []string{"GET " + bank, "DELETE " + bank, "POST " + bank + "/pause"} {
		method, path, _ := strings.Cut(call, " ")
		r := w.do(method, path, "")
		require.Equal(t, 404, r.status, call)
		require.Contains(t, r.body, `There is no limit \"bank\"`)
	}
	r = w.do("PUT", bank, `{"limit":"bank","max":0}`)
	require.Equal(t, 422, r.status)
	require.Contains(t, r.body, "must be at least 1")
}

// An attempt that waits for the rate of its limit says so, and a limit may have nothing but a rate.
func TestALimitWithARate(t *testing.T) {
	t.Parallel()
	w := setup(t)
	r := w.do("PUT", "/v1/limits/bank", `{"limit":"bank","rate":"5/h"}`)
	require.Equal(t, 200, r.status, r.body)
	d := into[api.LimitDocument](t, r)
	require.Equal(t, []any{"5/h", 0, true}, []any{d.Rate, d.Max, d.Changed})
	w.do("PUT", "/v1/tasks/a", good)
	w.engine.Change("a", &events.PermitAsked{}, func(t *events.Task) {
		t.StepPermits = []events.StepPermit{{Path: "charge", Operation: events.Do, Limit: "limit/bank", Run: 1, N: 1, State: events.PermitStateAsked, At: 5}}
	})
	r = w.do("GET", "/v1/tasks/a", "")
	require.Contains(t, r.body, `"kind":"limit","for":"bank: its rate is 5/h"`)
	require.Equal(t, "5/h", into[api.LimitsList](t, w.do("GET", "/v1/limits", "")).Limits[0].Rate)
}
