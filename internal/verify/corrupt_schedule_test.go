package verify_test

import (
	"context"
	"encoding/json"
	"slices"
	"testing"

	"github.com/sagalog/sagalog/events"
	"github.com/sagalog/sagalog/internal/sim"
	"github.com/sagalog/sagalog/internal/verify"
	"github.com/stretchr/testify/require"
)

// A schedule may ask only a task that it started and that has not ended to cancel, once, and for the due time that waits. And the submission of a due
// time names where its schedule began.
func TestAWrongFactOfAScheduleIsRefuted(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		fact   events.Name
		member string
		value  any
		kind   string
	}{
		"another task":      {events.NameScheduleCancelRequested, "task", "s1/other", "schedule_cancel"},
		"another due time":  {events.NameScheduleCancelRequested, "due", "2029-01-01T00:00:00.000Z", "schedule_cancel"},
		"another schedule":  {events.NameScheduleCancelRequested, "began", 4711, "schedule_cancel"},
		"nothing to cancel": {events.NameSchedulePassed, "cancels", false, "schedule_cancel"},
		"another beginning": {events.NameScheduleFired, "submission", nil, "schedule_task"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for seed := uint64(1); ; seed++ {
				require.Less(t, seed, uint64(300), "no run has such a fact")
				run := sim.Record(seed, sim.Options{})
				if run.Report.Violation != "" || !harmSchedule(t, run.Topics["sim.events"], c.fact, c.member, c.value) {
					continue
				}
				r, err := verify.Run(context.Background(), verify.Config{
					Log: &memory{run.Topics}, Topics: topicsOf("sim"), Now: events.Instant(1_900_000_000_000), MaxLevel: sim.MaxLevel, Show: 10_000,
				})
				require.NoError(t, err)
				var kinds []string
				for _, f := range r.Findings {
					kinds = append(kinds, f.Kind)
				}
				if len(kinds) == 0 { // the fact was void
					continue
				}
				require.Contains(t, kinds, c.kind, "seed %d", seed)
				return
			}
		})
	}
}

// harmSchedule changes a member of the first fact of that kind which has it, and says whether one does.
func harmSchedule(t *testing.T, parts [][]events.Record, kind events.Name, member string, value any) bool {
	for _, part := range parts {
		for i := range part {
			if part[i].Header(events.HeaderType) != events.TypePrefix+string(kind) {
				continue
			}
			var body map[string]json.RawMessage
			require.NoError(t, json.Unmarshal(part[i].Value, &body))
			if _, ok := body[member]; !ok || member == "cancels" && !cancelFollows(t, part[i+1:], body["due"]) {
				continue
			}
			if member == "submission" {
				var sub map[string]any
				require.NoError(t, json.Unmarshal(body[member], &sub))
				sub["schedule_began"] = 4711
				value = sub
			}
			text, err := json.Marshal(value)
			require.NoError(t, err)
			body[member] = text
			part[i].Value, err = json.Marshal(body)
			require.NoError(t, err)
			return true
		}
	}
	return false
}

// cancelFollows says whether a task is asked to cancel for that due time. Where all tasks were asked before, none is.
func cancelFollows(t *testing.T, records []events.Record, due json.RawMessage) bool {
	return slices.ContainsFunc(records, func(r events.Record) bool {
		var body map[string]json.RawMessage
		if r.Header(events.HeaderType) != events.TypePrefix+string(events.NameScheduleCancelRequested) {
			return false
		}
		require.NoError(t, json.Unmarshal(r.Value, &body))
		return string(body["due"]) == string(due)
	})
}
