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
		"the store was not written for days after the time had been corrected by the node whose clock was wrong": {13,
			`{"Faults":{"Silent":0.02,"Split":0.02,"AskFails":0.06,"AgentSilent":0.10979648828044877,"AgentLate":0.07380437847887712,"AgentTwice":0.010551612543635347,"Odd":0.06,"Duplicate":0.1,"Retry":0.06547212716161349,"Oversize":0.31804501802429685,"Reassign":1.6,"Flood":0.15950863315177588,"AgentDown":1.6756117575511233,"Settings":0.5,"Trim":4,"Wrong":1},"Nodes":2,"Partitions":2,"Tasks":16,"Chaos":5000000000,"Remember":1000000000,"Remind":1000000000}`},
		"an undo that had begun for one rerun was called out of turn in the next, which concerns a step that completed later": {694,
			`{"Faults":{"AgentFails":0.9,"Duplicate":0.1,"Retry":0.9,"Settings":0.5,"Trim":2,"Schedules":3},"Nodes":2,"Partitions":2,"Tasks":15,"Chaos":15000000000,"Remember":86400000000000,"Remind":4000000000}`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			opt, err := sim.ParseOptions(c.options)
			require.NoError(t, err)
			require.Empty(t, sim.Run(c.seed, opt).Violation)
		})
	}
}
