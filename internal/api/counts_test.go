package api_test

import (
	"net/http"
	"testing"

	"github.com/sagalog/sagalog/events"
	"github.com/sagalog/sagalog/internal/api"
	"github.com/stretchr/testify/require"
)

func TestTasksAreCounted(t *testing.T) {
	t.Parallel()
	w := setup(t)
	for _, id := range []string{"a", "b", "c"} {
		w.do("PUT", "/v1/tasks/"+id, good)
	}
	w.engine.Finish("b")
	d := into[api.CountsDocument](t, w.do("GET", "/v1/counts", ""))
	require.EqualValues(t, 3, d.Total)
	require.Equal(t, []any{string(events.TaskStatePending), int64(2), string(events.TaskStateProcessed), int64(1)}, []any{d.Counts[0].Key, d.Counts[0].Count, d.Counts[1].Key, d.Counts[1].Count})
	require.NotZero(t, d.Counts[0].Oldest)
	d = into[api.CountsDocument](t, w.do("GET", "/v1/counts?state=processed&by=state", ""))
	require.EqualValues(t, 1, d.Total)
	require.Equal(t, `{"counts":[],"total":0}`+"\n", w.do("GET", "/v1/counts?workflow=nobody", "").body)
	for _, wrong := range []string{"by=colour", "by=label:", "state=blue", "since=never", "limit=3"} {
		require.Equal(t, 422, w.do("GET", "/v1/counts?"+wrong, "").status, wrong)
	}
}

// What is not the API's is the page's, but for changes and for paths below /v1.
func TestThePageIsServedBesideTheAPI(t *testing.T) {
	t.Parallel()
	w := setup(t, func(c *api.Config) {
		c.Page = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { w.Write([]byte("page " + r.URL.Path)) })
	})
	for path, want := range map[string]string{"/": "page /", "/tasks/a%2Fb": "page /tasks/a/b", "/assets/x.js": "page /assets/x.js"} {
		r := w.do("GET", path, "")
		require.Equal(t, []any{200, want}, []any{r.status, r.body}, path)
	}
	require.Equal(t, 404, w.do("GET", "/v1/nothing", "").status)
	require.NotEqual(t, 200, w.do("POST", "/tasks", "").status)
	require.Equal(t, 404, w.do("GET", "/a/../b", "").status)
	r, err := http.NewRequest(http.MethodGet, w.url, nil)
	require.NoError(t, err)
	r.Host = "evil.example"
	a, err := w.client.Do(r)
	require.NoError(t, err)
	require.NoError(t, a.Body.Close())
	require.Equal(t, http.StatusMisdirectedRequest, a.StatusCode, "the page too is served under its own names alone")
}
