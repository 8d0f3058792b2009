package exprlang_test

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/sagalog/sagalog/internal/exprlang"
)

// A template either does not compile, with a position in its text, or gives the same valid JSON or error each time.
func FuzzTemplate(f *testing.F) {
	for _, s := range []string{
		`"${ input.n }"`, `{"a":"x ${ map(input.list, # + 1) } y"}`, `"$${ ${ input?.z }"`, `"${ toPairs(input.z) }"`,
		`"${ {a: \"}\"} // } \n }"`, `["${ groupBy(input.list, #) }", 1.10, null]`, `"${ let x = 1..3; sum(x) }"`,
		`"${ replace(string(input), \"a\", \"b\") matches \"x+\" }"`,
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		tmpl, err := exprlang.Compile(raw, vars...)
		if err != nil {
			var faults exprlang.Errors
			if !errors.As(err, &faults) || len(faults) == 0 {
				t.Fatalf("an error of another type: %v", err)
			}
			return
		}
		a, errA := tmpl.Eval(scope(t))
		b, errB := tmpl.Eval(scope(t))
		if (errA == nil) != (errB == nil) || string(a) != string(b) {
			t.Fatalf("%s, %v and then %s, %v", a, errA, b, errB)
		}
		if errA == nil && !json.Valid(a) {
			t.Fatalf("not JSON: %s", a)
		}
	})
}

// FuzzExpression evaluates an expression and a condition on an input with long lists and texts. Each evaluation ends soon and within
// bounded memory, three of them have the same result, and none shows the clock, the environment or the random order of maps.
func FuzzExpression(f *testing.F) {
	for _, s := range []string{
		`input.n + 1`, `keys(input.z)`, `values(input.z)`, `toPairs(input.z)`, `string(input.z)`, `count(input.list, # in input.list)`, `input.text matches "(a|b)*c{1,50}"`, `toPairs(groupBy(input.list, # % 7))`,
		`reduce(1..1000, #acc + #acc, "x")`, `let x = input.z; keys(x) == ["a"] ? values(x) : x?.b ?? 1`, `sortBy(toPairs(input.z), #[0], "desc")`,
		`now()`, `$env`, `uniq(concat(input.list, [1.5, "x", nil]))`, `{"k": input.list[1:3], "m": [-input.n ** 2]}`, `string(input.z) + toJSON(input.list)`,
		`fromPairs([["b", 1], ["a", 2]])`, `flatten([[input.list], [[1]]])`, `median(1, 2, input.list)`, `input.none?.x.y ?? get(input, "n")`,
		`duration("1h") + duration("1ms")`, `bitshl(1, 70)`, `"x" in input.z and not (input.text startsWith "b")`, `findLastIndex(input.list, # < 3)`,
		`replace(input.text, "a", "bb", 5)`, `split(join(map(input.list, string(#)), "-"), "-", 3)`, `fromBase64(toBase64("é"))`, `max([1, [2, [3.5]]])`,
		`1 }x${ 2`, // a text with two expressions, but no condition
	} {
		f.Add(s)
	}
	input := json.RawMessage(`{"n":3,"list":[` + strings.Repeat("7,1,", 1000) + `2],"text":"` + strings.Repeat("ab", 5000) +
		`","none":null,"z":{"d":4,"c":1,"a":2,"b":3,"e":5,"f":6},"deep":` + strings.Repeat("[", 200) + strings.Repeat("]", 200) + `}`)
	f.Fuzz(func(t *testing.T, src string) {
		c, conditionErr := exprlang.CompileCondition(src, "input")
		if conditionErr != nil {
			var faults exprlang.Errors
			if !errors.As(conditionErr, &faults) || len(faults) == 0 || faults[0].Offset < 0 || faults[0].Offset > len(src) {
				t.Fatalf("an error of another type, or out of place: %v", conditionErr)
			}
		}
		text, err := exprlang.CompileString("${ "+src+" }", nil, "input")
		if err != nil {
			return
		}
		var first, failure string
		for i := range 3 {
			s := exprlang.NewScope(map[string]json.RawMessage{"input": input})
			var got string
			var err error
			began := time.Now() // nothing else would notice an evaluation that takes days
			bytes := allocated(func() { got, err = text.Eval(s) })
			if took := time.Since(began); took > time.Minute || bytes > 512<<20 {
				t.Fatalf("%s took %s and %d MiB", src, took, bytes>>20)
			}
			why := ""
			if err != nil {
				why = err.Error()
			}
			if i > 0 && (got != first || why != failure) {
				t.Fatalf("%q, %q and then %q, %q", first, failure, got, why)
			}
			first, failure = got, why
			if conditionErr == nil {
				c.Eval(s)
				c.References()
			}
		}
	})
}
