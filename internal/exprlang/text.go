package exprlang

import (
	"encoding/json"
	"strings"

	"github.com/sagalog/sagalog/internal/jsontext"
)

// Text is a compiled string.
type Text struct {
	pieces []piece
	escape func(string) string
}

// piece is a literal, or an expression.
type piece struct {
	literal    string
	expression *expression
	offset     int
}

// CompileString compiles a string that may hold expressions over the given variables. The result of an
// expression passes through escape, if that is not nil; literals do not. The error is of the type Errors; with one, the text serves for
// its references only.
func CompileString(s string, escape func(string) string, vars ...string) (*Text, error) {
	parts, fail := split(s)
	if fail != nil {
		return &Text{}, Errors{fail}
	}
	t := &Text{escape: escape}
	var faults Errors
	for _, p := range parts {
		if !p.expression {
			t.pieces = append(t.pieces, piece{literal: p.literal})
			continue
		}
		e, wrong := compileExpression(p.source, vars)
		faults = append(faults, wrong.shifted(p.offset)...)
		t.pieces = append(t.pieces, piece{expression: e, offset: p.offset})
	}
	if len(faults) > 0 {
		return t, faults
	}
	return t, nil
}

// Constant returns the text if it contains no expression.
func (t *Text) Constant() (string, bool) {
	switch {
	case len(t.pieces) == 0:
		return "", true
	case len(t.pieces) == 1 && t.pieces[0].expression == nil:
		return t.pieces[0].literal, true
	}
	return "", false
}

// IsValue says whether the text is one expression and nothing else, so that it gives a value of any type.
func (t *Text) IsValue() bool { return t.whole() != nil }

// References returns the paths that the expressions refer to.
func (t *Text) References() []Reference {
	var out []Reference
	for _, p := range t.pieces {
		if p.expression != nil {
			out = append(out, p.expression.references(p.offset)...)
		}
	}
	return out
}

func (e *expression) references(offset int) []Reference {
	out := make([]Reference, len(e.paths))
	for i, p := range e.paths {
		out[i] = Reference{Path: p.names(), Offset: offset + runeOffset(e.source, p.begin)}
	}
	return out
}

// Eval returns the text.
func (t *Text) Eval(s *Scope) (string, error) {
	if c, ok := t.Constant(); ok {
		return c, nil
	}
	var room [128]byte
	out := room[:0]
	for _, p := range t.pieces {
		from := len(out)
		if p.expression == nil {
			out = append(out, p.literal...)
		} else {
			var err error
			if out, err = p.expression.appendText(out, s); err != nil {
				return "", err
			}
			if t.escape != nil {
				out = append(out[:from], t.escape(string(out[from:]))...)
			}
		}
		if len(out) > MaxResultBytes {
			return "", errTooLarge
		}
	}
	return string(out), nil
}

// Find returns the source of the first expression whose value, as JSON, is one of those that are asked for, or "". An expression that fails is
// passed over: Eval says so.
func (t *Text) Find(s *Scope, is func(value json.RawMessage) bool) string {
	for _, p := range t.pieces {
		if p.expression == nil {
			continue
		}
		if v, err := p.expression.bytes(s); err == nil && is(v) {
			return strings.TrimSpace(p.expression.source)
		}
	}
	return ""
}

// Bytes returns the text as JSON, or the value with its type if the string is a single expression.
// It does not escape.
func (t *Text) Bytes(s *Scope) (json.RawMessage, error) {
	if e := t.whole(); e != nil {
		return e.bytes(s)
	}
	plain := Text{pieces: t.pieces}
	v, err := plain.Eval(s)
	if err != nil {
		return nil, err
	}
	return encode(v)
}

// whole returns the expression if the string is a single expression.
func (t *Text) whole() *expression {
	if len(t.pieces) == 1 {
		return t.pieces[0].expression
	}
	return nil
}

// appendText evaluates the expression to its text; a number keeps its digits as written.
func (e *expression) appendText(out []byte, s *Scope) ([]byte, error) {
	if e.plain == nil {
		v, err := e.value(s)
		if err != nil {
			return nil, err
		}
		b, err := text(v)
		if err != nil {
			return nil, evalError(e.source, err)
		}
		return append(out, b...), nil
	}
	raw, err := e.bytes(s)
	if err != nil {
		return nil, err
	}
	if first(raw) == '"' || first(raw) == 'n' {
		v, err := decode(raw)
		if err != nil {
			return nil, evalError(e.source, err)
		}
		b, err := text(v)
		return append(out, b...), err
	}
	if out, err = jsontext.AppendCompact(out, raw); err != nil {
		return nil, evalError(e.source, err)
	}
	return out, nil
}
