package scheduler

import (
	"bytes"
	"unicode/utf8"

	"github.com/sagalog/sagalog/internal/rawjson"
)

// quickSchema accepts what most inputs are, by what most schemas say, on the bytes of the input: types, required and
// known members, texts of a list, bounds. It only ever says that an input is valid. Where it is not sure, and where the
// input is not valid, the library decides, with its own words; so the library is its oracle.
//
// It counts the visits that the library would make, and leaves to the library what comes near the budget: an input that
// the library would refuse for taking too long is never accepted here.
type quickSchema struct {
	// weight is what a visit takes of the budget.
	weight int
	// all are the schemas that the value must meet too: $ref and allOf.
	all   []*quickSchema
	types typeSet
	// listed says that the value must be one of texts, or something that the library knows.
	listed bool
	texts  [][]byte

	members []quickMember
	// required has a bit for each member that must be there.
	required uint64
	// closed says that there may be no other members, and others what these must be; nil is anything.
	closed bool
	others *quickSchema

	items              *quickSchema
	elements, length   limits
	minimum, maximum   *quickBound
	aboveMin, belowMax *quickBound
}

type quickMember struct {
	name   string
	schema *quickSchema // nil is anything
}

// limits of a count, both inclusive; most is negative if there is none.
type limits struct{ least, most int }

func (l limits) allow(n int) bool { return n >= l.least && (l.most < 0 || n <= l.most) }

func (l limits) given() bool { return l.least > 0 || l.most >= 0 }

// typeSet is a set of JSON types; empty, all are allowed.
type typeSet byte

const (
	typeNull typeSet = 1 << iota
	typeBoolean
	typeObject
	typeArray
	typeString
	typeNumber
	typeInteger
)

func (t typeSet) has(one typeSet) bool { return t == 0 || t&one != 0 }

// quickShare is the part of the budget that may be spent here: the library counts the same, and this leaves it a margin.
const quickShare = 2

// accepts says whether it is sure that an input is valid.
func (q *quickSchema) accepts(input []byte) bool {
	if q == nil {
		return false
	}
	v := quickVisit{b: input, left: (inputBudget + visitsPerByte*len(input)) / quickShare}
	end := q.accept(&v, rawjson.Space(input, 0))
	return end >= 0 && rawjson.Space(input, end) == len(input)
}

// quickVisit is one input on its way.
type quickVisit struct {
	b    []byte
	left int
}

const notSure = -1

// accept returns the place behind the value at b[at] if it is sure that it is valid, and a negative one otherwise.
func (q *quickSchema) accept(v *quickVisit, at int) int {
	if v.left -= q.weight; v.left < 0 || at >= len(v.b) {
		return notSure
	}
	for _, other := range q.all {
		if other.accept(v, at) < 0 {
			return notSure
		}
	}
	switch c := v.b[at]; {
	case c == '"':
		return q.text(v, at)
	case q.listed:
		return notSure
	case c == '{' && q.types.has(typeObject):
		return q.object(v, at)
	case c == '[' && q.types.has(typeArray):
		return q.list(v, at)
	case c == 'n' && q.types.has(typeNull), (c == 't' || c == 'f') && q.types.has(typeBoolean):
		return rawjson.Skip(v.b, at)
	case c == '-' || c >= '0' && c <= '9':
		return q.number(v, at)
	}
	return notSure
}

func (q *quickSchema) text(v *quickVisit, at int) int {
	end, plain := rawjson.Text(v.b, at)
	if end < 0 || !q.types.has(typeString) {
		return notSure
	}
	text := v.b[at+1 : end-1]
	if q.listed && !(plain && q.lists(text)) {
		return notSure
	}
	if !q.length.given() {
		return end
	}
	n := len(text)
	if !plain {
		if bytes.IndexByte(text, '\\') >= 0 || !utf8.Valid(text) {
			return notSure
		}
		n = utf8.RuneCount(text)
	}
	if !q.length.allow(n) {
		return notSure
	}
	return end
}

func (q *quickSchema) lists(text []byte) bool {
	for _, t := range q.texts {
		if bytes.Equal(t, text) {
			return true
		}
	}
	return false
}

func (q *quickSchema) object(v *quickVisit, at int) int {
	var seen uint64
	w := rawjson.Begin(v.b, at)
	for w.Next() {
		if !w.Plain {
			return notSure // it may be a known name, written otherwise
		}
		schema, bit := q.member(w.Name)
		switch {
		case seen&bit != 0: // of two members of one name the last counts
			return notSure
		case bit == 0 && q.closed:
			return notSure
		case bit == 0:
			schema = q.others
		}
		seen |= bit
		if schema == nil {
			w.To(rawjson.Skip(v.b, w.At))
		} else {
			w.To(schema.accept(v, w.At))
		}
	}
	if seen&q.required != q.required {
		return notSure
	}
	return w.End()
}

// member returns the schema of a known member and its bit; the bit of an unknown one is 0.
func (q *quickSchema) member(name []byte) (*quickSchema, uint64) {
	for i := range q.members {
		if q.members[i].name == string(name) {
			return q.members[i].schema, 1 << i
		}
	}
	return nil, 0
}

func (q *quickSchema) list(v *quickVisit, at int) int {
	n := 0
	w := rawjson.Begin(v.b, at)
	for w.Next() {
		n++
		if q.items == nil {
			w.To(rawjson.Skip(v.b, w.At))
		} else {
			w.To(q.items.accept(v, w.At))
		}
	}
	if !q.elements.allow(n) {
		return notSure
	}
	return w.End()
}

func (q *quickSchema) number(v *quickVisit, at int) int {
	end := rawjson.Number(v.b, at)
	if end < 0 {
		return notSure
	}
	n := numberOf(v.b[at:end])
	switch {
	case !q.types.has(typeNumber) && !(q.types.has(typeInteger) && n.whole):
		return notSure
	case !n.least(q.minimum) || !n.most(q.maximum) || !n.above(q.aboveMin) || !n.below(q.belowMax):
		return notSure
	}
	return end
}
