package exprlang

import (
	"bytes"
	"cmp"
	"strconv"

	"github.com/expr-lang/expr/ast"

	"github.com/sagalog/sagalog/internal/rawjson"
)

// shortcut decides what most conditions are, paths compared with each other and with literals, on the raw JSON and
// without expr's machine. It decides only what is beyond doubt: plain short texts, whole numbers, booleans and null,
// compared with their like. Anything else, and everything that fails, it leaves to the machine, which begins from the
// start with all of its budget.
//
// A condition that the machine would refuse for its budget is never decided here: an operand costs the machine 1 and a
// sixteenth of its bytes, and maxNodes operands of maxShortcutBytes come to half of evaluationBudget.
type shortcut struct {
	operator    string // empty for a path or a literal
	left, right *shortcut
	path        *path // nil for a literal
	literal     scalar
}

// maxShortcutBytes bounds the texts that are compared here.
const maxShortcutBytes = 4096

// scalar is a value that needs no decoding.
type scalar struct {
	kind  scalarKind
	truth bool
	whole int64
	text  []byte
}

type scalarKind byte

const (
	scalarNull scalarKind = iota
	scalarBool
	scalarWhole
	scalarText
)

// shorten returns the shortcut of a rewritten tree, and nil if it has none.
func shorten(n ast.Node) *shortcut {
	if p := plainPath(n); p != nil {
		return &shortcut{path: p}
	}
	switch n := n.(type) {
	case *ast.BinaryNode:
		return shortenBinary(n)
	case *ast.UnaryNode:
		if left := shorten(n.Node); left != nil && (n.Operator == "!" || n.Operator == "not") {
			return &shortcut{operator: "!", left: left}
		}
	case *ast.CallNode: // an operand that the machine weighs
		if callee, ok := n.Callee.(*ast.IdentifierNode); ok && callee.Value == hiddenWeigh {
			if p := plainPath(n.Arguments[1]); p != nil {
				return &shortcut{path: p}
			}
		}
	case *ast.NilNode:
		return &shortcut{literal: scalar{kind: scalarNull}}
	case *ast.BoolNode:
		return &shortcut{literal: scalar{kind: scalarBool, truth: n.Value}}
	case *ast.IntegerNode:
		return &shortcut{literal: scalar{kind: scalarWhole, whole: int64(n.Value)}}
	case *ast.StringNode:
		return &shortcut{literal: scalar{kind: scalarText, text: []byte(n.Value)}}
	}
	return nil
}

var shortOperators = map[string]string{
	"==": "==", "!=": "!=", "<": "<", "<=": "<=", ">": ">", ">=": ">=", "&&": "&&", "and": "&&", "||": "||", "or": "||",
}

func shortenBinary(n *ast.BinaryNode) *shortcut {
	operator, ok := shortOperators[n.Operator]
	if !ok {
		return nil
	}
	left, right := shorten(n.Left), shorten(n.Right)
	if left == nil || right == nil {
		return nil
	}
	return &shortcut{operator: operator, left: left, right: right}
}

// decide returns the result of a condition, and whether it is sure of it.
func (c *shortcut) decide(s *Scope) (yes, sure bool) {
	v, sure := c.eval(s)
	return v.truth, sure && v.kind == scalarBool
}

func (c *shortcut) eval(s *Scope) (scalar, bool) {
	switch {
	case c.path != nil:
		n, err := s.find(c.path)
		if err != nil {
			return scalar{}, false
		}
		return scalarOf(n)
	case c.operator == "":
		return c.literal, true
	}
	left, sure := c.left.eval(s)
	if !sure {
		return scalar{}, false
	}
	switch c.operator {
	case "!":
		return truth(!left.truth), left.kind == scalarBool
	case "&&", "||":
		if left.kind != scalarBool || left.truth == (c.operator == "||") {
			return left, left.kind == scalarBool
		}
		right, sure := c.right.eval(s)
		return right, sure && right.kind == scalarBool
	}
	right, sure := c.right.eval(s)
	if !sure {
		return scalar{}, false
	}
	return compare(c.operator, left, right)
}

func compare(operator string, a, b scalar) (scalar, bool) {
	if operator == "==" || operator == "!=" {
		if a.kind != b.kind {
			// Nothing but null is like null. What else is unlike is the machine's business.
			return truth(operator == "!="), a.kind == scalarNull || b.kind == scalarNull
		}
		same := a.truth == b.truth && a.whole == b.whole && bytes.Equal(a.text, b.text)
		return truth(same == (operator == "==")), true
	}
	var order int
	switch {
	case a.kind == scalarWhole && b.kind == scalarWhole:
		order = cmp.Compare(a.whole, b.whole)
	case a.kind == scalarText && b.kind == scalarText:
		order = bytes.Compare(a.text, b.text)
	default:
		return scalar{}, false
	}
	switch operator {
	case "<":
		return truth(order < 0), true
	case "<=":
		return truth(order <= 0), true
	case ">":
		return truth(order > 0), true
	}
	return truth(order >= 0), true
}

func truth(b bool) scalar { return scalar{kind: scalarBool, truth: b} }

// scalarOf returns the value of a node, nil being null, and false if it has to be decoded first.
func scalarOf(n *Node) (scalar, bool) {
	switch {
	case n == nil || n.unknown:
		return scalar{kind: scalarNull}, true
	case n.members != nil || len(n.raw) > maxShortcutBytes:
		return scalar{}, false
	}
	switch string(n.raw) {
	case "", "null":
		return scalar{kind: scalarNull}, true
	case "true":
		return truth(true), true
	case "false":
		return truth(false), true
	}
	if n.raw[0] == '"' {
		end, plain := rawjson.Text(n.raw, 0)
		if !plain || end != len(n.raw) {
			return scalar{}, false
		}
		return scalar{kind: scalarText, text: n.raw[1 : end-1]}, true
	}
	whole, sure := wholeNumber(n.raw)
	return scalar{kind: scalarWhole, whole: whole}, sure
}

// maxWholeDigits is how many digits every int64 has room for.
const maxWholeDigits = 18

// wholeNumber reads a JSON number of digits alone. -0 is another number than 0, as 0.0 is.
func wholeNumber(raw []byte) (int64, bool) {
	if len(raw) > maxWholeDigits || len(raw) == 0 || string(raw) == "-0" || rawjson.Number(raw, 0) != len(raw) {
		return 0, false
	}
	i, err := strconv.ParseInt(string(raw), 10, 64)
	return i, err == nil
}
