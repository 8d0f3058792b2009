package exprlang

import (
	"encoding/json"
	"strings"
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

// CompileString compiles a string that may hold expressions over the given variables. What an expression gives
// passes through escape, if that is not nil; the literals do not. The error is of the type Errors.
func CompileString(s string, escape func(string) string, vars ...string) (*Text, error) {
	parts, fail := split(s)
	if fail != nil {
		return nil, Errors{fail}
	}
	t := &Text{escape: escape}
	var faults Errors
	for _, p := range parts {
		if !p.expression {
			t.pieces = append(t.pieces, piece{literal: p.literal})
			continue
		}
		e, fail := compileExpression(p.source, vars)
		if fail != nil {
			fail.Offset += p.offset
			faults = append(faults, fail)
			continue
		}
		t.pieces = append(t.pieces, piece{expression: e, offset: p.offset})
	}
	if len(faults) > 0 {
		return nil, faults
	}
	return t, nil
}

// Constant returns the text if it holds no expression.
func (t *Text) Constant() (string, bool) {
	switch {
	case len(t.pieces) == 0:
		return "", true
	case len(t.pieces) == 1 && t.pieces[0].expression == nil:
		return t.pieces[0].literal, true
	}
	return "", false
}

// References returns the paths that the expressions name.
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
	var b strings.Builder
	for _, p := range t.pieces {
		piece := p.literal
		if p.expression != nil {
			v, err := p.expression.text(s)
			if err != nil {
				return "", err
			}
			if t.escape != nil {
				v = t.escape(v)
			}
			piece = v
		}
		if b.Len()+len(piece) > MaxResultBytes {
			return "", errTooLarge
		}
		b.WriteString(piece)
	}
	return b.String(), nil
}

// Bytes returns the text as JSON, or the value with its type if the string is one expression and nothing else.
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

// whole returns the expression if the string is one and nothing else.
func (t *Text) whole() *expression {
	if len(t.pieces) == 1 {
		return t.pieces[0].expression
	}
	return nil
}

// text evaluates the expression to its text; a number keeps the digits that were written.
func (e *expression) text(s *Scope) (string, error) {
	if e.plain == nil {
		v, err := e.value(s)
		if err != nil {
			return "", err
		}
		out, err := text(v)
		if err != nil {
			return "", evalError(e.source, err)
		}
		return out, nil
	}
	raw, err := e.bytes(s)
	if err != nil {
		return "", err
	}
	if first(raw) == '"' || first(raw) == 'n' {
		v, err := decode(raw)
		if err != nil {
			return "", evalError(e.source, err)
		}
		return text(v)
	}
	raw, err = compact(nil, raw)
	if err != nil {
		return "", evalError(e.source, err)
	}
	return string(raw), nil
}
