package scheduler

import (
	"bytes"
	"strconv"
)

// quickBound is a number to which others are compared, as they are themselves.
type quickBound struct {
	// whole says that it is written in digits alone.
	whole bool
	// exact says that value is the number, and near that approximate is the float nearest to it.
	exact, near bool
	value       int64
	approximate float64
}

const (
	// maxWholeDigits is how many characters of a number always are an int64.
	maxWholeDigits = 18
	// maxNumberBytes is more than people write. Longer numbers, and those with an exponent, are left to the library.
	maxNumberBytes = 32
)

// numberOf reads a JSON number.
func numberOf(raw []byte) quickBound {
	var n quickBound
	if len(raw) > maxNumberBytes || bytes.ContainsAny(raw, "eE") {
		return n
	}
	n.whole = bytes.IndexByte(raw, '.') < 0
	if n.whole && len(raw) <= maxWholeDigits {
		i, err := strconv.ParseInt(string(raw), 10, 64)
		n.exact, n.value = err == nil, i
	}
	f, err := strconv.ParseFloat(string(raw), 64)
	n.near, n.approximate = err == nil, f
	return n
}

// compare returns -1, 0 or 1, and whether it is sure. Rounding keeps the order of numbers but for making them equal, so
// two floats that differ are of numbers that differ alike.
func (n quickBound) compare(m *quickBound) (order int, sure bool) {
	switch {
	case n.exact && m.exact:
		switch {
		case n.value < m.value:
			return -1, true
		case n.value > m.value:
			return 1, true
		}
		return 0, true
	case n.near && m.near && n.approximate < m.approximate:
		return -1, true
	case n.near && m.near && n.approximate > m.approximate:
		return 1, true
	}
	return 0, false
}

// least says whether it is sure that n is not less than a bound; nil is none.
func (n quickBound) least(m *quickBound) bool {
	if m == nil {
		return true
	}
	order, sure := n.compare(m)
	return sure && order >= 0
}

func (n quickBound) most(m *quickBound) bool {
	if m == nil {
		return true
	}
	order, sure := n.compare(m)
	return sure && order <= 0
}

func (n quickBound) above(m *quickBound) bool {
	if m == nil {
		return true
	}
	order, sure := n.compare(m)
	return sure && order > 0
}

func (n quickBound) below(m *quickBound) bool {
	if m == nil {
		return true
	}
	order, sure := n.compare(m)
	return sure && order < 0
}
