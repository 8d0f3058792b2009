package node_test

import (
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/sagalog/sagalog/events"
	"github.com/sagalog/sagalog/internal/api"
	"github.com/sagalog/sagalog/internal/node"
	"github.com/stretchr/testify/require"
)

// limit applies a named limit.
func (w *world) limit(p *process, name string, most int) {
	w.t.Helper()
	text, err := events.Marshal(events.LimitDefinition{Limit: name, Max: most})
	require.NoError(w.t, err)
	_, changed, faults, err := p.NamedLimits().ApplyLimit(w.t.Context(), api.Draft{Name: name, Source: text})
	require.NoError(w.t, err)
	require.Empty(w.t, faults)
	require.True(w.t, changed)
}

// A limit must exist before a workflow names it. Its changes and its deletion reach the partition that is its home, and the metrics show it.
func TestANamedLimitIsAppliedAndDeleted(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w := setup(t, 2)
		r := prometheus.NewPedanticRegistry()
		n := w.node(t.TempDir(), func(c *node.Config) { c.Registry = r })
		const text = "workflow: order\nsteps:\n  charge: {agent: bank, limit: bank}\n"
		faults := w.applyFaults(n, text)
		require.Len(t, faults, 1)
		require.Equal(t, "/steps/charge/limit", faults[0].Pointer)
		require.Contains(t, faults[0].Message, `there is no limit "bank": apply it first`)

		w.limit(n, "bank", 3)
		w.apply(n, text)
		require.Equal(t, []string{"order"}, n.NamedLimits().LimitUsers("bank"))
		series := func() []string { return seriesOf(t, r, "sagalog_limit_") }
		w.soon("the limit is adopted", func() bool { return len(series()) == 3 })
		require.Equal(t, []string{`sagalog_limit_in_use{limit="bank"} 0`, `sagalog_limit_max{limit="bank"} 3`, `sagalog_limit_waiting{limit="bank"} 0`}, series())
		_, changed, _, err := n.NamedLimits().ApplyLimit(t.Context(), api.Draft{Name: "bank", Source: []byte("max: 3")})
		require.NoError(t, err)
		require.False(t, changed)

		// No agent does the step, so none of its attempts asks. The limit is changed, and later deleted.
		w.limit(n, "bank", 5)
		w.soon("the change is adopted", func() bool { return series()[1] == `sagalog_limit_max{limit="bank"} 5` })
		all, err := n.NamedLimits().NamedLimits(t.Context())
		require.NoError(t, err)
		require.Equal(t, 5, all["bank"].Max)
		deleted, err := n.NamedLimits().DeleteLimit(t.Context(), "bank")
		require.NoError(t, err)
		require.True(t, deleted)
		w.soon("the limit is gone", func() bool { return len(series()) == 0 })
		deleted, err = n.NamedLimits().DeleteLimit(t.Context(), "bank")
		require.NoError(t, err)
		require.False(t, deleted)
		_, _, faults, err = n.NamedLimits().ApplyLimit(t.Context(), api.Draft{Name: "bank", Source: []byte("max: 0")})
		require.NoError(t, err)
		require.Equal(t, "/max", faults[0].Pointer)
		require.NoError(t, n.stop())
		w.watch.verify()
	})
}
