package jsontext

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"unicode/utf8"
)

// Marshal encodes v as compact JSON without HTML escapes, so that raw values keep their bytes: encoding/json alone
// would rewrite "<" inside user data, and a replayed state would differ from the live one (INV2).
//
// Its output is a fixed point: reading it and writing it again yields the same bytes. encoding/json alone writes a byte that is
// not UTF-8 as the escape \ufffd, and after reading that, as the three bytes of U+FFFD.
func Marshal(v any) ([]byte, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		return nil, fmt.Errorf("encode %T: %w", v, err)
	}
	return unescapeReplacement(bytes.TrimSuffix(b.Bytes(), []byte("\n"))), nil
}

// unescapeReplacement writes each escape \ufffd as the character itself.
func unescapeReplacement(b []byte) []byte {
	const escape = `\ufffd`
	if !bytes.Contains(b, []byte(escape)) {
		return b
	}
	out := make([]byte, 0, len(b))
	for i := 0; i < len(b); {
		switch {
		case b[i] != '\\':
			out = append(out, b[i])
			i++
		case bytes.HasPrefix(b[i:], []byte(escape)):
			out = append(out, "\uFFFD"...)
			i += len(escape)
		default: // another escape, whose second byte may be a backslash
			out = append(out, b[i:i+2]...)
			i += 2
		}
	}
	return out
}

// Compact returns a copy of raw without insignificant white space. It refuses a text that is not JSON, not UTF-8, or nested
// deeper than MaxDepth.
func Compact(raw []byte) ([]byte, error) {
	if !utf8.Valid(raw) {
		return nil, errors.New("not UTF-8")
	}
	if s := (scanner{b: raw}); s.value(0, MaxDepth) == len(raw) {
		return s.appendCompact(make([]byte, 0, len(raw))), nil
	}
	b, err := AppendCompact(make([]byte, 0, len(raw)), raw)
	if err != nil {
		return nil, fmt.Errorf("not JSON: %w", err)
	}
	if depth(b) > MaxDepth {
		return nil, fmt.Errorf("nested more than %d levels deep", MaxDepth)
	}
	return b, nil
}

// AppendCompact appends raw without insignificant white space, as json.Compact does.
func AppendCompact(dst, raw []byte) ([]byte, error) {
	s := scanner{b: raw}
	if end := s.value(s.space(0), MaxDepth); end >= 0 && s.space(end) == len(raw) {
		return s.appendCompact(dst), nil
	}
	b := bytes.NewBuffer(dst)
	if err := json.Compact(b, raw); err != nil {
		return nil, err
	}
	return b.Bytes(), nil
}

func depth(raw []byte) int {
	level, most := 0, 0
	for at := 0; at < len(raw); at++ {
		switch raw[at] {
		case '"':
			at, _ = textAt(raw, at)
			at--
		case '{', '[':
			level++
			most = max(most, level)
		case '}', ']':
			level--
		}
	}
	return most
}
