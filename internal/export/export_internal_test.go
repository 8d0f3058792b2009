package export

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
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

// logs are those of runs of the simulator.
var logs = sync.OnceValue(func() (list [][][]events.Record) {
	for seed := uint64(1); len(list) < 12; seed++ {
		run := sim.Record(seed, sim.Options{})
		if run.Report.Violation == "" && len(slices.Concat(run.Topics["sim.events"]...)) > 50 {
			list = append(list, run.Topics["sim.events"])
		}
	}
	return list
})

func runs(t *testing.T, n int) (list []*recorded) {
	t.Helper()
	for _, l := range logs()[:n] {
		list = append(list, readable(l, -1))
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
		for range tries(i / len(Formats)) {
			dir, broken, rows := t.TempDir(), 0, int64(0)
			for {
				left := -1
				if broken < 5 {
					left = dice.IntN(total)
				}
				one := readable(l.partitions, left)
				cfg := configOf(one, dir, f)
				cfg.shelfTasks = 1 + dice.IntN(3)
				res, err := table(t.Context(), cfg)
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

// Whatever rows have a value in a column, the others have none.
func TestAbsentValuesStayAbsent(t *testing.T) {
	t.Parallel()
	type row struct {
		N    int64    `parquet:"n"`
		Text string   `parquet:"text,optional,dict"`
		Wide string   `parquet:"wide,optional"`
		Int  int32    `parquet:"int,optional"`
		Time *int64   `parquet:"time,timestamp(millisecond)"`
		Real *float64 `parquet:"real"`
	}
	dice := rand.New(rand.NewPCG(3, 4))
	for range 200 {
		var want []row
		for has, left := false, 0; len(want) < 300; left-- {
			if left == 0 {
				has, left = !has, 1+dice.IntN(70)
			}
			r := row{N: int64(len(want))}
			if has {
				real := float64(len(want)) / 4
				r.Text, r.Wide, r.Int, r.Time, r.Real = "x", fmt.Sprint("y", len(want)), int32(1+len(want)), &r.N, &real
			}
			want = append(want, r)
		}
		var file bytes.Buffer
		to := newRows[row](Parquet, &file, nil)
		for i := 0; i < len(want); i += 100 {
			require.NoError(t, to.write(want[i:i+100]))
		}
		require.NoError(t, to.close())
		got, err := parquet.Read[row](bytes.NewReader(file.Bytes()), int64(file.Len()))
		require.NoError(t, err)
		require.Equal(t, want, got)
		read, err := parquet.OpenFile(bytes.NewReader(file.Bytes()), int64(file.Len())) // a row does not tell an absent text from an empty one
		require.NoError(t, err)
		absent := int64(0)
		for _, r := range want {
			if r.Text == "" {
				absent++
			}
		}
		for i, c := range read.RowGroups()[0].ColumnChunks() {
			nulls := int64(0)
			for pages := c.Pages(); ; {
				page, err := pages.ReadPage()
				if err == io.EOF {
					break
				}
				require.NoError(t, err)
				nulls += page.NumNulls()
			}
			require.Equal(t, i > 0, nulls == absent, "column %d: %d absent values, and %d should be", i, nulls, absent)
		}
	}
}

// tries is how often the export of each table is broken off: those that fold take longer.
func tries(table int) int {
	if testing.Short() {
		return 2
	}
	return []int{20, 20, 4, 4}[table]
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

// shrinking is a log whose partitions are cut after their bounds were asked for.
type shrinking struct {
	*recorded
	rest  *recorded
	asked atomic.Int64
}

func (l *shrinking) Bounds(ctx context.Context, topic string) ([]verify.Bounds, error) {
	if l.asked.Add(1) > 1 {
		return l.rest.Bounds(ctx, topic)
	}
	return l.recorded.Bounds(ctx, topic)
}

func (l *shrinking) Read(ctx context.Context, s verify.Span, yield func(events.Record) error) error {
	if begins := l.rest.partitions[s.Partition][0].Offset; s.From < begins {
		return fmt.Errorf("offset %d is before %d", s.From, begins)
	}
	return l.rest.Read(ctx, s, yield)
}

// A log that is in use is cut now and then. A partition is exported from where it begins when its turn comes, which may be minutes after the first look. But an
// export with a gap is refused.
func TestAPartitionIsExportedFromWhereItBeginsThen(t *testing.T) {
	t.Parallel()
	whole := logs()[0]
	rest := make([][]events.Record, len(whole))
	for i, records := range whole {
		rest[i] = records[len(records)/2:]
	}
	dir, want := t.TempDir(), t.TempDir()
	cfg := configOf(readable(whole, -1), dir, Parquet)
	cfg.Log = &shrinking{recorded: readable(whole, -1), rest: readable(rest, -1)}
	res, err := Facts(t.Context(), cfg)
	require.NoError(t, err)
	require.NotZero(t, res.Begins)
	_, err = Facts(t.Context(), configOf(readable(rest, -1), want, Parquet))
	require.NoError(t, err)
	require.Equal(t, filesOf(t, want), filesOf(t, dir))

	p := &plan{Parts: []planPart{{From: 3, Next: 7, To: 20}}}
	for start, says := range map[int64]string{7: "", 8: "before offset 8 are gone from the log, and those from 7 on were not exported yet"} {
		at, err := p.begins(0, start)
		require.Equal(t, planPart{From: 3, Next: 7, To: 20}, at)
		if says == "" {
			require.NoError(t, err)
		} else {
			require.ErrorContains(t, err, says)
		}
	}
}
