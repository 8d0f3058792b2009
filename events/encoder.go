package events

import (
	"bytes"
	"encoding/json"
	"slices"
	"strconv"
	"unicode/utf8"
)

// encoder writes what is written most without reflection: the bodies of the usual facts, work, reports, tasks and the
// partition. What it writes is what Marshal writes, byte for byte; where it cannot know that, it says so by odd, and
// the caller asks Marshal.
//
// The names that its methods take hold all that stands before the value, such as `,"task":`.
type encoder struct {
	b   []byte
	odd bool
}

// encoderBytes is a first size of a buffer that is used for one entity after another.
const encoderBytes = 4 << 10

// end closes an object and says whether Marshal would have written the same.
func (e *encoder) end() bool {
	e.b = append(e.b, '}')
	return !e.odd
}

// marshalled puts what Marshal writes of v in place of what stands behind the byte at from.
func (e *encoder) marshalled(from int, v any) error {
	b, err := Marshal(v)
	if err != nil {
		return err
	}
	e.b, e.odd = append(e.b[:from], b...), false
	return nil
}

func (e *encoder) literal(s string) { e.b = append(e.b, s...) }

func (e *encoder) text(name, s string) { e.b = appendQuoted(append(e.b, name...), s) }

func (e *encoder) textIf(name, s string) {
	if s != "" {
		e.text(name, s)
	}
}

func (e *encoder) number(name string, n int) {
	e.b = strconv.AppendInt(append(e.b, name...), int64(n), 10)
}

func (e *encoder) numberIf(name string, n int) {
	if n != 0 {
		e.number(name, n)
	}
}

func (e *encoder) flagIf(name string, set bool) {
	if set {
		e.literal(name)
		e.literal("true")
	}
}

func (e *encoder) instant(name string, i Instant) {
	e.literal(name)
	e.b = append(i.append(append(e.b, '"')), '"')
}

func (e *encoder) instantIf(name string, i Instant) {
	if i != 0 {
		e.instant(name, i)
	}
}

func (e *encoder) rawIf(name string, raw json.RawMessage) {
	if len(raw) == 0 {
		return
	}
	if !asMarshalled(raw) {
		e.odd = true
	}
	e.b = append(append(e.b, name...), raw...)
}

func (e *encoder) positionIf(name string, p Position) {
	if p.IsZero() {
		return
	}
	e.literal(name)
	e.b = append(e.b, '"')
	e.epoch(p.Epoch)
	if p.Epoch == (Epoch{}) { // its text is empty
		e.odd = true
	}
	e.b = append(strconv.AppendUint(append(e.b, '/'), p.Sequence, 10), '"')
}

func (e *encoder) epoch(p Epoch) {
	e.b = appendEscaped(append(strconv.AppendUint(e.b, p.N, 10), '-'), p.ID)
}

func (e *encoder) labelsIf(name string, labels map[string]string) {
	if len(labels) == 0 {
		return
	}
	e.literal(name)
	var few [8]string
	keys := few[:0]
	for k := range labels {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	between := byte('{')
	for _, k := range keys {
		e.b = append(e.b, between)
		e.b = appendQuoted(e.b, k)
		e.b = append(e.b, ':')
		e.b = appendQuoted(e.b, labels[k])
		between = ','
	}
	e.b = append(e.b, '}')
}

// asMarshalled says whether Marshal would write raw with just these bytes: it is JSON, has no spaces, and no escape
// that unescapeReplacement would take away.
func asMarshalled(raw []byte) bool {
	s := scanner{b: raw}
	return s.value(0, MaxNestingLevels) == len(raw) && !s.spaced && !(s.escaped && bytes.Contains(raw, []byte(`\ufffd`)))
}

func appendQuoted(dst []byte, s string) []byte {
	return append(appendEscaped(append(dst, '"'), s), '"')
}

// appendEscaped appends what stands between the quotes of a text.
func appendEscaped(dst []byte, s string) []byte {
	const hex = "0123456789abcdef"
	from := 0
	for i := 0; i < len(s); {
		c := s[i]
		if plain[c] && c < utf8.RuneSelf {
			i++
			continue
		}
		size, as := 1, ""
		switch c {
		case '"':
			as = `\"`
		case '\\':
			as = `\\`
		case '\b':
			as = `\b`
		case '\f':
			as = `\f`
		case '\n':
			as = `\n`
		case '\r':
			as = `\r`
		case '\t':
			as = `\t`
		default:
			if c < ' ' {
				break
			}
			var r rune
			switch r, size = utf8.DecodeRuneInString(s[i:]); {
			case r == utf8.RuneError && size == 1:
				as = "\uFFFD"
			case r == '\u2028':
				as = `\u2028`
			case r == '\u2029':
				as = `\u2029`
			default:
				i += size
				continue
			}
		}
		dst = append(dst, s[from:i]...)
		if as == "" {
			dst = append(dst, '\\', 'u', '0', '0', hex[c>>4], hex[c&15])
		}
		dst = append(dst, as...)
		i += size
		from = i
	}
	return append(dst, s[from:]...)
}
