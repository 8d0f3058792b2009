package api_test

import (
	"encoding/json"
	"net/url"
	"testing"

	"github.com/sagalog/sagalog/internal/api"
	"github.com/stretchr/testify/require"
)

// ofItems asks for items of a step with the value in a parameter.
func ofItems(parameter string) limited {
	return func(w *world, v string) reply {
		w.engine.BeginItems("items", 3)
		return w.do("GET", "/v1/tasks/items/steps/charge/items?"+parameter+"="+url.QueryEscape(v), "")
	}
}

func (w *world) items(query string) (list api.ItemList) {
	w.t.Helper()
	r := w.do("GET", "/v1/tasks/a%2Fb/steps/charge/items"+query, "")
	require.Equal(w.t, 200, r.status, r.body)
	require.NoError(w.t, json.Unmarshal([]byte(r.body), &list))
	return list
}

func TestTheItemsOfAFanOutArePagesBesideItsTask(t *testing.T) {
	t.Parallel()
	w := setup(t)
	w.engine.BeginItems("a/b", 250)
	r := w.do("GET", "/v1/tasks/a%2Fb", "")
	require.Equal(t, 200, r.status, r.body)
	var doc api.TaskDocument
	require.NoError(t, json.Unmarshal([]byte(r.body), &doc))
	for _, s := range doc.Steps {
		require.NotContains(t, s.ID, "[")
		if s.ID == "charge" {
			require.Equal(t, &api.FanOutDocument{Count: 250, Tolerate: 250, Collect: "none", Begun: 250, Completed: 125, Failed: 124, Running: 1}, s.FanOut)
		} else {
			require.Nil(t, s.FanOut)
		}
	}
	require.NotContains(t, w.do("GET", "/v1/tasks", "").body, "charge[")

	seen, pages := 0, 0
	for after := ""; ; pages++ {
		list := w.items(after)
		for _, x := range list.Items {
			require.Equal(t, seen, x.Index)
			seen++
		}
		if list.Next == "" {
			break
		}
		after = "?after=" + list.Next
	}
	require.Equal(t, 250, seen)
	require.Equal(t, 2, pages, "of 100 items each, before the last one")

	failed := w.items("?state=failed,running&after=245&limit=1")
	require.Len(t, failed.Items, 1)
	require.Equal(t, "charge[247]", failed.Items[0].ID)
	require.Equal(t, "no account", failed.Items[0].Error.Message)
	require.Equal(t, "247", failed.Next)
	require.Equal(t, "0", w.items("?limit=1").Next)
	require.Equal(t, "running", w.items("?state=running").Items[0].State)
	undone, first := w.items("?state=undone"), w.items("?state=failed&limit=1")
	require.Len(t, undone.Items, 1)
	require.Equal(t, undone.Items, first.Items, "what was undone after a failure that is tolerated has failed")
	require.Empty(t, w.items("?state=skipped").Items)
}

func TestStepsWithoutItemsHaveNone(t *testing.T) {
	t.Parallel()
	w := setup(t)
	w.engine.BeginItems("x", 2)
	for path, status := range map[string]int{
		"/v1/tasks/x/steps/ship/items": 404, "/v1/tasks/x/steps/charge%5B0%5D/items": 404, "/v1/tasks/y/steps/charge/items": 404,
		"/v1/tasks/x/steps/charge/items?state=lost": 422, "/v1/tasks/x/steps/ch%61rge/items": 200,
	} {
		require.Equal(t, status, w.do("GET", path, "").status, path)
	}
}

func ofTaskItems(w *world, v string) reply {
	w.engine.BeginItems(v, 3)
	return w.do("GET", "/v1/tasks/"+url.PathEscape(v)+"/steps/charge/items", "")
}
