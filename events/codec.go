package events

import (
	"encoding/json"
	"strconv"

	"github.com/sagalog/sagalog/internal/jsontext"
)

//go:generate go run ./internal/gen

// Marshal encodes v as compact JSON without HTML escapes, so that raw values keep their bytes: encoding/json alone
// would rewrite "<" inside user data, and a replayed state would differ from the live one (INV2).
func Marshal(v any) ([]byte, error) { return jsontext.Marshal(v) }

// DecodeValue returns a JSON value as encoding/json decodes it, with numbers as json.Number.
func DecodeValue(raw json.RawMessage) (any, error) { return jsontext.Decode(raw) }

// Compact returns raw without insignificant white space. Every raw value is compacted before it enters a fact, so
// that the live fold sees the bytes that a replay will see.
//
// It refuses a value that is not JSON, not UTF-8 (foreign readers could not read the log), or nested deeper than
// MaxNestingLevels. encoding/json gives up at 10,000 levels. A value that is just within that limit in a report would exceed it
// in the encoding of its task, and would stop the partition.
func Compact(raw json.RawMessage) (json.RawMessage, error) {
	if len(raw) == 0 {
		return nil, nil
	}
	return jsontext.Compact(raw)
}

// word reads a text that is usually one of this package's constants.
func word(r *jsontext.Reader) string {
	b, escaped := r.TextSpan()
	if escaped {
		return r.Unquoted(b)
	}
	return wordOf(b)
}

// The generated codec calls the methods below for the types that are a single string in JSON.

// readText reads a text as UnmarshalText does.
func readText(r *jsontext.Reader, unmarshal func([]byte) error) {
	if b, escaped := r.TextSpan(); escaped || unmarshal(b) != nil {
		r.Doubt()
	}
}

func (i Instant) write(w *jsontext.Writer) { w.B = append(i.append(append(w.B, '"')), '"') }

func (i *Instant) read(r *jsontext.Reader) {
	b, escaped := r.TextSpan()
	if ms, ok := parseWritten(b); ok {
		*i = ms
	} else if escaped || i.UnmarshalText(b) != nil {
		r.Doubt()
	}
}

func (d Duration) write(w *jsontext.Writer) { w.Text("", d.String()) }

func (d *Duration) read(r *jsontext.Reader) { readText(r, d.UnmarshalText) }

func (h Hash) write(w *jsontext.Writer) { w.Text("", h.String()) }

func (h *Hash) read(r *jsontext.Reader) { readText(r, h.UnmarshalText) }

func (e Epoch) write(w *jsontext.Writer) {
	w.B = append(w.B, '"')
	e.writeBare(w)
	w.B = append(w.B, '"')
}

// writeBare writes the text without its quotes.
func (e Epoch) writeBare(w *jsontext.Writer) {
	if e != (Epoch{}) {
		w.B = jsontext.AppendEscaped(append(strconv.AppendUint(w.B, e.N, 10), '-'), e.ID)
	}
}

func (e *Epoch) read(r *jsontext.Reader) { readText(r, e.UnmarshalText) }

func (p Position) write(w *jsontext.Writer) {
	w.B = append(w.B, '"')
	if !p.IsZero() {
		p.Epoch.writeBare(w)
		w.B = strconv.AppendUint(append(w.B, '/'), p.Sequence, 10)
	}
	w.B = append(w.B, '"')
}

func (p *Position) read(r *jsontext.Reader) { readText(r, p.UnmarshalText) }
