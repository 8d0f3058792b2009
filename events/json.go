package events

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
// Its output is a fixed point: what it wrote, read and written again, has the same bytes. encoding/json alone writes a
// byte that is no UTF-8 as the escape \ufffd, and after a reading as the three bytes of U+FFFD.
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

// Compact returns raw without insignificant white space. Every raw value is compacted before it enters a fact, so
// that what is folded live has the bytes that a replay will see.
//
// It refuses what is no JSON, no UTF-8 (foreign readers could not read the log), or nested deeper than
// MaxNestingLevels: encoding/json gives up at 10,000 levels, and a value that just passes in a report would stop the
// partition for ever when it lies deeper in the encoding of its task.
func Compact(raw json.RawMessage) (json.RawMessage, error) {
	if len(raw) == 0 {
		return nil, nil
	}
	if !utf8.Valid(raw) {
		return nil, errors.New("not UTF-8")
	}
	if s := (scanner{b: raw}); s.value(0, MaxNestingLevels) == len(raw) {
		return s.compacted(), nil
	}
	var b bytes.Buffer
	b.Grow(len(raw))
	if err := json.Compact(&b, raw); err != nil {
		return nil, fmt.Errorf("not JSON: %w", err)
	}
	if depth(b.Bytes()) > MaxNestingLevels {
		return nil, fmt.Errorf("nested more than %d levels deep", MaxNestingLevels)
	}
	return b.Bytes(), nil
}
