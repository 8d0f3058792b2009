package whatif_test

import (
	"testing"

	"github.com/sagalog/sagalog/internal/whatif"
	"github.com/stretchr/testify/require"
)

// BenchmarkRun replays a history of 60 tasks with ten draws.
func BenchmarkRun(b *testing.B) {
	history, policy := play(b, 1, 60, policyA), parse(b, policyB)
	for b.Loop() {
		_, err := whatif.Run(b.Context(), whatif.Config{Log: logOf(history.Log), Topic: "events", Policy: policy, Draws: 10, Seed: 1, Dir: b.TempDir()})
		require.NoError(b, err)
	}
}
