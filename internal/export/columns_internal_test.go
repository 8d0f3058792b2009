package export

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/parquet-go/parquet-go"
	"github.com/stretchr/testify/require"

	"github.com/sagalog/sagalog/events"
	"github.com/sagalog/sagalog/scheduler"
)

// Maps and lists are read as they were written, whether absent, empty or full, in each format.
func TestMapsAndListsAreReadAsWritten(t *testing.T) {
	t.Parallel()
	type row struct {
		N      int32             `parquet:"n"`
		Labels map[string]string `parquet:"labels,optional"`
		Needs  []string          `parquet:"needs,optional,list"`
		Last   string            `parquet:"last,optional"`
	}
	var want []row
	for i := range 1000 {
		r := row{N: int32(i), Last: strings.Repeat("x", i%3)}
		switch i % 4 {
		case 1:
			r.Labels, r.Needs = map[string]string{}, []string{}
		case 2:
			r.Labels, r.Needs = map[string]string{"a": fmt.Sprint(i)}, []string{"one"}
		case 3:
			r.Labels, r.Needs = map[string]string{"b": "<&>", "a": "", "c": fmt.Sprint(i)}, []string{"", "two", fmt.Sprint(i)}
		}
		want = append(want, r)
	}
	texts := map[Format]string{}
	for _, f := range Formats {
		var file bytes.Buffer
		to := newRows[row](f, &file, nil)
		require.NoError(t, to.write(slices.Clone(want)))
		require.NoError(t, to.close())
		texts[f] = file.String()
	}
	got, err := parquet.Read[row](strings.NewReader(texts[Parquet]), int64(len(texts[Parquet])))
	require.NoError(t, err)
	for i := range got { // the library reads an absent list as an empty one
		require.Equal(t, [2]int{len(want[i].Labels), len(want[i].Needs)}, [2]int{len(got[i].Labels), len(got[i].Needs)}, i)
		if len(want[i].Labels) > 0 {
			require.Equal(t, want[i], got[i])
		}
	}
	lines := strings.Split(texts[JSONL], "\n")
	require.Equal(t, `{"n":0}`, lines[0])
	require.Equal(t, `{"n":1,"labels":{},"needs":[],"last":"x"}`, lines[1])
	require.JSONEq(t, `{"n":3,"labels":{"a":"","b":"<&>","c":"3"},"needs":["","two","3"]}`, lines[3])
	cells := strings.Split(texts[CSV], "\n")
	require.Equal(t, []string{"n,labels,needs,last", "0,,,", "1,{},[],x", `2,"{""a"":""2""}","[""one""]",xx`}, cells[:4])
}

// saying is what the facts of a run say about what the tables derive.
type saying struct {
	t *testing.T
	// definitions are by partition, workflow and version, and begun by task, incarnation and step in a run.
	definitions map[string]*scheduler.Definition
	begun       map[string][2]int64
	conditions  map[string]bool
	// turned is what turned a task to be undone, of tasks that were never run again.
	turned map[string]string
	again  map[string]bool
}

func definitionOf(partition int32, workflow string, version int32) string {
	return fmt.Sprint(partition, " ", workflow, " ", version)
}

func stepOf(task, incarnation string, run int, step string, item *int32) string {
	if item != nil {
		step = events.ItemPath(step, int(*item))
	}
	return fmt.Sprint(task, " ", incarnation, " ", run, " ", step)
}

func (x *saying) take(f *Fact) {
	of := f.Task + " " + f.Incarnation
	decode := func(to any) { require.NoError(x.t, json.Unmarshal([]byte(f.Data), to)) }
	turn := func(by string) {
		if x.turned[of] == "" {
			x.turned[of] = by
		}
	}
	switch events.Name(f.Type) {
	case events.NameDefinitionAdopted:
		var b events.DefinitionAdopted
		decode(&b)
		d, err := scheduler.DecodeDefinition(b.Body)
		require.NoError(x.t, err)
		x.definitions[definitionOf(f.Partition, b.Workflow, int32(b.Version))] = d
	case events.NameStepStarted:
		var b events.StepStarted
		decode(&b)
		at := stepOf(f.Task, f.Incarnation, max(b.Run, 1), f.Step, f.Item)
		if _, ok := x.begun[at]; !ok {
			x.begun[at] = [2]int64{cmp.Or(int64(b.ReadyAt), f.Time), f.Time}
		}
		if b.Condition != nil {
			x.conditions[at] = *b.Condition
		}
	case events.NameCancelRequested:
		var b events.CancelRequested
		decode(&b)
		switch {
		case b.Request == "":
			turn("parent")
		case strings.HasPrefix(b.By, "schedule/"):
			turn("policy")
		default:
			turn("operator")
		}
	case events.NameDeadlinePassed:
		var b events.DeadlinePassed
		if decode(&b); b.Action == "undo" {
			turn("deadline")
		}
	case events.NameChildUndoRequested:
		turn("parent")
	case events.NameStepFailed, events.NameTimeout:
		var b struct {
			Request string
			Verdict events.Verdict
		}
		if decode(&b); b.Verdict.Action == "undo" && f.Operation != "undo" {
			turn(map[bool]string{true: "operator", false: "policy"}[b.Request != ""])
		}
	case events.NameTaskRerun, events.NameRunBegun:
		x.again[of] = true
	}
}

// What the tables derive is what the facts say: who ended a task, since when a step could start, its condition, what it needs, and the policy of an attempt.
func TestDerivedColumnsFollowFromTheFacts(t *testing.T) {
	t.Parallel()
	endings, waits, needs, conditions, policies := map[string]int{}, 0, 0, map[bool]int{}, map[string]bool{}
	for _, l := range runs(t, 12) {
		dir := t.TempDir()
		for _, table := range []func(context.Context, Config) (Result, error){Facts, Tasks, Steps, Attempts} {
			_, err := table(t.Context(), configOf(l, dir, Parquet))
			require.NoError(t, err)
		}
		x := saying{t, map[string]*scheduler.Definition{}, map[string][2]int64{}, map[string]bool{}, map[string]string{}, map[string]bool{}}
		facts := factsIn(t, filepath.Join(dir, "facts"))
		slices.SortFunc(facts, func(a, b Fact) int { return int(a.Offset - b.Offset) })
		for i := range facts {
			x.take(&facts[i])
		}
		for _, row := range rowsIn[Task](t, filepath.Join(dir, "tasks")) {
			of := row.Task + " " + row.Incarnation
			require.Equal(t, row.EndedAt == nil, row.EndedBy == "", "%+v", row)
			endings[row.EndedBy]++
			if row.State == "undone" && !x.again[of] {
				require.Equal(t, x.turned[of], row.EndedBy, "%+v", row)
			}
		}
		for _, row := range rowsIn[Step](t, filepath.Join(dir, "steps")) {
			begun, ok := x.begun[stepOf(row.Task, row.Incarnation, int(row.Run), row.Step, row.Item)]
			if ok {
				require.Equal(t, begun[0], *row.ReadyAt)
				require.InDelta(t, float64(begun[1]-begun[0])/1000, *row.Waited, 1e-9)
				waits++
			} else {
				require.True(t, row.ReadyAt == nil || row.Run > 1, "%+v", row)
			}
			if c, ok := x.conditions[stepOf(row.Task, row.Incarnation, int(row.Run), row.Step, row.Item)]; ok {
				require.Equal(t, c, *row.Condition)
			}
			if row.Condition != nil {
				conditions[*row.Condition]++
			}
			d := x.definitions[definitionOf(row.Partition, row.Workflow, row.Version)]
			i := slices.IndexFunc(d.Steps, func(s scheduler.Step) bool { return s.ID == row.Step })
			require.ElementsMatch(t, d.Steps[i].Needs, row.Needs)
			needs += len(row.Needs)
		}
		for _, row := range rowsIn[Attempt](t, filepath.Join(dir, "attempts")) {
			d := x.definitions[definitionOf(row.Partition, row.Workflow, row.Version)]
			i := slices.IndexFunc(d.Steps, func(s scheduler.Step) bool { return s.ID == row.Step })
			require.Equal(t, policyOf(t, &d.Steps[i], row.Operation), row.PolicyHash)
			policies[row.PolicyHash] = true
		}
	}
	for _, by := range []string{"policy", "operator", "deadline"} {
		require.NotZero(t, endings[by], "%v", endings)
	}
	require.NotZero(t, waits)
	require.NotZero(t, needs)
	require.NotZero(t, conditions[true], conditions)
	require.NotZero(t, conditions[false], conditions)
	require.Greater(t, len(policies), 2)
}

// Who turned a task stands in the fact. What a schedule asks because of its overlap rule is policy.
func TestWhoTurnsATaskStandsInTheFact(t *testing.T) {
	t.Parallel()
	undo := events.Verdict{Action: events.ActionUndo}
	for _, c := range []struct {
		body events.Body
		by   string
	}{
		{&events.CancelRequested{Request: "r", By: "anna"}, "operator"},
		{&events.CancelRequested{By: "order-1"}, "parent"},
		{&events.CancelRequested{Request: "nightly/2026-11-30T00:00:00Z", By: events.ScheduleKey("nightly")}, "policy"},
		{&events.ChildUndoRequested{}, "parent"},
		{&events.DeadlinePassed{Action: events.DeadlineUndo}, "deadline"},
		{&events.DeadlinePassed{Action: events.DeadlineAlert}, ""},
		{&events.StepFailed{Verdict: undo}, "policy"},
		{&events.StepFailed{Verdict: undo, Operator: events.Operator{Request: "r"}}, "operator"},
		{&events.StepFailed{Verdict: events.Verdict{Action: events.ActionPark}}, ""},
		{&events.Timeout{Verdict: undo}, "policy"},
	} {
		require.Equal(t, c.by, turnedBy(c.body).String(), "%+v", c.body)
	}
	due := events.Instant(1_800_000_000_000)
	require.Equal(t, due, events.Instant(*dueOf(&events.Task{ID: events.ScheduleTask("nightly", due), Schedule: "nightly"})))
	require.Nil(t, dueOf(&events.Task{ID: "nightly/x", Schedule: "nightly"}))
	require.Nil(t, dueOf(&events.Task{ID: "o-1"}))
}

// policyOf is the hash of a policy, from the decoded definition.
func policyOf(t *testing.T, s *scheduler.Step, operation string) string {
	t.Helper()
	var v any = s
	names := []string{"complete_within", "cool_down", "heartbeat", "on_timeout", "retry", "start_within"}
	if operation == "undo" {
		v, names = s.Undo, []string{"complete_within", "retry"}
	}
	raw, err := json.Marshal(v)
	require.NoError(t, err)
	var all, chosen map[string]any
	require.NoError(t, json.Unmarshal(raw, &all))
	chosen = map[string]any{}
	for _, name := range names {
		if member, ok := all[name]; ok {
			chosen[name] = member
		}
	}
	text, err := json.Marshal(chosen)
	require.NoError(t, err)
	return fmt.Sprintf("%x", sha256.Sum256(text))[:16]
}

// Each record of the log is a row of the table of facts or of that of void records, whatever interrupts the export.
func TestVoidRecordsAreATableOfTheirOwn(t *testing.T) {
	t.Parallel()
	whys := map[string]int{}
	for _, l := range runs(t, 12) {
		dir := t.TempDir()
		for _, table := range []func(context.Context, Config) (Result, error){Facts, Voids} {
			_, err := table(t.Context(), configOf(l, dir, Parquet))
			require.NoError(t, err)
		}
		type place struct {
			partition int32
			offset    int64
		}
		facts := map[place]bool{}
		for _, f := range factsIn(t, filepath.Join(dir, "facts")) {
			facts[place{f.Partition, f.Offset}] = true
		}
		voids := map[place]Void{}
		for _, v := range rowsIn[Void](t, filepath.Join(dir, "void")) {
			voids[place{v.Partition, v.Offset}] = v
			whys[v.Why]++
		}
		for _, records := range l.partitions {
			for _, r := range records {
				if r.Control {
					continue
				}
				at := place{r.Partition, r.Offset}
				v, void := voids[at]
				require.NotEqual(t, facts[at], void, "%v", at)
				if void {
					f, err := events.DecodeFact(&r)
					require.NoError(t, err)
					require.Equal(t, []any{string(f.Body.Name()), f.Task, string(r.Value), int64(f.Time)}, []any{v.Type, v.Task, v.Data, v.Time})
				}
			}
		}
		broken := t.TempDir()
		for left := 10; ; left *= 3 {
			if _, err := Voids(t.Context(), configOf(readable(l.partitions, left), broken, Parquet)); err == nil {
				break
			}
		}
		require.Equal(t, filesOf(t, filepath.Join(dir, "void")), filesOf(t, filepath.Join(broken, "void")))
	}
	require.NotZero(t, whys["late_claim"], whys)
	require.NotZero(t, whys["epoch_over"], whys)
}

// A table beside another one ends at the same records, although the log has become longer since, whether or not the first one was complete before.
func TestATableBesideEndsAtTheSameRecords(t *testing.T) {
	t.Parallel()
	differ := 0
	for _, l := range runs(t, 12) {
		short := make([][]events.Record, len(l.partitions))
		for p, records := range l.partitions {
			short[p] = records[:len(records)/2]
		}
		want, beside, apart := t.TempDir(), t.TempDir(), t.TempDir()
		_, err := Voids(t.Context(), configOf(readable(short, -1), want, JSONL))
		require.NoError(t, err)
		res, err := Facts(t.Context(), configOf(readable(short, -1), beside, JSONL))
		require.NoError(t, err)
		cfg := configOf(readable(l.partitions, -1), beside, JSONL)
		again, err := Facts(t.Context(), cfg)
		require.NoError(t, err)
		require.True(t, again.Already)
		require.Equal(t, res.Beside(cfg).Ends, again.Beside(cfg).Ends)
		_, err = Voids(t.Context(), again.Beside(cfg))
		require.NoError(t, err)
		require.Equal(t, filesOf(t, filepath.Join(want, "void")), filesOf(t, filepath.Join(beside, "void")))
		_, err = Voids(t.Context(), configOf(readable(l.partitions, -1), apart, JSONL))
		require.NoError(t, err)
		if len(rowsOf(t, want)) != len(rowsOf(t, apart)) {
			differ++
		}
		_, err = Voids(t.Context(), again.Beside(configOf(readable(append(slices.Clone(short), nil), -1), t.TempDir(), JSONL)))
		require.ErrorContains(t, err, "another log")
	}
	require.Positive(t, differ, "without that, some end later")
}

// A table of an earlier export that was kept is not taken for one of the same records as another table.
func TestATableOfOtherRecordsIsNotBeside(t *testing.T) {
	t.Parallel()
	for _, l := range runs(t, 3) {
		short := make([][]events.Record, len(l.partitions))
		for p, records := range l.partitions {
			short[p] = records[:len(records)/2]
		}
		dir := t.TempDir()
		_, err := Voids(t.Context(), configOf(readable(short, -1), dir, JSONL))
		require.NoError(t, err)
		cfg := configOf(readable(l.partitions, -1), dir, JSONL)
		res, err := Facts(t.Context(), cfg)
		require.NoError(t, err)
		_, err = Voids(t.Context(), res.Beside(cfg))
		require.ErrorIs(t, err, ErrOther)
		require.ErrorContains(t, err, filepath.Join(dir, "void")+" is of an earlier export")
		require.NoError(t, os.RemoveAll(filepath.Join(dir, "void")))
		void, err := Voids(t.Context(), res.Beside(cfg))
		require.NoError(t, err)
		require.False(t, void.Already)
		later := res.Beside(cfg)
		later.Since = 1
		_, err = Voids(t.Context(), later)
		require.ErrorIs(t, err, ErrOther)
		void, err = Voids(t.Context(), res.Beside(cfg))
		require.NoError(t, err)
		require.True(t, void.Already)
	}
}

// rowsOf returns the lines of the table of void records.
func rowsOf(t *testing.T, dir string) (lines []string) {
	t.Helper()
	for name, text := range filesOf(t, filepath.Join(dir, "void")) {
		if strings.HasSuffix(name, ".jsonl") {
			lines = append(lines, strings.Split(strings.TrimSpace(text), "\n")...)
		}
	}
	return lines
}

// Anyone can write to the log as an owner that has lost its partition. The lines of JSON stay JSON, and the data in them, whatever the value is.
func TestVoidDataIsJSONWhateverTheValueIs(t *testing.T) {
	t.Parallel()
	values := []string{"oops\n{", "", "null", "\xff", "{\"a\":\"\xff\"}", "{\n  \"a\": 1\n}", `{"a":1}`}
	log := slices.Clone(runs(t, 1)[0].partitions)
	last := log[0][len(log[0])-1]
	old := log[0][slices.IndexFunc(log[0], func(r events.Record) bool {
		return r.Header(events.HeaderType) == events.TypePrefix+string(events.NameSubmitted)
	})]
	log[0] = slices.Clone(log[0])
	for i, v := range values {
		old.Offset, old.Value = last.Offset+1+int64(i), []byte(v)
		log[0] = append(log[0], old)
	}
	dir := t.TempDir()
	_, err := Voids(t.Context(), configOf(readable(log, -1), dir, JSONL))
	require.NoError(t, err)
	got := map[int64]string{}
	for name, text := range filesOf(t, filepath.Join(dir, "void")) {
		if !strings.HasSuffix(name, ".jsonl") {
			continue
		}
		for _, line := range strings.Split(strings.TrimSpace(text), "\n") {
			var row struct {
				Partition int32
				Offset    int64
				Data      json.RawMessage
			}
			require.NoError(t, json.Unmarshal([]byte(line), &row), line)
			if row.Partition == 0 && row.Offset > last.Offset {
				got[row.Offset-last.Offset-1] = string(row.Data)
			}
		}
	}
	require.Equal(t, map[int64]string{0: `"oops\n{"`, 1: "", 2: "null", 3: `"\ufffd"`, 4: `"{\"a\":\"\ufffd\"}"`, 5: `{"a":1}`, 6: `{"a":1}`}, got)
}
