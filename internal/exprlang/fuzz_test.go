package exprlang_test

import (
	"encoding/json"
	"errors"
	"testing"

	"github.com/sagalog/sagalog/internal/exprlang"
)

// A template either does not compile, with a place in its text, or evaluates twice to the same valid JSON or error.
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
		tmpl.References()
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
