package jsontext

import (
	"bytes"
	"encoding/json"
	"slices"
	"unicode/utf8"
)

// Canonical returns v with sorted members, without spaces, and with numbers as they were written.
func Canonical(v any) ([]byte, error) {
	raw, err := Marshal(v)
	if err != nil {
		return nil, err
	}
	decoded, err := Decode(raw)
	if err != nil {
		return nil, err
	}
	return Marshal(decoded)
}

// Canonical writes raw in the form that the function Canonical returns.
func (w *Writer) Canonical(name string, raw json.RawMessage) {
	s := sorter{scanner: scanner{b: raw}, out: append(w.B, name...)}
	w.Odd = s.value(0, MaxDepth) != len(raw) || w.Odd
	w.B = s.out
}

// sorter reads JSON and writes it in canonical form. It returns -1 whenever scanner does, and at names with escapes.
type sorter struct {
	scanner
	out []byte
}

// sorted is a member that was written, with its name and its place.
type sorted struct {
	name     []byte
	from, to int
}

func (s *sorter) value(i, levels int) int {
	if i >= len(s.b) {
		return unsure
	}
	switch c := s.b[i]; {
	case c == '"':
		return s.text(i)
	case (c == '{' || c == '[') && levels == 0:
		return unsure
	case c == '{':
		return s.object(i+1, levels-1)
	case c == '[':
		return s.array(i+1, levels-1)
	}
	end := s.scanner.value(i, levels)
	if end > 0 {
		s.out = append(s.out, s.b[i:end]...)
	}
	return end
}

// text writes a string as Marshal would write it after reading it.
func (s *sorter) text(i int) int {
	end := s.scanner.text(i)
	if end < 0 {
		return unsure
	}
	if token := s.b[i:end]; stands(token[1 : len(token)-1]) {
		s.out = append(s.out, token...)
	} else {
		var text string
		if json.Unmarshal(token, &text) != nil {
			return unsure
		}
		s.out = AppendQuoted(s.out, text)
	}
	return end
}

// stands says whether Marshal would write the same bytes between the quotes of a string.
func stands(b []byte) bool {
	ascii := true
	for i := 0; i < len(b); i++ {
		switch c := b[i]; {
		case c >= utf8.RuneSelf:
			ascii = false
		case c != '\\':
		case b[i+1] == '/' || b[i+1] == 'u':
			return false
		default:
			i++
		}
	}
	return ascii || (utf8.Valid(b) && !bytes.Contains(b, []byte("\u2028")) && !bytes.Contains(b, []byte("\u2029")))
}

func (s *sorter) array(i, levels int) int {
	s.out = append(s.out, '[')
	if i = s.space(i); i < len(s.b) && s.b[i] == ']' {
		s.out = append(s.out, ']')
		return i + 1
	}
	for {
		if i = s.value(i, levels); i < 0 {
			return unsure
		}
		if i = s.space(i); i >= len(s.b) || (s.b[i] != ',' && s.b[i] != ']') {
			return unsure
		}
		s.out = append(s.out, s.b[i])
		if s.b[i] == ']' {
			return i + 1
		}
		i = s.space(i + 1)
	}
}

func (s *sorter) object(i, levels int) int {
	s.out = append(s.out, '{')
	begin := len(s.out)
	if i = s.space(i); i < len(s.b) && s.b[i] == '}' {
		s.out = append(s.out, '}')
		return i + 1
	}
	var few [8]sorted
	members := few[:0]
	inOrder := true
	for {
		m := sorted{from: len(s.out)}
		at := i
		if i = s.name(i); i < 0 {
			return unsure
		}
		m.name = s.b[at+1 : s.nameEnd(at)]
		if bytes.IndexByte(m.name, '\\') >= 0 || !stands(m.name) {
			return unsure
		}
		s.out = append(append(append(s.out, '"'), m.name...), '"', ':')
		if i = s.value(i, levels); i < 0 {
			return unsure
		}
		m.to = len(s.out)
		inOrder = inOrder && (len(members) == 0 || bytes.Compare(members[len(members)-1].name, m.name) < 0)
		members = append(members, m)
		if i = s.space(i); i >= len(s.b) || (s.b[i] != ',' && s.b[i] != '}') {
			return unsure
		}
		if s.out = append(s.out, s.b[i]); s.b[i] == '}' {
			break
		}
		i = s.space(i + 1)
	}
	if !inOrder && !s.sort(begin, members) {
		return unsure
	}
	return i + 1
}

// nameEnd returns the place of the quote after the name at i. It is wrong for a name with escapes.
func (s *sorter) nameEnd(i int) int { return i + 1 + bytes.IndexByte(s.b[i+1:], '"') }

// sort sorts the members that were written from begin on. It returns false if a name occurs twice.
func (s *sorter) sort(begin int, members []sorted) bool {
	slices.SortFunc(members, func(a, b sorted) int { return bytes.Compare(a.name, b.name) })
	end := len(s.out)
	for i, m := range members {
		if i > 0 {
			if bytes.Equal(m.name, members[i-1].name) {
				return false
			}
			s.out = append(s.out, ',')
		}
		s.out = append(s.out, s.out[m.from:m.to]...)
	}
	s.out = append(s.out, '}')
	s.out = s.out[:begin+copy(s.out[begin:], s.out[end:])]
	return true
}
