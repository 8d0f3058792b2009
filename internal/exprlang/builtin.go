package exprlang

import (
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"sort"
	"strings"

	"github.com/expr-lang/expr/builtin"
	"github.com/expr-lang/expr/vm/runtime"
)

// evaluationBudget bounds what one evaluation may make and do: a unit is an iteration of a loop, an element of a
// list or 16 bytes of text. An input of 512 KiB has at most 256 Ki elements, so several passes over the largest one
// are possible, and the largest evaluation ends within about a second.
const evaluationBudget = 1_000_000

var errBudget = errors.New("the expression makes or visits too much")

// refusedBuiltins are the functions of expr whose result depends on more than their arguments, and why.
var refusedBuiltins = map[string]string{
	"now":      "an expression must give the same result in every replay; pass the time in the input",
	"date":     "its result would depend on the time zones of the machine; compare instants as RFC 3339 text in UTC",
	"timezone": "its result would depend on the time zones of the machine",
}

type function func(args []any) (any, error)

// budgeted returns the functions that make texts and lists, under their names. They replace those of expr, because
// those allocate before anything is counted, or show the random order of maps.
func budgeted() map[string]function {
	own := map[string]function{
		"keys": sortedKeys, "values": sortedValues, "toPairs": sortedPairs,
		"toJSON": toJSON, "fromJSON": fromJSON, "string": toString,
		"repeat": repeat, "replace": replace, "join": join, "flatten": flatten,
	}
	for _, name := range []string{
		"upper", "lower", "trim", "split", "splitAfter", "toBase64", "fromBase64", "fromPairs", "concat", "reverse", "sort",
	} {
		own[name] = original(name)
	}
	own["uniq"] = unique
	return own
}

// original returns a function of expr whose result is not much larger than its arguments.
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

// spend takes n units from the budget of the running evaluation.
func (s *Scope) spend(n int) error {
	s.left -= n
	if s.left < 0 {
		return errBudget
	}
	return nil
}

// weigh returns the units that a fresh value costs.
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

// callFunction is what every call of a budgeted function becomes: scope, function, arguments.
func callFunction(args ...any) (any, error) {
	s, f := args[0].(*Scope), args[1].(*boundFunction)
	// A list whose elements are compared with each other costs its square.
	if f.name == "uniq" {
		before := s.left
		if err := s.spendAll(args[2], 0); err != nil {
			return nil, err
		}
		if n := weigh(args[2]); s.spend(n*(before-s.left)/100) != nil {
			return nil, errBudget
		}
	}
	v, err := f.call(args[2:])
	if err != nil {
		return nil, fmt.Errorf("%s: %w", f.name, err)
	}
	return v, s.spend(weigh(v))
}

// boundFunction is a pointer in the program, because expr compares the constants of a program.
type boundFunction struct {
	name string
	call function
}

// tick counts an iteration of a loop: scope, what the loop's body gave.
// A text may become the key of a group, which takes as long as it is.
func tick(args ...any) (any, error) {
	text, _ := args[1].(string)
	return args[1], args[0].(*Scope).spend(1 + len(text)/16)
}

// add is what + becomes where it may join texts: scope, left, right. Ten doublings in a row would otherwise make a
// kilobyte of one byte, and forty a terabyte.
func add(args ...any) (any, error) {
	a, okA := args[1].(string)
	b, okB := args[2].(string)
	if okA && okB {
		if len(a)+len(b) > MaxResultBytes {
			return nil, errTooLarge
		}
		return a + b, args[0].(*Scope).spend(1 + (len(a)+len(b))/16)
	}
	return runtime.Add(args[1], args[2]), nil
}

// lookUp is what a path becomes: scope, path.
func lookUp(args ...any) (any, error) {
	s := args[0].(*Scope)
	n, err := s.find(args[1].(*path))
	if err != nil || n == nil {
		return nil, err
	}
	return n.get(s)
}

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
	keys := make([]string, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	sort.Strings(keys)
	return m, keys, nil
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

// toString differs from the text inside a string in one thing: null is "null", not nothing.
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
	n := runtime.ToInt(args[1])
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

func unique(args []any) (any, error) { return original("uniq")(args) }
