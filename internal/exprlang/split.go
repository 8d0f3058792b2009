package exprlang

import "strings"

// part is a piece of a string: a literal, or the source of an expression.
type part struct {
	literal    string
	source     string
	offset     int // of source in the string
	expression bool
}

// split cuts a string into literals and expressions. It knows expr's quotes, comments and braces, because a "}" inside them does not
// end the expression.
func split(s string) ([]part, *Error) {
	var parts []part
	var literal strings.Builder
	flush := func() {
		if literal.Len() > 0 {
			parts = append(parts, part{literal: literal.String()})
			literal.Reset()
		}
	}
	for i := 0; i < len(s); {
		switch {
		case strings.HasPrefix(s[i:], "$${"):
			literal.WriteString("${")
			i += 3
		case strings.HasPrefix(s[i:], "${"):
			n := closing(s[i+2:])
			if n < 0 {
				return nil, &Error{Offset: i, Message: "${ has no closing }; write $${ for a literal ${"}
			}
			flush()
			parts = append(parts, part{source: s[i+2 : i+2+n], offset: i + 2, expression: true})
			i += n + 3
		default:
			literal.WriteByte(s[i])
			i++
		}
	}
	flush()
	return parts, nil
}

// closing returns the index of the brace that ends the expression at the start of s, or -1.
func closing(s string) int {
	depth := 0
	for i := 0; i < len(s); i++ {
		switch c := s[i]; c {
		case '"', '\'', '`':
			n := quoted(s[i:])
			if n < 0 {
				return -1
			}
			i += n
		case '/':
			i += comment(s[i:])
		case '{':
			depth++
		case '}':
			if depth == 0 {
				return i
			}
			depth--
		}
	}
	return -1
}

// quoted returns the index of the quote that ends the text at the start of s, or -1.
func quoted(s string) int {
	for i := 1; i < len(s); i++ {
		switch {
		case s[i] == s[0]:
			return i
		case s[i] == '\\' && s[0] != '`':
			i++
		}
	}
	return -1
}

// comment returns the length of the comment at the start of s, or 0. A comment without an end extends to the end of s.
func comment(s string) int {
	switch {
	case strings.HasPrefix(s, "//"):
		if n := strings.IndexByte(s, '\n'); n >= 0 {
			return n
		}
		return len(s)
	case strings.HasPrefix(s, "/*"):
		if n := strings.Index(s[2:], "*/"); n >= 0 {
			return n + 3
		}
		return len(s)
	}
	return 0
}
