package events

import (
	"bytes"
	"encoding/json"
	"unicode/utf8"
)

// plain are the bytes that stand in a JSON text as they are.
var plain = func() (is [256]bool) {
	for c := range is {
		is[c] = c >= ' ' && c != '"' && c != '\\'
	}
	return is
}()

// scanner finds the ends of JSON values as encoding/json would, several times faster. It gives up, by -1, on what is no
// JSON, and on what is nested deeper than it was told to look.
type scanner struct {
	b []byte
	// spaced and escaped say whether there were spaces between the values that were passed, and escapes in them.
	spaced, escaped bool
}

// value returns where the value that begins at i ends.
func (s *scanner) value(i, levels int) int {
	if i >= len(s.b) {
		return -1
	}
	switch c := s.b[i]; c {
	case '"':
		return s.text(i)
	case '{', '[':
		if levels == 0 {
			return -1
		}
		return s.members(i+1, levels-1, c+2) // '}' and ']' stand two behind
	case 't':
		return s.literal(i, "true")
	case 'f':
		return s.literal(i, "false")
	case 'n':
		return s.literal(i, "null")
	}
	return s.number(i)
}

// members returns the end of the object or array whose first member begins at i.
func (s *scanner) members(i, levels int, end byte) int {
	i = s.space(i)
	if i < len(s.b) && s.b[i] == end {
		return i + 1
	}
	for {
		if end == '}' {
			if i = s.name(i); i < 0 {
				return -1
			}
		}
		if i = s.value(i, levels); i < 0 {
			return -1
		}
		i = s.space(i)
		switch {
		case i >= len(s.b):
			return -1
		case s.b[i] == end:
			return i + 1
		case s.b[i] != ',':
			return -1
		}
		i = s.space(i + 1)
	}
}

// name returns where the value of the member begins whose name begins at i.
func (s *scanner) name(i int) int {
	if i >= len(s.b) || s.b[i] != '"' {
		return -1
	}
	if i = s.text(i); i < 0 {
		return -1
	}
	if i = s.space(i); i >= len(s.b) || s.b[i] != ':' {
		return -1
	}
	return s.space(i + 1)
}

func (s *scanner) space(i int) int {
	for i < len(s.b) && s.b[i] <= ' ' && (s.b[i] == ' ' || s.b[i] == '\n' || s.b[i] == '\r' || s.b[i] == '\t') {
		s.spaced = true
		i++
	}
	return i
}

func (s *scanner) text(i int) int {
	b := s.b
	for i++; ; i++ {
		for i < len(b) && plain[b[i]] {
			i++
		}
		switch {
		case i >= len(b) || b[i] < ' ':
			return -1
		case b[i] == '"':
			return i + 1
		}
		s.escaped = true
		if i++; i >= len(b) {
			return -1
		}
		switch b[i] {
		case '"', '\\', '/', 'b', 'f', 'n', 'r', 't':
		case 'u':
			for range 4 {
				if i++; i >= len(b) || !isHex(b[i]) {
					return -1
				}
			}
		default:
			return -1
		}
	}
}

// compacted returns a copy of the JSON that was passed, without the spaces between its values.
func (s *scanner) compacted() []byte {
	if !s.spaced {
		return bytes.Clone(s.b)
	}
	out := make([]byte, 0, len(s.b))
	for i := 0; i < len(s.b); {
		switch c := s.b[i]; {
		case c == '"':
			end := s.text(i)
			out = append(out, s.b[i:end]...)
			i = end
		case c > ' ':
			out = append(out, c)
			i++
		default:
			i++
		}
	}
	return out
}

func isHex(c byte) bool { return isDigit(c) || (c|0x20 >= 'a' && c|0x20 <= 'f') }

func isDigit(c byte) bool { return c >= '0' && c <= '9' }

func (s *scanner) literal(i int, word string) int {
	if len(s.b)-i < len(word) || string(s.b[i:i+len(word)]) != word {
		return -1
	}
	return i + len(word)
}

func (s *scanner) number(i int) int {
	if i < len(s.b) && s.b[i] == '-' {
		i++
	}
	from := i
	if i = s.digits(i); i < 0 || (s.b[from] == '0' && i > from+1) {
		return -1
	}
	if i < len(s.b) && s.b[i] == '.' {
		if i = s.digits(i + 1); i < 0 {
			return -1
		}
	}
	if i < len(s.b) && (s.b[i] == 'e' || s.b[i] == 'E') {
		if i++; i < len(s.b) && (s.b[i] == '+' || s.b[i] == '-') {
			i++
		}
		return s.digits(i)
	}
	return i
}

// digits returns the end of the digits at i, of which there is one at least.
func (s *scanner) digits(i int) int {
	from := i
	for i < len(s.b) && isDigit(s.b[i]) {
		i++
	}
	if i == from {
		return -1
	}
	return i
}

// reader reads JSON of a known shape without reflection: exact names, each at most once, values of the expected types.
// What it reads is what encoding/json reads. At the slightest doubt it says so by odd and reads nothing more, and the
// caller asks encoding/json, which has the last word and the errors.
type reader struct {
	scanner
	at  int
	odd bool
	// owed are the texts that done fills in, slices of one: a text of its own for each member costs more than all the rest.
	owed [16]owed
	n    int
}

type owed struct {
	to   *string
	span []byte
}

func read(b []byte) reader { return reader{scanner: scanner{b: b}} }

// done says whether all was read without a doubt. Only then the texts are there.
func (r *reader) done() bool {
	if r.odd || r.space(r.at) != len(r.b) {
		return false
	}
	var room [256]byte
	b := room[:0]
	for i := range r.n {
		b = append(b, r.owed[i].span...)
	}
	all := string(b)
	for _, x := range r.owed[:r.n] {
		*x.to, all = all[:len(x.span)], all[len(x.span):]
	}
	r.n = 0
	return true
}

func (r *reader) doubt() { r.at, r.odd = len(r.b), true }

// begin enters an object or an array, and says whether it has a member: for ok := begin; ok; ok = more.
func (r *reader) begin(open byte) bool {
	r.at = r.space(r.at)
	if r.at >= len(r.b) || r.b[r.at] != open {
		r.doubt()
		return false
	}
	r.at = r.space(r.at + 1)
	if r.at < len(r.b) && r.b[r.at] == open+2 {
		r.at++
		return false
	}
	return !r.odd
}

// more goes behind a member, and says whether another follows.
func (r *reader) more(open byte) bool {
	if r.at = r.space(r.at); r.at < len(r.b) {
		switch r.b[r.at] {
		case ',':
			r.at = r.space(r.at + 1)
			return true
		case open + 2:
			r.at++
			return false
		}
	}
	r.doubt()
	return false
}

// name reads the name of a member, without escapes, up to its value.
func (r *reader) name() []byte {
	from := r.at
	if from < len(r.b) && r.b[from] == '"' {
		for i := from + 1; i < len(r.b); i++ {
			if plain[r.b[i]] {
				continue
			}
			if r.b[i] != '"' {
				break
			}
			if r.at = r.space(i + 1); r.at < len(r.b) && r.b[r.at] == ':' {
				r.at = r.space(r.at + 1)
				return r.b[from+1 : i]
			}
			break
		}
	}
	r.doubt()
	return nil
}

// once doubts a member that stands there twice: encoding/json has rules for it.
func (r *reader) once(seen *uint64, n int) {
	if *seen&(1<<n) != 0 {
		r.doubt()
	}
	*seen |= 1 << n
}

// span reads a value of any kind and returns its bytes, which are the record's own.
func (r *reader) span() []byte {
	end := r.value(r.at, MaxNestingLevels)
	if end < 0 {
		r.doubt()
		return nil
	}
	b := r.b[r.at:end:end]
	r.at = end
	return b
}

// raw reads a value of any kind and returns a copy of its bytes, for what outlives the record.
func (r *reader) raw() json.RawMessage { return bytes.Clone(r.span()) }

// textSpan reads a text. escaped says whether what stands between the quotes, which it returns, is not the text itself.
func (r *reader) textSpan() (b []byte, escaped bool) {
	if r.at >= len(r.b) || r.b[r.at] != '"' {
		r.doubt()
		return nil, false
	}
	before := r.escaped
	r.escaped = false
	end := r.scanner.text(r.at)
	escaped, r.escaped = r.escaped, r.escaped || before
	if end < 0 {
		r.doubt()
		return nil, false
	}
	b = r.b[r.at+1 : end-1]
	r.at = end
	return b, escaped || !utf8.Valid(b)
}

// text reads a text, which is there when all is done. What to points to must not move until then.
func (r *reader) text(to *string) {
	b, escaped := r.textSpan()
	switch {
	case escaped:
		*to = r.unquoted(b)
	case r.n < len(r.owed):
		r.owed[r.n] = owed{to, b}
		r.n++
	default:
		*to = string(b)
	}
}

// word reads a text of its own, which is there at once. The words of this package need no memory.
func (r *reader) word() string {
	b, escaped := r.textSpan()
	if escaped {
		return r.unquoted(b)
	}
	return wordOf(b)
}

func wordOf(b []byte) string {
	switch string(b) {
	case string(Do):
		return string(Do)
	case string(Undo):
		return string(Undo)
	case string(ResultCompleted): // and StepDone
		return string(ResultCompleted)
	case string(ResultFailed): // and StepBroken
		return string(ResultFailed)
	case string(Pending):
		return string(Pending)
	case string(Processing):
		return string(Processing)
	case string(Processed):
		return string(Processed)
	case string(Undoing): // and StepUndoing
		return string(Undoing)
	case string(Undone): // and StepUndone
		return string(Undone)
	case string(Parked):
		return string(Parked)
	case string(StepRunning):
		return string(StepRunning)
	case string(StepWaiting):
		return string(StepWaiting)
	case string(StepSkippedOff):
		return string(StepSkippedOff)
	case string(EffectNone):
		return string(EffectNone)
	case string(EffectUnknown):
		return string(EffectUnknown)
	case TypeWork:
		return TypeWork
	case TypeReport:
		return TypeReport
	}
	return string(b)
}

// unquoted leaves escapes, and bytes that are no UTF-8, to encoding/json.
func (r *reader) unquoted(b []byte) (s string) {
	end := r.at
	if err := json.Unmarshal(r.b[end-len(b)-2:end], &s); err != nil {
		r.doubt()
	}
	return s
}

// number reads a whole number of up to 18 digits.
func (r *reader) number() int {
	i, negative := r.at, r.at < len(r.b) && r.b[r.at] == '-'
	if negative {
		i++
	}
	from, n := i, int64(0)
	for i < len(r.b) && isDigit(r.b[i]) && i-from < 18 {
		n = 10*n + int64(r.b[i]-'0')
		i++
	}
	if i == from || (r.b[from] == '0' && (i > from+1 || negative)) || int64(int(n)) != n {
		r.doubt()
		return 0
	}
	r.at = i // a point, an exponent or another digit behind it is no comma
	if negative {
		return -int(n)
	}
	return int(n)
}

func (r *reader) flag() bool {
	if r.literal(r.at, "true") > 0 {
		r.at += len("true")
		return true
	}
	if r.literal(r.at, "false") < 0 {
		r.doubt()
		return false
	}
	r.at += len("false")
	return false
}

func (r *reader) instant() Instant {
	b, escaped := r.textSpan()
	i, ok := parseWritten(b)
	if escaped || !ok {
		if !r.odd && !escaped && i.UnmarshalText(b) == nil {
			return i
		}
		r.doubt()
	}
	return i
}

func (r *reader) duration() (d Duration) {
	if b, escaped := r.textSpan(); escaped || d.UnmarshalText(b) != nil {
		r.doubt()
	}
	return d
}

func (r *reader) labels() map[string]string {
	labels := map[string]string{}
	for ok := r.begin('{'); ok; ok = r.more('{') {
		b := r.name()
		if !utf8.Valid(b) {
			r.doubt()
		}
		labels[string(b)] = r.word()
	}
	return labels
}

func (r *reader) texts() []string {
	list := []string{}
	for ok := r.begin('['); ok; ok = r.more('[') {
		list = append(list, r.word())
	}
	return list
}
