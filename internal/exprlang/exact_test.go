package exprlang_test

import (
	"encoding/json"
	"fmt"
	"math/big"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sagalog/sagalog/internal/exprlang"
)

// drawNumber returns a JSON number: an amount, an integer near a limit of int64 or of a float64's integers, or a number with many digits.
func drawNumber(r *rand.Rand) string {
	sign := []string{"", "-"}[r.IntN(2)]
	switch r.IntN(6) {
	case 0:
		return sign + fmt.Sprint(r.IntN(1000))
	case 1:
		return sign + fmt.Sprintf("%d.%0*d", r.IntN(100_000), 1+r.IntN(4), r.IntN(10))
	case 2:
		return sign + fmt.Sprint(uint64(1)<<53+r.Uint64N(6)-3)
	case 3:
		return sign + fmt.Sprint(uint64(1)<<63+r.Uint64N(6)-3)
	case 4:
		return sign + fmt.Sprintf("%d.%de%d", r.IntN(10), r.Uint64N(1e9), r.IntN(44)-22)
	}
	return sign + fmt.Sprintf("%d.%d", r.Uint64N(1e18), r.Uint64N(1e9))
}

// A result is exact, or it is an error: +, -, *, sum and every comparison are compared with rational numbers.
func TestResultsAreExactOrErrors(t *testing.T) {
	t.Parallel()
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 1))
	compiled := map[string]*exprlang.Template{}
	ops := []string{"+", "-", "*", "==", "!=", "<", "<=", ">", ">=", "sum"}
	for _, op := range ops {
		src := `"${ input.a ` + op + ` input.b }"`
		if op == "sum" {
			src = `"${ sum([input.a, input.b, input.a]) }"`
		}
		var err error
		compiled[op], err = exprlang.Compile(json.RawMessage(src), "input")
		require.NoError(t, err)
	}
	exact, refused := 0, 0
	for range 30_000 {
		a, b, op := drawNumber(r), drawNumber(r), ops[r.IntN(len(ops))]
		if r.IntN(4) == 0 {
			b = a
		}
		x, _ := new(big.Rat).SetString(a)
		y, _ := new(big.Rat).SetString(b)
		input := map[string]json.RawMessage{"input": json.RawMessage(`{"a":` + a + `,"b":` + b + `}`)}
		got, err := compiled[op].Eval(exprlang.NewScope(input))
		if err != nil {
			refused++
			require.NotContains(t, err.Error(), "json.Number")
			continue
		}
		exact++
		want := new(big.Rat)
		switch c := x.Cmp(y); op {
		case "+":
			want.Add(x, y)
		case "-":
			want.Sub(x, y)
		case "*":
			want.Mul(x, y)
		case "sum":
			want.Add(want.Add(x, y), x)
		default:
			holds := map[string]bool{"==": c == 0, "!=": c != 0, "<": c < 0, "<=": c <= 0, ">": c > 0, ">=": c >= 0}[op]
			require.Equal(t, fmt.Sprint(holds), string(got), "%s %s %s", a, op, b)
			continue
		}
		result, ok := new(big.Rat).SetString(string(got))
		require.True(t, ok, "%s %s %s is %s", a, op, b, got)
		if approximate(a) || approximate(b) {
			continue
		}
		require.Zero(t, want.Cmp(result), "%s %s %s is %s", a, op, b, got)
	}
	require.Greater(t, exact, 5_000)
	require.Greater(t, refused, 1_000)
}

// approximate says whether a decimal has more than 15 digits: whatever is calculated from one is an approximation, as documented.
func approximate(number string) bool {
	digits := 0
	for _, c := range number {
		if c == 'e' {
			break
		}
		if c >= '0' && c <= '9' && (digits > 0 || c != '0') {
			digits++
		}
	}
	return digits > 15
}
