package api_test

import (
	"encoding/json"
	"fmt"
	"testing"

	"github.com/sagalog/sagalog/internal/api"
	"github.com/sagalog/sagalog/internal/api/apitest"
	"github.com/stretchr/testify/require"
)

// parked submits n tasks to a fresh engine, and parks the first p.
func parked(t *testing.T, n, p int) *world {
	t.Helper()
	w := setup(t)
	for i := range n {
		id := fmt.Sprint("t", i)
		require.Equal(t, 202, w.do("PUT", "/v1/tasks/"+id, good).status)
		if i < p {
			w.engine.Park(id, "the bank is closed")
		}
	}
	return w
}

func into[T any](t *testing.T, r reply) (v T) {
	t.Helper()
	require.NoError(t, json.Unmarshal([]byte(r.body), &v), r.body)
	return v
}

func TestAJobAsksEachTaskThatMatches(t *testing.T) {
	t.Parallel()
	w := parked(t, 5, 3)
	const job = `{"id":"j1","verb":"retry","filter":{"state":"parked"},"reason":"the bank is open","by":"ada","rate":"100/s","limit":3}`
	r := w.do("POST", "/v1/jobs", job)
	require.Equal(t, 202, r.status, r.body)
	d := into[api.JobDocument](t, r)
	require.Equal(t, "j1", d.ID)
	require.Equal(t, "done", d.State)
	require.Equal(t, []int{3, 3, 0, 0}, []int{d.Matched, d.Granted, d.Refused, d.Left})
	require.True(t, d.Changed)
	require.Equal(t, "ada", d.By)
	reports := len(w.engine.Inputs("reports"))
	require.Equal(t, 3, reports)

	r = w.do("POST", "/v1/jobs", job)
	require.Equal(t, 200, r.status, "the same job again does nothing")
	require.False(t, into[api.JobDocument](t, r).Changed)
	require.Len(t, w.engine.Inputs("reports"), reports)
	r = w.do("POST", "/v1/jobs", `{"id":"j1","verb":"cancel","filter":{"all":true}}`)
	require.Equal(t, 409, r.status, r.body)
	require.Equal(t, "conflict", r.problem(t).Code())

	require.Equal(t, d.Granted, into[api.JobDocument](t, w.do("GET", "/v1/jobs/j1", "")).Granted)
	require.Equal(t, 404, w.do("GET", "/v1/jobs/j2", "").status)
	require.Equal(t, 202, w.do("POST", "/v1/jobs", `{"verb":"pause","filter":{"workflow":"other"}}`).status, "an ID is generated")
	var all struct{ Jobs []api.JobDocument }
	require.NoError(t, json.Unmarshal([]byte(w.do("GET", "/v1/jobs", "").body), &all))
	require.Len(t, all.Jobs, 2)
	require.Equal(t, "j1", all.Jobs[1].ID, "the newest comes first")
}

func TestADryRunCountsAndOpensNothing(t *testing.T) {
	t.Parallel()
	w := parked(t, 14, 12)
	r := w.do("POST", "/v1/jobs", `{"verb":"cancel","filter":{"all":true},"dry_run":true}`)
	require.Equal(t, 200, r.status, r.body)
	c := into[api.JobCount](t, r)
	require.Equal(t, 14, c.Matched)
	require.Equal(t, map[string]int{"error": 12, "pending": 2}, c.ByState)
	require.Len(t, c.Examples, 10)
	require.Equal(t, api.JobExample{Task: "t13", Workflow: "order", State: "pending"}, c.Examples[0])
	require.Empty(t, w.engine.Inputs("reports"))
	require.NotContains(t, w.do("GET", "/v1/jobs", "").body, "verb")
}

func TestAJobAboveItsLimitIsRefused(t *testing.T) {
	t.Parallel()
	w := parked(t, 4, 4)
	r := w.do("POST", "/v1/jobs", `{"id":"j","verb":"retry","filter":{"state":["error"]},"limit":3}`)
	require.Equal(t, 409, r.status, r.body)
	require.Contains(t, r.body, "4 tasks match, and the limit of the job is 3")
	require.Equal(t, 404, w.do("GET", "/v1/jobs/j", "").status)
	require.Empty(t, w.engine.Inputs("reports"))
}

func TestTheFaultsOfAJobHavePlaces(t *testing.T) {
	t.Parallel()
	w := setup(t)
	for body, says := range map[string]string{
		`{"filter":{"all":true}}`:                                           `/verb: is missing; the verbs are cancel`,
		`{"verb":"retri","filter":{"all":true}}`:                            `/verb: is not a verb; did you mean "retry"?`,
		`{"verb":"retry"}`:                                                  `/filter: is missing; {"all": true} matches every task`,
		`{"verb":"retry","filter":{}}`:                                      `/filter: is empty`,
		`{"verb":"retry","filter":{"stat":"error"}}`:                        `/filter/stat: is not a member; did you mean "state"?`,
		`{"verb":"retry","filter":{"state":"broken"}}`:                      `/filter/state: is not a state`,
		`{"verb":"retry","filter":{"label":"north"}}`:                       `/filter/label: is not key:value`,
		`{"verb":"retry","filter":{"since":"yesterday"}}`:                   `/filter/since: is neither an instant`,
		`{"verb":"retry","filter":{"all":true,"workflow":"order"}}`:         `/filter/all: is true, but the filter has other members`,
		`{"verb":"retry","filter":{"state":"error","workflow":""}}`:         `/filter/workflow: is empty`,
		`{"verb":"retry","filter":{"state":[],"workflow":"order"}}`:         `/filter/state: is empty`,
		`{"verb":"retry","filter":{"state":["error",""]}}`:                  `/filter/state: is empty`,
		`{"verb":"retry","filter":{"workflow":"order","until":""}}`:         `/filter/until: is empty`,
		`{"verb":"retry","filter":{"workflow":7}}`:                          `/filter/workflow: is not of the right type`,
		`{"verb":"retry","filter":{"all":true},"rate":"fast"}`:              `/rate: is not a rate such as 100/s`,
		`{"verb":"retry","filter":{"all":true},"limit":0}`:                  `/limit: is less than 1`,
		`{"verb":"retry","filter":{"all":true},"limit":"x"}`:                `/limit: is not a whole number`,
		`{"verb":"retry","filter":{"all":true},"id":"a/b"}`:                 `/id: "a/b" is not a valid ID`,
		`{"verb":"retry","filter":{"all":true},"args":{"attempt":2}}`:       `/args/attempt: is not a member`,
		`{"verb":"pause","filter":{"all":true},"args":{"step":"ship"}}`:     `/args/step: is not a member`,
		`{"verb":"skip","filter":{"all":true}}`:                             `/args/step: is missing: name the step`,
		`{"verb":"signal","filter":{"all":true},"args":{"payload":1}}`:      `/args/signal: is missing: name the signal`,
		`{"verb":"fail","filter":{"all":true},"args":{"step":7}}`:           `/args/step: is not a text`,
		`{"verb":"retry","filter":{"all":true},"reson":"x"}`:                `/reson: is not a member; did you mean "reason"?`,
		`{"verb":"retry","filter":{"since":"24h","until":"x"},"rate":"-1"}`: `/filter/until: is neither`,
	} {
		r := w.do("POST", "/v1/jobs", body)
		require.Equal(t, 422, r.status, body)
		var texts string
		for _, e := range r.problem(t).Errors {
			texts += e.Pointer + ": " + e.Message + "\n"
		}
		require.Contains(t, texts, says, body)
	}
	require.Empty(t, w.engine.Inputs("reports"))
}

func TestTheResultsOfAJobNameTasksAndReasons(t *testing.T) {
	t.Parallel()
	w := parked(t, 6, 3)
	w.engine.Finish("t5")
	require.Equal(t, 202, w.do("POST", "/v1/jobs", `{"id":"j","verb":"resume","filter":{"all":true}}`).status)
	require.Equal(t, 202, w.do("POST", "/v1/jobs", `{"id":"k","verb":"pause","filter":{"state":["error","pending"]}}`).status)
	results := func(job, result string) map[string]string {
		list, cursor := map[string]string{}, ""
		for {
			page := into[api.JobResults](t, w.do("GET", "/v1/jobs/"+job+"/results?limit=2&result="+result+"&cursor="+cursor, ""))
			for _, r := range page.Results {
				require.NotContains(t, list, r.Task)
				list[r.Task] = r.Result + " " + r.Reason
			}
			if cursor = page.Next; cursor == "" {
				return list
			}
		}
	}
	require.Empty(t, results("j", "granted"))
	refused := results("j", "refused")
	require.Len(t, refused, 6)
	require.Contains(t, refused["t0"], "refused the task is not paused")
	require.Contains(t, refused["t5"], "refused because", "a task that has ended remembers no request")
	require.Len(t, results("k", "granted"), 5)
	require.Len(t, results("k", ""), 5)
	require.Equal(t, 404, w.do("GET", "/v1/jobs/x/results", "").status)
	r := w.do("GET", "/v1/tasks?request=job%2Fk&fields=id,request", "")
	require.Equal(t, 200, r.status, r.body)
	require.Contains(t, r.body, `{"id":"t0","request":{"request":"job/k","verb":"pause","result":"granted"`)
}

func TestAJobIsStoppedOnce(t *testing.T) {
	t.Parallel()
	e := apitest.New()
	e.JobsWait = true
	w := setup(t, func(c *api.Config) { c.Jobs = e })
	require.Equal(t, 202, w.do("POST", "/v1/jobs", `{"id":"j","verb":"pause","filter":{"all":true}}`).status)
	require.Equal(t, "running", into[api.JobDocument](t, w.do("GET", "/v1/jobs/j", "")).State)
	r := w.do("POST", "/v1/jobs/j/stop", `{"by":"ada","reason":"wrong"}`)
	require.Equal(t, 200, r.status, r.body)
	d := into[api.JobDocument](t, r)
	require.Equal(t, "stopped", d.State)
	require.Equal(t, "ada", d.StoppedBy)
	r = w.do("POST", "/v1/jobs/j/stop", "")
	require.Equal(t, 200, r.status, "it is stopped already")
	require.False(t, into[api.JobDocument](t, r).Changed)
	require.Equal(t, 202, w.do("POST", "/v1/jobs", `{"id":"k","verb":"pause","filter":{"all":true}}`).status)
	e.WorkOnJobs()
	require.Equal(t, 409, w.do("POST", "/v1/jobs/k/stop", "").status)
	require.Equal(t, 404, w.do("POST", "/v1/jobs/x/stop", "").status)
}
