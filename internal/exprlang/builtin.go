package exprlang

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	"github.com/expr-lang/expr/builtin"
	"github.com/expr-lang/expr/vm/runtime"
)

// evaluationBudget bounds the work of all evaluations with one scope: those of one plan, or of one start of a step. A unit is an
// iteration of a loop, an element of a list or 16 bytes of text. An input of 512 KiB has at most 256 Ki elements, so an expression can pass over the largest input several times, and
// the largest evaluation ends within about a second.
const evaluationBudget = 1_000_000

var errBudget = errors.New("the expression does too much work: it and those evaluated before it for the same decision create or visit more than 1,000,000 values; leave such work to an agent")

// refusedBuiltins are the functions of expr whose result depends on more than their arguments, with the reason.
var refusedBuiltins = map[string]string{
	"now":      "an expression must give the same result in every replay; pass the time in the input",
	"date":     "its result would depend on the time zones of the machine; compare instants as RFC 3339 text in UTC",
	"timezone": "its result would depend on the time zones of the machine",
}

type function func(args []any) (any, error)

// budgeted returns our versions of the functions that create texts and lists, by name. Those of expr allocate before anything
// is counted, or expose the random order of maps. Ours also check that a number is exact.
func budgeted() map[string]function {
	own := map[string]function{
		"keys": sortedKeys, "values": sortedValues, "toPairs": sortedPairs,
		"toJSON": toJSON, "fromJSON": fromJSON, "string": toString,
		"repeat": repeat, "replace": replace, "join": join, "flatten": flatten,
		"sum": sum, "abs": absolute, "int": integer, "float": toFloat, "bitshl": shiftLeft,
		"mean": approximate("mean"), "median": approximate("median"), "round": rounded("round"), "floor": rounded("floor"), "ceil": rounded("ceil"),
	}
	for _, name := range []string{
		"upper", "lower", "trim", "split", "splitAfter", "toBase64", "fromBase64", "fromPairs", "concat", "reverse", "sort", "uniq",
	} {
		own[name] = original(name)
	}
	return own
}

// original returns expr's own function, for results that are not much larger than the arguments.
func original(name string) function {
	f := builtin.Builtins[builtin.Index[name]]
	if f.Fast != nil {
		return func(args []any) (any, error) { return f.Fast(args[0]), nil }
	}
	if f.Safe != nil {
		return func(args []any) (any, error) {
			v, _, err := f.Safe(args...)
			return v, err
		}
	}
	return func(args []any) (any, error) { return f.Func(args...) }
}

// Spend takes n units from the budget of the current evaluation. The error says that it is used up.
func (s *Scope) Spend(n int) error {
	s.left -= n
	if s.left < 0 {
		return errBudget
	}
	return nil
}

// weigh returns the cost of a new value in units.
func weigh(v any) int {
	switch v := v.(type) {
	case string:
		return 1 + len(v)/16
	case []any:
		return 1 + len(v)
	case nil, bool, int, float64:
		return 1
	}
	switch r := reflect.ValueOf(v); r.Kind() {
	case reflect.Slice, reflect.Map, reflect.Array:
		return 1 + r.Len()
	}
	return 1
}

// callFunction implements every call of a budgeted function. Its arguments are scope, function, arguments.
func callFunction(args ...any) (any, error) {
	s, f := args[0].(*Scope), args[1].(*boundFunction)
	// Comparing the elements of a list with each other costs the square of its length.
	if f.name == "uniq" {
		before := s.left
		if err := s.spendAll(args[2], 0); err != nil {
			return nil, err
		}
		if n := weigh(args[2]); s.Spend(n*(before-s.left)/100) != nil {
			return nil, errBudget
		}
	}
	v, err := f.call(args[2:])
	if err != nil {
		return nil, fmt.Errorf("%s: %w", f.name, err)
	}
	return v, s.Spend(weigh(v))
}

// boundFunction is a pointer in the program, because expr compares the constants of a program.
type boundFunction struct {
	name string
	call function
}

// tick counts an iteration of a loop. Its arguments are scope, the value of the loop's body, and the extra cost of a large body.
// A text may become the key of a group, which costs its length.
func tick(args ...any) (any, error) {
	text, _ := args[1].(string)
	units := 1 + len(text)/16
	if len(args) == 3 {
		units += args[2].(int)
	}
	return args[1], args[0].(*Scope).Spend(units)
}

// lookUp implements a path. Its arguments are scope and path.
func lookUp(args ...any) (any, error) {
	return args[0].(*Scope).lookUp(args[1].(*path))
}

// stringMap returns an object, whatever the type of its keys, and its keys as texts, sorted.
func stringMap(v any) (map[string]any, []string, error) {
	m, ok := v.(map[string]any)
	if !ok {
		r := reflect.ValueOf(v)
		if r.Kind() != reflect.Map {
			return nil, nil, errors.New("takes an object")
		}
		m = make(map[string]any, r.Len())
		for it := r.MapRange(); it.Next(); {
			k, err := text(it.Key().Interface())
			if err != nil {
				return nil, nil, err
			}
			if _, twice := m[k]; twice {
				return nil, nil, fmt.Errorf("two keys are both %q as text", k)
			}
			m[k] = it.Value().Interface()
		}
	}
	return m, slices.Sorted(maps.Keys(m)), nil
}

func sortedKeys(args []any) (any, error) {
	_, keys, err := stringMap(args[0])
	out := make([]any, len(keys))
	for i, k := range keys {
		out[i] = k
	}
	return out, err
}

func sortedValues(args []any) (any, error) {
	m, keys, err := stringMap(args[0])
	out := make([]any, len(keys))
	for i, k := range keys {
		out[i] = m[k]
	}
	return out, err
}

func sortedPairs(args []any) (any, error) {
	m, keys, err := stringMap(args[0])
	out := make([]any, len(keys))
	for i, k := range keys {
		out[i] = []any{k, m[k]}
	}
	return out, err
}

func toJSON(args []any) (any, error) {
	b, err := encode(args[0])
	return string(b), err
}

func fromJSON(args []any) (any, error) {
	s, ok := args[0].(string)
	if !ok {
		return nil, errors.New("takes a string")
	}
	return decode(json.RawMessage(s))
}

// toString differs from interpolation into a string in one respect: null becomes "null" and not the
// empty string.
func toString(args []any) (any, error) {
	if args[0] == nil {
		return "null", nil
	}
	return text(args[0])
}

func repeat(args []any) (any, error) {
	s, ok := args[0].(string)
	if !ok {
		return nil, errors.New("takes a string and a number")
	}
	n, err := whole(args[1])
	if err != nil {
		return nil, err
	}
	if n < 0 {
		return nil, errors.New("takes a number that is not negative")
	}
	if len(s) > 0 && n > MaxResultBytes/len(s) {
		return nil, errTooLarge
	}
	return strings.Repeat(s, n), nil
}

func replace(args []any) (any, error) {
	s, old, fresh := fmt.Sprint(args[0]), fmt.Sprint(args[1]), fmt.Sprint(args[2])
	n := -1
	if len(args) == 4 {
		n = runtime.ToInt(args[3])
	}
	if grown := len(s) + strings.Count(s, old)*len(fresh); grown > MaxResultBytes {
		return nil, errTooLarge
	}
	return strings.Replace(s, old, fresh, n), nil
}

func join(args []any) (any, error) {
	glue := ""
	if len(args) == 2 {
		s, ok := args[1].(string)
		if !ok {
			return nil, errors.New("takes a list of strings and a string")
		}
		glue = s
	}
	list := reflect.ValueOf(args[0])
	if list.Kind() != reflect.Slice {
		return nil, errors.New("takes a list of strings")
	}
	var b strings.Builder
	for i := range list.Len() {
		s, ok := list.Index(i).Interface().(string)
		if !ok {
			return nil, fmt.Errorf("element %d is not a string", i)
		}
		if b.Len()+len(s)+len(glue) > MaxResultBytes {
			return nil, errTooLarge
		}
		if i > 0 {
			b.WriteString(glue)
		}
		b.WriteString(s)
	}
	return b.String(), nil
}

func flatten(args []any) (any, error) {
	out, visited := []any{}, 0
	var walk func(v reflect.Value) error
	walk = func(v reflect.Value) error {
		for i := range v.Len() {
			if visited++; visited > evaluationBudget {
				return errBudget
			}
			e := reflect.ValueOf(v.Index(i).Interface())
			if e.Kind() == reflect.Slice || e.Kind() == reflect.Array {
				if err := walk(e); err != nil {
					return err
				}
				continue
			}
			out = append(out, v.Index(i).Interface())
		}
		return nil
	}
	list := reflect.ValueOf(args[0])
	if list.Kind() != reflect.Slice && list.Kind() != reflect.Array {
		return nil, errors.New("takes a list")
	}
	return out, walk(list)
}
