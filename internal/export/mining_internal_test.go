package export

import (
	"context"
	"encoding/json"
	"encoding/xml"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sagalog/sagalog/events"
)

// attrs are the attributes of an element of XES, by key.
type attrs map[string]string

// xesTrace is a trace as a reader of XML finds it.
type xesTrace struct {
	attrs  attrs
	events []attrs
}

// readXES reads a log strictly: well-formed XML, each attribute of an element once, and nothing that the standard does not name.
func readXES(t *testing.T, name string) (list []xesTrace) {
	t.Helper()
	file, err := os.Open(name)
	require.NoError(t, err)
	defer file.Close()
	var path []string
	var at attrs
	for in := xml.NewDecoder(file); ; {
		token, err := in.Token()
		if err == io.EOF {
			require.Empty(t, path)
			return list
		}
		require.NoError(t, err)
		switch x := token.(type) {
		case xml.StartElement:
			path = append(path, x.Name.Local)
			switch strings.Join(path, "/") {
			case "log", "log/extension", "log/global", "log/classifier":
				at = attrs{}
			case "log/trace":
				at = attrs{}
				list = append(list, xesTrace{attrs: at})
			case "log/trace/event":
				at = attrs{}
				list[len(list)-1].events = append(list[len(list)-1].events, at)
			default:
				require.Contains(t, []string{"string", "int", "date"}, x.Name.Local)
				require.Len(t, x.Attr, 2)
				require.Equal(t, "key", x.Attr[0].Name.Local)
				require.NotContains(t, at, x.Attr[0].Value)
				at[x.Attr[0].Value] = x.Attr[1].Value
				switch x.Name.Local {
				case "int":
					_, err := strconv.ParseInt(x.Attr[1].Value, 10, 64)
					require.NoError(t, err)
				case "date":
					_, err := time.Parse(time.RFC3339, x.Attr[1].Value)
					require.NoError(t, err)
				}
			}
		case xml.EndElement:
			path = path[:len(path)-1]
		}
	}
}

// ocelLog is an OCEL 2.0 log.
type ocelLog struct {
	ObjectTypes, EventTypes []ocelType
	Objects                 []ocelObject
	Events                  []ocelEvent
}

// readOCEL reads a log and checks what the documentation of the format demands: types are declared once, values are of declared attributes, IDs are unique,
// and relations lead to objects.
func readOCEL(t *testing.T, name string) (log ocelLog) {
	t.Helper()
	text, err := os.ReadFile(name)
	require.NoError(t, err)
	in := json.NewDecoder(strings.NewReader(string(text)))
	in.DisallowUnknownFields()
	require.NoError(t, in.Decode(&log))
	kinds := func(types []ocelType) map[string]map[string]string {
		all := map[string]map[string]string{}
		for _, k := range types {
			require.NotContains(t, all, k.Name)
			all[k.Name] = map[string]string{}
			for _, a := range k.Attributes {
				require.Contains(t, []string{"string", "integer", "time", "float", "boolean"}, a.Type)
				all[k.Name][a.Name] = a.Type
			}
		}
		return all
	}
	typed := func(declared map[string]string, values []ocelValue) {
		require.NotNil(t, declared)
		for _, v := range values {
			require.Contains(t, declared, v.Name)
			if declared[v.Name] == "integer" {
				_, err := strconv.Atoi(v.Value)
				require.NoError(t, err)
			}
		}
	}
	objects, eventIDs := map[string]string{}, map[string]bool{}
	ofObjects, ofEvents := kinds(log.ObjectTypes), kinds(log.EventTypes)
	for _, o := range log.Objects {
		require.NotContains(t, objects, o.ID)
		objects[o.ID] = o.Type
		typed(ofObjects[o.Type], o.Attributes)
		for _, v := range o.Attributes {
			require.NotEmpty(t, v.Time)
		}
	}
	related := func(list []ocelRelation) {
		for _, r := range list {
			require.Contains(t, objects, r.Object)
			require.NotEmpty(t, r.Qualifier)
		}
	}
	for _, o := range log.Objects {
		related(o.Relations)
	}
	for _, e := range log.Events {
		require.False(t, eventIDs[e.ID], e.ID)
		eventIDs[e.ID] = true
		typed(ofEvents[e.Type], e.Attributes)
		require.NotEmpty(t, e.Relations)
		related(e.Relations)
		_, err := time.Parse(time.RFC3339, e.Time)
		require.NoError(t, err)
	}
	return log
}

// Traces are the rows of the table of tasks, and their attempts the rows of the table of attempts.
func TestTracesAgreeWithTheTables(t *testing.T) {
	t.Parallel()
	seen := map[string]int{}
	for _, l := range runs(t, 12) {
		dir := t.TempDir()
		for _, table := range []func(context.Context, Config) (Result, error){Tasks, Attempts, XES, OCEL} {
			_, err := table(t.Context(), configOf(l, dir, Parquet))
			require.NoError(t, err)
		}
		tasks, attempts := map[string]Task{}, map[string]Attempt{}
		for _, row := range rowsIn[Task](t, filepath.Join(dir, "tasks")) {
			tasks[fmt.Sprint(row.Task, " ", row.Incarnation, " ", row.Run)] = row
		}
		begun, ended := 0, 0
		for _, a := range rowsIn[Attempt](t, filepath.Join(dir, "attempts")) {
			if a.StartedOffset != nil {
				attempts[fmt.Sprint(a.Task, " start ", *a.StartedOffset)] = a
				begun++
			}
			if a.EndedOffset != nil {
				attempts[fmt.Sprint(a.Task, " end ", *a.EndedOffset)] = a
				ended++
			}
		}
		names := map[string]bool{}
		for _, tr := range readXES(t, filepath.Join(dir, "xes", "log.xes")) {
			require.False(t, names[tr.attrs["concept:name"]], "a trace has its name alone")
			names[tr.attrs["concept:name"]] = true
			id := fmt.Sprint(tr.attrs["task"], " ", tr.attrs["incarnation"], " ", tr.attrs["run"])
			row, ok := tasks[id]
			require.True(t, ok, id)
			delete(tasks, id)
			require.Equal(t, []string{row.Workflow, row.State, fmt.Sprint(row.Partition)}, []string{tr.attrs["workflow"], tr.attrs["state"], tr.attrs["partition"]})
			if strings.Contains(tr.attrs["concept:name"], "@") {
				seen["again"]++
			}
			if row.Run > 1 {
				require.Equal(t, fmt.Sprintf("%s#%d", row.Task, row.Run), tr.attrs["concept:name"])
				seen["rerun"]++
				require.Equal(t, "run begun", tr.events[0]["concept:name"])
			}
			if !events.TaskState(row.State).Ended() {
				seen["open"]++
			}
			bs, es := eventsAgree(t, &tr, attempts, seen)
			begun, ended = begun-bs, ended-es
		}
		require.Empty(t, tasks, "each run is a trace")
		require.Zero(t, begun, "each attempt that began is an event")
		require.Zero(t, ended)
		readOCEL(t, filepath.Join(dir, "ocel", "log.ocel.json"))
	}
	for _, what := range []string{"rerun", "again", "open", "undo", "item", "start", "complete", "ate_abort", "autoskip", "manualskip", "pi_abort", "task submitted", "task processed", "task undone", "task parked"} {
		require.NotZero(t, seen[what], "%s: %v", what, seen)
	}
}

// eventsAgree compares the events of a trace with the attempts, and returns how many of them begin and end one.
func eventsAgree(t *testing.T, tr *xesTrace, attempts map[string]Attempt, seen map[string]int) (begun, ended int) {
	t.Helper()
	before := -1
	for _, e := range tr.events {
		offset, err := strconv.Atoi(e["offset"])
		require.NoError(t, err)
		require.Greater(t, offset, before, "in the order of the log")
		before = offset
		seen[e["lifecycle:transition"]]++
		if e["attempt"] == "" {
			seen[e["concept:name"]]++
			continue
		}
		end := "end"
		if e["lifecycle:transition"] == "start" {
			end = "start"
			begun++
		} else {
			ended++
		}
		a, ok := attempts[fmt.Sprint(tr.attrs["task"], " ", end, " ", offset)]
		require.True(t, ok)
		agreesWithAttempt(t, e, &a, seen)
	}
	return begun, ended
}

func agreesWithAttempt(t *testing.T, e attrs, a *Attempt, seen map[string]int) {
	t.Helper()
	activity, item := a.Step, ""
	if a.Operation == "undo" {
		activity += " (undo)"
		seen["undo"]++
	}
	if a.Item != nil {
		item = fmt.Sprint(*a.Item)
		seen["item"]++
	}
	require.Equal(t, []string{activity, item, a.Operation, fmt.Sprint(a.Attempt), a.Agent}, []string{e["concept:name"], e["item"], e["operation"], e["attempt"], e["org:group"]})
	at, who := a.StartedAt, a.Instance
	switch transition := e["lifecycle:transition"]; {
	case transition == "start":
	case a.Outcome == "completed":
		require.Equal(t, "complete", transition)
		at = a.EndedAt
	default:
		require.Equal(t, "ate_abort", transition)
		at = a.EndedAt
	}
	require.Equal(t, events.Instant(*at).String(), e["time:timestamp"])
	if who != "" && a.By == "" {
		require.Equal(t, who, e["org:resource"], "the start and the end have the instance")
	}
}

// An export that was broken off anywhere has the same bytes in the end as one that was not, and leaves nothing beside its file.
func TestABrokenExportForMiningGoesOn(t *testing.T) {
	t.Parallel()
	l := runs(t, 1)[0]
	total := len(slices.Concat(l.partitions...))
	dice := rand.New(rand.NewPCG(5, 6))
	for _, export := range []func(context.Context, Config) (Result, error){XES, OCEL} {
		whole := t.TempDir()
		res, err := export(t.Context(), configOf(l, whole, Parquet))
		require.NoError(t, err)
		require.Positive(t, res.Rows)
		want := filesOf(t, whole)
		require.Len(t, want, 3, "the file, the plan and the lock: %v", slices.Collect(maps.Keys(want)))
		for range tries(2) {
			dir, again := t.TempDir(), Result{}
			for broken := 0; ; broken++ {
				left := -1
				if broken < 5 {
					left = dice.IntN(total)
				}
				if again, err = export(t.Context(), configOf(readable(l.partitions, left), dir, Parquet)); err == nil {
					break
				}
				require.ErrorIs(t, err, errBroken)
				require.NoFileExists(t, filepath.Join(dir, filepath.Base(res.Dir), filepath.Base(res.File)))
				leaveHalf(t, filepath.Join(dir, filepath.Base(res.Dir)))
			}
			require.Equal(t, want, filesOf(t, dir))
			require.Equal(t, res.Rows, again.Rows, "the rows are those of the file, whoever wrote them")
			again, err = export(t.Context(), configOf(l, dir, Parquet))
			require.NoError(t, err)
			require.True(t, again.Already)
			require.NoError(t, os.Remove(again.File))
			_, err = export(t.Context(), configOf(l, dir, Parquet))
			require.ErrorContains(t, err, "cannot be found")
		}
	}
}

// leaveHalf leaves in an export that was interrupted what a process leaves that was killed.
func leaveHalf(t *testing.T, dir string) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(dir, planFile))
	require.NoError(t, err)
	var p plan
	require.NoError(t, json.Unmarshal(text, &p))
	require.NoError(t, os.MkdirAll(filepath.Join(dir, sectionsDir), 0o755))
	for i := range p.Parts {
		require.NoError(t, os.WriteFile(filepath.Join(dir, fmt.Sprintf(".events-%05d", i)), []byte("half an ev"), 0o600))
		if !p.Parts[i].Done {
			require.NoError(t, os.WriteFile(sectionFile(dir, int32(i)), []byte(`{"name":"half a tr`), 0o600))
		}
	}
}

// Whatever users call things, the log is well-formed and says it, except that U+FFFD stands for what XML 1.0 forbids.
func TestMiningTakesHostileNames(t *testing.T) {
	t.Parallel()
	hostile := `<&"'>` + "\x00\x01\x1f\t\r\n\u0085\uffff]]>--\xff&#1;é😀"
	said := strings.ToValidUTF8(strings.NewReplacer("\x00", "\ufffd", "\x01", "\ufffd", "\x1f", "\ufffd", "\uffff", "\ufffd").Replace(hostile), "\ufffd")
	item := int32(3)
	one := trace{
		Name: hostile, Task: hostile, Run: 1, Workflow: "w", State: "processing", Parent: hostile, Labels: map[string]string{hostile: hostile, "a b": "x", "a_b": "y", "customer": hostile, "empty": ""},
		Events: []event{
			{Activity: "signal " + hostile, Lifecycle: lifecycleComplete, Time: 1, Offset: 1, By: hostile, Waits: hostile},
			{Activity: "send", Lifecycle: lifecycleAbort, Time: 2, Offset: 2, Step: "send", Item: &item, Attempt: 1, Operation: "do", Agent: "mail", Instance: hostile, Code: hostile},
		},
	}
	all := func(each func(*trace) error) error { return each(&one) }
	dir := t.TempDir()
	xes, ocel := filepath.Join(dir, "log.xes"), filepath.Join(dir, "log.ocel.json")
	_, err := writeWhole(xes, func(to io.Writer) (int64, error) { return writeXES(to, hostile, all) })
	require.NoError(t, err)
	traces := readXES(t, xes)
	require.Len(t, traces, 1)
	got := traces[0].attrs
	require.Equal(t, []string{said, said, said, said}, []string{got["concept:name"], got["task"], got["parent"], got["label.customer"]})
	require.Equal(t, []string{"x", "y"}, []string{got["label.a_x20_b"], got["label.a_b"]})
	require.NotContains(t, got, "label.empty")
	for key := range got {
		require.Regexp(t, `^[A-Za-z_:][A-Za-z0-9._:-]*$`, key, "a name of XML")
	}
	require.Equal(t, []string{"signal " + said, said}, []string{traces[0].events[0]["concept:name"], traces[0].events[0]["org:resource"]})
	require.Equal(t, []string{said, said, "3", "ate_abort"}, []string{traces[0].events[1]["org:resource"], traces[0].events[1]["error_code"], traces[0].events[1]["item"], traces[0].events[1]["lifecycle:transition"]})

	_, err = writeWhole(ocel, func(to io.Writer) (int64, error) {
		return (&ocelWriter{to: to, labels: []string{"customer", "empty"}}).write(all)
	})
	require.NoError(t, err)
	log := readOCEL(t, ocel)
	require.Len(t, log.ObjectTypes, 6)
	ids := map[string]bool{}
	for _, o := range log.Objects {
		ids[o.ID] = true
	}
	text := strings.ToValidUTF8(hostile, "\ufffd") // JSON has all characters
	require.Equal(t, map[string]bool{"task:" + text: true, "step:" + text + "/send[3]": true, "agent:mail": true, "workflow:w": true, "customer:" + text: true}, ids)
	require.Equal(t, []ocelRelation{{"task:" + text, "task"}, {"workflow:w", "workflow"}, {"customer:" + text, "customer"}, {"step:" + text + "/send[3]", "step"}, {"agent:mail", "agent"}},
		log.Events[1].Relations)
}

// No two traces have the same name.
func TestNamesOfTraces(t *testing.T) {
	t.Parallel()
	for want, of := range map[string]struct {
		trace
		again bool
	}{
		"a":       {trace{Task: "a", Run: 1, Incarnation: "1-x:4"}, false},
		"a#2":     {trace{Task: "a", Run: 2, Incarnation: "1-x:4"}, false},
		"a#1@3-y": {trace{Task: "a", Run: 1, Incarnation: "3-y"}, true},
		"a#2#1":   {trace{Task: "a#2", Run: 1}, false},
		"a#2#2":   {trace{Task: "a#2", Run: 2}, false},
	} {
		require.Equal(t, want, nameOf(&of.trace, of.again))
	}
	require.Error(t, CheckObjects([]string{"customer", "step"}))
	require.Error(t, CheckObjects([]string{"a:b"}))
	require.NoError(t, CheckObjects([]string{"customer"}))
}

// What is asked for is what is exported, and a directory holds one log.
func TestWhatIsAskedForMining(t *testing.T) {
	t.Parallel()
	l := runs(t, 1)[0]
	dir, part := t.TempDir(), t.TempDir()
	for _, table := range []func(context.Context, Config) (Result, error){Tasks, XES} {
		_, err := table(t.Context(), configOf(l, dir, Parquet))
		require.NoError(t, err)
	}
	tasks := rowsIn[Task](t, filepath.Join(dir, "tasks"))
	slices.SortFunc(tasks, func(a, b Task) int { return int(a.SubmittedAt - b.SubmittedAt) })
	from, to, workflow := tasks[len(tasks)/4].SubmittedAt, tasks[len(tasks)-2].SubmittedAt, tasks[len(tasks)/4].Workflow
	var want, got []string
	for _, row := range tasks {
		if row.SubmittedAt >= from && row.SubmittedAt < to && row.Workflow == workflow {
			want = append(want, fmt.Sprint(row.Task, row.Run))
		}
	}
	require.NotEmpty(t, want)
	require.Less(t, len(want), len(tasks))
	cfg := configOf(l, part, Parquet)
	cfg.Since, cfg.Until, cfg.Workflow, cfg.Asked = events.Instant(from), events.Instant(to), workflow, "a part"
	res, err := XES(t.Context(), cfg)
	require.NoError(t, err)
	for _, tr := range readXES(t, res.File) {
		got = append(got, tr.attrs["task"]+tr.attrs["run"])
	}
	require.ElementsMatch(t, want, got)
	cfg.Asked = "another part"
	_, err = XES(t.Context(), cfg)
	require.ErrorIs(t, err, ErrOther)

	cfg = configOf(l, part, Parquet)
	cfg.Objects = []string{"shop", "customer", "shop"}
	_, err = OCEL(t.Context(), cfg)
	require.NoError(t, err)
	cfg.Objects = []string{"customer", "shop"}
	res, err = OCEL(t.Context(), cfg)
	require.NoError(t, err)
	require.True(t, res.Already)
	cfg.Objects = cfg.Objects[:1]
	_, err = OCEL(t.Context(), cfg)
	require.ErrorIs(t, err, ErrOther)
}
