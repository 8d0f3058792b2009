package verify_test

import (
	"context"
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/sagalog/sagalog/events"
	"github.com/sagalog/sagalog/internal/sim"
	"github.com/sagalog/sagalog/internal/verify"
)

// life is a step completed by one of the tasks that shared an ID.
type life struct{ task, step, ticket string }

// livesOf returns the calls that a run asked for, as if each had succeeded, and the steps that were completed.
func livesOf(t *testing.T, run *sim.Recorded) (calls []verify.Call, completed []life) {
	var created events.NamespaceCreated
	require.NoError(t, json.Unmarshal(run.Topics["sim.definitions"][0][0].Value, &created))
	namespace := uuid.MustParse(created.ID)
	tickets := map[string]string{}
	add := func(task, step string, op events.Operation) {
		w := events.Work{Task: task, Ticket: tickets[task], Run: 1, Step: step}
		calls = append(calls, verify.Call{Identifier: w.Key(namespace, op), Task: task, Step: step, Operation: op, Outcome: "repeated"})
	}
	verified(t, run, func(c *verify.Config) {
		c.Fact = func(f *events.Fact, _ *events.Record, accepted bool) {
			if !accepted {
				return
			}
			switch b := f.Body.(type) {
			case *events.Submitted:
				tickets[f.Task] = f.Position().String()
			case *events.StepStarted:
				add(f.Task, b.Step, events.Do)
			case *events.CompensationStarted:
				add(f.Task, b.Step, events.Undo)
			case *events.StepCompleted:
				completed = append(completed, life{f.Task, b.Step, tickets[f.Task]})
			}
		}
	})
	return calls, completed
}

func verified(t *testing.T, run *sim.Recorded, change func(*verify.Config)) *verify.Report {
	cfg := verify.Config{Log: &memory{run.Topics}, Topics: topicsOf("sim"), Now: events.Instant(1_900_000_000_000)}
	change(&cfg)
	r, err := verify.Run(context.Background(), cfg)
	require.NoError(t, err)
	return r
}

// findings returns the findings about calls in the ledgers.
func findings(t *testing.T, run *sim.Recorded, calls []verify.Call) (list []verify.Finding) {
	var text strings.Builder
	for _, c := range calls {
		require.NoError(t, json.NewEncoder(&text).Encode(c))
	}
	l := verify.NewLedgers()
	require.NoError(t, l.Read("all", strings.NewReader(text.String()), 0))
	for _, f := range verified(t, run, func(c *verify.Config) { c.Ledgers = l }).Findings {
		if f.Check == verify.CheckLedgers {
			list = append(list, f)
		}
	}
	return list
}

// A task that reuses a forgotten ID has new identifiers, so the calls for one task cannot pass for those of the other.
func TestEachTaskOfAnIDHasItsOwnCalls(t *testing.T) {
	t.Parallel()
	for seed := uint64(1); seed <= 500; seed++ {
		run := sim.Record(seed, sim.Options{})
		calls, completed := livesOf(t, run)
		at := slices.IndexFunc(completed, func(x life) bool {
			return slices.ContainsFunc(completed, func(y life) bool { return x.task == y.task && x.step == y.step && x.ticket < y.ticket })
		})
		if at < 0 {
			continue
		}
		require.Empty(t, findings(t, run, calls), "seed %d", seed)
		x := completed[at]
		first := slices.IndexFunc(calls, func(c verify.Call) bool { return c.Task == x.task && c.Step == x.step && c.Operation == events.Do })
		gone := calls[first].Identifier
		left := slices.DeleteFunc(slices.Clone(calls), func(c verify.Call) bool { return c.Identifier == gone })
		found := findings(t, run, left)
		require.NotEmpty(t, found, "seed %d", seed)
		require.Equal(t, "not_called", found[0].Kind)
		require.Equal(t, x.task, found[0].Task)
		return
	}
	require.Fail(t, "no run completes a step of two tasks with the same ID")
}
