package exprlang

import (
	"errors"
	"fmt"
	"math"
	"reflect"

	"github.com/expr-lang/expr/ast"
	"github.com/expr-lang/expr/vm/runtime"
)

// errOverflow is returned because an integer that wraps around is a wrong amount that nobody notices.
var errOverflow = errors.New("the integer result does not fit into 64 bits")

// arithmetic replaces an operator whose result may not fit.
func arithmetic(node *ast.Node, operator string, operands ...ast.Node) {
	nature := *(*node).Nature()
	c := call(map[string]string{"+": hiddenAdd, "-": hiddenSubtract, "*": hiddenMultiply}[operator], operands...)
	ast.Patch(node, c)
	c.SetNature(nature)
}

// sumUp lets our own sum add the values of a loop, since that of expr wraps around.
func sumUp(n *ast.BuiltinNode) {
	if n.Name == "sum" && len(n.Arguments) == 2 {
		n.Arguments = []ast.Node{&ast.BuiltinNode{Name: "map", Arguments: n.Arguments}}
	}
}

func addChecked(a, b any) (any, error) {
	x, okX := a.(int)
	y, okY := b.(int)
	if !okX || !okY {
		return runtime.Add(a, b), nil
	}
	if z := x + y; (z > x) == (y > 0) {
		return z, nil
	}
	return nil, fmt.Errorf("%d + %d: %w", x, y, errOverflow)
}

// subtract implements - with one operand or two. Its arguments are scope and operands.
func subtract(args ...any) (any, error) {
	if len(args) == 2 {
		if x, ok := args[1].(int); ok && x == math.MinInt {
			return nil, fmt.Errorf("-(%d): %w", x, errOverflow)
		}
		return runtime.Negate(args[1]), nil
	}
	x, okX := args[1].(int)
	y, okY := args[2].(int)
	if !okX || !okY {
		return runtime.Subtract(args[1], args[2]), nil
	}
	if z := x - y; (z < x) == (y > 0) {
		return z, nil
	}
	return nil, fmt.Errorf("%d - %d: %w", x, y, errOverflow)
}

// multiply implements *. Its arguments are scope, left, right.
func multiply(args ...any) (any, error) {
	x, okX := args[1].(int)
	y, okY := args[2].(int)
	if !okX || !okY {
		return runtime.Multiply(args[1], args[2]), nil
	}
	z := x * y
	// The smallest integer divided by -1 is itself, so the division alone does not notice it.
	if x != 0 && (z/x != y || x == -1 && y == math.MinInt) {
		return nil, fmt.Errorf("%d * %d: %w", x, y, errOverflow)
	}
	return z, nil
}

func sum(args []any) (total any, err error) {
	list := reflect.ValueOf(args[0])
	if list.Kind() != reflect.Slice && list.Kind() != reflect.Array {
		return nil, errors.New("takes a list")
	}
	total = 0
	for i := range list.Len() {
		if total, err = addChecked(total, list.Index(i).Interface()); err != nil {
			return nil, err
		}
	}
	return total, nil
}

func absolute(args []any) (any, error) {
	if x, ok := args[0].(int); ok && x == math.MinInt {
		return nil, errOverflow
	}
	return original("abs")(args)
}

func integer(args []any) (any, error) {
	if f, ok := args[0].(float64); ok && (math.IsNaN(f) || f < math.MinInt64 || f >= -math.MinInt64) {
		return nil, errOverflow
	}
	return original("int")(args)
}
