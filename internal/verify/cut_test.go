package verify_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/sagalog/sagalog/events"
	"github.com/sagalog/sagalog/internal/sim"
	"github.com/sagalog/sagalog/internal/verify"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// A log that is cut where any complete carry begins is proved as the whole one is, and has the same state. So is one whose inputs are trimmed too.
func TestALogThatIsCutIsProvedFromThereOn(t *testing.T) {
	t.Parallel()
	carries := 0
	var total verify.Counts
	for seed := uint64(1); seed <= uint64(max(6, *simSeeds/16)); seed++ {
		run := sim.Record(seed, sim.Options{})
		if run.Report.Violation != "" {
			continue
		}
		whole := &memory{run.Topics}
		cfg := verify.Config{Log: whole, Topics: topicsOf("sim"), Now: events.Instant(1_900_000_000_000), MaxLevel: sim.MaxLevel}
		cuts := completeCarries(&cfg)
		r, err := verify.Run(t.Context(), cfg)
		require.NoError(t, err)
		assert.Empty(t, real(r), "seed %d", seed)
		cfg.Fact = nil
		for p, offsets := range cuts {
			for i, offset := range offsets {
				carries++
				cfg.Log = whole.cut(p, offset, i%2 == 0)
				got, err := verify.Run(t.Context(), cfg)
				require.NoError(t, err)
				at := fmt.Sprintf("seed %d, partition %d from offset %d", seed, p, offset)
				assert.Empty(t, real(got), at)
				require.Equal(t, r.Partitions[p].Hash, got.Partitions[p].Hash, at)
				require.Equal(t, offset, got.Partitions[p].From)
				for _, c := range got.Checks {
					require.Empty(t, c.Unable, at)
				}
				total.Carried += got.Counts.Carried
				total.Attempts += got.Counts.Attempts
				total.Tasks += got.Counts.Tasks
			}
		}
	}
	require.Positive(t, carries)
	t.Logf("%d carries: %d tasks carried, %d accepted since, %d attempts", carries, total.Carried, total.Tasks, total.Attempts)
}

// real leaves out the work requests that the simulator deletes.
func real(r *verify.Report) (list []string) {
	for _, f := range r.Findings {
		if f.Kind != "work_missing" {
			list = append(list, f.Kind+": "+f.String())
		}
	}
	return list
}

// completeCarries makes the check note where the complete carries begin, by partition.
func completeCarries(cfg *verify.Config) map[int32][]int64 {
	begun, cuts := map[int32]int64{}, map[int32][]int64{}
	cfg.Fact = func(f *events.Fact, r *events.Record, accepted bool) {
		switch {
		case !accepted:
		case f.Body.Name() == events.NameCarryBegun:
			begun[r.Partition] = r.Offset
		case f.Body.Name() == events.NameCarryEnded && begun[r.Partition] > 0:
			cuts[r.Partition] = append(cuts[r.Partition], begun[r.Partition])
		}
	}
	return cuts
}

// cut returns the log with one partition cut, and perhaps its inputs trimmed to what was judged when the carry began.
func (m *memory) cut(p int32, offset int64, trim bool) *memory {
	cut := &memory{maps.Clone(m.topics)}
	drop := func(topic string, offset int64) {
		cut.topics[topic] = slices.Clone(cut.topics[topic])
		cut.topics[topic][p] = from(cut.topics[topic][p], offset)
	}
	events := ""
	for topic := range m.topics {
		if _, is := suffixed(topic, ".events"); is {
			events = topic
		}
	}
	drop(events, offset)
	if !trim {
		return cut
	}
	ns, _ := suffixed(events, ".events")
	for in, next := range judgedAt(cut.topics[events][p][0]) {
		if list := cut.topics[ns+"."+string(in)][p]; len(list) > 0 && list[len(list)-1].Offset >= next {
			drop(ns+"."+string(in), next-1)
		}
	}
	return cut
}

func from(records []events.Record, offset int64) []events.Record {
	for i := range records {
		if records[i].Offset >= offset {
			return records[i:]
		}
	}
	return nil
}

func suffixed(s, suffix string) (string, bool) { return strings.CutSuffix(s, suffix) }

// judgedAt returns the resume points in a CarryBegun.
func judgedAt(r events.Record) map[events.Input]int64 {
	var b struct {
		State events.PartitionState `json:"state"`
	}
	_ = json.Unmarshal(r.Value, &b)
	next := map[events.Input]int64{}
	for in, x := range b.State.Inputs {
		next[in] = x.Next
	}
	return next
}
