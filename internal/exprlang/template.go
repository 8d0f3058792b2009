package exprlang

import (
	"bytes"
	"encoding/json"
	"errors"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/sagalog/sagalog/events"
	"github.com/sagalog/sagalog/internal/jsontext"
)

// Template is a compiled JSON value whose strings may hold expressions.
type Template struct {
	// slots alternate with literals: literals[0] slots[0] literals[1] ... There is one more literal than slots.
	literals [][]byte
	slots    []*Text
}

// Compile compiles a JSON value. Expressions see the variables vars. Keys are literal; an expression
// in a key is refused. The error is of the type Errors.
func Compile(template json.RawMessage, vars ...string) (*Template, error) {
	v, err := jsontext.Decode(template)
	if err != nil {
		return nil, Errors{{Message: "the template is not JSON: " + err.Error()}}
	}
	b := &templateBuilder{vars: vars}
	b.value(v, "")
	if len(b.faults) > 0 {
		return nil, b.faults
	}
	b.template.literals = append(b.template.literals, b.literal)
	return &b.template, nil
}

type templateBuilder struct {
	vars     []string
	template Template
	literal  []byte
	faults   Errors
}

func (b *templateBuilder) value(v any, pointer string) {
	switch v := v.(type) {
	case string:
		b.text(v, pointer)
	case []any:
		b.literal = append(b.literal, '[')
		for i, e := range v {
			if i > 0 {
				b.literal = append(b.literal, ',')
			}
			b.value(e, down(pointer, strconv.Itoa(i)))
		}
		b.literal = append(b.literal, ']')
	case map[string]any:
		b.object(v, pointer)
	default:
		b.constant(v, pointer)
	}
}

func (b *templateBuilder) object(m map[string]any, pointer string) {
	b.literal = append(b.literal, '{')
	for i, k := range slices.Sorted(maps.Keys(m)) {
		below := down(pointer, escapePointer(k))
		if strings.Contains(k, "${") {
			b.faults = append(b.faults, &Error{Pointer: below, Message: "a key cannot contain an expression"})
		}
		if i > 0 {
			b.literal = append(b.literal, ',')
		}
		b.constant(k, below)
		b.literal = append(b.literal, ':')
		b.value(m[k], below)
	}
	b.literal = append(b.literal, '}')
}

func (b *templateBuilder) constant(v any, pointer string) {
	literal, err := appendValue(b.literal, v)
	if err != nil {
		b.faults = append(b.faults, &Error{Pointer: pointer, Message: err.Error()})
		return
	}
	b.literal = literal
}

func (b *templateBuilder) text(s, pointer string) {
	t, err := CompileString(s, nil, b.vars...)
	if err != nil {
		var faults Errors
		errors.As(err, &faults)
		for _, f := range faults {
			f.Pointer = pointer
		}
		b.faults = append(b.faults, faults...)
		return
	}
	if c, ok := t.Constant(); ok {
		b.constant(c, pointer)
		return
	}
	b.template.literals = append(b.template.literals, b.literal)
	b.template.slots = append(b.template.slots, t)
	b.literal = nil
}

// maxPointerBytes bounds the pointer of a value. Without a bound, the pointers of a deep template could take gigabytes.
const maxPointerBytes = 200

// down returns the pointer of a member or element, cut off at the bound.
func down(pointer, token string) string {
	if len(pointer) >= maxPointerBytes {
		return pointer
	}
	return events.Clip(pointer+"/"+token, maxPointerBytes)
}

func escapePointer(s string) string { return strings.NewReplacer("~", "~0", "/", "~1").Replace(s) }

// Constant returns the value if the template contains no expression. The bytes are shared and must not be changed.
func (t *Template) Constant() (json.RawMessage, bool) {
	if len(t.slots) > 0 {
		return nil, false
	}
	return t.literals[0], true
}

// Eval returns the value as compact JSON: keys sorted, no HTML escapes. Without an expression the bytes are shared
// and must not be changed.
func (t *Template) Eval(s *Scope) (json.RawMessage, error) {
	if c, ok := t.Constant(); ok {
		return c, nil
	}
	out := s.result[:0]
	if out == nil {
		out = make([]byte, 0, 256)
	}
	for i, slot := range t.slots {
		out = append(out, t.literals[i]...)
		raw, err := slot.Bytes(s)
		if err != nil {
			return nil, err
		}
		if len(out)+len(raw) > MaxResultBytes {
			return nil, errTooLarge
		}
		if out, err = jsontext.AppendCompact(out, raw); err != nil {
			return nil, err
		}
	}
	out = append(out, t.literals[len(t.slots)]...)
	if s.result == nil {
		return out, nil
	}
	s.result = out // the assembling buffer stays with the scope, so that the copy that lives on has the exact size
	return bytes.Clone(out), nil
}
