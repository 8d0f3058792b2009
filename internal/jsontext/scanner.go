package jsontext

import "unicode/utf8"

// MaxDepth bounds the nesting of values that this package reads. Deeper values are left to encoding/json, which reads ten
// thousand levels. Nobody writes those by hand.
const MaxDepth = 100

// unsure is a place that means "ask encoding/json".
const unsure = -1

// plain are the bytes that stand for themselves in a JSON string.
var plain = func() (is [256]bool) {
	for c := range is {
		is[c] = c >= ' ' && c != '"' && c != '\\'
	}
	return is
}()

// scanner finds the ends of JSON values as encoding/json would, several times faster. Its methods return the place after the
// text that they read, or -1 if it is not JSON or is nested too deeply.
type scanner struct {
	b []byte
	// spaced says whether there was white space between the values that were read, and escaped whether there were escapes in
	// them.
	spaced, escaped bool
}

// Skip skips white space from b[at] on and returns the place after the value that follows, or a negative place if it is not
// sure that there is a value. It checks the whole value.
func Skip(b []byte, at int) int {
	s := scanner{b: b}
	return s.value(s.space(at), MaxDepth)
}

// Space returns the place of the first byte from at on that is not white space, or the length of b.
func Space(b []byte, at int) int {
	s := scanner{b: b}
	return s.space(at)
}

// textAt returns the place after the string that begins at b[at], or a negative place if no string begins there. It also
// returns whether the string is plain: ASCII without escapes, so that the bytes between the quotes are the string itself.
func textAt(b []byte, at int) (end int, plain bool) {
	if at >= len(b) || b[at] != '"' {
		return unsure, false
	}
	s := scanner{b: b}
	if end = s.text(at); end < 0 || s.escaped {
		return end, false
	}
	for _, c := range b[at:end] {
		if c >= utf8.RuneSelf {
			return end, false
		}
	}
	return end, true
}

// appendCompact appends the JSON that was read, without white space around or within it.
func (s *scanner) appendCompact(dst []byte) []byte {
	if !s.spaced {
		return append(dst, s.b...)
	}
	from := 0
	for at := 0; at < len(s.b); {
		switch c := s.b[at]; {
		case c == '"':
			at = s.text(at)
		case c <= ' ':
			dst = append(dst, s.b[from:at]...)
			at = s.space(at)
			from = at
		default:
			at++
		}
	}
	return append(dst, s.b[from:]...)
}

// value returns where the value that begins at i ends.
func (s *scanner) value(i, levels int) int {
	if i >= len(s.b) {
		return unsure
	}
	switch c := s.b[i]; c {
	case '"':
		return s.text(i)
	case '{', '[':
		if levels == 0 {
			return unsure
		}
		return s.members(i+1, levels-1, c+2) // '}' and ']' come two after '{' and '['
	case 't':
		return s.literal(i, "true")
	case 'f':
		return s.literal(i, "false")
	case 'n':
		return s.literal(i, "null")
	}
	return s.number(i)
}

// members returns the end of the object or array whose first member begins at i.
func (s *scanner) members(i, levels int, end byte) int {
	i = s.space(i)
	if i < len(s.b) && s.b[i] == end {
		return i + 1
	}
	for {
		if end == '}' {
			if i = s.name(i); i < 0 {
				return unsure
			}
		}
		if i = s.value(i, levels); i < 0 {
			return unsure
		}
		i = s.space(i)
		switch {
		case i >= len(s.b):
			return unsure
		case s.b[i] == end:
			return i + 1
		case s.b[i] != ',':
			return unsure
		}
		i = s.space(i + 1)
	}
}

// name reads the member name that begins at i and returns where the value begins.
func (s *scanner) name(i int) int {
	if i >= len(s.b) || s.b[i] != '"' {
		return unsure
	}
	if i = s.text(i); i < 0 {
		return unsure
	}
	if i = s.space(i); i >= len(s.b) || s.b[i] != ':' {
		return unsure
	}
	return s.space(i + 1)
}

func (s *scanner) space(i int) int {
	for i < len(s.b) && s.b[i] <= ' ' && (s.b[i] == ' ' || s.b[i] == '\n' || s.b[i] == '\r' || s.b[i] == '\t') {
		s.spaced = true
		i++
	}
	return i
}

func (s *scanner) text(i int) int {
	b := s.b
	for i++; ; i++ {
		for i < len(b) && plain[b[i]] {
			i++
		}
		switch {
		case i >= len(b) || b[i] < ' ':
			return unsure
		case b[i] == '"':
			return i + 1
		}
		s.escaped = true
		if i++; i >= len(b) {
			return unsure
		}
		switch b[i] {
		case '"', '\\', '/', 'b', 'f', 'n', 'r', 't':
		case 'u':
			for range 4 {
				if i++; i >= len(b) || !isHex(b[i]) {
					return unsure
				}
			}
		default:
			return unsure
		}
	}
}

func isHex(c byte) bool { return isDigit(c) || (c|0x20 >= 'a' && c|0x20 <= 'f') }

func isDigit(c byte) bool { return c >= '0' && c <= '9' }

func (s *scanner) literal(i int, word string) int {
	if len(s.b)-i < len(word) || string(s.b[i:i+len(word)]) != word {
		return unsure
	}
	return i + len(word)
}

// number returns the end of a number. It leaves a wide one to encoding/json.
func (s *scanner) number(i int) int {
	begin := i
	if i < len(s.b) && s.b[i] == '-' {
		i++
	}
	from := i
	if i = s.digits(i); i < 0 || (s.b[from] == '0' && i > from+1) {
		return unsure
	}
	if i < len(s.b) && s.b[i] == '.' {
		if i = s.digits(i + 1); i < 0 {
			return unsure
		}
	}
	if i < len(s.b) && (s.b[i] == 'e' || s.b[i] == 'E') {
		if i++; i < len(s.b) && (s.b[i] == '+' || s.b[i] == '-') {
			i++
		}
		if i = s.digits(i); i < 0 || wide(s.b[begin:i]) {
			return unsure
		}
		return i
	}
	if i-begin > MaxDigits && wide(s.b[begin:i]) {
		return unsure
	}
	return i
}

// digits returns the end of the digits at i. There must be at least one.
func (s *scanner) digits(i int) int {
	from := i
	for i < len(s.b) && isDigit(s.b[i]) {
		i++
	}
	if i == from {
		return unsure
	}
	return i
}
