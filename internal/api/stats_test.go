package api_test

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/sagalog/sagalog/internal/api"
	"github.com/stretchr/testify/require"
)

func (w *world) stats(query string) (d api.StatsDocument) {
	w.t.Helper()
	r := w.do("GET", "/v1/stats"+query, "")
	require.Equal(w.t, 200, r.status, r.body)
	require.NotContains(w.t, r.body, "durations")
	require.NoError(w.t, json.Unmarshal([]byte(r.body), &d))
	return d
}

func TestStatsAddUpWhatTheNodesDecided(t *testing.T) {
	t.Parallel()
	n := setupNodes(t, "a", "b", "c")
	d := n.members[0].stats("?every=2h") // so that all nodes name the same time
	require.Len(t, d.Rows, 1)
	row := d.Rows[0]
	require.Equal(t, []int64{6, 3, 3, 0}, []int64{row.Started, row.Completed, row.Parked, row.Failed})
	require.InEpsilon(t, .04, *row.P95, .25)
	require.InEpsilon(t, .003, *row.Queue, .25)
	require.False(t, d.Partial)
	n.members[1].stop()
	d = n.members[0].stats("?every=2h")
	require.True(t, d.Partial, "a node that does not answer is not counted, and the answer says so")
	require.Equal(t, int64(4), d.Rows[0].Started)
}

func TestStatsAreFilteredAndBounded(t *testing.T) {
	t.Parallel()
	w := setup(t)
	require.Empty(t, w.stats("?workflow=other").Rows)
	require.Empty(t, w.stats("?step=reserve").Rows)
	require.Len(t, w.stats("?workflow=order&since=10m").Rows, 1)
	for _, query := range []string{"every=90s", "every=0s", "every=x", "since=x", "until=x", "since=24h&every=1m"} {
		require.Equal(t, 422, w.do("GET", "/v1/stats?"+query, "").status, query)
	}
}

func TestQuantilesAreEstimatedWithinAQuarter(t *testing.T) {
	t.Parallel()
	for _, took := range []time.Duration{time.Millisecond, 7 * time.Millisecond, time.Second, 5 * time.Minute, 30 * time.Hour} {
		var c api.StatCounts
		for range 100 {
			c.Took(took)
		}
		var all api.StatCounts
		all.Add(&c)
		all.Add(&c)
		require.InEpsilon(t, took.Seconds(), *api.Quantile(all.Durations, .95), .25, took)
	}
}
