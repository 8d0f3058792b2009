package api_test

import (
	"context"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/sagalog/sagalog/internal/api"
	"github.com/stretchr/testify/require"
)

// Four full lists fit. The fifth waits until one of them has been answered, and if none is, it is refused.
func TestListsShareABoundOfMemory(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		room := api.NewListRoom()
		list := func() (*http.Request, context.CancelFunc) {
			ctx, answered := context.WithCancel(t.Context())
			r, err := http.NewRequestWithContext(ctx, http.MethodGet, "/v1/tasks", nil)
			require.NoError(t, err)
			return r, answered
		}
		var answer context.CancelFunc
		for range 4 {
			r, answered := list()
			require.NoError(t, room.Enter(r, api.Query{}))
			answer = answered
		}
		late, _ := list()
		err := room.Enter(late, api.Query{Brief: true})
		var p *api.Problem
		require.ErrorAs(t, err, &p)
		require.Equal(t, http.StatusServiceUnavailable, p.Status)
		entered := make(chan error, 1)
		waits, _ := list()
		go func() { entered <- room.Enter(waits, api.Query{}) }()
		synctest.Wait()
		require.Empty(t, entered, "it waits")
		answer()
		require.NoError(t, <-entered)
	})
}

func TestAListAnswersOnlyTheFieldsAskedFor(t *testing.T) {
	t.Parallel()
	n := setupNodes(t, "a", "b")
	for _, id := range []string{"x", "y", "z"} {
		n.members[0].do("PUT", "/v1/tasks/"+id, good)
	}
	for _, m := range n.members {
		for _, x := range m.do("GET", "/v1/tasks?fields=id,state", "").json(t)["tasks"].([]any) {
			require.Len(t, x, 2)
			require.Equal(t, "pending", x.(map[string]any)["state"])
		}
		whole := m.do("GET", "/v1/tasks?fields=id,steps,input", "").json(t)["tasks"].([]any)
		require.Len(t, whole, 3)
		require.NotEmpty(t, whole[0].(map[string]any)["steps"])
		require.NotEmpty(t, whole[0].(map[string]any)["input"])
		require.NotContains(t, whole[0], "state")
		ids, next := m.list("fields=state&limit=2")
		require.Equal(t, []string{"", ""}, ids)
		require.NotEmpty(t, next, "the pages of nodes are merged by members that are not answered")
		r := m.do("GET", "/v1/tasks?fields=id,nope", "")
		require.Equal(t, 422, r.status)
		require.True(t, strings.Contains(r.body, "the members are id, run"), r.body)
	}
}
