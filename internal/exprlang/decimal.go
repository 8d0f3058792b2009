package exprlang

import (
	"encoding/json"
	"errors"
	"math"
	"math/big"
	"strconv"
	"strings"

	"github.com/expr-lang/expr/vm/runtime"
)

// errDigits is returned because a decimal that silently loses digits is a wrong amount that nobody notices.
var errDigits = errors.New("the exact result has more than 15 digits; use integers of the smallest unit")

const (
	// exactDigits is how many significant digits each float64 holds.
	exactDigits = 15
	// exactInteger is the largest integer up to which a float64 holds every integer.
	exactInteger = 1 << 53
	// maxShift bounds the difference of two exponents: a result with more digits does not fit.
	maxShift = 40
	// maxPower bounds the exponent of a decimal's exact power.
	maxPower = 64
)

// exact is the decimal number digits * 10^exponent.
type exact struct{ digits, exponent int }

// exactly returns the decimal that a number stands for: an integer itself, and a float64 the shortest decimal that becomes it. It
// returns false for a decimal of more than 15 digits: such a number is a quotient or a measurement, and was never meant exactly.
func exactly(v any) (exact, bool) {
	switch v := v.(type) {
	case int:
		return exact{v, 0}, true
	case float64:
		if v == math.Trunc(v) && math.Abs(v) <= exactInteger {
			return exact{int(v), 0}, true
		}
		digits, exponent, ok := decimal(strconv.FormatFloat(v, 'e', -1, 64))
		if !ok || len(strings.TrimPrefix(digits, "-")) > exactDigits {
			return exact{}, false
		}
		n, err := strconv.Atoi(digits) // infinity and NaN have no digits
		return exact{n, exponent}, err == nil
	}
	return exact{}, false
}

// decimals implements +, - and * of two numbers, at least one of which is not an integer.
func decimals(op string, a, b any) (any, error) {
	x, okX := exactly(a)
	y, okY := exactly(b)
	if okX && okY {
		return x.with(op, y)
	}
	switch op {
	case "+":
		return finite(runtime.Add(a, b))
	case "-":
		return finite(runtime.Subtract(a, b))
	}
	return finite(runtime.Multiply(a, b))
}

func (x exact) with(op string, y exact) (any, error) {
	if op == "*" {
		z, err := integers(op, x.digits, y.digits)
		if err != nil {
			return large(new(big.Int).Mul(x.shifted(0), y.shifted(0)), x.exponent+y.exponent)
		}
		return exact{z, x.exponent + y.exponent}.value()
	}
	switch {
	case y.digits == 0:
		return x.value()
	case x.digits == 0 && op == "+":
		return y.value()
	case x.digits == 0 && y.digits != math.MinInt:
		return exact{-y.digits, y.exponent}.value()
	}
	e := min(x.exponent, y.exponent)
	if max(x.exponent, y.exponent)-e > maxShift {
		return nil, errDigits
	}
	a, b := x.shifted(x.exponent-e), y.shifted(y.exponent-e)
	if op == "-" {
		b.Neg(b)
	}
	return large(a.Add(a, b), e)
}

// shifted returns the digits with n zeros behind them.
func (x exact) shifted(n int) *big.Int {
	z := big.NewInt(int64(x.digits))
	if n == 0 {
		return z
	}
	return z.Mul(z, new(big.Int).Exp(big.NewInt(10), big.NewInt(int64(n)), nil))
}

// value returns the number: an integer that a float64 does not distinguish from its neighbours as an int, and any other as a float64
// of at most 15 digits. With more, whatever is calculated from it would be an approximation that nobody notices.
func (x exact) value() (any, error) {
	for x.digits%10 == 0 && x.digits != 0 {
		x = exact{x.digits / 10, x.exponent + 1}
	}
	if x.exponent >= 0 && x.exponent < len(powers) {
		if z, err := integers("*", x.digits, powers[x.exponent]); err == nil && (z >= exactInteger || z <= -exactInteger) {
			return z, nil
		}
	}
	const limit = 1e15
	switch { // integers and powers of ten up to 10^22 are float64s, and one operation rounds correctly
	case x.digits <= -limit || x.digits >= limit:
		return nil, errDigits
	case x.exponent <= 0 && x.exponent >= -22:
		return float64(x.digits) / math.Pow10(-x.exponent), nil
	case x.exponent > 0 && x.exponent <= 22:
		return float64(x.digits) * math.Pow10(x.exponent), nil
	}
	return parseExactly(strconv.Itoa(x.digits) + "e" + strconv.Itoa(x.exponent))
}

// powers are the powers of ten that fit into an int.
var powers = func() (list [19]int) {
	list[0] = 1
	for i := 1; i < len(list); i++ {
		list[i] = 10 * list[i-1]
	}
	return list
}()

// large is exact.value for more digits.
func large(digits *big.Int, exponent int) (any, error) {
	for ten, rest := big.NewInt(10), new(big.Int); !digits.IsInt64(); exponent++ {
		if digits.QuoRem(digits, ten, rest); rest.Sign() != 0 {
			return nil, errDigits
		}
	}
	return exact{int(digits.Int64()), exponent}.value()
}

// parseExactly returns the float64 whose shortest decimal is the given one.
func parseExactly(s string) (float64, error) {
	f, err := strconv.ParseFloat(s, 64)
	if err != nil || math.IsInf(f, 0) || math.IsNaN(f) || !sameDecimal(strings.TrimPrefix(s, "+"), strconv.FormatFloat(f, 'e', -1, 64)) {
		return 0, errDigits
	}
	return f, nil
}

// power implements **. The power of an integer is exact, and that of a decimal if it has few digits; any other is an approximation.
func power(a, b any) (any, error) {
	f, err := finite(runtime.Exponent(a, b))
	if err != nil {
		return nil, err
	}
	x, ok := exactly(a)
	n, wholeExponent := b.(int)
	_, integer := a.(int)
	if !ok || !wholeExponent || n < 0 || !integer && n > maxPower {
		return f, nil
	}
	p, err := large(new(big.Int).Exp(x.shifted(0), big.NewInt(int64(n)), nil), x.exponent*n)
	if err != nil && !integer {
		return f, nil
	}
	return p, err
}

// toFloat implements float.
func toFloat(args []any) (any, error) {
	switch v := args[0].(type) {
	case int:
		return parseExactly(strconv.Itoa(v))
	case string:
		return parseExactly(v)
	case json.Number:
		return parseExactly(string(v))
	}
	return original("float")(args)
}
