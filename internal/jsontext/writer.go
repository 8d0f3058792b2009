package jsontext

import (
	"bytes"
	"encoding/json"
	"slices"
	"strconv"
	"unicode/utf8"
)

// Writer writes JSON without reflection, with the same bytes as Marshal. If it cannot be sure of that, it sets Odd, and the
// caller asks Marshal.
//
// The name that a method takes is everything before the value, such as `,"task":`.
type Writer struct {
	B []byte
	// Odd says that Marshal may write other bytes, or refuse the value.
	Odd bool
}

// Literal writes s as it is.
func (w *Writer) Literal(s string) { w.B = append(w.B, s...) }

// Text writes a text.
func (w *Writer) Text(name, s string) { w.B = AppendQuoted(append(w.B, name...), s) }

// Int writes a whole number.
func (w *Writer) Int(name string, n int64) { w.B = strconv.AppendInt(append(w.B, name...), n, 10) }

// Uint writes a whole number that is not negative.
func (w *Writer) Uint(name string, n uint64) { w.B = strconv.AppendUint(append(w.B, name...), n, 10) }

// Bool writes true or false.
func (w *Writer) Bool(name string, is bool) { w.B = strconv.AppendBool(append(w.B, name...), is) }

// Raw writes JSON as it is. Nil is null.
func (w *Writer) Raw(name string, raw json.RawMessage) {
	w.B = append(w.B, name...)
	if raw == nil {
		w.Literal("null")
		return
	}
	w.Odd = w.Odd || !asMarshalled(raw)
	w.B = append(w.B, raw...)
}

// End ends an object whose members, each with a comma before its name, were written from the byte at from on.
func (w *Writer) End(from int) {
	if len(w.B) == from {
		w.Literal("{}")
		return
	}
	w.B[from] = '{'
	w.B = append(w.B, '}')
}

// Marshalled replaces everything from the byte at from on with the output of Marshal for v.
func (w *Writer) Marshalled(from int, v any) error {
	b, err := Marshal(v)
	if err != nil {
		return err
	}
	w.B, w.Odd = append(w.B[:from], b...), false
	return nil
}

// SortedKeys appends the keys of a map in the order in which Marshal writes them.
func SortedKeys[K ~string, V any](keys []K, of map[K]V) []K {
	for k := range of {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}

// asMarshalled says whether Marshal would write raw with exactly these bytes: it is JSON without white space and without
// escapes that unescapeReplacement would remove.
func asMarshalled(raw []byte) bool {
	s := scanner{b: raw}
	return s.value(0, MaxDepth) == len(raw) && !s.spaced && !(s.escaped && bytes.Contains(raw, []byte(`\ufffd`)))
}

// AppendQuoted appends a text in quotes.
func AppendQuoted(dst []byte, s string) []byte {
	return append(AppendEscaped(append(dst, '"'), s), '"')
}

// AppendEscaped appends the escaped text without its quotes.
func AppendEscaped(dst []byte, s string) []byte {
	const hex = "0123456789abcdef"
	from := 0
	for i := 0; i < len(s); {
		c := s[i]
		if plain[c] && c < utf8.RuneSelf {
			i++
			continue
		}
		size, as := 1, ""
		switch c {
		case '"':
			as = `\"`
		case '\\':
			as = `\\`
		case '\b':
			as = `\b`
		case '\f':
			as = `\f`
		case '\n':
			as = `\n`
		case '\r':
			as = `\r`
		case '\t':
			as = `\t`
		default:
			if c < ' ' {
				break
			}
			var r rune
			switch r, size = utf8.DecodeRuneInString(s[i:]); {
			case r == utf8.RuneError && size == 1:
				as = "\uFFFD"
			case r == '\u2028':
				as = `\u2028`
			case r == '\u2029':
				as = `\u2029`
			default:
				i += size
				continue
			}
		}
		dst = append(dst, s[from:i]...)
		if as == "" {
			dst = append(dst, '\\', 'u', '0', '0', hex[c>>4], hex[c&15])
		}
		dst = append(dst, as...)
		i += size
		from = i
	}
	return append(dst, s[from:]...)
}
