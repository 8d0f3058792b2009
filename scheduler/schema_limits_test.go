package scheduler_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sagalog/sagalog/events"
	"github.com/sagalog/sagalog/scheduler"
)

// repeated is a list of one value.
func repeated(n int, value string) string {
	return "[" + strings.Repeat(value+",", n-1) + value + "]"
}

// numbered is a list of different names.
func numbered(n int) string {
	names := make([]string, n)
	for i := range names {
		names[i] = fmt.Sprintf("n%d", i)
	}
	return "[" + strings.Join(names, ",") + "]"
}

// Such a schema took minutes to compile, or gigabytes for the errors of one input. A member named like a keyword that holds data is a
// sub-schema too, and so is whatever a reference leads to.
func TestASchemaThatHoldsTooMuchIsRefused(t *testing.T) {
	t.Parallel()
	many, names := repeated(2_001, "true"), numbered(2_001)
	const schemas, values = "the schema has more than 2000 objects and booleans up to here: describe less", "the lists of the schema have more than 2000 values up to here"
	for schema, says := range map[string]string{
		"{allOf: " + many + "}":                                              "f:2:10012: input.allOf[1999]: " + schemas,
		"{allOf: " + repeated(2_001, "{}") + "}":                             schemas,
		"{properties: {default: {anyOf: " + many + "}}}":                     "input.properties.default.anyOf[1997]: " + schemas,
		"{properties: {const: {properties: {enum: {oneOf: " + many + "}}}}}": schemas,
		"{$ref: '#/default', default: {allOf: " + many + "}}":                schemas,
		"{$ref: '#/x', x: {allOf: " + many + "}}":                            schemas,
		"{required: " + names + "}":                                          "f:2:19: input.required: " + values,
		"{dependentRequired: {a: " + names + "}}":                            "input.dependentRequired.a: " + values,
		"{dependentRequired: {" + strings.Join(strings.Split(strings.Trim(numbered(2_001), "[]"), ","), ": [], ") + ": []}}": values,
		"{enum: " + names + "}":                           "input.enum: " + values,
		"{properties: {examples: {enum: " + names + "}}}": "input.properties.examples.enum: " + values,
		"{properties: {a: {enum: " + numbered(1_500) + "}, b: {required: " + numbered(1_500) + "}}}": "input.properties.b.required: " + values,
	} {
		_, faults := scheduler.Parse("f", []byte("workflow: w\ninput: "+schema+"\nsteps: {a: {agent: a}}"), nil)
		require.Contains(t, lines(faults), says, "%.80s", schema)
		require.Len(t, faults, 1)
	}
}

// The files of a schema are counted with it.
func TestTheFilesOfASchemaCountTowardsItsLimits(t *testing.T) {
	t.Parallel()
	text := "workflow: w\ninput: {properties: {a: {$ref: a.yaml}, b: {$ref: b.yaml}}}\nsteps: {a: {agent: a}}"
	open := func(string) ([]byte, error) { return []byte("anyOf:\n  " + repeated(1_500, "true")), nil }
	_, faults := scheduler.Parse("f", []byte(text), open)
	require.Len(t, faults, 1)
	require.Contains(t, lines(faults), "b.yaml:2:2494: anyOf[498]: the schema has more than 2000 objects and booleans")
	one := strings.Replace(text, "b.yaml", "a.yaml", 1)
	_, faults = scheduler.Parse("f", []byte(one), open)
	require.Empty(t, faults)
}

// A partition that adopted such a definition before the limits existed must go on.
func TestAnOldSchemaThatHoldsTooMuchStillRuns(t *testing.T) {
	t.Parallel()
	p := program(t, "workflow: w\nsteps: {a: {agent: a}}")
	d := *p.Definition()
	d.Input = []byte(`{"required":["a"],"allOf":` + repeated(3_000, "true") + "}")
	body, err := json.Marshal(d)
	require.NoError(t, err)
	s := scheduler.New()
	require.NoError(t, s.Prepare("old", body))
	for input, want := range map[string]string{`{"a":1}`: "", `{}`: "/input: missing property 'a'"} {
		_, wrong := s.Accept("old", &events.Submission{Input: []byte(input)}, 1)
		require.Equal(t, want, wrong)
	}
}
