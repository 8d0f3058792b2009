package exprlang

import (
	"encoding/json"
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
	if err == nil && sameDecimal(string(n), strconv.FormatFloat(f, 'e', -1, 64)) {
		return f
	}
	return n
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
