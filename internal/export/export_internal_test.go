package export

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/parquet-go/parquet-go"
	"github.com/stretchr/testify/require"

	"github.com/sagalog/sagalog/events"
	"github.com/sagalog/sagalog/internal/sim"
	"github.com/sagalog/sagalog/internal/verify"
)

// recorded is the log of a run of the simulator, with every fault that it makes: void records, take-overs, carries.
type recorded struct {
	partitions [][]events.Record
	// left is how many records can still be read before reading fails, if it breaks.
	left   atomic.Int64
	breaks bool
}

// readable returns the log of which left records can be read; negative: all.
func readable(partitions [][]events.Record, left int) *recorded {
	l := &recorded{partitions: partitions, breaks: left >= 0}
	l.left.Store(int64(left))
	return l
}

var errBroken = errors.New("the broker is gone")

func (l *recorded) Bounds(context.Context, string) (list []verify.Bounds, err error) {
	for _, records := range l.partitions {
		b := verify.Bounds{}
		if n := len(records); n > 0 {
			b = verify.Bounds{Start: records[0].Offset, End: records[n-1].Offset + 1}
		}
		list = append(list, b)
	}
	return list, nil
}

func (l *recorded) Read(_ context.Context, s verify.Span, yield func(events.Record) error) error {
	for _, r := range l.partitions[s.Partition] {
		if r.Offset < s.From || r.Offset >= s.To {
			continue
		}
		if l.breaks && l.left.Add(-1) < 0 {
			return errBroken
		}
		if err := yield(r); err != nil {
			return err
		}
	}
	return nil
}

// runs returns logs of the simulator.
func runs(t *testing.T, n int) (list []*recorded) {
	t.Helper()
	for seed := uint64(1); len(list) < n; seed++ {
		run := sim.Record(seed, sim.Options{})
		if run.Report.Violation == "" && len(slices.Concat(run.Topics["sim.events"]...)) > 50 {
			list = append(list, readable(run.Topics["sim.events"], -1))
		}
	}
	return list
}

func configOf(l *recorded, dir string, f Format) Config {
	return Config{Log: l, Topics: verify.Topics{Events: "sim.events", Submissions: "sim.submissions", Reports: "sim.reports"}, Namespace: "sim", Dir: dir, Format: f, fileRows: 12, level: sim.MaxLevel}
}

// filesOf returns the files below a directory, with their content.
func filesOf(t *testing.T, dir string) map[string]string {
	t.Helper()
	files := map[string]string{}
	require.NoError(t, filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		b, err := os.ReadFile(path)
		files[strings.TrimPrefix(path, dir)] = string(b)
		return err
	}))
	return files
}

func rowsIn[R any](t *testing.T, dir string) (all []R) {
	t.Helper()
	for path := range filesOf(t, dir) {
		if strings.HasSuffix(path, ".parquet") {
			list, err := parquet.ReadFile[R](filepath.Join(dir, path))
			require.NoError(t, err)
			all = append(all, list...)
		}
	}
	return all
}

func factsIn(t *testing.T, dir string) []Fact {
	t.Helper()
	all := rowsIn[Fact](t, dir)
	slices.SortFunc(all, func(a, b Fact) int {
		return cmp.Or(cmp.Compare(a.Partition, b.Partition), cmp.Compare(a.Offset, b.Offset))
	})
	return all
}

// The rows are the accepted facts of the log, and each says of its task what the engine's fold says.
func TestTheRowsAreWhatTheEngineFolds(t *testing.T) {
	t.Parallel()
	items, undos, reruns := 0, 0, 0
	for _, l := range runs(t, 12) {
		dir := t.TempDir()
		_, err := Facts(t.Context(), configOf(l, dir, Parquet))
		require.NoError(t, err)
		rows := factsIn(t, dir)
		n := 0
		for p, records := range l.partitions {
			state := events.NewState(int32(p), nil)
			state.SetLevel(sim.MaxLevel)
			for i := range records {
				r := &records[i]
				if r.Control {
					continue
				}
				f, err := events.DecodeFact(r)
				require.NoError(t, err)
				fate, err := state.Apply(f, r.Offset)
				require.NoError(t, err)
				if fate != events.FateAccepted {
					continue
				}
				row := rows[n]
				n++
				require.Equal(t, r.Offset, row.Offset)
				require.EqualValues(t, p, row.Partition)
				require.Equal(t, string(f.Body.Name()), row.Type)
				require.Equal(t, f.Task, row.Task)
				require.EqualValues(t, f.Time, row.Time)
				require.Equal(t, string(f.Cause), row.Cause)
				require.Equal(t, state.Partition.Owner, row.Owner)
				require.Equal(t, state.Partition.Epoch.String(), row.Epoch)
				require.JSONEq(t, string(r.Value), row.Data)
				if row.Item != nil {
					items++
				}
				if row.Operation == "undo" {
					undos++
				}
				if row.Run > 1 {
					reruns++
				}
				task, err := state.Task(f.Task)
				require.NoError(t, err)
				if f.Task == "" || task == nil || row.Type == string(events.NameRequestHeld) {
					continue
				}
				require.Equal(t, task.Incarnation, row.Incarnation, "offset %d: %s", r.Offset, row.Type)
				require.EqualValues(t, task.Run, row.Run)
				require.Equal(t, task.Workflow, row.Workflow)
				require.EqualValues(t, task.Version, row.Version)
			}
		}
		require.Len(t, rows, n)
	}
	require.NotZero(t, items)
	require.NotZero(t, undos)
	require.NotZero(t, reruns)
}

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

// An export that was broken off anywhere, as often as it is, has the same bytes in the end as one that was not.
func TestABrokenExportGoesOn(t *testing.T) {
	t.Parallel()
	l := runs(t, 1)[0]
	total := len(slices.Concat(l.partitions...))
	dice := rand.New(rand.NewPCG(1, 2))
	tables := []func(context.Context, Config) (Result, error){Facts, Attempts, Tasks, Steps}
	for i, f := range slices.Concat(Formats, Formats, Formats, Formats) {
		table := tables[i/len(Formats)]
		whole := t.TempDir()
		res, err := table(t.Context(), configOf(l, whole, f))
		require.NoError(t, err)
		require.Positive(t, res.Rows)
		want := filesOf(t, whole)
		require.Greater(t, len(want), 2, "several files")
		for range []int{20, 20, 4, 4}[i/len(Formats)] {
			dir, broken, rows := t.TempDir(), 0, int64(0)
			for {
				left := -1
				if broken < 5 {
					left = dice.IntN(total)
				}
				one := readable(l.partitions, left)
				res, err := table(t.Context(), configOf(one, dir, f))
				if rows += res.Rows; err == nil {
					break
				}
				require.ErrorIs(t, err, errBroken)
				broken++
			}
			require.Equal(t, want, filesOf(t, dir), "%s, broken off %d times", f, broken)
			res, err := table(t.Context(), configOf(l, dir, f))
			require.NoError(t, err)
			require.True(t, res.Already)
		}
	}
}

// JSON Lines and CSV say what Parquet says.
func TestTheFormatsAgree(t *testing.T) {
	t.Parallel()
	l := runs(t, 1)[0]
	dirs := map[Format]string{}
	for _, f := range Formats {
		dirs[f] = t.TempDir()
		_, err := Facts(t.Context(), configOf(l, dirs[f], f))
		require.NoError(t, err)
	}
	var lines, cells []string
	for path, text := range filesOf(t, dirs[JSONL]) {
		if strings.HasSuffix(path, ".jsonl") {
			lines = append(lines, strings.Split(strings.TrimSpace(text), "\n")...)
		}
	}
	for path, text := range filesOf(t, dirs[CSV]) {
		if strings.HasSuffix(path, ".csv") {
			list := strings.Split(strings.TrimSpace(text), "\n")
			require.True(t, strings.HasPrefix(list[0], "partition,offset,time,epoch,sequence,owner,type,task,run,"), list[0])
			cells = append(cells, list[1:]...)
		}
	}
	rows := factsIn(t, dirs[Parquet])
	require.Len(t, lines, len(rows))
	require.Len(t, cells, len(rows))
	seen := map[string]Fact{}
	for _, r := range rows {
		seen[fmt.Sprint(r.Partition, " ", r.Offset)] = r
	}
	for _, line := range lines {
		var row struct {
			Partition int32
			Offset    int64
			Time      events.Instant
			Type      string
			Task      *string
			Item      *int32
			Cause     *string
			Data      json.RawMessage
		}
		require.NoError(t, json.Unmarshal([]byte(line), &row))
		want, ok := seen[fmt.Sprint(row.Partition, " ", row.Offset)]
		require.True(t, ok)
		require.Equal(t, want.Time, int64(row.Time))
		require.Equal(t, want.Type, row.Type)
		require.Equal(t, want.Item, row.Item)
		require.Equal(t, want.Data, string(row.Data))
		require.Equal(t, want.Task == "", row.Task == nil)
		require.Equal(t, want.Cause == "", row.Cause == nil)
	}
}

// What is asked for is what is exported, and a directory holds one export.
func TestWhatIsAskedFor(t *testing.T) {
	t.Parallel()
	l := runs(t, 1)[0]
	dir := t.TempDir()
	_, err := Facts(t.Context(), configOf(l, dir, Parquet))
	require.NoError(t, err)
	all := factsIn(t, dir)
	from, workflow := events.Instant(all[len(all)/2].Time), ""
	for _, r := range all {
		if r.Workflow != "" {
			workflow = r.Workflow
		}
	}
	part := t.TempDir()
	cfg := configOf(l, part, Parquet)
	cfg.Since, cfg.Workflow, cfg.NoPayloads, cfg.Asked = from, workflow, true, "half"
	_, err = Facts(t.Context(), cfg)
	require.NoError(t, err)
	var want []Fact
	for _, r := range all {
		if r.Workflow == workflow && r.Time >= int64(from) {
			r.Data = ""
			want = append(want, r)
		}
	}
	require.NotEmpty(t, want)
	require.Equal(t, want, factsIn(t, part))

	cfg.Since++ // the time moved on; what was asked is the same
	res, err := Facts(t.Context(), cfg)
	require.NoError(t, err)
	require.True(t, res.Already)
	cfg.Asked = "all"
	_, err = Facts(t.Context(), cfg)
	require.ErrorIs(t, err, ErrOther)
	full := t.TempDir()
	require.NoError(t, os.MkdirAll(filepath.Join(full, "facts", "mine"), 0o755))
	_, err = Facts(t.Context(), configOf(l, full, CSV))
	require.ErrorContains(t, err, "is not empty")
}

// A log whose beginning is gone says from when on it is whole, and its carried tasks are known.
func TestACutLog(t *testing.T) {
	t.Parallel()
	known := 0
	for seed := uint64(1); known < 20; seed++ {
		require.Less(t, seed, uint64(400), "no run carries its tasks")
		run := sim.Record(seed, sim.Options{})
		for _, records := range run.Topics["sim.events"] {
			at := slices.IndexFunc(records, func(r events.Record) bool {
				return r.Header(events.HeaderType) == events.TypePrefix+string(events.NameCarryBegun)
			})
			if run.Report.Violation != "" || at < 1 {
				continue
			}
			dir := t.TempDir()
			res, err := Facts(t.Context(), configOf(readable([][]events.Record{records[at:]}, -1), dir, Parquet))
			require.NoError(t, err)
			require.NotZero(t, res.Begins)
			for _, r := range factsIn(t, dir) {
				if r.Type == string(events.NameEntityCarried) && r.Workflow != "" {
					known++
				}
			}
		}
	}
}
