package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

const events = "../.."

// The committed files equal the generator's output for the current types.
func TestGeneratedFilesAreCurrent(t *testing.T) {
	t.Parallel()
	files, err := generate(events, elsewhere...)
	require.NoError(t, err)
	require.Len(t, files, 3)
	for name, want := range files {
		got, err := os.ReadFile(filepath.Join(events, name))
		require.NoError(t, err)
		require.True(t, string(want) == string(got), "%s is not current: run go generate ./events", name)
	}
}

// An unknown type or tag is an error: the generator never leaves a member out.
func TestUnknownTypesAndTagsAreRefused(t *testing.T) {
	t.Parallel()
	for field, want := range map[string]string{
		"A int `json:\"a\"`":        "",
		"A int":                     "events.Work.A has no tag",
		"A int `json:\"-\"`":        "events.Work.A has no tag",
		"A int `json:\"a,string\"`": "events.Work.A has no tag",
		"A float64 `json:\"a\"`":    "a float64 cannot be encoded",
		"A any `json:\"a\"`":        "a any cannot be encoded",
	} {
		dir := t.TempDir()
		text := "package events\ntype Work struct {\n" + field + "\n}\n"
		for _, name := range []string{"Report", "Submission", "Task", "stepRow", "requestRow", "PartitionState", "HeldRequest", "Definition", "Limit", "Permit", "Schedule"} {
			text += "type " + name + " struct {\nID string `json:\"id\"`\n}\n"
		}
		require.NoError(t, os.WriteFile(filepath.Join(dir, "a.go"), []byte(text), 0o600))
		_, err := generate(dir)
		if want == "" {
			require.NoError(t, err)
		} else {
			require.ErrorContains(t, err, want, field)
		}
	}
}

// The members of an embedded struct appear among the members of the outer struct, in the order of the fields.
func TestMembersHaveTheOrderOfTheFields(t *testing.T) {
	t.Parallel()
	p, err := load(events)
	require.NoError(t, err)
	var names []string
	for _, m := range (&writer{pkg: p}).members("StepCompleted") {
		names = append(names, m.name)
	}
	require.Equal(t, []string{"step", "attempt", "output", "signal", "quiet_at", "instance", "ready_at", "started_at", "accepted_at", "finished_at", "request", "reason", "by"}, names)
	require.Len(t, p.bodies(), 72)
}

// Descriptions speak of members and of words on the wire, not of names of Go.
func TestDescriptionsSpeakOfMembers(t *testing.T) {
	t.Parallel()
	files, err := generate(events, elsewhere...)
	require.NoError(t, err)
	var doc struct {
		Defs map[string]struct {
			Description string
			Properties  map[string]struct{ Description string }
		} `json:"$defs"`
	}
	require.NoError(t, json.Unmarshal(files["schema_gen.json"], &doc))
	says := func(typ, member string) string { return doc.Defs[typ].Properties[member].Description }
	require.Regexp(t, `^heartbeat is set if .*: complete_by is then its end .*, and cap_by its end in any case\.$`, says("StepStarted", "heartbeat"))
	require.Equal(t, "mark is `redriven` or `dismissed`; an empty one takes an earlier mark back.", says("DeadLetterMark", "mark"))
	require.Equal(t, "function is the operation of the agent, if it has a name.", says("Work", "function"))
	require.Equal(t, "error and effect say how an attempt failed.", says("Request", "error"))
	require.Contains(t, doc.Defs["Effect"].Description, "`none`: nothing changed, and nothing can any more.")
	for name, d := range doc.Defs {
		require.NotEmpty(t, d.Description, name)
	}
}

// A mark that the generator does not know is an error, and so is a list of words without any.
func TestUnknownMarksAreRefused(t *testing.T) {
	t.Parallel()
	for mark, want := range map[string]string{"dance": `the mark "dance" of member by is not known`, "words:Dance*": "no constant has a name like Dance*", "words:Dance": "there is no constant Dance", "type:Dance": "a Dance cannot be encoded"} {
		p, err := load(events)
		require.NoError(t, err)
		b := &builder{writer: writer{pkg: p}, defs: map[string]*schema{}}
		m := b.members("TaskPaused")[2]
		m.marks = []string{mark}
		func() {
			defer func() { require.ErrorContains(t, recover().(fault), want) }()
			b.marked(&m)
		}()
	}
}
