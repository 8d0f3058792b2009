package scheduler_test

import (
	"bytes"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/stretchr/testify/require"

	yaml "go.yaml.in/yaml/v4"

	"github.com/sagalog/sagalog/scheduler"
)

func compilePublished(t *testing.T) *jsonschema.Schema {
	t.Helper()
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(scheduler.JSONSchema()))
	require.NoError(t, err)
	c := jsonschema.NewCompiler()
	require.NoError(t, c.AddResource("https://sagalog.dev/schema/workflow.schema.json", doc))
	s, err := c.Compile("https://sagalog.dev/schema/workflow.schema.json")
	require.NoError(t, err)
	return s
}

func load(t *testing.T, text string) any {
	t.Helper()
	var v any
	require.NoError(t, yaml.Load([]byte(text), &v))
	return v
}

func TestThePublishedSchemaAcceptsWhatParseAccepts(t *testing.T) {
	t.Parallel()
	s := compilePublished(t)
	example, err := openTestdata("drone-delivery.yaml")
	require.NoError(t, err)
	for _, text := range []string{
		string(example),
		head + "  a: {agent: a, cool_down: {wait: 15m, times: 0}, undo: {agent: b, complete_within: 1m30s, retry: {attempts: 3, then: park}}}",
		"workflow: w\ndefaults: {complete_within: 1s, retry: {factor: 1.5}, cool_down: {wait: 1h}, undo: {complete_within: 1s, retry: {max_backoff: 2m}}}\nsteps: {a: {agent: a, if: \"${ true }\"}}",
	} {
		require.NoError(t, s.Validate(load(t, text)))
		src, faults := scheduler.Parse("f", []byte(text), openTestdata)
		require.NotNil(t, src, lines(faults))
	}
}

func TestThePublishedSchemaRefusesWrongShapesAsParseDoes(t *testing.T) {
	t.Parallel()
	s := compilePublished(t)
	for _, text := range []string{
		"{}", "[]", "workflow: w", "workflow: W\nsteps: {a: {agent: a}}", "workflow: w\nsteps: {}", "workflow: w\nsteps: []",
		"workflow: 5\nsteps: {a: {agent: a}}",
		"workflow: w\nextra: 1\nsteps: {a: {agent: a}}",
		"workflow: w\ndeadline: 5\nsteps: {a: {agent: a}}",
		"workflow: w\ninput: 5\nsteps: {a: {agent: a}}",
		"workflow: w\ndefaults: {undo: {retry: {then: undo}}}\nsteps: {a: {agent: a}}",
		head + "  a: {}", head + "  A: {agent: a}", head + "  a: {agent: \"\"}", head + "  a: {agent: a, for: x}",
		head + "  a: {agent: a, needs: a}", head + "  a: {agent: a, needs: [1]}", head + "  a: {agent: a}\n  b: {agent: a, needs: [a, a]}",
		head + "  a: {agent: a, if: true}", head + "  a: {agent: a, complete_within: soon}", head + "  a: {agent: a, complete_within: -5s}",
		head + "  a: {agent: a, retry: {attempts: 0}}", head + "  a: {agent: a, retry: {factor: 0.5}}", head + "  a: {agent: a, retry: {then: stop}}",
		head + "  a: {agent: a, cool_down: {times: 3}}", head + "  a: {agent: a, undo: {agent: \"\"}}", head + "  a: {agent: a, undo:}",
		head + "  a: {agent: a, pivot: 1}",
	} {
		require.Error(t, s.Validate(load(t, text)), text)
		src, _ := scheduler.Parse("f", []byte(text), nil)
		require.Nil(t, src, text)
	}
}

func TestThePublishedSchemaKnowsTheSameKeysAsParse(t *testing.T) {
	t.Parallel()
	doc := load(t, string(scheduler.JSONSchema())).(map[string]any)
	defs := doc["$defs"].(map[string]any)
	for at, schema := range map[string]any{
		"":              doc,
		"steps.a.":      defs["step"],
		"steps.a.retry": defs["retry"],
	} {
		for key := range schema.(map[string]any)["properties"].(map[string]any) {
			text := "workflow: w\nsteps: {a: {agent: a}}\n" + key + ": 1"
			switch at {
			case "steps.a.":
				text = head + "  a: {" + key + ": 1}"
			case "steps.a.retry":
				text = head + "  a: {agent: a, retry: {" + key + ": 1}}"
			}
			_, faults := scheduler.Parse("f", []byte(text), nil)
			require.False(t, strings.Contains(lines(faults), "unknown key"), "%s%s", at, key)
		}
	}
}
