package exprlang_test

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sagalog/sagalog/internal/exprlang"
)

// evaluate evaluates an expression on numbers that are hard to keep.
func evaluate(t *testing.T, src string) (string, error) {
	t.Helper()
	tmpl, err := exprlang.Compile(json.RawMessage(`"${ `+src+` }"`), "input")
	require.NoError(t, err, src)
	got, err := tmpl.Eval(exprlang.NewScope(map[string]json.RawMessage{"input": json.RawMessage(
		`{"max":9223372036854775807,"min":-9223372036854775808,"half":4611686018427387904,"zero":0,"one":1,"dime":0.1,"rate":0.0825,"price":19.99,
		"long":0.12345678901234567,"huge":1e300,"sum":5.556288486e12,"wide":12345678901234567890,"wider":1234567890123456789.1E1,"wider0":12345678901234567891.00,"odd":9007199254740993,"even":9007199254740992.0,"tiny":-0.001234567890123456789,"tiny2":-1.234567890123456789e-3,"list":[1,2,3],"hours":"2562047h"}`)}))
	return string(got), err
}

// 0.1 * 3 is 0.3: a decimal is the number that was written, not the binary fraction that stands for it.
func TestDecimalsOfFewDigitsAreExact(t *testing.T) {
	t.Parallel()
	for src, want := range map[string]string{
		`0.1 * 3`: `0.3`, `0.1 + 0.2`: `0.3`, `1 - 0.9`: `0.1`, `1.1 + 2.2`: `3.3`, `100 * 1.1`: `110`, `4.35 * 100`: `435`, `1.005 * 100`: `100.5`, `0.1 * 0.1`: `0.01`,
		`-0.1 * 3`: `-0.3`, `0.1 + 0.2 == 0.3`: `true`, `input.dime * 3`: `0.3`, `input.price * 3`: `59.97`, `input.price * input.rate`: `1.649175`, `round(0.285 * 100) / 100`: `0.29`,
		`sum([0.1, 0.2])`: `0.3`, `sum(map(input.list, 0.1))`: `0.3`, `sum(input.list, # * 0.1)`: `0.6`, `reduce([0.1, 0.2, 0.3], #acc + #)`: `0.6`, `float('0.1') * 3`: `0.3`,
		`0.0 * -1`: `0`, `1e22 * 10`: `1e+23`, `1e300 + 0.0`: `1e+300`, `input.huge * 0.0`: `0`, `9007199254740992 + 0.0`: `9007199254740992`, `9999999999999.5 + 0.25`: `9999999999999.75`, `input.max * 1.0`: `9223372036854775807`,
		`2 ** 53 + 1`: `9007199254740993`, `9007199254740993 / 1`: `9007199254740993`, `(2 ** 53 + 2) / -2`: `-4503599627370497`, `input.odd == input.even`: `false`, `input.odd > input.even`: `true`,
		`input.odd == 9007199254740992.0`: `false`, `2 ** 53 == input.odd`: `false`, `2 ** 53 == input.even`: `true`, `1e18 * 1 == 1000000000000000000`: `true`, `1e18 + 1`: `1000000000000000001`,
		`input.wide == input.wider`: `false`, `input.wider == input.wider0`: `true`, `input.tiny == input.tiny2`: `true`, `input.wide in [input.wider, input.wider0]`: `false`,
		`2 ** 10`: `1024`, `1.1 ** 2`: `1.21`, `10 ** 300`: `1e+300`, `2 ^ 53`: `9007199254740992`, `string(0.1 * 3)`: `"0.3"`, `2 * 1.5 + 1`: `4`,
		// A quotient has no exact decimal, nor has anything calculated from it.
		`1 / 3`: `0.3333333333333333`, `1 / 3 * 3`: `1`, `10 / 3 * 3`: `10`, `2 ** -1`: `0.5`, `1.05 ** 10 > 1.62`: `true`, `mean([1, 2])`: `1.5`, `median([1, 2])`: `1.5`, `1 / 3 + 0.1`: `0.43333333333333335`,
	} {
		got, err := evaluate(t, src)
		require.NoError(t, err, src)
		require.Equal(t, want, got, src)
	}
}

// Any other result of an operation would be a wrong number that nobody notices, even if it were only compared.
func TestAResultThatIsNoNumberOfOursIsAnError(t *testing.T) {
	t.Parallel()
	for src, says := range map[string]string{
		`9007199254740993 + 0.5`:          "9007199254740993 + 0.5: the exact result has more than 15 digits",
		`2 ** 63`:                         "2 ** 63: the exact result has more than 15 digits",
		`3 ^ 40`:                          "3 ^ 40: the exact result has more than 15 digits",
		`99999999999999.5 + 0.25`:         "9.99999999999995e+13 + 0.25: the exact result has more than 15 digits",
		`input.sum * 2 - 57524.009`:       "the exact result has more than 15 digits",
		`input.max + 0.5 > 0`:             "9223372036854775807 + 0.5: the exact result has more than 15 digits",
		`12345678.9 * 12345678.9`:         "the exact result has more than 15 digits",
		`1e22 + 1`:                        "1e+22 + 1: the exact result has more than 15 digits",
		`input.huge + 1e-300`:             "1e+300 + 1e-300: the exact result has more than 15 digits",
		`1e308 * 10 > 1`:                  "1e+308 * 10: the exact result has more than 15 digits",
		`1e-308 * 1e-308`:                 "the exact result has more than 15 digits",
		`sum([input.max, 0.5])`:           "sum: 9223372036854775807 + 0.5: the exact result has more than 15 digits",
		`float(input.max)`:                "float: the exact result has more than 15 digits",
		`float('0.12345678901234567890')`: "float: the exact result has more than 15 digits",
		`float('inf') > 1`:                "float: ",
		`float('nan') != 1`:               "float: ",
		`1 / 3 * 1e308 * 10 > 1`:          "the result is not a finite number",
		`1 / input.zero > 5`:              "1 / 0: division by zero",
		`0.5 / input.zero > 5`:            "0.5 / 0: division by zero",
		`1e308 / 1e-308 > 5`:              "not a finite number",
		`5 % input.zero`:                  "5 % 0: division by zero",
		`input.zero ** -1 > 5`:            "0 ** -1: the result is not a finite number",
		`10 ** 400 > 5`:                   "10 ** 400: the result is not a finite number",
		`(-8) ** 0.5 != 1`:                "-8 ** 0.5: the result is not a finite number",
		`mean([1e308, 1e308]) > 5`:        "mean: the result is not a finite number",
		`bitshl(1, 63)`:                   "bitshl: the integer result does not fit",
		`bitshl(1, 64)`:                   "bitshl: the integer result does not fit",
		`bitshl(input.half, 2)`:           "bitshl: the integer result does not fit",
		`bitshl(1, -1)`:                   "bitshl: ",
		`bitshr(1, -1)`:                   "negative shift count",
		`duration(input.hours) + duration(input.hours)`: "2562047h0m0s + 2562047h0m0s: the integer result does not fit",
		`duration('-2562047h') - duration(input.hours)`: "the integer result does not fit",
		`duration(input.hours) * 2`:                     "2562047h0m0s * 2: the integer result does not fit",
		`2 * duration(input.hours) > duration('1h')`:    "2 * 2562047h0m0s: the integer result does not fit",
		`duration('1h') * duration('1h')`:               "durations can be added and subtracted",
		`duration('1h') * 1.5`:                          "durations can be added and subtracted",
		`input.min..input.max`:                          "-9223372036854775808..9223372036854775807: the expression does too much work",
		`0..input.max`:                                  "does too much work",
		`input.dime..3`:                                 "0.1 is not an integer of 64 bits",
		`input.list[:input.huge]`:                       "1e+300 is not an integer of 64 bits",
		`repeat('a', input.huge)`:                       "repeat: 1e+300 is not an integer of 64 bits",
		`input.long * 2`:                                "invalid operation: long number * integer (a long number has more digits than an integer of 64 bits or a decimal of 17 digits",
		`input.wide > 5`:                                "invalid operation: long number > integer",
		`max([input.wide])`:                             "invalid argument for max (type long number)",
		`5 % input.dime`:                                "invalid operation: integer % decimal",
	} {
		_, err := evaluate(t, src)
		require.ErrorContains(t, err, says, src)
	}
	for src, want := range map[string]string{
		`input.max % -1`: `0`, `-7 % 3`: `-1`, `bitshl(1, 62)`: `4611686018427387904`, `bitshl(-1, 63)`: `-9223372036854775808`, `bitshl(0, 99)`: `0`, `bitshr(-1, 99)`: `-1`,
		`floor(input.max)`: `9223372036854775807`, `round(input.min)`: `-9223372036854775808`, `round(2.5)`: `3`, `ceil(2.1)`: `3`, `float(3)`: `3`, `int(2.9)`: `2`,
		`duration('1h') * 2`: `"2h"`, `duration('1h') - duration('2h')`: `"-1h"`, `3 * duration('20m') == duration('1h')`: `true`, `(input.max - 1)..input.max`: `[9223372036854775806,9223372036854775807]`,
		`3..1`: `[]`, `input.one..input.list[2] == [1, 2, 3]`: `true`, `input.list[1:input.max]`: `[2,3]`, `input.list[input.min:1]`: `[1]`, `len(1..input.list[2])`: `3`,
	} {
		got, err := evaluate(t, src)
		require.NoError(t, err, src)
		require.Equal(t, want, got, src)
	}
}
