package scheduler_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sagalog/sagalog/scheduler"
)

// A schema of a few lines must not take an owner down: one whose parts refer to each other twice visits a value a million
// million times, and a pattern may take an hour for a long text.
func TestAnInputSchemaCannotTakeTheOwnerDown(t *testing.T) {
	var doubling strings.Builder
	for i := range 40 {
		fmt.Fprintf(&doubling, "d%d: {allOf: [{$ref: '#/$defs/d%d'}, {$ref: '#/$defs/d%d'}]}, ", i, i+1, i+1)
	}
	for name, c := range map[string]struct{ schema, input string }{
		"one value visited again and again": {"{$ref: '#/$defs/d0', $defs: {" + doubling.String() + "d40: {type: object}}}", `{}`},
		"a choice at each level": {"{$ref: '#/$defs/n', $defs: {n: {oneOf: [{type: integer}, {type: object, properties: {a: {anyOf: [{$ref: '#/$defs/n'}, {$ref: '#/$defs/n'}]}}}]}}}",
			strings.Repeat(`{"a":`, 40) + `"x"` + strings.Repeat("}", 40)},
		"a pattern of large repetitions": {"{type: string, pattern: '" + strings.Repeat(".{0,999}", 4) + "d'}", `"` + strings.Repeat("a", 500_000) + `"`},
		"names of members":               {"{patternProperties: {'" + strings.Repeat(".{0,999}", 4) + "d': true}}", `{"` + strings.Repeat("a", 500_000) + `":1}`},
	} {
		t.Run(name, func(t *testing.T) {
			p := program(t, "workflow: w\ninput: "+c.schema+"\nsteps: {a: {agent: a}}")
			began := time.Now()
			faults := p.ValidateInput(json.RawMessage(c.input))
			require.Len(t, faults, 1)
			require.Contains(t, faults[0].Message, "it takes too long")
			require.Less(t, time.Since(began), time.Minute)
		})
	}
	_, faults := scheduler.Parse("f", []byte("workflow: w\ninput: {type: string, pattern: '"+strings.Repeat(".{0,1000}", 12)+"'}\nsteps: {a: {agent: a}}"), nil)
	require.NotEmpty(t, faults)
	require.Contains(t, lines(faults), "repeats too much")
}

// What people write costs far less than the budget: a class such as \p{L} is one instruction of a matcher, and to compare
// a text with those of a list is quick.
func TestOrdinarySchemasOfLargeInputsAreWithinTheBudget(t *testing.T) {
	t.Parallel()
	var countries []string
	for i := range 250 {
		countries = append(countries, fmt.Sprintf("%c%c", 'A'+i/26, 'A'+i%26))
	}
	many := func(n int, value string) string { return "[" + strings.Repeat(value+",", n-1) + value + "]" }
	for name, c := range map[string]struct{ schema, input string }{
		"letters":   {`{type: string, pattern: '^\p{L}+$'}`, `"` + strings.Repeat("é", 5000) + `"`},
		"a name":    {`{type: string, pattern: "^[\\p{L} .'-]{1,255}$"}`, `"` + strings.Repeat("é", 255) + `"`},
		"UUIDs":     {"{items: {pattern: '^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$'}}", many(12_000, `"123e4567-e89b-12d3-a456-426614174000"`)},
		"countries": {"{items: {enum: ['" + strings.Join(countries, "', '") + "']}}", many(20_000, `"JP"`)},
		"numbers":   {"{items: {enum: [100, 200, 300, 400, 500]}}", many(20_000, "500")},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := program(t, "workflow: w\ninput: "+c.schema+"\nsteps: {a: {agent: a}}")
			require.Empty(t, p.ValidateInput(json.RawMessage(c.input)))
		})
	}
}

// The budget is that of one validation: the next one has its own, and so has one beside it.
func TestEachValidationHasABudgetOfItsOwn(t *testing.T) {
	t.Parallel()
	p := program(t, "workflow: w\ninput: {type: array, items: {type: integer, minimum: 0}}\nsteps: {a: {agent: a}}")
	list := json.RawMessage("[" + strings.Repeat("1,", 20_000) + "1]")
	var wg sync.WaitGroup
	for range 2 {
		wg.Go(func() {
			for range 3 {
				if f := p.ValidateInput(list); len(f) > 0 {
					t.Errorf("%v", f)
				}
			}
		})
	}
	wg.Wait()
}
