package events_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/sagalog/sagalog/events"
)

// example is a fenced block of FORMAT.md: "```json StepStarted".
type example struct{ language, name, text string }

func document(t *testing.T) string {
	t.Helper()
	b, err := os.ReadFile("FORMAT.md")
	require.NoError(t, err)
	return string(b)
}

func examples(t *testing.T) []example {
	t.Helper()
	var list []example
	for _, m := range regexp.MustCompile("(?ms)^```(\\w+) ?(\\w*)\n(.*?)^```$").FindAllStringSubmatch(document(t), -1) {
		list = append(list, example{m[1], m[2], m[3]})
	}
	require.Greater(t, len(list), 40)
	return list
}

func only(t *testing.T, language, name string) string {
	t.Helper()
	for _, e := range examples(t) {
		if e.language == language && e.name == name {
			return e.text
		}
	}
	t.Fatalf("FORMAT.md has no example %s %s", language, name)
	return ""
}

// documentedFacts returns the facts that have their own section, which are the ones that this version writes.
func documentedFacts(t *testing.T) map[events.Name]bool {
	t.Helper()
	facts := map[events.Name]bool{}
	for name := range factSections(t) {
		if _, err := events.NewBody(events.Name(name)); err == nil {
			facts[events.Name(name)] = true
		}
	}
	require.Len(t, facts, 72)
	return facts
}

func factSections(t *testing.T) map[string]string {
	t.Helper()
	_, facts, ok := strings.Cut(document(t), "\n## Facts\n")
	require.True(t, ok)
	facts, _, ok = strings.Cut(facts, "\n## State\n")
	require.True(t, ok)
	sections := map[string]string{}
	for _, s := range strings.Split(facts, "\n### ")[1:] {
		name, text, _ := strings.Cut(s, "\n")
		sections[name] = text
	}
	return sections
}

// Every fact in fact.go is documented. For a fact that this version reads there is an example and a description of each member.
// The others are documented as not written.
func TestEveryFactIsDocumented(t *testing.T) {
	t.Parallel()
	source, err := os.ReadFile("fact.go")
	require.NoError(t, err)
	sections := factSections(t)
	names := regexp.MustCompile(`Name = "(\w+)"`).FindAllStringSubmatch(regexp.MustCompile(`Name\s+= `).ReplaceAllString(string(source), "Name = "), -1)
	require.Greater(t, len(names), 30)
	for _, m := range names {
		name := m[1]
		body, err := events.NewBody(events.Name(name))
		if err != nil {
			require.Contains(t, sections["Reserved"], "`"+name+"`", "a fact that this version does not read")
			continue
		}
		section, ok := sections[name]
		require.True(t, ok, "no section on %s", name)
		require.NotEmpty(t, only(t, "json", name))
		for _, member := range membersOf(reflect.TypeOf(body).Elem()) {
			if member != "failed" {
				require.Contains(t, section, "`"+member+"`", "%s of %s", member, name)
			}
		}
	}
	for _, reserved := range []string{"JobOpened"} {
		require.Contains(t, sections["Reserved"], "`"+reserved+"`")
	}
}

// membersOf returns the JSON names of a struct's fields, with those of embedded structs.
func membersOf(s reflect.Type) []string {
	var names []string
	for i := range s.NumField() {
		f := s.Field(i)
		if f.Anonymous {
			names = append(names, membersOf(f.Type)...)
			continue
		}
		if name, _, _ := strings.Cut(f.Tag.Get("json"), ","); name != "" {
			names = append(names, name)
		}
	}
	return names
}

// alert has the shape of the alerts that owners write.
type alert struct {
	Kind     string         `json:"kind"`
	Task     string         `json:"task,omitempty"`
	Workflow string         `json:"workflow,omitempty"`
	Step     string         `json:"step,omitempty"`
	Reason   string         `json:"reason,omitempty"`
	Time     events.Instant `json:"time"`
	Of       string         `json:"of"`
}

// Every JSON example is unchanged when the real code reads it and writes it again.
func TestExamplesAreReal(t *testing.T) {
	t.Parallel()
	kinds := map[string]func() any{
		"submission": func() any { return new(events.Submission) }, "work": func() any { return new(events.Work) },
		"stop":   func() any { return new(events.Stop) },
		"report": func() any { return new(events.Report) }, "request": func() any { return new(events.Request) },
		"presence": func() any { return new(events.Presence) }, "alert": func() any { return new(alert) }, "reply": func() any { return new(events.Reply) },
		"task": func() any { return new(events.Task) }, "step": events.NewStepRow, "taken": events.NewRequestRow, "partition": func() any { return new(events.PartitionState) },
		"held": func() any { return new(events.HeldRequest) }, "settings": func() any { return new(events.SettingsChange) }, "loss": func() any { return new(events.AcceptedLoss) }, "pause": func() any { return new(events.AgentPause) },
		"acknowledgement": func() any { return new(events.AlertAcknowledgement) }, "mark": func() any { return new(events.DeadLetterMark) },
		"job": func() any { return new(events.Job) }, "progress": func() any { return new(events.JobProgress) }, "jobstop": func() any { return new(events.JobStop) },
		"definition": func() any { return new(events.Definition) },
		"permit":     func() any { return new(events.PermitMessage) },
		"schedule":   func() any { return new(events.ScheduleDefinition) }, "end": func() any { return new(events.TaskEnd) }, "about": func() any { return new(events.ScheduleRequest) },
		"ask": func() any { return new(events.ChildMessage) }, "answer": func() any { return new(events.ChildAnswer) },
		"hold": func() any { return new(events.LimitRequest) }, "named": func() any { return new(events.LimitDefinition) },
	}
	seen := map[string]bool{}
	for _, e := range examples(t) {
		if e.language != "json" || e.name == "structured" || e.name == "hashed" {
			continue
		}
		seen[e.name] = true
		t.Run(e.name, func(t *testing.T) {
			t.Parallel()
			var v any
			if make, ok := kinds[e.name]; ok {
				v = make()
			} else {
				body, err := events.NewBody(events.Name(e.name))
				require.NoError(t, err)
				v = body
			}
			d := json.NewDecoder(strings.NewReader(e.text))
			d.DisallowUnknownFields()
			require.NoError(t, d.Decode(v))
			var want bytes.Buffer
			require.NoError(t, json.Compact(&want, []byte(e.text)))
			require.Equal(t, want.String(), asJSON(t, v))
		})
	}
	for name := range kinds {
		require.True(t, seen[name], "no example of a %s", name)
	}
}

// The examples of inputs are accepted.
func TestExamplesAreAccepted(t *testing.T) {
	t.Parallel()
	_, err := events.ParseSubmission([]byte(only(t, "json", "submission")))
	require.NoError(t, err)

	e, data, err := events.Open(&events.Record{Value: []byte(only(t, "json", "structured")), Headers: headers("content-type", "application/cloudevents+json")})
	require.NoError(t, err)
	require.Equal(t, events.Envelope{ID: "order/4711", Source: "/shop", Type: events.TypeSubmission, Subject: "delivery-42"}, e)
	_, err = events.ParseSubmission(data)
	require.NoError(t, err)

	lines := strings.Split(strings.TrimSpace(only(t, "text", "")), "\n")
	require.Equal(t, lines[1], content(t, only(t, "json", "hashed")), "the hash of the worked example")

	w, _, err := events.DecodeWork(&events.Record{Value: []byte(only(t, "json", "work"))})
	require.NoError(t, err)
	require.Equal(t, w.IdempotencyKey, w.Key(uuid.MustParse("6f1f2c0e-5a0b-5c8e-9d3e-2a6c7f6f5a11"), w.Operation))
	require.Equal(t, w.Home, events.Home(w.Task, 8))

	s := only(t, "json", "SettingsAdopted")
	require.JSONEq(t, asJSON(t, events.SettingsAdopted{Settings: events.DefaultSettings(), Offset: 5}), s)
}

// The table of the home partitions.
func TestTheHomesInTheDocumentAreRight(t *testing.T) {
	t.Parallel()
	rows := regexp.MustCompile("(?m)^\\| `([^`]+)` \\| (-?\\d+) \\| (\\d) \\|$").FindAllStringSubmatch(document(t), -1)
	require.Len(t, rows, 8)
	for _, row := range rows {
		require.Equal(t, row[2], strconv.Itoa(int(int32(events.Murmur2([]byte(row[1]))))), row[1])
		require.Equal(t, row[3], strconv.Itoa(int(events.Home(row[1], 8))), row[1])
	}
}

// All headers, types, limits, reasons and kinds in the code are documented on the page.
func TestNamesAreDocumented(t *testing.T) {
	t.Parallel()
	page, names := document(t), 0
	for _, file := range []string{"cloudevents.go", "fact.go", "effect_facts.go", "schedule.go", "work.go", "position.go", "timers.go", "task.go", "child_record.go"} {
		source, err := os.ReadFile(file)
		require.NoError(t, err)
		for _, m := range regexp.MustCompile(`(?m)^\t\w+(?: +\w+)? += "([^"]+)"`).FindAllStringSubmatch(string(source), -1) {
			names++
			name := strings.TrimSuffix(m[1], ".")
			require.Contains(t, page, name, "%q of %s", name, file)
		}
	}
	require.Greater(t, names, 100)
	for _, member := range membersOf(reflect.TypeFor[events.Settings]()) {
		require.Contains(t, page, "`"+member+"`")
	}
	for _, kind := range []reflect.Type{reflect.TypeFor[events.Task](), reflect.TypeFor[events.Step](), reflect.TypeFor[events.UndoState](), reflect.TypeFor[events.PartitionState](), reflect.TypeFor[events.Schedule](), reflect.TypeFor[events.Parent](), reflect.TypeFor[events.ChildState](), reflect.TypeFor[events.ChildCall](), reflect.TypeFor[events.ChildMessage](), reflect.TypeFor[events.ChildAnswer]()} {
		for _, member := range membersOf(kind) {
			require.Contains(t, page, "`"+member+"`", kind.Name())
		}
	}
}

// python returns the path of an interpreter.
func python(t *testing.T) string {
	t.Helper()
	path, err := exec.LookPath("python3")
	if err != nil {
		t.Skip("python3 is not here: the document's reader and its folder are not run")
	}
	return path
}

func run(t *testing.T, in []byte, args ...string) (stdout, stderr string) {
	t.Helper()
	var out, errs bytes.Buffer
	c := exec.CommandContext(t.Context(), python(t), args...)
	c.Env = append(os.Environ(), "PYTHONUTF8=1")
	c.Stdin, c.Stdout, c.Stderr = bytes.NewReader(in), &out, &errs
	require.NoError(t, c.Run(), errs.String())
	return out.String(), errs.String()
}

// The example reader on the page accepts the same records as facts as the fold does.
func TestPythonReader(t *testing.T) {
	t.Parallel()
	log, err := os.ReadFile(filepath.Join("testdata", goldenLog))
	require.NoError(t, err)
	script := only(t, "python", "")
	require.LessOrEqual(t, strings.Count(script, "\n"), 27)
	stdout, stderr := run(t, log, "-c", script)
	var voids strings.Builder
	histories := map[string][]string{}
	for _, l := range readGoldenLog(t) {
		switch r := l.record(); {
		case l.Fate == "void":
			fmt.Fprintf(&voids, "%d void\n", l.Offset)
		case r.Key != nil:
			histories[string(r.Key)] = append(histories[string(r.Key)], strings.TrimPrefix(r.Header(events.HeaderType), events.TypePrefix))
		}
	}
	require.Equal(t, voids.String(), stderr)
	got := map[string][]string{}
	for l := range strings.Lines(stdout) {
		var pair [2]json.RawMessage
		require.NoError(t, json.Unmarshal([]byte(l), &pair))
		var task string
		var history []string
		require.NoError(t, json.Unmarshal(pair[0], &task))
		require.NoError(t, json.Unmarshal(pair[1], &history))
		got[task] = history
	}
	require.Equal(t, histories, got)
}

// A second implementation of the fold, written only from the page, computes the same state after every record.
func TestPythonFolder(t *testing.T) {
	t.Parallel()
	log, err := os.ReadFile(filepath.Join("testdata", goldenLog))
	require.NoError(t, err)
	stdout, _ := run(t, log, filepath.Join("testdata", "fold.py"))
	var want strings.Builder
	for _, l := range readGoldenLog(t) {
		fmt.Fprintf(&want, "%d %s\n", l.Offset, l.Hash)
	}
	require.Equal(t, want.String(), stdout)
}

// It also does so for random logs.
func TestPythonFolderProperty(t *testing.T) {
	t.Parallel()
	logs := rapid.Custom(func(t *rapid.T) [2]string {
		var log, want strings.Builder
		d := newDriver(t)
		for i := range rapid.IntRange(40, 300).Draw(t, "facts") {
			if i > 0 {
				d.step()
			}
			h, err := d.state.Hash()
			require.NoError(t, err)
			e := d.log[len(d.log)-1]
			b, err := json.Marshal(lineOf(e, h))
			require.NoError(t, err)
			fmt.Fprintf(&log, "%s\n", b)
			fmt.Fprintf(&want, "%d %s\n", e.record.Offset, h)
		}
		return [2]string{log.String(), want.String()}
	})
	for seed := range 5 {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			l := logs.Example(seed)
			stdout, _ := run(t, []byte(l[0]), filepath.Join("testdata", "fold.py"))
			require.Equal(t, l[1], stdout)
		})
	}
}
