package scheduler_test

import (
	"encoding/json"
	"fmt"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/stretchr/testify/require"

	"github.com/sagalog/sagalog/scheduler"
)

// adopted is a program with a schema that was adopted before its size was limited.
func adopted(t *testing.T, schema string) *scheduler.Program {
	t.Helper()
	d := *program(t, "workflow: w\nsteps: {a: {agent: a}}").Definition()
	d.Input = json.RawMessage(schema)
	p, err := scheduler.Compile(&d)
	require.NoError(t, err)
	return p
}

// 8 KB of input took 3 GB: each error names all missing members, and all errors were kept though 50 are shown. The test does not run in
// parallel, since it counts the memory of the process.
func TestTheErrorsOfAnInputTakeLittleMemory(t *testing.T) {
	if testing.Short() {
		t.Skip("large, and the race detector has nothing to find: step test runs it")
	}
	names := quoted(95_000)
	eight := `{"items":{"type":"object","required":["a","b","c","d","e","f","g","h"]}}`
	for name, c := range map[string]struct{ schema, input string }{
		"dependent names":   {`{"items":{"dependentRequired":{"a":` + names + `}}}`, repeated(1000, `{"a":1}`)},
		"required names":    {`{"items":{"required":` + names + `}}`, repeated(100_000, "{}")},
		"an ordinary list":  {eight, repeated(100_000, "{}")},
		"a list of lists":   {`{"items":` + eight + `}`, repeated(300, repeated(300, "{}"))},
		"wrong types":       {`{"items":{"type":"string"}}`, repeated(100_000, "1")},
		"false":             {`{"prefixItems":[true],"items":false}`, repeated(100_000, "1")},
		"names of members":  {`{"propertyNames":{"maxLength":1}}`, "{" + members(50_000) + "}"},
		"additional":        {`{"additionalProperties":{"type":"string"}}`, "{" + members(50_000) + "}"},
		"a choice for each": {`{"items":{"anyOf":[{"type":"string"},{"required":["a"]},false]}}`, repeated(50_000, "{}")},
	} {
		t.Run(name, func(t *testing.T) {
			p := adopted(t, c.schema)
			var faults []scheduler.InputFault
			bytes := allocated(func() { faults = p.ValidateInput(json.RawMessage(c.input)) })
			require.Less(t, bytes, uint64(1<<30))
			if len(faults) > 1 {
				require.Len(t, faults, 50)
				require.Less(t, p.ErrorsOf(json.RawMessage(c.input)), 200)
				return
			}
			require.Contains(t, faults[0].Message, "it takes too long")
		})
	}
}

func members(n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, `"name%d":1,`, i)
	}
	return strings.TrimSuffix(b.String(), ",")
}

// These were not counted: schemas that are booleans, schemas that stop at the first keyword, lists of names, chains of references, large
// values visited again, and schemas that only a dynamic reference finds.
func TestEveryVisitDrawsOnTheBudget(t *testing.T) {
	t.Parallel()
	chain := func(n int, end string) string {
		var b strings.Builder
		for i := range n {
			fmt.Fprintf(&b, `"d%d":{"$ref":"#/$defs/d%d"},`, i, i+1)
		}
		return b.String() + fmt.Sprintf(`"d%d":%s`, n, end)
	}
	twice := func(end string) string {
		var b strings.Builder
		for i := range 12 {
			fmt.Fprintf(&b, `"d%d":{"allOf":[{"$ref":"#/$defs/d%d"},{"$ref":"#/$defs/d%d"}]},`, i, i+1, i+1)
		}
		return `{"$ref":"#/$defs/d0","$defs":{` + b.String() + `"d12":` + end + "}}"
	}
	for name, c := range map[string]struct{ schema, input, says string }{
		"true":         {`{"items":{"allOf":` + repeated(1_900, "true") + `}}`, repeated(1000, "1"), "it takes too long"},
		"wrong types":  {`{"items":{"anyOf":[{"allOf":` + repeated(1_900, `{"type":"string"}`) + `},true]}}`, repeated(1000, "1"), "it takes too long"},
		"no types":     {`{"items":{"not":{"anyOf":` + repeated(1_900, `{"type":"string"}`) + `}}}`, repeated(1000, "1"), "it takes too long"},
		"a chain":      {`{"$ref":"#/$defs/d0","$defs":{` + chain(1_900, "true") + "}}", `1`, "it takes too long"},
		"levels":       {`{"$ref":"#/$defs/d0","$defs":{` + chain(60, `{"items":{"$ref":"#/$defs/d0"}}`) + "}}", strings.Repeat("[", 99) + strings.Repeat("]", 99), "too many levels"},
		"a long text":  {twice(`{"maxLength":1000000}`), `"` + strings.Repeat("x", 500_000) + `"`, "it takes too long"},
		"unique":       {twice(`{"uniqueItems":true}`), numbers(80_000), "it takes too long"},
		"few unique":   {`{"items":{"allOf":` + repeated(100, `{"uniqueItems":true}`) + `}}`, repeated(1000, numbers(20)), "it takes too long"},
		"many members": {twice(`{"additionalProperties":false}`), "{" + members(20_000) + "}", "it takes too long"},
		"dynamic":      {`{"$dynamicRef":"#n","$defs":{"n":{"$dynamicAnchor":"n","allOf":` + repeated(1_900, "{}") + `,"items":{"$dynamicRef":"#n"}}}}`, repeated(1000, "1"), "it takes too long"},
		"draft 7":      {`{"$schema":"http://json-schema.org/draft-07/schema#","items":{"allOf":` + repeated(1_900, `{"dependencies":{"a":["b"]}}`) + `}}`, repeated(1000, "1"), "it takes too long"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			faults := adopted(t, c.schema).ValidateInput(json.RawMessage(c.input))
			require.Len(t, faults, 1)
			require.Contains(t, faults[0].Message, c.says)
		})
	}
}

func numbers(n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, ",%d", i)
	}
	return "[" + b.String()[1:] + "]"
}

// The library alone is the oracle: a guard changes no answer.
func TestAGuardedSchemaAnswersAsTheLibraryDoes(t *testing.T) {
	t.Parallel()
	inputs := []string{`null`, `true`, `1`, `1.5`, `"a"`, `"abc"`, `[]`, `[1]`, `[1,"a",2]`, `[1,1]`, `[[1],[["x"]]]`, `{}`, `{"a":1}`, `{"a":"x","b":2}`,
		`{"b":{"b":{"a":1}}}`, `{"c":[1,{"a":null}],"a":1}`, `{"children":[{"children":[]},{"childs":1}]}`}
	for _, schema := range []string{
		`true`, `false`, `{}`, `{"not":true}`, `{"type":["integer","object"]}`, `{"const":{"a":1}}`, `{"enum":[1,"a",[1]]}`, `{"format":"date"}`,
		`{"properties":{"a":{"type":"integer"}},"unevaluatedProperties":false}`,
		`{"allOf":[{"properties":{"a":true}}],"anyOf":[{"properties":{"b":true}},{"required":["c"]}],"unevaluatedProperties":false}`,
		`{"$ref":"#/$defs/x","$defs":{"x":{"properties":{"a":{}}}},"unevaluatedProperties":{"type":"object"}}`,
		`{"prefixItems":[{"type":"integer"}],"unevaluatedItems":{"type":"string"}}`, `{"contains":{"type":"string"},"unevaluatedItems":{"type":"integer"}}`,
		`{"contains":{"type":"integer"},"minContains":2,"maxContains":2}`, `{"if":{"type":"object"},"then":{"required":["a"]},"else":{"type":"array"}}`,
		`{"oneOf":[{"type":"integer"},{"type":"number"},{"required":["a"]}]}`, `{"dependentSchemas":{"a":{"required":["b"]}},"dependentRequired":{"c":["b"]}}`,
		`{"propertyNames":{"maxLength":1},"patternProperties":{"^a":{"type":"integer"}},"additionalProperties":{"type":"object"}}`,
		`{"$id":"https://x/tree","$dynamicAnchor":"node","properties":{"children":{"items":{"$dynamicRef":"#node"}}}}`,
		`{"$id":"https://x/strict","$dynamicAnchor":"node","$ref":"tree","unevaluatedProperties":false,"$defs":{"t":{"$id":"tree","$dynamicAnchor":"node","properties":{"children":{"items":{"$dynamicRef":"#node"}}}}}}`,
		`{"$schema":"https://json-schema.org/draft/2019-09/schema","$recursiveAnchor":true,"properties":{"b":{"$recursiveRef":"#"},"a":{"type":"integer"}},"unevaluatedProperties":false}`,
		`{"$schema":"http://json-schema.org/draft-07/schema#","items":[{"type":"integer"}],"additionalItems":{"type":"string"},"dependencies":{"a":["b"],"c":{"required":["a"]}}}`,
		`{"$schema":"http://json-schema.org/draft-04/schema#","properties":{"a":{"minimum":1,"exclusiveMinimum":true}},"definitions":{"x":{}}}`,
		`{"$ref":"#","items":{"$ref":"#"}}`, `{"uniqueItems":true,"items":{"$ref":"#"}}`, `{"not":{"items":{"type":"integer"},"contains":{"type":"integer"}}}`,
	} {
		p := adopted(t, schema)
		doc, err := jsonschema.UnmarshalJSON(strings.NewReader(schema))
		require.NoError(t, err)
		c := jsonschema.NewCompiler()
		c.AssertFormat()
		require.NoError(t, c.AddResource("sagalog://definition/input", doc))
		oracle, err := c.Compile("sagalog://definition/input")
		require.NoError(t, err)
		for _, in := range inputs {
			v, err := jsonschema.UnmarshalJSON(strings.NewReader(in))
			require.NoError(t, err)
			faults := p.ValidateInput(json.RawMessage(in))
			require.Equal(t, oracle.Validate(v) == nil, len(faults) == 0, "%s against %s: %v", in, schema, faults)
			for _, f := range faults {
				require.NotContains(t, f.Message, "cannot be validated")
			}
		}
	}
}

// Each submission at the same time compiled and kept a copy: 40 of them took 2 GB. A validation above the limit waits.
func TestTheCopiesOfASchemaAreBounded(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := adopted(t, `{"anyOf":[{"type":"integer"}]}`) // with guards: all validations share a plain schema
		limit := runtime.GOMAXPROCS(0)
		give, err := p.HoldSchema(limit)
		require.NoError(t, err)
		waiting := true
		go func() {
			require.Empty(t, p.ValidateInput([]byte("1")))
			waiting = false
		}()
		synctest.Wait()
		require.True(t, waiting, "as many copies as there are processors are in use")
		require.LessOrEqual(t, give(), 2)
		synctest.Wait()
		require.False(t, waiting)
	})
}
