package jsontext

import (
	"encoding/json"
	"math"
	"unicode/utf8"
)

// Reader reads JSON of a known shape without reflection: exact names, each at most once, values of the expected types. It reads
// values as encoding/json does. If it is in doubt, it stops and Done returns false. The caller then uses encoding/json, which
// decides and produces the errors.
//
//	r := NewReader(b)
//	for ok := r.Begin('{'); ok; ok = r.More('{') {
//		switch string(r.Name()) {
//		case "id":
//			r.Text(&v.ID)
//		default:
//			r.Doubt()
//		}
//	}
//	if !r.Done() { ... }
type Reader struct {
	scanner
	// Raws says how raw values are kept.
	Raws Raws

	at  int
	odd bool
	// texts and raws are filled in together, with one allocation for all texts and one for all raw values.
	texts     [16]owedText
	raws      [16]*json.RawMessage
	textsOwed int
	rawsOwed  int
}

// Raws says how a Reader keeps the raw values that it reads.
type Raws byte

// Raw values are copied together by Done, stay slices of the text that is read, or are copied one by one without white space.
const (
	CopyRaws    Raws = 0
	ShareRaws   Raws = 1
	CompactRaws Raws = 2
)

type owedText struct {
	to   *string
	span []byte
}

// Few is the initial capacity for the items of a list that is read and for the keys of a map that is written. Most have fewer.
const Few = 8

// NewReader returns a reader of b.
func NewReader(b []byte) Reader { return Reader{scanner: scanner{b: b}} }

// Done says whether everything was read without doubt. Only then are the texts and raw values set.
func (r *Reader) Done() bool {
	if r.odd || r.space(r.at) != len(r.b) {
		return false
	}
	r.Settle()
	return true
}

// Settle sets the texts and raw values that were read. After it, the variables that hold them may move.
func (r *Reader) Settle() {
	r.settleTexts()
	r.settleRaws()
}

func (r *Reader) settleTexts() {
	var room [256]byte
	b := room[:0]
	for i := range r.textsOwed {
		b = append(b, r.texts[i].span...)
	}
	all := string(b)
	for _, x := range r.texts[:r.textsOwed] {
		*x.to, all = all[:len(x.span)], all[len(x.span):]
	}
	r.textsOwed = 0
}

func (r *Reader) settleRaws() {
	if r.rawsOwed == 0 {
		return
	}
	size := 0
	for _, to := range r.raws[:r.rawsOwed] {
		size += len(*to)
	}
	all := make([]byte, 0, size)
	for _, to := range r.raws[:r.rawsOwed] {
		from := len(all)
		all = append(all, *to...)
		*to = all[from:len(all):len(all)]
	}
	r.rawsOwed = 0
}

// Doubt leaves the text to encoding/json.
func (r *Reader) Doubt() { r.at, r.odd = len(r.b), true }

// Begin enters an object or an array, and says whether it has a member.
func (r *Reader) Begin(open byte) bool {
	r.at = r.space(r.at)
	if r.at >= len(r.b) || r.b[r.at] != open {
		r.Doubt()
		return false
	}
	r.at = r.space(r.at + 1)
	if r.at < len(r.b) && r.b[r.at] == open+2 {
		r.at++
		return false
	}
	return !r.odd
}

// More goes to the next member, and says whether there is one.
func (r *Reader) More(open byte) bool {
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
	r.Doubt()
	return false
}

// Name reads the name of a member, without escapes, up to its value.
func (r *Reader) Name() []byte {
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
	r.Doubt()
	return nil
}

// Once stops the Reader in doubt at a member that occurs twice, because encoding/json has rules for that. member is the
// member's bit.
func (r *Reader) Once(seen *uint64, member uint64) {
	if *seen&member != 0 {
		r.Doubt()
	}
	*seen |= member
}

// span reads a value of any kind and returns its bytes, a slice of the text.
func (r *Reader) span() []byte {
	end := r.value(r.at, MaxDepth)
	if end < 0 {
		r.Doubt()
		return nil
	}
	b := r.b[r.at:end:end]
	r.at = end
	return b
}

// Raw reads a value of any kind into *to, which must not move before Done or Settle.
func (r *Reader) Raw(to *json.RawMessage) {
	switch r.Raws {
	case CopyRaws:
		if r.rawsOwed == len(r.raws) {
			r.settleRaws()
		}
		*to = r.span()
		r.raws[r.rawsOwed] = to
		r.rawsOwed++
	case ShareRaws:
		*to = r.span()
	case CompactRaws:
		r.spaced = false
		b := r.span()
		value := scanner{b: b, spaced: r.spaced}
		*to = value.appendCompact(make([]byte, 0, len(b)))
	}
}

// TextSpan reads a text and returns the bytes between its quotes. escaped says that they contain escapes and are not the string
// itself.
func (r *Reader) TextSpan() (b []byte, escaped bool) {
	if r.at >= len(r.b) || r.b[r.at] != '"' {
		r.Doubt()
		return nil, false
	}
	before := r.escaped
	r.escaped = false
	end := r.scanner.text(r.at)
	escaped, r.escaped = r.escaped, r.escaped || before
	if end < 0 {
		r.Doubt()
		return nil, false
	}
	b = r.b[r.at+1 : end-1]
	r.at = end
	return b, escaped || !utf8.Valid(b)
}

// Text reads a text into *to, which is set by Done or Settle and must not move before.
func (r *Reader) Text(to *string) {
	b, escaped := r.TextSpan()
	if escaped {
		*to = r.Unquoted(b)
		return
	}
	if r.textsOwed == len(r.texts) {
		r.settleTexts()
	}
	r.texts[r.textsOwed] = owedText{to, b}
	r.textsOwed++
}

// String reads and returns a text.
func (r *Reader) String() string {
	b, escaped := r.TextSpan()
	if escaped {
		return r.Unquoted(b)
	}
	return string(b)
}

// Key reads the name of a member of a map.
func (r *Reader) Key() string {
	b := r.Name()
	if !utf8.Valid(b) {
		r.Doubt()
	}
	return string(b)
}

// Unquoted returns the text whose bytes b TextSpan just returned. It leaves escapes, and bytes that are not UTF-8, to
// encoding/json.
func (r *Reader) Unquoted(b []byte) (s string) {
	end := r.at
	if err := json.Unmarshal(r.b[end-len(b)-2:end], &s); err != nil {
		r.Doubt()
	}
	return s
}

// Int64 reads a whole number of up to 18 digits.
func (r *Reader) Int64() int64 {
	i, negative := r.at, r.at < len(r.b) && r.b[r.at] == '-'
	if negative {
		i++
	}
	from, n := i, int64(0)
	for i < len(r.b) && isDigit(r.b[i]) && i-from < 18 {
		n = 10*n + int64(r.b[i]-'0')
		i++
	}
	if i == from || (r.b[from] == '0' && (i > from+1 || negative)) {
		r.Doubt()
		return 0
	}
	r.at = i // after it, a point, an exponent or another digit is not a comma
	if negative {
		return -n
	}
	return n
}

// Int reads a whole number.
func (r *Reader) Int() int {
	n := r.Int64()
	if int64(int(n)) != n {
		r.Doubt()
	}
	return int(n)
}

// Int32 reads a whole number that an int32 can hold.
func (r *Reader) Int32() int32 { return int32(r.between(math.MinInt32, math.MaxInt32)) }

// Uint64 reads a whole number that is not negative.
func (r *Reader) Uint64() uint64 { return uint64(r.between(0, math.MaxInt64)) }

func (r *Reader) between(least, most int64) int64 {
	n := r.Int64()
	if n < least || n > most {
		r.Doubt()
	}
	return n
}

// Bool reads true or false.
func (r *Reader) Bool() bool {
	if r.literal(r.at, "true") > 0 {
		r.at += len("true")
		return true
	}
	if r.literal(r.at, "false") < 0 {
		r.Doubt()
		return false
	}
	r.at += len("false")
	return false
}
