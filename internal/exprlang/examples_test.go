package exprlang_test

import (
	"encoding/json"
	"slices"
	"testing"

	"github.com/expr-lang/expr/builtin"
	"github.com/sagalog/sagalog/internal/exprlang"
	"github.com/stretchr/testify/require"
)

// Each function that an expression can call has an example that works, and the reference shows no other function.
func TestEachFunctionHasAnExample(t *testing.T) {
	t.Parallel()
	var shown []string
	for _, g := range exprlang.Examples() {
		for _, x := range g.Examples {
			source, err := json.Marshal("${ " + x.Expression + " }")
			require.NoError(t, err)
			template, err := exprlang.Compile(source, "input")
			require.NoError(t, err, x.Expression)
			_, err = template.Eval(exprlang.NewScope(map[string]json.RawMessage{"input": exprlang.ExampleInput}))
			require.NoError(t, err, x.Expression)
			if slices.Contains(builtin.Names, x.Name) {
				require.Contains(t, x.Expression, x.Name+"(")
				shown = append(shown, x.Name)
			}
		}
	}
	var callable []string
	for _, name := range builtin.Names {
		if name != "now" && name != "date" && name != "timezone" {
			callable = append(callable, name)
		}
	}
	require.ElementsMatch(t, callable, shown)
}
