package exprlang_test

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sagalog/sagalog/internal/exprlang"
)

// An amount that wraps around is wrong, and nobody notices.
func TestAnIntegerThatDoesNotFitIsAnError(t *testing.T) {
	t.Parallel()
	scope := func() *exprlang.Scope {
		return exprlang.NewScope(map[string]json.RawMessage{"input": json.RawMessage(
			`{"max":9223372036854775807,"min":-9223372036854775808,"one":1,"half":4611686018427387904}`)})
	}
	eval := func(src string) (string, error) {
		tmpl, err := exprlang.Compile(json.RawMessage(`"${ `+src+` }"`), "input")
		require.NoError(t, err, src)
		got, err := tmpl.Eval(scope())
		return string(got), err
	}
	for src, names := range map[string]string{
		`9223372036854775807 + 1`:          "9223372036854775807 + 1",
		`input.max + input.one`:            "9223372036854775807 + 1",
		`input.min + -1`:                   "-9223372036854775808 + -1",
		`input.min - 1`:                    "-9223372036854775808 - 1",
		`input.max - -1`:                   "9223372036854775807 - -1",
		`0 - input.min`:                    "0 - -9223372036854775808",
		`input.half * 2`:                   "4611686018427387904 * 2",
		`input.min * -1`:                   "-9223372036854775808 * -1",
		`-1 * input.min`:                   "-1 * -9223372036854775808",
		`-input.min`:                       "-(-9223372036854775808)",
		`sum([input.max, 1])`:              "sum: ",
		`sum([1, 2], input.half * #)`:      "4611686018427387904 * 2",
		`sum([1, 1], input.half)`:          "sum: ",
		`reduce([input.max, 1], #acc + #)`: "9223372036854775807",
		`map([1], # + input.max)`:          "1 + 9223372036854775807",
		`abs(input.min)`:                   "abs: ",
		`int(1e30)`:                        "int: ",
		`int(9223372036854775808.0)`:       "int: ",
	} {
		_, err := eval(src)
		require.ErrorContains(t, err, names, src)
		require.ErrorContains(t, err, "does not fit into 64 bits", src)
	}
	for src, want := range map[string]string{
		`input.max + input.min`: `-1`, `input.min + 0`: `-9223372036854775808`, `input.max - 0`: `9223372036854775807`, `-input.max - 1`: `-9223372036854775808`,
		`input.half * -2`: `-9223372036854775808`, `0 * input.min`: `0`, `-input.one`: `-1`, `sum([1, 2], # * 2)`: `6`, `sum([])`: `0`,
		`sum(1..3)`: `6`, `sum([0.5, 1])`: `1.5`, `abs(-3)`: `3`, `int(2.9)`: `2`, `int(string(7))`: `7`, `2 * 1.5`: `3`, `[1, 2, 3][1 + 1]`: `3`, `5 - 2 == 3`: `true`,
	} {
		got, err := eval(src)
		require.NoError(t, err, src)
		require.Equal(t, want, got, src)
	}
}
