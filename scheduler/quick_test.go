package scheduler

import (
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// byLibrary validates as if there were no quick form.
func byLibrary(t require.TestingT, schema any, input []byte) []InputFault {
	s, err := newInputSchema(schema)
	require.NoError(t, err)
	s.quick = nil
	return (&Program{schema: s}).ValidateInput(input)
}

func schemaOf(t require.TestingT, text string) any {
	s, err := decodeSchema(json.RawMessage(text))
	require.NoError(t, err)
	return s
}

// FuzzQuickSchema has any input validated by any schema: what the quick form accepts, the library accepts.
func FuzzQuickSchema(f *testing.F) {
	delivery, err := os.ReadFile("../internal/dronedelivery/files/delivery.schema.json")
	require.NoError(f, err)
	inputs := []string{
		`{"ownerId":"o","packageInfo":{"size":"small","weight":1.10},"pickup":{"region":"n"},"dropoff":{"region":"s"},"expedited":true}`,
		`{"a":1,"b":"x","c":[1,2,{"d":null}]}`, `{"a":1,"a":"x"}`, `{"\u0061":"x"}`, `{"a":1.0,"b":"é"}`, ` [ "x" , "y" ] `, `1e400`, `{"a":-0,"b":"\ud83d\ude00"}`, `{} {}`, `nul`, `{"a":0.30000000000000000001}`,
	}
	for _, s := range append([]string{string(delivery)}, quickSchemas...) {
		for _, in := range inputs {
			f.Add([]byte(s), []byte(in))
		}
	}
	f.Fuzz(func(t *testing.T, text, input []byte) {
		if len(text) > 4096 {
			return
		}
		schema, err := decodeSchema(text)
		if err != nil {
			return
		}
		if quick := quickOf(schema); !quick.accepts(input) {
			return
		}
		if _, err := compileSchema(schema); err != nil {
			return // it would not be asked
		}
		require.Empty(t, byLibrary(t, schema, input), "%s accepts %s", text, input)
	})
}

var quickSchemas = []string{
	`{"type":"object","required":["a"],"properties":{"a":{"type":"integer","minimum":0,"maximum":10},"b":{"type":"string","minLength":1,"maxLength":2}}}`,
	`{"properties":{"a":{"exclusiveMinimum":0.3,"exclusiveMaximum":1},"b":{"enum":["x","é",3,null]}},"additionalProperties":false}`,
	`{"properties":{"c":{"type":"array","items":{"$ref":"#/$defs/e"},"minItems":1,"maxItems":2}},"$defs":{"e":{"type":["integer","object","null"]}}}`,
	`{"allOf":[{"required":["a"]},{"properties":{"a":true}}],"additionalProperties":{"type":["string","array"]},"required":["z"]}`,
	`{"type":["array","number"],"items":{"type":"string","enum":["x","y"]}}`, `{"minimum":1e3}`, `{"required":[]}`, `{"title":"t","default":3,"examples":[1]}`,
}

// Schemas of every keyword that the quick form knows, and inputs that nearly meet them.
func TestTheQuickFormAcceptsNothingThatTheLibraryRefuses(t *testing.T) {
	t.Parallel()
	accepted := 0
	rapid.Check(t, func(t *rapid.T) {
		schema := map[string]any{"$defs": map[string]any{"r": randomSchema(t, 2), "s": true}}
		for k, v := range randomSchema(t, 0).(map[string]any) {
			schema[k] = v
		}
		text, err := json.Marshal(schema)
		require.NoError(t, err)
		quick := quickOf(schemaOf(t, string(text)))
		require.NotNil(t, quick, "%s", text)
		for range 20 {
			input := []byte(randomInput(t, 0))
			if quick.accepts(input) {
				accepted++
				require.Empty(t, byLibrary(t, schemaOf(t, string(text)), input), "%s accepts %s", text, input)
			}
		}
	})
	require.Positive(t, accepted)
}

var someNames = []string{"a", "b", "c"}

func randomSchema(t *rapid.T, depth int) any {
	some := func(chance int) bool { return rapid.IntRange(0, 9).Draw(t, "some") < chance }
	number := func() json.Number {
		return json.Number(rapid.SampledFrom([]string{"0", "1", "-1", "2.5", "0.1", "10", "12345678901234567890"}).Draw(t, "bound"))
	}
	size := func() int { return rapid.IntRange(0, 3).Draw(t, "size") }
	if depth > 0 && some(1) {
		return true
	}
	s := map[string]any{}
	if some(4) {
		s["type"] = rapid.SampledFrom([]any{"null", "boolean", "object", "array", "string", "number", "integer", []any{"string", "integer"}, []any{"object", "null"}}).Draw(t, "type")
	}
	if some(1) {
		s["enum"] = []any{"x", "xy", 1, nil}
	}
	for key, chance := range map[string]int{"minimum": 2, "maximum": 2, "exclusiveMinimum": 1, "exclusiveMaximum": 1} {
		if some(chance) {
			s[key] = number()
		}
	}
	for _, key := range []string{"minLength", "maxLength", "minItems", "maxItems"} {
		if some(2) {
			s[key] = size()
		}
	}
	if depth < 2 && some(7) {
		members := map[string]any{}
		for _, n := range someNames {
			if some(7) {
				members[n] = randomSchema(t, depth+1)
			}
		}
		s["properties"] = members
		if _, ok := members["a"]; ok && some(3) {
			s["required"] = []string{"a"}
		}
	}
	if depth < 2 && some(2) {
		s["additionalProperties"] = rapid.SampledFrom([]any{false, true, map[string]any{"type": "string"}}).Draw(t, "others")
	}
	if depth < 2 && some(3) {
		s["items"] = randomSchema(t, depth+1)
	}
	if depth < 2 && some(2) {
		s["$ref"] = rapid.SampledFrom([]string{"#/$defs/r", "#/$defs/s"}).Draw(t, "ref")
	}
	if depth < 2 && some(1) {
		s["allOf"] = []any{randomSchema(t, depth+1), true}
	}
	return s
}

func randomInput(t *rapid.T, depth int) string {
	switch kind := rapid.IntRange(0, 9).Draw(t, "kind"); {
	case kind < 5 && depth < 3:
		var members []string
		for range rapid.IntRange(0, 3).Draw(t, "members") {
			name := rapid.SampledFrom([]string{`"a"`, `"a"`, `"b"`, `"c"`, `"d"`, `"\u0061"`, `"é"`}).Draw(t, "name")
			members = append(members, name+rapid.SampledFrom([]string{":", " : "}).Draw(t, "colon")+randomInput(t, depth+1))
		}
		return "{" + strings.Join(members, ",") + "}"
	case kind == 5 && depth < 3:
		var elements []string
		for range rapid.IntRange(0, 3).Draw(t, "elements") {
			elements = append(elements, randomInput(t, depth+1))
		}
		return "[" + strings.Join(elements, " , ") + "]"
	}
	return rapid.SampledFrom([]string{
		"null", "true", "false", "0", "-0", "1", "2", "1.0", "2.5", "0.1", "0.10000000000000000001", "1e0", "-1", "10", "12345678901234567890", "1e400", `""`, `"x"`, `"xy"`,
		`"\u0078"`, `"é"`, `"ééé"`, "\"\xff\"", `"xyzxyz"`, "nul", "01",
	}).Draw(t, "scalar")
}

// What people write is accepted without the library, so that it is worth its code.
func TestTheQuickFormKnowsOrdinaryInputs(t *testing.T) {
	t.Parallel()
	delivery, err := os.ReadFile("../internal/dronedelivery/files/delivery.schema.json")
	require.NoError(t, err)
	for _, c := range []struct{ schema, input string }{
		{string(delivery), `{"ownerId":"ö","packageInfo":{"size":"small","weight":24.9},"pickup":{"region":"n","address":"1"},"dropoff":{"region":"s"},"confirmationRequired":"none"}`},
		{quickSchemas[0], `{"a":0,"b":"é","more":[{}]}`}, {quickSchemas[1], `{"a":0.5,"b":"x"}`}, {quickSchemas[2], `{"c":[1,null]}`}, {quickSchemas[4], `["x","y"]`},
		{`{"type":"number","minimum":0}`, `0`}, {`{"type":"string","maxLength":3}`, `"äöü"`},
	} {
		require.True(t, quickOf(schemaOf(t, c.schema)).accepts([]byte(c.input)), "%s: %s", c.schema, c.input)
	}
}

// A keyword that the quick form does not know leaves everything to the library.
func TestWhatTheQuickFormDoesNotKnowIsTheLibrarysBusiness(t *testing.T) {
	t.Parallel()
	for _, s := range []string{
		`true`, `{"pattern":"x"}`, `{"properties":{"a":{"format":"date"}}}`, `{"anyOf":[true]}`, `{"$ref":"#"}`, `{"$ref":"#/$defs/a","$defs":{"a":{"$ref":"#/$defs/a"}}}`,
		`{"$id":"https://example.com/x"}`, `{"$schema":"http://json-schema.org/draft-07/schema#"}`, `{"items":{"$schema":"https://json-schema.org/draft/2020-12/schema"}}`, `{"x-note":1}`,
		`{"properties":{"a":false}}`, `{"const":1}`, `{"multipleOf":2}`, `{"uniqueItems":true}`, `{"prefixItems":[true]}`, `{"minProperties":1}`, `{"minimum":1e3}`,
	} {
		require.Nil(t, quickOf(schemaOf(t, s)), s)
	}
}

// The budget of visits keeps its verdict: what the library refuses for taking too long is not accepted, and the quick form
// counts what the library counts.
func TestTheQuickFormCountsVisitsAsTheLibrary(t *testing.T) {
	t.Parallel()
	var many []string
	for i := range 300 {
		many = append(many, fmt.Sprintf("%q", fmt.Sprint("name", i)))
	}
	for _, c := range []struct{ schema, input string }{
		{quickSchemas[0], `{"a":1,"b":"x"}`},
		{quickSchemas[2], `{"c":[1,2]}`},
		{`{"items":{"enum":[` + strings.Join(many, ",") + `],"allOf":[{"type":"string"},true]}}`, `["name1","name2"]`},
	} {
		schema := schemaOf(t, c.schema)
		bounded, err := compileSchema(schema)
		require.NoError(t, err)
		var v any
		require.NoError(t, json.Unmarshal([]byte(c.input), &v))
		bounded.budget.left = inputBudget
		require.NoError(t, bounded.Validate(v))
		visit := quickVisit{b: []byte(c.input), left: inputBudget}
		require.Positive(t, quickOf(schema).accept(&visit, 0))
		require.Equal(t, bounded.budget.left, visit.left, c.schema)
	}
	// Eleven doublings of ten visits each are within the budget of the library, and too many here; sixteen are too many there.
	for doublings, refused := range map[int]bool{11: false, 16: true} {
		text := `{"$ref":"#/$defs/d0","$defs":{`
		for i := range doublings {
			text += fmt.Sprintf(`"d%d":{"allOf":[{"$ref":"#/$defs/d%d"},{"$ref":"#/$defs/d%d"}]},`, i, i+1, i+1)
		}
		schema := schemaOf(t, text+fmt.Sprintf(`"d%d":{"type":"object"}}}`, doublings))
		require.False(t, quickOf(schema).accepts([]byte(`{}`)))
		require.Equal(t, refused, len(byLibrary(t, schema, []byte(`{}`))) > 0)
	}
	// A list of nulls may be visited four times each, and no more.
	list := []byte("[" + strings.Repeat("null,", 200_000) + "null]")
	for copies, refused := range map[int]bool{2: false, 40: true} {
		schema := schemaOf(t, `{"items":{"allOf":[`+strings.TrimSuffix(strings.Repeat(`{"type":"null"},`, copies), ",")+`]}}`)
		require.Equal(t, !refused, quickOf(schema).accepts(list), copies)
		require.Equal(t, refused, len(byLibrary(t, schema, list)) > 0, copies)
	}
}
