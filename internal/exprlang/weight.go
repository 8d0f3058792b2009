package exprlang

import (
	"fmt"
	"reflect"
	"slices"

	"github.com/expr-lang/expr/ast"
)

// maxDepth bounds the nesting of a value, as encoding/json does: walking a value recurses, and a stack overflow ends the
// process.
const maxDepth = 10_000

var errDepth = fmt.Errorf("a value nests deeper than %d levels", maxDepth)

// spendAll spends the cost of traversing a whole value. An operator that compares or a function that sums is one call, but takes
// time in proportion to its operands. It stops when the budget is used up, since lists that contain one list several times can
// be larger than memory.
func (s *Scope) spendAll(v any, depth int) error {
	if depth > maxDepth {
		return errDepth
	}
	switch v := v.(type) {
	case nil, bool, int, float64:
		return s.Spend(1)
	case string:
		return s.Spend(1 + len(v)/16)
	case []any:
		for _, e := range v {
			if err := s.spendAll(e, depth+1); err != nil {
				return err
			}
		}
		return s.Spend(1)
	case map[string]any:
		for k, e := range v {
			if err := s.spendAll(e, depth+1); err != nil {
				return err
			}
			if err := s.Spend(len(k) / 16); err != nil {
				return err
			}
		}
		return s.Spend(1)
	}
	return s.spendOther(reflect.ValueOf(v), depth)
}

// spendOther is spendAll for the other types that functions of expr return: typed lists, and maps with other keys.
func (s *Scope) spendOther(v reflect.Value, depth int) error {
	switch v.Kind() {
	case reflect.Slice, reflect.Array:
		if k := v.Type().Elem().Kind(); k >= reflect.Bool && k <= reflect.Float64 {
			return s.Spend(1 + v.Len())
		}
		for i := range v.Len() {
			if err := s.spendAll(v.Index(i).Interface(), depth+1); err != nil {
				return err
			}
		}
	case reflect.Map:
		for it := v.MapRange(); it.Next(); {
			if err := s.spendAll(it.Key().Interface(), depth+1); err != nil {
				return err
			}
			if err := s.spendAll(it.Value().Interface(), depth+1); err != nil {
				return err
			}
		}
	}
	return s.Spend(1)
}

// weighed wraps an operand that an operator or a function traverses. Its arguments are scope and value.
func weighed(args ...any) (any, error) { return args[1], args[0].(*Scope).spendAll(args[1], 0) }

// looked wraps the right side of "in": an object is asked for one key, but a list is traversed.
func looked(args ...any) (any, error) {
	if _, object := args[1].(map[string]any); object {
		return args[1], args[0].(*Scope).Spend(1)
	}
	return weighed(args...)
}

// measured wraps the argument of len: the runes of a text must be counted, but lists and objects know their
// length.
func measured(args ...any) (any, error) {
	if _, text := args[1].(string); text {
		return weighed(args...)
	}
	return args[1], args[0].(*Scope).Spend(1)
}

// comparing are the operators that traverse both operands.
var comparing = []string{"==", "!=", "<", "<=", ">", ">=", "contains", "startsWith", "endsWith", "in"}

// constant are the functions of expr that take constant time.
var constant = []string{"type", "first", "last", "get", "take", "abs", "ceil", "floor", "round"}

// weigh wraps the operands of an operator that can be large. A comparison with a literal ends with the literal.
func (w *rewriter) weigh(n *ast.BinaryNode) {
	if !slices.Contains(comparing, n.Operator) {
		return
	}
	search := n.Operator == "in" || n.Operator == "contains"
	if !search && (literal(n.Left) || literal(n.Right)) {
		return
	}
	right := hiddenWeigh
	if n.Operator == "in" {
		right = hiddenLook
	}
	n.Left, n.Right = weighedNode(hiddenWeigh, n.Left), weighedNode(right, n.Right)
}

func weighedNode(by string, n ast.Node) ast.Node {
	if literal(n) {
		return n
	}
	c := call(by, n)
	c.SetLocation(n.Location())
	return c
}

// literal reports whether a value is as small as its source.
func literal(n ast.Node) bool {
	switch n := n.(type) {
	case *ast.NilNode, *ast.IntegerNode, *ast.FloatNode, *ast.BoolNode, *ast.StringNode:
		return true
	case *ast.ArrayNode:
		return !slices.ContainsFunc(n.Nodes, func(e ast.Node) bool { return !literal(e) })
	}
	return false
}

// weighArguments wraps the arguments of a function of expr that traverses them. Functions with a loop count its iterations
// instead.
func weighArguments(n *ast.BuiltinNode) {
	loops := func(a ast.Node) bool { _, loop := a.(*ast.PredicateNode); return loop }
	if slices.Contains(constant, n.Name) || slices.ContainsFunc(n.Arguments, loops) {
		return
	}
	by := hiddenWeigh
	if n.Name == "len" {
		by = hiddenMeasure
	}
	for i, a := range n.Arguments {
		n.Arguments[i] = weighedNode(by, a)
	}
}
