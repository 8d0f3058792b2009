package sim_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sagalog/sagalog/internal/sim"
)

// TestSeedsThatFoundDefectsStayGreen repeats the seeds that once broke a promise.
func TestSeedsThatFoundDefectsStayGreen(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		seed    uint64
		options string
	}{
		"a task was swept although work of it from an earlier epoch was not acknowledged": {6772,
			`{"Faults":{"Lost":0.03,"Slow":0.3,"Refuse":0.2,"AskFails":0.1,"Duplicate":0.7,"Cancel":0.5,"Crash":2},"Nodes":3,"Partitions":2,"Tasks":11,"Chaos":28000000000,"Remember":4000000000}`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			opt, err := sim.ParseOptions(c.options)
			require.NoError(t, err)
			require.Empty(t, sim.Run(c.seed, opt).Violation)
		})
	}
}
