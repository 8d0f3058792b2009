package api_test

import (
	"encoding/json"
	"fmt"
	"net/url"
	"slices"
	"testing"

	"github.com/sagalog/sagalog/events"
	"github.com/sagalog/sagalog/internal/api"
	"github.com/sagalog/sagalog/supervisor"
	"github.com/stretchr/testify/require"
)

// missingBank is an open alert.
var missingBank = api.Alert{Kind: supervisor.AlertMissing, Agent: "bank", Operation: "undo pack", Since: 50}.Named(0)

// A walk sees each open alert once, whatever the size of its pages: others before parked ones, the oldest first, and those that are acknowledged last.
func TestOpenAlertsArePaged(t *testing.T) {
	t.Parallel()
	w := setup(t)
	for _, id := range []string{"a", "b", "c", "d"} {
		w.do("PUT", "/v1/tasks/"+id, good)
		w.engine.Park(id, "no lamp")
	}
	open := []api.Alert{missingBank}
	for i := range 5 {
		open = append(open, api.Alert{Kind: supervisor.AlertDeadline, Task: fmt.Sprint("late ", i), Since: events.Instant(100 - i)}.Named(events.Instant(100-i)))
	}
	first := into[api.AlertList](t, w.do("GET", "/v1/alerts?kind=parked&limit=1", "")).Alerts[0]
	w.engine.SetAlerts(append(slices.Clone(open), first), nil) // a node adds those that are acknowledged
	for _, id := range []string{first.ID, open[1].ID} {
		require.Equal(t, 200, w.do("POST", "/v1/alerts/"+id+"/acknowledge", `{"note":"on it","by":"ada"}`).status)
	}
	walk := func(query string) (ids []string) {
		for cursor := ""; ; {
			page := into[api.AlertList](t, w.do("GET", "/v1/alerts?"+query+"&cursor="+url.QueryEscape(cursor), ""))
			for _, a := range page.Alerts {
				ids = append(ids, a.ID)
			}
			require.Equal(t, []api.AlertCount{{Kind: "parked", Count: 4, Acknowledged: 1}, {Kind: "deadline_passed", Count: 5, Acknowledged: 1}, {Kind: "agent_missing", Count: 1}}, page.Counts)
			if cursor = page.Next; cursor == "" {
				return ids
			}
		}
	}
	whole := walk("limit=1000")
	require.Len(t, whole, 10)
	require.Equal(t, []string{missingBank.ID, open[5].ID, open[4].ID, open[3].ID, open[2].ID}, whole[:5])
	require.Equal(t, []string{open[1].ID, first.ID}, whole[8:])
	for limit := 1; limit <= 10; limit++ {
		require.Equal(t, whole, walk(fmt.Sprintf("limit=%d", limit)), limit)
	}
	require.Equal(t, append(slices.Clone(whole[5:8]), first.ID), walk("kind=parked&limit=2"))
	require.Equal(t, []string{open[5].ID, open[4].ID, open[3].ID, open[2].ID, open[1].ID}, walk("kind=deadline_passed&limit=3"))
	require.Equal(t, append([]string{missingBank.ID}, walk("kind=deadline_passed")...), walk("kind=deadline_passed,agent_missing&limit=2"))
	require.Equal(t, []string{missingBank.ID}, walk("id="+url.QueryEscape(missingBank.ID)))
	require.Empty(t, walk("kind=undone"), "it says what happened")
	for _, wrong := range []string{"kind=parkd", "cursor=x", "id=parked", "open=maybe", "open=false&cursor=x"} {
		require.Equal(t, 422, w.do("GET", "/v1/alerts?"+wrong, "").status, wrong)
	}
}

// The records of the topic come newest first, by kind.
func TestRaisedAlertsAreListed(t *testing.T) {
	t.Parallel()
	w := setup(t)
	var raised []events.Record
	for i := range 1200 {
		a := supervisor.Alert{Kind: supervisor.AlertUndone, Task: fmt.Sprint("t-", i)}
		if i%100 == 0 {
			a = supervisor.Alert{Kind: supervisor.AlertMissing, Agent: "bank", Function: "pack", Operation: events.Undo}
		}
		b, err := json.Marshal(a)
		require.NoError(t, err)
		raised = append(raised, events.Record{Offset: int64(i), Value: b})
	}
	raised[1199].Value = []byte("not an alert")
	w.engine.SetAlerts(nil, raised)
	var all []api.Alert
	for cursor := ""; ; {
		page := into[api.AlertList](t, w.do("GET", "/v1/alerts?open=false&kind=undone&limit=500&cursor="+cursor, ""))
		all = append(all, page.Alerts...)
		if cursor = page.Next; cursor == "" {
			break
		}
	}
	require.Len(t, all, 1187)
	require.Equal(t, []string{"t-1198", "t-1"}, []string{all[0].Task, all[1186].Task})
	rare := into[api.AlertList](t, w.do("GET", "/v1/alerts?open=false&kind=agent_missing", ""))
	require.Len(t, rare.Alerts, 12)
	require.Equal(t, "undo pack", rare.Alerts[0].Operation)
}

func TestTheIDOfAnAlertNeedsNoEscape(t *testing.T) {
	t.Parallel()
	for task, want := range map[string]string{"o-17": "parked:o-17@rs", "a/b c~@:%é": "parked:a~2fb~20c~7e~40~3a~25~c3~a9@rs"} {
		id := api.Alert{Kind: supervisor.AlertParked, Task: task}.Named(1000).ID
		require.Equal(t, want, id)
		kind, subject, ok := api.AlertSubject(id)
		require.Equal(t, []any{supervisor.AlertParked, task, true}, []any{kind, subject, ok})
	}
	require.Equal(t, "agent_missing:bank:undo:pack", missingBank.ID)
	for _, wrong := range []string{"", "parked", "parked:", "parked:@1", "parked:a~", "parked:a~2", "parked:a~zz@1", "parked:a b@1", "undone:a@1", "other:a@1"} {
		_, _, ok := api.AlertSubject(wrong)
		require.False(t, ok, wrong)
	}
	require.Equal(t, `sagalog task get 'it'\''s'`, api.Alert{Kind: supervisor.AlertParked, Task: "it's"}.Named(1).Command)
}
