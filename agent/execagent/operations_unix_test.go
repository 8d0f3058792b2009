//go:build unix

package execagent_test

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/stretchr/testify/require"
	yaml "go.yaml.in/yaml/v4"

	"github.com/sagalog/sagalog/agent/execagent"
	"github.com/sagalog/sagalog/events"
)

// Each operation has its command, which takes from the agent's exec what it does not say itself.
func TestABindingHasSeveralOperations(t *testing.T) {
	t.Parallel()
	undone := filepath.Join(t.TempDir(), "undone")
	h := bound(t, fmt.Sprintf(`
agent: a
exec: {env: {PATH: "${ env.PATH }", OF: all}, stdout: text}
operations:
  pack:
    exec: {command: [/bin/sh, -c, 'echo "$OF $SAGALOG_OPERATION $SAGALOG_FUNCTION"']}
    undo: {exec: {command: [/bin/sh, -c, 'echo "$OF $SAGALOG_OPERATION $SAGALOG_FUNCTION" > "$0"', %s]}}
  check: {exec: {command: [/bin/sh, -c, 'echo "[\"$OF\", \"$SAGALOG_FUNCTION\"]"'], env: {OF: one}, stdout: json}}
`, undone), nil)
	for _, c := range []struct {
		call         events.Call
		output, code string
	}{
		{call: events.Call{Function: "pack", Operation: events.Do}, output: `"all do pack"`},
		{call: events.Call{Function: "pack", Operation: events.Undo}},
		{call: events.Call{Function: "check", Operation: events.Do}, output: `["one", "check"]`},
		{call: events.Call{Function: "check", Operation: events.Undo}, code: "no_operation"},
		{call: events.Call{Operation: events.Do}, code: "no_operation"},
	} {
		w := h.Work("a", c.call.Operation, nil)
		w.Function = c.call.Function
		h.Send(w)
		r, ok := h.Await(w)
		require.True(t, ok, c.call)
		if c.code != "" {
			require.Equal(t, c.code, r.Error.Code, c.call)
			continue
		}
		require.Nil(t, r.Error, c.call)
		if c.output != "" {
			require.JSONEq(t, c.output, string(r.Output), c.call)
		}
	}
	b, err := os.ReadFile(undone)
	require.NoError(t, err)
	require.Equal(t, "all undo pack\n", string(b))
}

// The published schema and the parser take and refuse the same shapes of operations, and the parser says where it refuses one.
func TestTheSchemaKnowsOperationsAsParseDoes(t *testing.T) {
	t.Parallel()
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(execagent.JSONSchema()))
	require.NoError(t, err)
	c := jsonschema.NewCompiler()
	require.NoError(t, c.AddResource("https://sagalog.dev/schema/agent.schema.json", doc))
	schema, err := c.Compile("https://sagalog.dev/schema/agent.schema.json")
	require.NoError(t, err)
	var many strings.Builder
	for i := range events.MaxFunctions + 1 {
		fmt.Fprintf(&many, "  o%d: {exec: {command: [/bin/sh]}}\n", i)
	}
	const sh = "{exec: {command: [/bin/sh]}}"
	for text, fault := range map[string]string{
		"exec: {command: [/bin/sh]}":                                               "",
		"exec: {command: [/bin/sh]}\noperations: {b: " + sh + "}":                  "",
		"exec: {}\noperations: {b: " + sh + ", c-d: {exec: {command: [/bin/sh]}}}": "",
		"exec: {}":                    `a.yaml:2:7: key "command" is missing`,
		"operations: {b: " + sh + "}": `a.yaml:1:1: key "exec" is missing`,
		"exec: {}\nundo: " + sh + "\noperations: {b: " + sh + "}":                 `a.yaml:2:7: key "command" is missing`,
		"exec: {}\noperations: {}":                                                "a.yaml:3:13: operations is a mapping of names to operations, such as {capture: {...}}",
		"exec: {}\noperations: {b: {}}":                                           `a.yaml:3:17: key "exec" is missing`,
		"exec: {}\noperations: {b: {exec: {stdin: none}}}":                        `a.yaml:3:24: key "command" is missing`,
		"exec: {}\noperations: {b: {undo: " + sh + "}}":                           `a.yaml:3:17: key "exec" is missing`,
		"exec: {}\noperations: {b: {exec: {command: [/bin/sh], concurrency: 2}}}": `unknown key "concurrency"`,
		"exec: {}\noperations: {b: {exec: {command: [/bin/sh]}, undo: {}}}":       `a.yaml:3:52: key "exec" is missing`,
		"exec: {}\noperations: {undo: " + sh + "}":                                `a.yaml:3:14: "undo" names no operation: an operation has a do and an undo`,
		"exec: {}\noperations:\n" + many.String():                                 "a.yaml:4:3: operations has 1001 operations, more than the 1000 of an agent: divide them among several agents",
	} {
		var v any
		text = "agent: a\n" + text + "\n"
		require.NoError(t, yaml.Load([]byte(text), &v))
		_, parser := execagent.Parse("a.yaml", []byte(text), environment(nil))
		if fault == "" {
			require.NoError(t, parser, text)
			require.NoError(t, schema.Validate(v), text)
			continue
		}
		require.ErrorContains(t, parser, fault)
		require.Error(t, schema.Validate(v), text[:min(len(text), 80)])
	}
}
