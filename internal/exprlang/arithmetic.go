package exprlang

import (
	"errors"
	"fmt"
	"math"
	"reflect"
	"time"

	"github.com/expr-lang/expr/ast"
	"github.com/expr-lang/expr/vm/runtime"
)

var (
	// errOverflow is returned because an integer that wraps around would be a wrong amount that nobody notices.
	errOverflow = errors.New("the integer result does not fit into 64 bits")
	errZero     = errors.New("division by zero")
	errInfinite = errors.New("the result is not a finite number")
	errDuration = errors.New("durations can be added and subtracted, and multiplied by an integer")
)

// operators are the operators whose result may not fit or may not be exact.
var operators = []string{"+", "-", "*", "/", "%", "**", "^"}

// operationUnits is what an operation costs in addition to the loop around it. An operation on decimals takes up to a
// microsecond, a power up to four.
func operationUnits(op string, a, b any) int {
	_, okA := a.(int)
	_, okB := b.(int)
	switch {
	case op == "**" || op == "^":
		return 8
	case okA && okB:
		return 0
	}
	return 2
}

// arithmetic replaces an operator with our version of it.
func arithmetic(node *ast.Node, operator string, operands ...ast.Node) {
	nature := *(*node).Nature()
	c := call(hidden+operator, operands...)
	ast.Patch(node, c)
	c.SetNature(nature)
}

// sumUp makes our own sum add the values of a loop, since that of expr wraps around.
func sumUp(n *ast.BuiltinNode) {
	if n.Name == "sum" && len(n.Arguments) == 2 {
		n.Arguments = []ast.Node{&ast.BuiltinNode{Name: "map", Arguments: n.Arguments}}
	}
}

// operator returns the implementation of an operator. Its arguments are scope and operands.
func operator(op string) func(...any) (any, error) {
	return func(args ...any) (any, error) {
		if len(args) == 2 {
			return negate(args[1])
		}
		s := args[0].(*Scope)
		x, okX := args[1].(string)
		y, okY := args[2].(string)
		if okX && okY && op == "+" {
			return s.concatenate(x, y)
		}
		if err := s.Spend(operationUnits(op, args[1], args[2])); err != nil {
			return nil, err
		}
		return calculate(op, args[1], args[2])
	}
}

// concatenate joins two texts. Without a budget, ten doublings in a row would turn a byte into a kilobyte, and forty into a
// terabyte.
func (s *Scope) concatenate(a, b string) (any, error) {
	if len(a)+len(b) > MaxResultBytes {
		return nil, errTooLarge
	}
	return a + b, s.Spend(1 + (len(a)+len(b))/16)
}

func negate(v any) (any, error) {
	if x, ok := v.(int); ok && x == math.MinInt {
		return nil, fmt.Errorf("-(%d): %w", x, errOverflow)
	}
	return runtime.Negate(v), nil
}

// calculate applies an operator to two numbers. Its error names the operation.
func calculate(op string, a, b any) (v any, err error) {
	x, okX := a.(int)
	y, okY := b.(int)
	_, durationA := a.(time.Duration)
	_, durationB := b.(time.Duration)
	switch {
	case durationA || durationB:
		v, err = durations(op, a, b)
	case op == "/":
		v, err = divide(a, b)
	case op == "**" || op == "^":
		v, err = power(a, b)
	case okX && okY:
		v, err = integers(op, x, y)
	case op == "%":
		v = runtime.Modulo(a, b)
	default:
		v, err = decimals(op, a, b)
	}
	if err != nil {
		return nil, fmt.Errorf("%v %s %v: %w", a, op, b, err)
	}
	return v, nil
}

func integers(op string, x, y int) (int, error) {
	fits, z := true, 0
	switch op {
	case "+":
		z = x + y
		fits = (z > x) == (y > 0)
	case "-":
		z = x - y
		fits = (z < x) == (y > 0)
	case "*":
		z = x * y
		// The smallest integer divided by -1 is itself, so the division alone does not notice it.
		fits = x == 0 || z/x == y && (x != -1 || y != math.MinInt)
	case "%":
		if y == 0 {
			return 0, errZero
		}
		z = x % y
	}
	if !fits {
		return 0, errOverflow
	}
	return z, nil
}

func durations(op string, a, b any) (any, error) {
	x, okX := a.(time.Duration)
	y, okY := b.(time.Duration)
	if okX && okY && op != "*" {
		z, err := integers(op, int(x), int(y))
		return time.Duration(z), err
	}
	if n, ok := a.(int); ok && op == "*" {
		z, err := integers(op, n, int(y))
		return time.Duration(z), err
	}
	if n, ok := b.(int); ok && op == "*" {
		z, err := integers(op, int(x), n)
		return time.Duration(z), err
	}
	return nil, errDuration
}

// divide returns the quotient, which is an approximation unless it is an integer.
func divide(a, b any) (any, error) {
	x, okX := a.(int)
	y, okY := b.(int)
	if okX && okY && y != 0 && y != -1 && x%y == 0 && (x/y >= exactInteger || x/y <= -exactInteger) {
		return x / y, nil
	}
	v, err := finite(runtime.Divide(a, b))
	if err != nil && runtime.ToFloat64(b) == 0 {
		return nil, errZero
	}
	return v, err
}

// finite refuses infinity and NaN, which would make comparisons meaningless.
func finite(v any) (any, error) {
	if f, ok := v.(float64); ok && (math.IsInf(f, 0) || math.IsNaN(f)) {
		return nil, errInfinite
	}
	return v, nil
}

func sum(args []any) (total any, err error) {
	list := reflect.ValueOf(args[0])
	if list.Kind() != reflect.Slice && list.Kind() != reflect.Array {
		return nil, errors.New("takes a list")
	}
	total = 0
	for i := range list.Len() {
		if total, err = calculate("+", total, list.Index(i).Interface()); err != nil {
			return nil, err
		}
	}
	return total, nil
}

// approximate returns a function of expr that adds and divides.
func approximate(name string) function {
	f := original(name)
	return func(args []any) (any, error) {
		v, err := f(args)
		if err != nil {
			return nil, err
		}
		return finite(v)
	}
}

// rounded returns a function of expr that rounds. An integer stays as it is, since a decimal does not hold all of them.
func rounded(name string) function {
	f := original(name)
	return func(args []any) (any, error) {
		if _, ok := args[0].(int); ok {
			return args[0], nil
		}
		return f(args)
	}
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

// shiftLeft implements bitshl.
func shiftLeft(args []any) (any, error) {
	v, err := original("bitshl")(args)
	if err != nil {
		return nil, err
	}
	x, okX := args[0].(int)
	n, okN := args[1].(int)
	if okX && okN && x != 0 && (n > 63 || v.(int)>>n != x) {
		return nil, errOverflow
	}
	return v, nil
}

// span implements the operator "..". Its arguments are scope and bounds.
func span(args ...any) (any, error) {
	from, err := whole(args[1])
	if err != nil {
		return nil, err
	}
	to, err := whole(args[2])
	if err != nil {
		return nil, err
	}
	if to < from {
		return []int{}, nil
	}
	// The length of a range over most integers does not fit into an int.
	if n := uint64(to) - uint64(from); n >= evaluationBudget || args[0].(*Scope).Spend(2+int(n)) != nil {
		return nil, fmt.Errorf("%d..%d: %w", from, to, errBudget)
	}
	return runtime.MakeRange(from, to), nil
}

// boundOf implements a bound of a slice. Its arguments are scope and value.
func boundOf(args ...any) (any, error) { return whole(args[1]) }

// whole returns a bound or a count as an integer. Go converts a decimal that does not fit differently on each machine.
func whole(v any) (int, error) {
	switch v := v.(type) {
	case int:
		return v, nil
	case float64:
		if v == math.Trunc(v) && math.Abs(v) < 1<<63 {
			return int(v), nil
		}
	}
	return 0, fmt.Errorf("%s is not an integer of 64 bits", abbreviate(fmt.Sprint(v)))
}
