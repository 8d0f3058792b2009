package scheduler_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func quoted(n int) string {
	return strings.NewReplacer("[", `["`, ",", `","`, "]", `"]`).Replace(numbered(n))
}

// A small input pays nothing for guards that could never stop its validation. What a guard would count is counted here.
func TestAPlainSchemaCannotSpendTheBudget(t *testing.T) {
	t.Parallel()
	const size = 4 << 10
	lists := `{"items":`
	for name, c := range map[string]struct{ schema, input string }{
		"any value":      {`true`, repeated(size/2-1, "1")},
		"an object":      {`{"type":"object","required":["a"],"properties":{"a":{"minimum":0}},"additionalProperties":false}`, `{"a":1}`},
		"other members":  {`{"additionalProperties":{"type":"integer"}}`, "{" + members(300) + "}"},
		"a list":         {`{"items":{"type":"integer"}}`, repeated(size/2-1, "1")},
		"required names": {`{"items":{"required":` + quoted(100) + `}}`, repeated(size/3-1, "{}")},
		"an enum":        {`{"items":{"enum":` + quoted(700) + `}}`, repeated(size/2-1, "1")},
		"a long text":    {`{"maxLength":9}`, `"` + strings.Repeat("x", size-2) + `"`},
		"levels":         {strings.Repeat(lists, 90) + "true" + strings.Repeat("}", 90), strings.Repeat("[", 89) + repeated(1900, "1") + strings.Repeat("]", 89)},
	} {
		p := adopted(t, c.schema)
		require.True(t, p.IsPlain(), name)
		require.LessOrEqual(t, len(c.input), size, name)
		spent, budget := p.SpentOn(json.RawMessage(c.input))
		require.Less(t, spent, budget, name)
	}
}

// Each of these visits a value more than once, or costs more than a visit.
func TestOtherSchemasAreNotPlain(t *testing.T) {
	t.Parallel()
	for _, schema := range []string{
		`{"$ref":"#"}`, `{"$dynamicRef":"#"}`, `{"not":true}`, `{"allOf":[true]}`, `{"anyOf":[true]}`, `{"oneOf":[true]}`, `{"if":true,"then":true}`,
		`{"uniqueItems":true}`, `{"pattern":"a"}`, `{"format":"date"}`, `{"patternProperties":{"a":true}}`, `{"propertyNames":true}`, `{"contains":true}`,
		`{"dependentRequired":{"a":["b"]}}`, `{"dependentSchemas":{"a":true}}`, `{"unevaluatedProperties":false}`, `{"unevaluatedItems":false}`,
		`{"required":` + quoted(200) + `}`, `{"enum":` + quoted(2000) + `}`, `{"enum":` + repeated(200, "[1]") + `}`,
		`{"$id":"https://x/y","$schema":"http://json-schema.org/draft-07/schema#","items":[true]}`,
	} {
		require.False(t, adopted(t, schema).IsPlain(), schema)
		require.False(t, adopted(t, `{"properties":{"a":{"items":`+schema+`}}}`).IsPlain(), "below: %s", schema)
	}
}

// The guards report the faults of a plain schema as well: 50 at most, and a large input draws on the budget.
func TestAPlainSchemaReportsFaultsWithinBounds(t *testing.T) {
	t.Parallel()
	p := adopted(t, `{"items":{"type":"string"}}`)
	require.True(t, p.IsPlain())
	require.Empty(t, p.ValidateInput(json.RawMessage(`["a"]`)))
	require.Len(t, p.ValidateInput(json.RawMessage(`["a",1]`)), 1)
	require.Len(t, p.ValidateInput(json.RawMessage(repeated(1000, "1"))), 50)
	require.Len(t, p.ValidateInput(json.RawMessage(repeated(100_000, "1"))), 50)
}
