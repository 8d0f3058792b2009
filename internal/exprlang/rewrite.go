package exprlang

import (
	"slices"
	"unicode/utf8"

	"github.com/expr-lang/expr"
	"github.com/expr-lang/expr/ast"
)

// The names of our functions in rewritten trees.
const (
	hiddenCall    = "§call"
	hiddenTick    = "§tick"
	hiddenRange   = "§range"
	hiddenBound   = "§bound"
	hiddenPath    = "§path"
	hiddenWeigh   = "§weigh"
	hiddenLook    = "§look"
	hiddenMeasure = "§measure"
	hiddenMatch   = "§match"
)

var exprFunction = func(name string, f func(...any) (any, error)) expr.Option { return expr.Function(name, f) }

// rewriter turns a checked tree into one that looks up paths in the scope and counts its work. It visits children before
// parents.
type rewriter struct {
	vars []string
	// unknown are names that were reported.
	unknown []string
	faults  Errors // their offsets count runes
}

func (w *rewriter) refuse(n ast.Node, message string) {
	w.faults = append(w.faults, &Error{Offset: n.Location().From, Message: message})
}

// Visit implements ast.Visitor.
func (w *rewriter) Visit(node *ast.Node) {
	switch n := (*node).(type) {
	case *ast.IdentifierNode:
		w.identifier(node, n)
	case *ast.FloatNode:
		if i, ok := comparable(n.Value).(int); ok {
			ast.Patch(node, &ast.IntegerNode{Value: i})
		}
	case *ast.MemberNode:
		w.member(node, n)
	case *ast.CallNode:
		if callee, ok := n.Callee.(*ast.IdentifierNode); ok && slices.Contains(w.unknown, callee.Value) {
			return
		}
		w.refuse(n, "only the functions of the expression language can be called, not members")
	case *ast.VariableDeclaratorNode:
		if slices.Contains(w.vars, n.Name) {
			w.refuse(n, "let cannot hide "+n.Name)
		}
	case *ast.BinaryNode:
		switch {
		case slices.Contains(operators, n.Operator):
			arithmetic(node, n.Operator, n.Left, n.Right)
		case n.Operator == "..":
			nature := *n.Nature()
			ast.Patch(node, call(hiddenRange, n.Left, n.Right))
			(*node).SetNature(nature)
		case n.Operator == "matches":
			nature := *n.Nature()
			ast.Patch(node, matching(n))
			(*node).SetNature(nature)
		default:
			w.weigh(n)
		}
	case *ast.UnaryNode:
		if n.Operator == "-" && !literal(n.Node) {
			arithmetic(node, n.Operator, n.Node)
		}
	case *ast.SliceNode:
		if n.From != nil {
			n.From = weighedNode(hiddenBound, n.From)
		}
		if n.To != nil {
			n.To = weighedNode(hiddenBound, n.To)
		}
	case *ast.PredicateNode:
		nature := *n.Node.Nature()
		body := call(hiddenTick, n.Node)
		if units := nodesOf(n.Node) / nodesPerUnit; units > 0 {
			body.Arguments = append(body.Arguments, &ast.IntegerNode{Value: units})
		}
		body.SetLocation(n.Node.Location())
		body.SetNature(nature)
		n.Node = body
	case *ast.BuiltinNode:
		sumUp(n)
		weighArguments(n)
		if f := bound()[n.Name]; f != nil {
			nature := *n.Nature()
			c := call(hiddenCall, append([]ast.Node{&ast.ConstantNode{Value: f}}, n.Arguments...)...)
			ast.Patch(node, c)
			c.SetNature(nature)
		}
	}
}

func (w *rewriter) identifier(node *ast.Node, n *ast.IdentifierNode) {
	switch {
	case n.Value == "$env":
		w.refuse(n, "$env is not available: name the variable")
	case slices.Contains(w.vars, n.Value):
		ast.Patch(node, lookup(&path{root: n.Value, begin: n.Location().From}))
	}
}

// member extends a path by a constant member or element.
func (w *rewriter) member(node *ast.Node, n *ast.MemberNode) {
	p := pathOf(n.Node)
	if p == nil {
		return
	}
	switch key := n.Property.(type) {
	case *ast.StringNode:
		ast.Patch(node, lookup(p.extend(hop{name: key.Value, optional: n.Optional})))
	case *ast.IntegerNode:
		ast.Patch(node, lookup(p.extend(hop{index: key.Value, element: true, optional: n.Optional})))
	}
}

func call(name string, args ...ast.Node) *ast.CallNode {
	return &ast.CallNode{
		Callee:    &ast.IdentifierNode{Value: name},
		Arguments: append([]ast.Node{&ast.IdentifierNode{Value: hidden}}, args...),
	}
}

func lookup(p *path) *ast.CallNode { return call(hiddenPath, &ast.ConstantNode{Value: p}) }

// pathOf returns the path that a node looks up, or nil for any other node.
func pathOf(n ast.Node) *path {
	c, ok := n.(*ast.CallNode)
	if !ok {
		return nil
	}
	if callee, ok := c.Callee.(*ast.IdentifierNode); !ok || callee.Value != hiddenPath {
		return nil
	}
	return c.Arguments[1].(*ast.ConstantNode).Value.(*path)
}

// plainPath returns the path if the whole expression is a path.
func plainPath(n ast.Node) *path {
	if c, ok := n.(*ast.ChainNode); ok {
		n = c.Node
	}
	return pathOf(n)
}

// references collects the paths that remain in a rewritten tree.
func references(n ast.Node) []*path {
	var c pathCollector
	ast.Walk(&n, &c)
	return c.paths
}

type pathCollector struct{ paths []*path }

// Visit implements ast.Visitor.
func (c *pathCollector) Visit(node *ast.Node) {
	if p := pathOf(*node); p != nil {
		c.paths = append(c.paths, p)
	}
}

// nodesPerUnit is how many nodes of a loop's body cost a unit in each iteration.
const nodesPerUnit = 8

func nodesOf(n ast.Node) int {
	var c nodeCounter
	ast.Walk(&n, &c)
	return c.nodes
}

type nodeCounter struct{ nodes int }

// Visit implements ast.Visitor.
func (c *nodeCounter) Visit(*ast.Node) { c.nodes++ }

func runeOffset(s string, runes int) int {
	offset := 0
	for n := 0; n < runes && offset < len(s); n++ {
		_, size := utf8.DecodeRuneInString(s[offset:])
		offset += size
	}
	return offset
}
