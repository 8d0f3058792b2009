package scheduler

import (
	"maps"
	"slices"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/sagalog/sagalog/internal/exprlang"
)

// The budget of one validation. A unit is one visit of a value by a schema, which takes a few microseconds.
const (
	// inputBudget is the allowance of an input of a few bytes: enough for schemas of a hundred levels, and less than a second.
	inputBudget = 20_000
	// visitsPerByte lets four schemas visit each value of a large input, because a value takes at least two
	// bytes.
	visitsPerByte = 2
	// comparedPerVisit is how many texts of an enum are compared in the time of a visit. unitsPerVisit is how many units of exprlang's
	// budget a match spends in that time.
	comparedPerVisit, unitsPerVisit = 128, 16
	// namesPerVisit is how many names are looked up in that time, such as those of required. A missing one is copied into the error.
	namesPerVisit = 16
	// membersPerVisit is how many members or elements of a value are gone through in that time, and bytesPerVisit how many bytes
	// of a text.
	membersPerVisit, bytesPerVisit = 16, 256
	// chainPerVisit is how many schemas that visit one value inside each other are searched for a cycle in that time.
	chainPerVisit = 32
	// maxNested is how many schemas visit values inside each other. Each takes a few kilobytes of the stack, and a stack overflow
	// ends the process. An input has 100 levels.
	maxNested = 5_000
)

// The panics of a validation that has spent its budget. The library offers no other way out.
const (
	tooLong = "it takes too long: the schema visits its values too often"
	tooDeep = "the schema refers to its parts through too many levels"
)

// visits is the rest of a validation's budget. It belongs to one compiled schema, which validates one input at a time.
type visits struct {
	left int
	// now is the visit that is under way.
	now visit
	// kept is how many errors the visits that are under way hold.
	kept int
}

// visit is the place of one visit among those that are under way.
type visit struct {
	// nested is how many schemas visit values around it. level is the depth of its value, and chain is how many schemas around it visit
	// the same value.
	nested, level, chain int
}

func (v *visits) spend(n int) {
	if v.left -= n; v.left < 0 {
		panic(tooLong)
	}
}

// enter starts a visit inside the current one, which it returns.
func (v *visits) enter(level int) (outer visit) {
	outer = v.now
	v.now.nested++
	if v.now.level == level {
		v.now.chain++
	} else {
		v.now.level, v.now.chain = level, 0
	}
	if v.now.nested > maxNested {
		panic(tooDeep)
	}
	v.spend(v.now.chain / chainPerVisit)
	return outer
}

// fixedCost is the cost of a visit by a schema, whatever the value.
func fixedCost(s *jsonschema.Schema) int {
	names := len(s.Required) + len(s.DependentSchemas) + len(s.DependentRequired) + len(s.Dependencies)
	for _, list := range s.DependentRequired {
		names += len(list)
	}
	for _, d := range s.Dependencies {
		list, _ := d.([]string)
		names += len(list)
	}
	compared := 0
	if s.Enum != nil {
		compared += comparisons(s.Enum.Values)
	}
	if s.Const != nil {
		compared += comparisons([]any{*s.Const})
	}
	return 1 + names/namesPerVisit + compared/comparedPerVisit
}

// costOf returns what the value adds to the cost of a visit.
func costOf(v any, unique bool) int {
	switch v := v.(type) {
	case string:
		return len(v) / bytesPerVisit
	case map[string]any:
		return len(v) / membersPerVisit
	case []any:
		if !unique {
			return len(v) / membersPerVisit
		}
		// The elements of a short list are compared with each other, and those of a longer one are hashed.
		return weightOf(v) * max(1, min(len(v), 20)) / membersPerVisit
	}
	return 0
}

// weightOf returns the number of values in a value, plus the number of pieces of its texts.
func weightOf(v any) (n int) {
	switch v := v.(type) {
	case string:
		return 1 + len(v)/bytesPerVisit
	case map[string]any:
		for _, e := range v {
			n += weightOf(e)
		}
	case []any:
		for _, e := range v {
			n += weightOf(e)
		}
	}
	return n + 1
}

// comparisons returns the cost of comparing a value with each value of a list. Numbers are compared as fractions, and lists and
// objects as a whole, which takes at least ten times as long.
func comparisons(list []any) (n int) {
	for _, v := range list {
		switch v := v.(type) {
		case nil, bool:
			n++
		case string:
			n += 1 + len(v)/comparedPerVisit
		case []any:
			n += comparedPerVisit/16 + comparisons(v)
		case map[string]any:
			n += comparedPerVisit/16 + comparisons(slices.Collect(maps.Values(v)))
		default:
			n += comparedPerVisit / 8
		}
	}
	return n
}

// patterns compiles regular expressions within the same bounds as in expressions.
func (v *visits) patterns(source string) (jsonschema.Regexp, error) {
	p, err := exprlang.CompilePattern(source)
	if err != nil {
		return nil, err
	}
	return matcher{p, v}, nil
}

type matcher struct {
	*exprlang.Pattern
	budget *visits
}

// MatchString implements jsonschema.Regexp.
func (m matcher) MatchString(s string) bool {
	m.budget.spend(1 + m.Cost(s)/unitsPerVisit)
	return m.Pattern.MatchString(s)
}
