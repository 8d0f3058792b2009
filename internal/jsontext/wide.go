package jsontext

import (
	"bytes"
	"encoding/json"
	"strconv"
)

// The bounds of a number. A float64 has exponents up to 308. Exact arithmetic on a number takes time and memory in proportion to
// its exponent, so the ten bytes of 1e1000000 cost as much as a text of half a megabyte.
const (
	MaxDigits   = 400
	MaxExponent = 400
)

// wide says whether a JSON number is beyond the bounds. The digits of its exponent count as digits, too.
func wide(number []byte) bool {
	if len(number) > MaxDigits {
		digits := 0
		for _, c := range number {
			if isDigit(c) {
				digits++
			}
		}
		if digits > MaxDigits {
			return true
		}
	}
	e := bytes.IndexAny(number, "eE")
	if e < 0 {
		return false
	}
	n, err := strconv.Atoi(string(number[e+1:]))
	return err != nil || n > MaxExponent || n < -MaxExponent
}

// Wide finds the first number of a JSON value that has more than MaxDigits digits or an exponent beyond MaxExponent. It returns the
// names and indexes that lead to it.
func Wide(raw []byte) (path []string, number string, found bool) {
	if s := (scanner{b: raw}); s.value(s.space(0), MaxDepth) >= 0 {
		return nil, "", false // the scanner refuses such numbers
	}
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber()
	var levels []level
	for {
		t, err := d.Token()
		if err != nil {
			return nil, "", false
		}
		var top *level
		if len(levels) > 0 {
			top = &levels[len(levels)-1]
		}
		if name, ok := t.(string); ok && top != nil && top.awaitName {
			top.name, top.awaitName = name, false
			continue
		}
		if t == json.Delim('}') || t == json.Delim(']') {
			levels = levels[:len(levels)-1]
			continue
		}
		if top != nil {
			top.next()
		}
		switch t := t.(type) {
		case json.Delim:
			levels = append(levels, level{object: t == '{', awaitName: t == '{', index: -1})
		case json.Number:
			if wide([]byte(t)) {
				return pathTo(levels), string(t), true
			}
		}
		if len(levels) == 0 {
			return nil, "", false
		}
	}
}

// level is an object or a list that Wide is inside.
type level struct {
	object, awaitName bool
	// name is the current member's, and index the current element's.
	name  string
	index int
}

// next goes to the value whose token was read.
func (l *level) next() {
	if l.index++; l.object {
		l.awaitName = true
	}
}

func pathTo(levels []level) []string {
	path := make([]string, len(levels))
	for i, l := range levels {
		if path[i] = strconv.Itoa(l.index); l.object {
			path[i] = l.name
		}
	}
	return path
}
