package scheduler_test

import (
	"encoding/json"
	"fmt"
	"runtime"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sagalog/sagalog/scheduler"
)

// A schema of a few lines must not stop an owner. If its definitions each refer to the next one twice, it visits a
// value 2^40 times, and a pattern may take an hour on a long text.
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
			faults := p.ValidateInput(json.RawMessage(c.input))
			require.Len(t, faults, 1)
			require.Contains(t, faults[0].Message, "it takes too long")
		})
	}
	_, faults := scheduler.Parse("f", []byte("workflow: w\ninput: {type: string, pattern: '"+strings.Repeat(".{0,1000}", 12)+"'}\nsteps: {a: {agent: a}}"), nil)
	require.NotEmpty(t, faults)
	require.Contains(t, lines(faults), "repeats too much")
}

// The library compares numbers as exact fractions: those of 1e1000000 take half a megabyte. Half a megabyte of such numbers took a
// quarter of an hour. What is counted here is the memory that the fractions take.
func TestNumbersWithHugeExponentsCostNoMoreThanOthers(t *testing.T) {
	if testing.Short() {
		t.Skip("large, and the race detector has nothing to find: step test runs it")
	}
	const schema = "{type: array, items: {type: integer, minimum: 0, multipleOf: 1, not: {enum: [3, 4]}}}"
	p := program(t, "workflow: w\ninput: "+schema+"\nsteps: {a: {agent: a}}")
	list := func(number string) json.RawMessage {
		return json.RawMessage("[" + strings.Repeat(number+",", 20_000) + number + "]")
	}
	var faults []scheduler.InputFault
	for number, refused := range map[string]bool{"1e1000000": true, "1e-1000000": true, "1e401": true, strings.Repeat("7", 401): true, "1e400": false} {
		bytes := allocated(func() { faults = p.ValidateInput(list(number)) })
		require.Less(t, bytes, uint64(256<<20), number)
		if !refused {
			require.Empty(t, faults, number)
			continue
		}
		require.Len(t, faults, 1, number)
		require.Equal(t, "/0", faults[0].Pointer)
		require.Contains(t, faults[0].Message, "is out of range: a number has up to 400 digits")
	}
	_, found := scheduler.Parse("f", []byte("workflow: w\ninput: {minimum: 1e-1000000}\nsteps: {a: {agent: a}}"), nil)
	require.Contains(t, lines(found), "f:2:18: input.minimum: the number 1e-1000000 is out of range")
}

// allocated returns how many bytes a function allocates.
func allocated(do func()) uint64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	do()
	runtime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc
}

// Ordinary schemas cost far less than the budget: a class such as \p{L} is one instruction of a matcher, and comparing a text with
// those of a list is cheap.
func TestOrdinarySchemasAreWithinTheBudget(t *testing.T) {
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

// The budget belongs to one validation. The next one has a new budget, and so do concurrent ones.
func TestEachValidationHasItsOwnBudget(t *testing.T) {
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

// A value may be visited a few thousand times within the budget, but not a hundred thousand times. Each value of a long
// list may be visited twice, but not forty times.
func TestASchemaMayVisitAValueThousandsOfTimes(t *testing.T) {
	if testing.Short() {
		t.Skip("large, and the race detector has nothing to find: step test runs it")
	}
	t.Parallel()
	refused := func(schema, input string) bool {
		p := program(t, "workflow: w\ninput: "+schema+"\nsteps: {a: {agent: a}}")
		return len(p.ValidateInput(json.RawMessage(input))) > 0
	}
	for doublings, want := range map[int]bool{11: false, 16: true} {
		schema := `{"$ref":"#/$defs/d0","$defs":{`
		for i := range doublings {
			schema += fmt.Sprintf(`"d%d":{"allOf":[{"$ref":"#/$defs/d%d"},{"$ref":"#/$defs/d%d"}]},`, i, i+1, i+1)
		}
		schema += fmt.Sprintf(`"d%d":{"type":"object"}}}`, doublings)
		require.Equal(t, want, refused(schema, `{}`), doublings)
	}
	list := "[" + strings.Repeat("null,", 200_000) + "null]"
	for copies, want := range map[int]bool{2: false, 40: true} {
		schema := `{"items":{"allOf":[` + strings.TrimSuffix(strings.Repeat(`{"type":"null"},`, copies), ",") + `]}}`
		require.Equal(t, want, refused(schema, list), copies)
	}
}
