package rawjson

// maxDepth is how deep values are looked into. What nests deeper is left to encoding/json, which looks ten thousand
// levels deep; nobody writes that by hand.
const maxDepth = 200

// unsure is the place that stands for "ask encoding/json".
const unsure = -1

// Skip returns the place behind the value that begins at b[at], or a negative one if it is not sure that one does.
// White space may stand before the value. Nothing of what it passes is unchecked.
func Skip(b []byte, at int) int { return skip(b, at, 0) }

// Valid says whether b is one JSON value and nothing else. False means that it is not sure.
func Valid(b []byte) bool {
	end := Skip(b, 0)
	return end >= 0 && Space(b, end) == len(b)
}

// Space returns the place of the first byte from at on that is no white space, or the length of b.
func Space(b []byte, at int) int {
	for at < len(b) {
		switch b[at] {
		case ' ', '\n', '\t', '\r':
			at++
		default:
			return at
		}
	}
	return at
}

func skip(b []byte, at, depth int) int {
	at = Space(b, at)
	if at >= len(b) {
		return unsure
	}
	switch c := b[at]; c {
	case '"':
		end, _ := Text(b, at)
		return end
	case '{', '[':
		if depth == maxDepth {
			return unsure
		}
		w := Begin(b, at)
		for w.Next() {
			w.To(skip(b, w.At, depth+1))
		}
		return w.End()
	case 't':
		return word(b, at, "true")
	case 'f':
		return word(b, at, "false")
	case 'n':
		return word(b, at, "null")
	}
	return Number(b, at)
}

func word(b []byte, at int, w string) int {
	if end := at + len(w); end <= len(b) && string(b[at:end]) == w {
		return end
	}
	return unsure
}

// Number returns the place behind the number that begins at b[at], or a negative one if none does.
func Number(b []byte, at int) int {
	if at < len(b) && b[at] == '-' {
		at++
	}
	switch {
	case at < len(b) && b[at] == '0':
		at++
	default:
		if at = digits(b, at); at < 0 {
			return unsure
		}
	}
	if at < len(b) && b[at] == '.' {
		if at = digits(b, at+1); at < 0 {
			return unsure
		}
	}
	if at < len(b) && (b[at] == 'e' || b[at] == 'E') {
		at++
		if at < len(b) && (b[at] == '+' || b[at] == '-') {
			at++
		}
		return digits(b, at)
	}
	return at
}

// digits passes one digit or more.
func digits(b []byte, at int) int {
	begin := at
	for at < len(b) && b[at] >= '0' && b[at] <= '9' {
		at++
	}
	if at == begin {
		return unsure
	}
	return at
}

// ordinary are the bytes that stand for themselves in a string: ASCII but for control characters, quote and backslash.
var ordinary = func() (t [256]bool) {
	for c := ' '; c < 0x80; c++ {
		t[c] = c != '"' && c != '\\'
	}
	return t
}()

// Text returns the place behind the string that begins at b[at], or a negative one if none does, and whether it is
// plain: ASCII without escapes, so that what stands between the quotes is the text itself.
func Text(b []byte, at int) (end int, plain bool) {
	if at >= len(b) || b[at] != '"' {
		return unsure, false
	}
	at++
	plain = true
	for at < len(b) {
		c := b[at]
		switch {
		case ordinary[c]:
			at++
		case c == '"':
			return at + 1, plain
		case c == '\\':
			plain = false
			if at = escape(b, at); at < 0 {
				return unsure, false
			}
		case c < ' ':
			return unsure, false
		default:
			plain = false
			at++
		}
	}
	return unsure, false
}

// escape passes the escape that begins at b[at].
func escape(b []byte, at int) int {
	if at+1 >= len(b) {
		return unsure
	}
	switch b[at+1] {
	case '"', '\\', '/', 'b', 'f', 'n', 'r', 't':
		return at + 2
	case 'u':
		if at+6 > len(b) {
			return unsure
		}
		for _, c := range b[at+2 : at+6] {
			if (c < '0' || c > '9') && (c < 'a' || c > 'f') && (c < 'A' || c > 'F') {
				return unsure
			}
		}
		return at + 6
	}
	return unsure
}
