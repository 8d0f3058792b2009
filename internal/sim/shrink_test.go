package sim_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sagalog/sagalog/internal/sim"
	"github.com/sagalog/sagalog/supervisor"
)

// TestAFailingRunShrinks switches a rule off and shrinks the failing run to the smallest one that still fails.
func TestAFailingRunShrinks(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name  string
		rule  supervisor.Rule
		tasks int
		kinds int
	}{
		{"acknowledged offsets are contiguous", supervisor.RuleContiguous, 8, 6},
		{"settled effects are contiguous and sent again", supervisor.RuleWatermark, 4, 7},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			failed, _ := run(1, 200, sim.Options{Off: c.rule})
			require.NotNil(t, failed)
			small := sim.Shrink(failed, 1500)
			t.Logf("from %d nodes, %d partitions, %d tasks, %s and %d kinds of faults at seed %d; %.400s", failed.Options.Nodes, failed.Options.Partitions,
				failed.Options.Tasks, failed.Options.Chaos, failed.Options.Faults.Kinds(), failed.Seed, small)
			require.Equal(t, sim.Kind(failed.Violation), sim.Kind(small.Violation))
			require.LessOrEqual(t, small.Options.Tasks, c.tasks)
			require.LessOrEqual(t, small.Options.Faults.Kinds(), c.kinds)
			require.NotEmpty(t, small.Trace)

			// The printed command repeats the run.
			opt, err := sim.ParseOptions(small.Options.String())
			require.NoError(t, err)
			require.Equal(t, small.Violation, sim.Run(small.Seed, opt).Violation)
		})
	}
}
