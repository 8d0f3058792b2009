package export

import (
	"context"
	"encoding/json"
	"fmt"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sagalog/sagalog/events"
)

// Each attempt that began is one row, with how it ended or without an outcome.
func TestEachAttemptIsARow(t *testing.T) {
	t.Parallel()
	outcomes := map[string]int{}
	for _, l := range runs(t, 12) {
		dir := t.TempDir()
		_, err := Facts(t.Context(), configOf(l, dir, Parquet))
		require.NoError(t, err)
		_, err = Attempts(t.Context(), configOf(l, dir, Parquet))
		require.NoError(t, err)
		begun, ended := map[string]Fact{}, map[string]Fact{}
		place := func(partition int32, offset int64) string { return fmt.Sprint(partition, " ", offset) }
		for _, f := range factsIn(t, filepath.Join(dir, "facts")) {
			switch events.Name(f.Type) {
			case events.NameStepStarted, events.NameCompensationStarted:
				begun[place(f.Partition, f.Offset)] = f
			case events.NameStepCompleted, events.NameStepFailed, events.NameTimeout, events.NameCompensated, events.NameCompensationFailed:
				if f.Attempt > 0 {
					ended[place(f.Partition, f.Offset)] = f
				}
			}
		}
		rows := rowsIn[Attempt](t, filepath.Join(dir, "attempts"))
		keys := map[string]string{}
		for _, a := range rows {
			require.NotNil(t, a.StartedOffset)
			f, ok := begun[place(a.Partition, *a.StartedOffset)]
			require.True(t, ok, "it began once")
			delete(begun, place(a.Partition, *a.StartedOffset))
			require.Equal(t, []any{f.Task, f.Step, f.Item, f.Attempt, f.Operation, f.Incarnation}, []any{a.Task, a.Step, a.Item, a.Attempt, a.Operation, a.Incarnation})
			require.Equal(t, f.Time, *a.StartedAt)
			outcomes[a.Operation+" "+a.Outcome]++
			if a.Child == "" {
				item := int32(-1)
				if a.Item != nil {
					item = *a.Item
				}
				of := fmt.Sprint(a.Partition, a.Task, a.Incarnation, a.Run, a.Step, item, a.Operation)
				require.True(t, keys[a.IdempotencyKey] == "" || keys[a.IdempotencyKey] == of, "one key for each do and undo, whatever the attempt")
				keys[a.IdempotencyKey] = of
			}
			if a.EndedOffset == nil {
				require.Empty(t, a.Outcome)
				continue
			}
			f, ok = ended[place(a.Partition, *a.EndedOffset)]
			require.True(t, ok, "it ended once")
			delete(ended, place(a.Partition, *a.EndedOffset))
			require.Equal(t, []any{f.Task, f.Step, f.Item, f.Attempt, f.Operation}, []any{a.Task, a.Step, a.Item, a.Attempt, a.Operation})
			require.Equal(t, map[events.Name]string{
				events.NameStepCompleted: "completed", events.NameCompensated: "completed", events.NameStepFailed: "failed", events.NameCompensationFailed: "failed", events.NameTimeout: "timed_out",
			}[events.Name(f.Type)], a.Outcome)
			require.Equal(t, a.Outcome == "completed", a.Verdict == "")
		}
		require.Empty(t, begun)
		require.Empty(t, ended)
	}
	for _, o := range []string{"do completed", "do failed", "do timed_out", "undo completed", "undo failed", "undo timed_out"} {
		require.NotZero(t, outcomes[o], "no run has it: %s (%v)", o, outcomes)
	}
}

// Each run of each task is one row, with the state that its last fact leads to; each of its steps is one row, with the output that the facts say.
func TestEachRunAndEachStepIsARow(t *testing.T) {
	t.Parallel()
	states, kinds, swept := map[string]int{}, map[string]int{}, 0
	for _, l := range runs(t, 12) {
		dir := t.TempDir()
		for _, table := range []func(context.Context, Config) (Result, error){Facts, Tasks, Steps} {
			_, err := table(t.Context(), configOf(l, dir, Parquet))
			require.NoError(t, err)
		}
		of := func(task, incarnation string, run int32) string { return fmt.Sprint(task, " ", incarnation, " ", run) }
		ends := map[events.Name]string{events.NameTaskProcessed: "processed", events.NameTaskUndone: "undone", events.NameTaskTerminated: "terminated", events.NameChildRefused: "rejected"}
		begun, latest, outputs := map[string]bool{}, map[string]string{}, map[string]string{}
		for _, f := range factsIn(t, filepath.Join(dir, "facts")) {
			at := of(f.Task, f.Incarnation, f.Run)
			switch name := events.Name(f.Type); name {
			case events.NameSubmitted, events.NameRunBegun, events.NameChildRefused:
				begun[at], latest[at] = true, ends[name]
			case events.NameTaskProcessed, events.NameTaskUndone, events.NameTaskTerminated:
				latest[at] = ends[name]
			case events.NameChildUndoRequested, events.NameTaskRerun:
				latest[at] = "" // it is under way again
			case events.NameTasksSwept:
				swept++
			case events.NameStepCompleted:
				if f.Item == nil {
					var b events.StepCompleted
					require.NoError(t, json.Unmarshal([]byte(f.Data), &b))
					outputs[at+" "+f.Step] = string(b.Output)
				}
			}
		}
		tasks := map[string]Task{}
		for _, row := range rowsIn[Task](t, filepath.Join(dir, "tasks")) {
			at := of(row.Task, row.Incarnation, row.Run)
			require.NotContains(t, tasks, at, "a run is one row")
			tasks[at] = row
			require.True(t, begun[at], at)
			if want := latest[at]; want != "" {
				require.Equal(t, want, row.State, at)
			} else {
				require.False(t, events.TaskState(row.State).Ended(), "%s is %s", at, row.State)
			}
			states[row.State]++
			require.Equal(t, row.Run == 1 && row.Attempts > 0, row.Run == 1 && row.FirstStartedAt != nil, at)
		}
		require.Len(t, tasks, len(begun), "each run has a row")
		for _, row := range rowsIn[Step](t, filepath.Join(dir, "steps")) {
			at := of(row.Task, row.Incarnation, row.Run)
			require.Contains(t, tasks, at)
			require.Equal(t, tasks[at].State == "processed" && row.State == "running", false)
			kinds[row.Kind]++
			if out, ok := outputs[at+" "+row.Step]; ok && row.Item == nil && row.State == "completed" && row.Kind != "items" {
				require.Equal(t, out, row.Output)
			}
		}
	}
	for _, s := range []string{"processed", "undone", "terminated"} {
		require.NotZero(t, states[s], "%s: %v", s, states)
	}
	for _, k := range []string{"agent", "child", "items", "wait"} {
		require.NotZero(t, kinds[k], "%s: %v", k, kinds)
	}
	require.NotZero(t, swept)
}
