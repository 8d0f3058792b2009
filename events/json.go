package events

import (
	"bytes"
	"encoding/json"
	"fmt"
)

// Marshal encodes v as compact JSON without HTML escapes, so that raw values keep their bytes: encoding/json alone
// would rewrite "<" inside user data, and a replayed state would differ from the live one (INV2).
func Marshal(v any) ([]byte, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		return nil, fmt.Errorf("encode %T: %w", v, err)
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n")), nil
}

// Compact returns raw without insignificant white space. Every raw value is compacted before it enters a fact, so
// that what is folded live has the bytes that a replay will see.
func Compact(raw json.RawMessage) (json.RawMessage, error) {
	if len(raw) == 0 {
		return nil, nil
	}
	var b bytes.Buffer
	b.Grow(len(raw))
	if err := json.Compact(&b, raw); err != nil {
		return nil, err
	}
	return b.Bytes(), nil
}
