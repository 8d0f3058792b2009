package scheduler

import (
	"maps"
	"slices"
	"sync"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/sagalog/sagalog/internal/exprlang"
)

// The budget of one validation. A unit is one visit of a value by a schema, some microseconds.
const (
	// inputBudget is the allowance of an input of a few bytes: enough for schemas of a hundred levels, and less than a second.
	inputBudget = 20_000
	// visitsPerByte lets four schemas visit each value of a large input, because a value takes at least two
	// bytes.
	visitsPerByte = 2
	// comparedPerVisit is how many texts of a list (enum, required) are compared in the time of a visit. unitsPerVisit is how many
	// units of exprlang's budget a match spends in that time.
	comparedPerVisit, unitsPerVisit = 128, 16
)

// tooLong is the panic of a validation whose budget is spent. The library offers no other way out.
const tooLong = "it takes too long: the schema visits its values too often"

// visits is the rest of a validation's budget. It belongs to one compiled schema, which validates one input at a time.
type visits struct{ left int }

func (v *visits) spend(n int) {
	if v.left -= n; v.left < 0 {
		panic(tooLong)
	}
}

// visit stands in each schema, after its other keywords.
type visit struct {
	budget *visits
	weight int
}

// Validate implements jsonschema.SchemaExt.
func (v visit) Validate(*jsonschema.ValidatorContext, any) { v.budget.spend(v.weight) }

// vocabulary counts visits. It adds no keyword.
func (v *visits) vocabulary() *jsonschema.Vocabulary {
	return &jsonschema.Vocabulary{
		URL: schemaBase + "visits",
		Compile: func(_ *jsonschema.CompilerContext, obj map[string]any) (jsonschema.SchemaExt, error) {
			return visit{v, visitWeight(obj)}, nil
		},
	}
}

// visitWeight is the cost of a visit by a schema.
func visitWeight(schema map[string]any) int {
	weight := 1
	for _, list := range []string{"enum", "required"} {
		if all, ok := schema[list].([]any); ok {
			weight += comparisons(all) / comparedPerVisit
		}
	}
	return weight
}

// comparisons is the cost of comparing a value with each value of a list. Numbers are compared as fractions, and lists and objects
// as a whole, which takes at least ten times as long.
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

// boundedSchema is a compiled schema with its budget.
type boundedSchema struct {
	*jsonschema.Schema
	budget *visits
}

// inputSchema validates many inputs at the same time. Each validation has a compiled schema to itself.
type inputSchema struct {
	source any
	// mu guards idle. It never holds more than the greatest number of validations at once.
	mu   sync.Mutex
	idle []*boundedSchema
}

func newInputSchema(source any) (*inputSchema, error) {
	b, err := compileSchema(source)
	if err != nil {
		return nil, err
	}
	return &inputSchema{source: source, idle: []*boundedSchema{b}}, nil
}

// validate returns the same errors as jsonschema.Schema. size is the size of the input's text. It
// panics with tooLong when the budget is spent.
func (s *inputSchema) validate(v any, size int) error {
	b, err := s.take()
	if err != nil {
		return err
	}
	defer s.give(b)
	b.budget.left = inputBudget + visitsPerByte*size
	return b.Validate(v)
}

func (s *inputSchema) take() (*boundedSchema, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if n := len(s.idle); n > 0 {
		b := s.idle[n-1]
		s.idle = s.idle[:n-1]
		return b, nil
	}
	return compileSchema(s.source)
}

func (s *inputSchema) give(b *boundedSchema) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.idle = append(s.idle, b)
}
