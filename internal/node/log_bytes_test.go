package node_test

import (
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/sagalog/sagalog/internal/node"
	"github.com/stretchr/testify/require"
)

// The owner of partition 0 says how large each topic is, and each node when it last wrote each partition.
func TestMetricsSayHowLargeTheTopicsAre(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w := setup(t, 2)
		r := prometheus.NewRegistry()
		n := w.node(t.TempDir(), func(c *node.Config) { c.Registry = r })
		w.apply(n, order)
		w.hire(nil)
		values := func() map[string]float64 {
			families, err := r.Gather()
			require.NoError(t, err)
			all := map[string]float64{}
			for _, f := range families {
				for _, m := range f.GetMetric() {
					if len(m.GetLabel()) == 1 {
						all[f.GetName()+" "+m.GetLabel()[0].GetValue()] = m.GetGauge().GetValue()
					}
				}
			}
			return all
		}
		before := values()
		tasks := w.inPartition(0, "t", 20)
		w.submit(tasks...)
		w.watch.ended(tasks...)
		<-time.After(time.Minute)
		after := values()
		require.NotEmpty(t, seriesOf(t, r, "sagalog_log_bytes"))
		for _, topic := range []string{"events", "submissions", "work.stock"} {
			require.Greater(t, after["sagalog_log_bytes "+topic], before["sagalog_log_bytes "+topic], topic)
		}
		require.InDelta(t, 60, after["sagalog_checkpoint_age_seconds 0"], 5)
		require.NoError(t, n.stop())
		require.NotContains(t, values(), "sagalog_log_bytes events", "it owns nothing")
	})
}
