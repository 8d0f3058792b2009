package verify_test

import (
	"context"
	"encoding/json"
	"testing"

	"github.com/sagalog/sagalog/events"
	"github.com/sagalog/sagalog/internal/sim"
	"github.com/sagalog/sagalog/internal/verify"
	"github.com/stretchr/testify/require"
)

// progressed returns a recorded run, and the place of a fact about progress in it that is not void.
func progressed(t *testing.T) (topics map[string][][]events.Record, partition, index int) {
	for seed := uint64(1); seed <= 40; seed++ {
		run := sim.Record(seed, sim.Options{})
		if run.Report.Violation != "" || run.Report.Kinds[events.NameStepProgressed] == 0 {
			continue
		}
		for p, records := range run.Topics["sim.events"] {
			for i := range records {
				if records[i].Header(events.HeaderType) == events.TypePrefix+string(events.NameStepProgressed) {
					return run.Topics, p, i
				}
			}
		}
	}
	require.Fail(t, "no run has progress")
	return nil, 0, 0
}

// kindsOf verifies a log, and returns what is found in it.
func kindsOf(t *testing.T, topics map[string][][]events.Record) map[string]bool {
	r, err := verify.Run(context.Background(), verify.Config{Log: &memory{topics}, Topics: topicsOf("sim"), Now: events.Instant(1_900_000_000_000), MaxLevel: sim.MaxLevel})
	require.NoError(t, err)
	kinds := map[string]bool{}
	for _, f := range r.Findings {
		kinds[f.Kind] = true
	}
	return kinds
}

func TestProgressThatExtendsTooFarIsFound(t *testing.T) {
	t.Parallel()
	topics, p, i := progressed(t)
	record := &topics["sim.events"][p][i]
	before := record.Value
	require.False(t, kindsOf(t, topics)["progress_extends"])
	var b events.StepProgressed
	require.NoError(t, json.Unmarshal(before, &b))
	b.CompleteBy += 1000
	changed, err := events.Marshal(&b)
	require.NoError(t, err)
	record.Value = changed
	require.True(t, kindsOf(t, topics)["progress_extends"])
}

func TestAProgressFactThatFollowsFromAnotherReportIsFound(t *testing.T) {
	t.Parallel()
	topics, p, i := progressed(t)
	records := topics["sim.events"][p]
	require.False(t, kindsOf(t, topics)["not_its_input"])
	in, part, offset, ok := events.Cause(records[i].Header(events.HeaderCause)).Input()
	require.True(t, ok)
	reports := topics["sim."+string(in)][part]
	for k := range reports {
		if reports[k].Offset == offset {
			var r events.Report
			require.NoError(t, json.Unmarshal(reports[k].Value, &r))
			r.Result = events.ResultCompleted
			changed, err := events.Marshal(&r)
			require.NoError(t, err)
			reports[k].Value = changed
		}
	}
	require.True(t, kindsOf(t, topics)["not_its_input"])
}
