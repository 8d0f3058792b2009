package jsontext

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
)

// Decode returns the one JSON value of a text as encoding/json decodes it, with numbers as json.Number. Its errors are those of
// encoding/json.
func Decode(raw []byte) (any, error) {
	r := NewReader(raw)
	if v := r.decoded(MaxDepth); r.Done() {
		return v, nil
	}
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber()
	var v any
	if err := d.Decode(&v); err != nil {
		return nil, err
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return nil, errors.New("more than one JSON value")
	}
	return v, nil
}

// decoded reads a value of any kind.
func (r *Reader) decoded(levels int) any {
	if r.at = r.space(r.at); r.at >= len(r.b) || levels == 0 {
		r.Doubt()
		return nil
	}
	switch c := r.b[r.at]; c {
	case '{':
		m := map[string]any{}
		for ok := r.Begin(c); ok; ok = r.More(c) {
			name := r.Key()
			m[name] = r.decoded(levels - 1)
		}
		return m
	case '[':
		list := []any{}
		for ok := r.Begin(c); ok; ok = r.More(c) {
			list = append(list, r.decoded(levels-1))
		}
		return list
	case '"':
		return r.String()
	}
	switch s := string(r.span()); s {
	case "null":
		return nil
	case "true", "false":
		return s == "true"
	default:
		return json.Number(s)
	}
}
