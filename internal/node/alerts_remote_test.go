package node_test

import (
	"context"
	"errors"
	"net/url"
	"sync/atomic"
	"testing"

	"github.com/sagalog/sagalog/agent"
	"github.com/sagalog/sagalog/internal/api"
	"github.com/sagalog/sagalog/internal/kafka/kafkatest"
	"github.com/stretchr/testify/require"
)

// openAlerts pages through the open alerts of a kind and asks several nodes in turn. It returns the counts of the last page.
func openAlerts(t *testing.T, query string, sites ...*site) (all []api.Alert, counts []api.AlertCount) {
	t.Helper()
	for cursor, i := "", 0; ; i++ {
		var page api.AlertList
		require.Equal(t, 200, sites[i%len(sites)].call("GET", "/v1/alerts?"+query+"&cursor="+url.QueryEscape(cursor), "", "", &page))
		require.Empty(t, page.Missing)
		all, counts = append(all, page.Alerts...), page.Counts
		if cursor = page.Next; cursor == "" {
			return all, counts
		}
	}
}

// parked20 submits twenty tasks at one node and waits at another until all are parked.
func parked20(t *testing.T, a, b *site) []string {
	t.Helper()
	tasks := ids("t", 20)
	tokens := map[string]string{}
	for _, id := range tasks {
		var receipt struct{ Token string }
		require.Equal(t, 202, a.call("PUT", "/v1/tasks/"+id, "application/json", `{"workflow":"w","input":{"id":"x"}}`, &receipt))
		tokens[id] = receipt.Token
	}
	for _, id := range tasks {
		var task struct{ State string }
		require.Equal(t, 200, b.call("GET", "/v1/tasks/"+id+"?wait=30s&token="+tokens[id], "", "", &task))
		require.Equal(t, "error", task.State)
	}
	return tasks
}

// Tasks are parked at two nodes, which answer for each other. The topic of alerts is lost and the open alerts are not; one is acknowledged, and stays
// so when its node has died and the other has taken over. When its task goes on, the alert is not open any more.
func TestOpenAlertsOutliveTheirTopicAndTheirNode(t *testing.T) {
	t.Parallel()
	w := setup(t, 4)
	w.kinds = []string{"stock"}
	one := w.node(t.TempDir(), answering)
	a := w.site(one)
	require.Equal(t, 200, s200(a.call("PUT", "/v1/workflows/w", "application/yaml", "workflow: w\nsteps:\n  only: {agent: stock, retry: {attempts: 1, then: park}}\n", nil)))
	var works atomic.Bool
	w.hire(func(context.Context, agent.Attempt) error {
		if works.Load() {
			return nil
		}
		return errors.New("out of stock")
	})
	w.shared("node-1")
	b := w.site(w.node(t.TempDir(), answering))
	w.shared("node-1", "node-2")
	w.knows(a)
	w.knows(b)
	tasks := parked20(t, a, b)
	all, counts := openAlerts(t, "limit=3", a, b)
	require.Equal(t, []api.AlertCount{{Kind: "parked", Count: 20}}, counts)
	var found []string
	for _, x := range all {
		require.Equal(t, "parked", x.Kind)
		require.Equal(t, "w", x.Workflow)
		require.NotEmpty(t, x.Reason)
		require.NotZero(t, x.Since)
		require.Equal(t, "sagalog task get "+x.Task, x.Command)
		found = append(found, x.Task)
	}
	require.ElementsMatch(t, tasks, found)
	var raised api.AlertList
	w.soon("all alerts are raised", func() bool {
		require.Equal(t, 200, b.call("GET", "/v1/alerts?open=false&kind=parked&limit=100", "", "", &raised))
		return len(raised.Alerts) == 20
	})
	require.GreaterOrEqual(t, raised.Alerts[0].Time, raised.Alerts[19].Time, "the newest first")

	kafkatest.DeleteTopic(t, w.broker, w.topics.Alerts())
	again, _ := openAlerts(t, "limit=1000&kind=parked", b)
	require.Len(t, again, 20)

	seen := all[0] // the newest task, so the first
	acknowledge := "/v1/alerts/" + seen.ID + "/acknowledge"
	var now api.AcknowledgedAlert
	require.Equal(t, 200, a.call("POST", acknowledge, "application/json", `{"reason":"on it","by":"ada"}`, &now))
	require.True(t, now.Changed)
	require.Equal(t, 200, a.call("POST", acknowledge, "application/json", `{"note":"me too"}`, &now))
	require.False(t, now.Changed)
	require.Equal(t, "on it", now.Acknowledged.Note)
	w.soon("the other node knows it", func() bool {
		last, counts := openAlerts(t, "limit=7", b)
		require.Len(t, last, 20)
		return last[19].ID == seen.ID && last[19].Acknowledged != nil && last[19].Acknowledged.By == "ada" && counts[0].Acknowledged == 1
	})

	one.kill()
	w.knows(b)
	left, _ := openAlerts(t, "limit=7", b)
	require.Len(t, left, 20)
	require.Equal(t, seen.ID, left[19].ID)
	require.NotNil(t, left[19].Acknowledged)
	works.Store(true)
	require.Equal(t, 200, b.call("POST", "/v1/tasks/"+seen.Task+"/retry?wait=30s", "application/json", `{}`, nil))
	left, _ = openAlerts(t, "limit=7", b)
	require.Len(t, left, 19)
	require.Equal(t, 409, b.call("POST", acknowledge, "application/json", `{}`, nil))
	require.Equal(t, 422, b.call("POST", "/v1/alerts/parked/acknowledge", "application/json", `{}`, nil))
}
