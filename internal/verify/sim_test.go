package verify_test

import (
	"context"
	"flag"
	"fmt"
	"testing"

	"github.com/sagalog/sagalog/events"
	"github.com/sagalog/sagalog/internal/sim"
	"github.com/sagalog/sagalog/internal/verify"
	"github.com/stretchr/testify/require"
)

var simSeeds = flag.Int("verify.seeds", 100, "how many runs of the simulator are verified")

// memory is a recorded log that is kept in memory.
type memory struct {
	topics map[string][][]events.Record
}

// Bounds implements verify.Log.
func (m *memory) Bounds(_ context.Context, topic string) ([]verify.Bounds, error) {
	var list []verify.Bounds
	for _, records := range m.topics[topic] {
		b := verify.Bounds{}
		if n := len(records); n > 0 {
			b = verify.Bounds{Start: records[0].Offset, End: records[n-1].Offset + 1}
		}
		list = append(list, b)
	}
	return list, nil
}

// Read implements verify.Log.
func (m *memory) Read(_ context.Context, s verify.Span, yield func(events.Record) error) error {
	for _, r := range m.topics[s.Topic][s.Partition] {
		if r.Offset < s.From || r.Offset >= s.To || s.Committed && r.Control {
			continue
		}
		if err := yield(r); err != nil {
			return err
		}
	}
	return nil
}

func topicsOf(ns string) verify.Topics {
	return verify.Topics{Definitions: ns + ".definitions", Events: ns + ".events", Submissions: ns + ".submissions", Reports: ns + ".reports",
		DeadSubmissions: "dlq." + ns + ".submissions", DeadReports: "dlq." + ns + ".reports", Work: func(agent string) string { return ns + ".work." + agent }}
}

// TestEveryRunOfTheSimulatorIsProved checks logs with every fault that the simulator makes.
func TestEveryRunOfTheSimulatorIsProved(t *testing.T) {
	t.Parallel()
	var total verify.Counts
	judged, givenUp := 0, 0
	for seed := uint64(1); seed <= uint64(*simSeeds); seed++ {
		run := sim.Record(seed, sim.Options{})
		if run.Report.Violation != "" {
			t.Logf("seed %d failed in the simulator, so it is not judged: %s", seed, run.Report.Violation) // the simulator's own tests report it
			continue
		}
		r, err := verify.Run(context.Background(), verify.Config{Log: &memory{run.Topics}, Topics: topicsOf("sim"), Now: events.Instant(1_900_000_000_000), AtRest: false, MaxLevel: sim.MaxLevel})
		require.NoError(t, err)
		var real []string
		for _, f := range r.Findings {
			if f.Kind != "work_missing" {
				real = append(real, f.String())
			}
		}
		require.Empty(t, real, "seed %d", seed)
		judged++
		if n := r.Counts.Inputs["given_up"]; n > 0 {
			givenUp += n
			require.Contains(t, fmt.Sprint(r.Warnings), "an operator gave up", "seed %d", seed)
		}
		total.Facts += r.Counts.Facts
		total.BrokenEpochs += r.Counts.BrokenEpochs
		total.Epochs += r.Counts.Epochs
		total.Tasks += r.Counts.Tasks
		total.Parked += r.Counts.Parked
		total.Swept += r.Counts.Swept
		total.Undos += r.Counts.Undos
		total.DeadLetters.Records += r.Counts.DeadLetters.Records
		total.Forwards.Records += r.Counts.Forwards.Records
		total.StateHashes += r.Counts.StateHashes
	}
	t.Logf("%d runs: %+v", judged, total)
	if *simSeeds >= 60 { // fewer runs need not reach these
		require.GreaterOrEqual(t, 10*judged, 9**simSeeds)
		for what, n := range map[string]int{
			"facts": int(total.Facts), "broken epochs": total.BrokenEpochs, "tasks": total.Tasks, "parked": total.Parked, "swept": total.Swept,
			"undos": total.Undos, "dead letters": total.DeadLetters.Records, "forwards": total.Forwards.Records, "state hashes": total.StateHashes, "given up": givenUp,
		} {
			require.Positive(t, n, what)
		}
	}
}
