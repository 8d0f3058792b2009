package exprlang

import (
	"encoding/json"
	"math"
	"strconv"
	"strings"

	"github.com/sagalog/sagalog/internal/jsontext"
)

var null = json.RawMessage("null")

// decode reads a JSON value for expr; an empty one is null. The package comment describes the treatment of numbers.
func decode(raw json.RawMessage) (any, error) {
	if len(raw) == 0 {
		return nil, nil
	}
	v, err := jsontext.Decode(raw)
	return numbers(v), err
}

// numbers converts the numbers of a value in place.
func numbers(v any) any {
	switch v := v.(type) {
	case json.Number:
		return number(v)
	case []any:
		for i := range v {
			v[i] = numbers(v[i])
		}
	case map[string]any:
		for k := range v {
			v[k] = numbers(v[k])
		}
	}
	return v
}

func number(n json.Number) any {
	if i, err := strconv.ParseInt(string(n), 10, 64); err == nil && n != "-0" {
		return int(i)
	}
	f, err := strconv.ParseFloat(string(n), 64)
	if err == nil && math.Abs(f) != 1<<63 && sameDecimal(string(n), strconv.FormatFloat(f, 'e', -1, 64)) {
		return comparable(f)
	}
	return canonical(n)
}

// comparable returns a decimal as an integer if it is one that a float64 does not distinguish from its neighbours: expr compares an
// integer with a decimal as decimals, and 9007199254740993 would equal 9007199254740992.0.
func comparable(f float64) any {
	if math.Abs(f) < exactInteger || math.Abs(f) >= 1<<63 {
		return f
	}
	digits, exponent, ok := decimal(strconv.FormatFloat(f, 'e', -1, 64))
	if !ok || exponent < 0 || exponent > maxShift {
		return f
	}
	if i, err := strconv.Atoi(digits + strings.Repeat("0", exponent)); err == nil {
		return i
	}
	return f
}

// canonical returns a number that no type of expr holds, so that equal numbers have equal texts.
func canonical(n json.Number) json.Number {
	digits, exponent, ok := decimal(string(n))
	if !ok || exponent < -maxShift || exponent > maxShift {
		return n
	}
	sign := ""
	if strings.HasPrefix(digits, "-") {
		sign, digits = "-", digits[1:]
	}
	if exponent >= 0 {
		return json.Number(sign + digits + strings.Repeat("0", exponent))
	}
	if missing := 1 - exponent - len(digits); missing > 0 {
		digits = strings.Repeat("0", missing) + digits
	}
	point := len(digits) + exponent
	return json.Number(sign + digits[:point] + "." + digits[point:])
}

// sameDecimal reports whether two JSON numbers are the same decimal number, such as 1.10 and 1.1e0.
func sameDecimal(a, b string) bool {
	digitsA, expA, okA := decimal(a)
	digitsB, expB, okB := decimal(b)
	return okA && okB && digitsA == digitsB && expA == expB
}

// decimal returns the sign and significant digits of a number, and the power of ten of their last one.
func decimal(s string) (digits string, exp int, ok bool) {
	mantissa, e, found := strings.Cut(strings.ToLower(s), "e")
	if found {
		n, err := strconv.Atoi(e)
		if err != nil {
			return "", 0, false
		}
		exp = n
	}
	sign := ""
	if strings.HasPrefix(mantissa, "-") {
		sign, mantissa = "-", mantissa[1:]
	}
	whole, fraction, _ := strings.Cut(mantissa, ".")
	exp -= len(fraction)
	digits = strings.TrimLeft(whole+fraction, "0")
	short := strings.TrimRight(digits, "0")
	exp += len(digits) - len(short)
	if short == "" {
		return sign + "0", 0, true
	}
	return sign + short, exp, true
}
