package events

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"slices"
	"unicode/utf8"
)

// ContentHash returns the hash by which a repeated submission is told from a conflicting one: SHA-256 of the object
// with sorted members, no spaces, numbers as written, the ID included and the deadline normalised.
func (s *Submission) ContentHash() (string, error) {
	n := *s
	if n.Deadline == "" {
	} else if d, err := ParseDuration(n.Deadline); err == nil {
		n.Deadline = d.String()
	} else if i, err := ParseInstant(n.Deadline); err == nil {
		n.Deadline = i.String()
	}
	e := encoder{b: make([]byte, 0, 64+len(n.ID)+len(n.Workflow)+len(n.Input)+len(n.Deadline)+64*len(n.Labels))}
	if !e.content(&n) {
		if err := e.canonical(&n); err != nil {
			return "", err
		}
	}
	sum := sha256.Sum256(e.b)
	var digits [2 * sha256.Size]byte
	return string(hex.AppendEncode(digits[:0], sum[:])), nil
}

// canonical writes v with sorted members, without spaces, and with numbers as they were written.
func (e *encoder) canonical(v any) error {
	raw, err := Marshal(v)
	if err != nil {
		return err
	}
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber()
	var any any
	if err := d.Decode(&any); err != nil {
		return err
	}
	return e.marshalled(0, any)
}

// content writes what canonical writes of a submission, and says whether it could.
func (e *encoder) content(s *Submission) bool {
	for name := range s.Labels {
		e.odd = e.odd || !utf8.ValidString(name) // two of them may become one
	}
	e.textIf(`,"deadline":`, s.Deadline)
	e.textIf(`,"id":`, s.ID)
	if len(s.Input) > 0 {
		e.literal(`,"input":`)
		in := sorter{scanner: scanner{b: s.Input}, out: e.b}
		e.odd = in.value(0, MaxNestingLevels) != len(s.Input) || e.odd
		e.b = in.out
	}
	e.labelsIf(`,"labels":`, s.Labels)
	e.numberIf(`,"priority":`, s.Priority)
	e.numberIf(`,"version":`, s.Version)
	e.text(`,"workflow":`, s.Workflow)
	e.b[0] = '{' // in place of the comma before whichever was the first
	return e.end()
}

// sorter passes JSON and writes it in canonical form. It gives up, by -1, where scanner does, and at names with escapes.
type sorter struct {
	scanner
	out []byte
}

// sorted is a member that was written: its name and where it stands.
type sorted struct {
	name     []byte
	from, to int
}

func (s *sorter) value(i, levels int) int {
	if i >= len(s.b) {
		return -1
	}
	switch c := s.b[i]; {
	case c == '"':
		return s.text(i)
	case (c == '{' || c == '[') && levels == 0:
		return -1
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

// text writes a text as Marshal writes it once it was read.
func (s *sorter) text(i int) int {
	end := s.scanner.text(i)
	if end < 0 {
		return -1
	}
	if token := s.b[i:end]; stands(token[1 : len(token)-1]) {
		s.out = append(s.out, token...)
	} else {
		var text string
		if json.Unmarshal(token, &text) != nil {
			return -1
		}
		s.out = appendQuoted(s.out, text)
	}
	return end
}

// stands says whether what stands between the quotes of a text is what Marshal would write there.
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
			return -1
		}
		if i = s.space(i); i >= len(s.b) || (s.b[i] != ',' && s.b[i] != ']') {
			return -1
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
			return -1
		}
		m.name = s.b[at+1 : s.nameEnd(at)]
		if bytes.IndexByte(m.name, '\\') >= 0 || !stands(m.name) {
			return -1
		}
		s.out = append(append(append(s.out, '"'), m.name...), '"', ':')
		if i = s.value(i, levels); i < 0 {
			return -1
		}
		m.to = len(s.out)
		inOrder = inOrder && (len(members) == 0 || bytes.Compare(members[len(members)-1].name, m.name) < 0)
		members = append(members, m)
		if i = s.space(i); i >= len(s.b) || (s.b[i] != ',' && s.b[i] != '}') {
			return -1
		}
		if s.out = append(s.out, s.b[i]); s.b[i] == '}' {
			break
		}
		i = s.space(i + 1)
	}
	if !inOrder && !s.sort(begin, members) {
		return -1
	}
	return i + 1
}

// nameEnd returns where the quote behind the name at i stands, which has no escapes if what it returns is right.
func (s *sorter) nameEnd(i int) int { return i + 1 + bytes.IndexByte(s.b[i+1:], '"') }

// sort brings the members that were written behind begin into their order. It gives up where a name stands twice.
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
