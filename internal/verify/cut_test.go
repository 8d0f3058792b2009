package verify_test

import (
	"fmt"
	"maps"
	"slices"
	"testing"

	"github.com/sagalog/sagalog/events"
	"github.com/sagalog/sagalog/internal/sim"
	"github.com/sagalog/sagalog/internal/verify"
	"github.com/stretchr/testify/require"
)

// The state of a log that is cut is that of the whole log, and the check says what it cannot see.
func TestALogThatIsCutHasTheStateOfTheWholeLog(t *testing.T) {
	t.Parallel()
	carries := 0
	for seed := uint64(1); seed <= uint64(min(*simSeeds, 40)); seed++ {
		run := sim.Record(seed, sim.Options{})
		if run.Report.Violation != "" {
			continue
		}
		whole := &memory{run.Topics}
		begun := map[string]int64{}
		cuts := map[int32][]int64{}
		cfg := verify.Config{Log: whole, Topics: topicsOf("sim"), Now: events.Instant(1_900_000_000_000), MaxLevel: sim.MaxLevel}
		cfg.Fact = func(f *events.Fact, r *events.Record, accepted bool) {
			switch at := fmt.Sprint(r.Partition, f.Epoch); {
			case !accepted:
			case f.Body.Name() == events.NameCarryBegun:
				begun[at] = r.Offset
			case f.Body.Name() == events.NameCarryEnded && begun[at] > 0: // by the owner that began it
				cuts[r.Partition] = append(cuts[r.Partition], begun[at])
			}
		}
		r, err := verify.Run(t.Context(), cfg)
		require.NoError(t, err)
		cfg.Fact = nil
		for p, offsets := range cuts {
			for _, offset := range offsets {
				carries++
				requireCut(t, cfg, whole, r, p, offset)
			}
		}
	}
	require.Positive(t, carries)
	t.Logf("%d carries", carries)
}

func requireCut(t *testing.T, cfg verify.Config, whole *memory, want *verify.Report, p int32, offset int64) {
	t.Helper()
	cut := &memory{maps.Clone(whole.topics)}
	cut.topics["sim.events"] = slices.Clone(whole.topics["sim.events"])
	cut.topics["sim.events"][p] = from(whole.topics["sim.events"][p], offset)
	cfg.Log, cfg.Partition = cut, &p
	r, err := verify.Run(t.Context(), cfg)
	require.NoError(t, err)
	require.Equal(t, want.Partitions[p].Hash, r.Partitions[0].Hash, "partition %d from offset %d", p, offset)
	require.Equal(t, offset, r.Partitions[0].From)
	require.Empty(t, r.Findings)
	for _, c := range r.Checks {
		switch c.Check {
		case verify.CheckFold, verify.CheckOwnership:
			require.Empty(t, c.Unable)
		case verify.CheckInputs:
			require.Contains(t, fmt.Sprint(c.Unable), "the log of partitions [")
		}
	}
}

func from(records []events.Record, offset int64) []events.Record {
	for i := range records {
		if records[i].Offset >= offset {
			return records[i:]
		}
	}
	return nil
}
