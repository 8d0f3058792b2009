package exprlang

import (
	"errors"
	"fmt"
	"regexp"
	"regexp/syntax"

	"github.com/expr-lang/expr/ast"
)

const (
	// maxPatternBytes is enough for a list of a thousand words, and far more than a person can read.
	maxPatternBytes = 4096
	// maxPatternInstructions leaves room for a few large repetitions. A repetition such as .{0,1000} makes a thousand
	// instructions. Without a bound, a pattern of a few lines could take hundreds of megabytes.
	maxPatternInstructions = 10_000
	// stepsPerUnit is the number of the matcher's steps for one unit of the budget. A step is an instruction at a byte of text;
	// in the worst case the matcher takes all of them.
	stepsPerUnit = 16
	// maxPatterns bounds the compiled patterns that a scope keeps.
	maxPatterns = 64
)

// Pattern is a compiled regular expression within bounds. It is immutable.
type Pattern struct {
	expression   *regexp.Regexp
	instructions int
}

// CompilePattern compiles a pattern, or refuses one that would take too much memory.
func CompilePattern(source string) (*Pattern, error) {
	if len(source) > maxPatternBytes {
		return nil, fmt.Errorf("the pattern is longer than %d bytes", maxPatternBytes)
	}
	// Count on the parsed pattern, because compiling it takes the memory.
	tree, err := syntax.Parse(source, syntax.Perl)
	if err != nil {
		return nil, err
	}
	if instructions(tree) > maxPatternInstructions {
		return nil, errors.New("the pattern repeats too much")
	}
	e, err := regexp.Compile(source)
	if err != nil {
		return nil, err
	}
	return &Pattern{expression: e, instructions: instructions(tree)}, nil
}

// Cost returns the units of a budget that matching the text costs; a unit is less than a microsecond.
func (p *Pattern) Cost(text string) int { return 1 + len(text)*p.instructions/stepsPerUnit }

// MatchString reports whether the text contains a match.
func (p *Pattern) MatchString(text string) bool { return p.expression.MatchString(text) }

// String returns the source.
func (p *Pattern) String() string { return p.expression.String() }

// runesPerInstruction is the number of ranges of a character class that count as one instruction. A class such as \p{L}
// has a thousand ranges, but it is one instruction, is searched by bisection, and is at most copied.
const runesPerInstruction = 64

// instructions estimates how many instructions a parsed pattern compiles to.
func instructions(t *syntax.Regexp) int {
	n := 1 + len(t.Rune)
	if t.Op == syntax.OpCharClass {
		n = 1 + len(t.Rune)/runesPerInstruction
	}
	for _, sub := range t.Sub {
		n = min(n+instructions(sub), maxPatternInstructions+1)
	}
	if t.Op == syntax.OpRepeat {
		n *= max(t.Min, t.Max, 1)
	}
	return min(n, maxPatternInstructions+1)
}

// matches implements the operator matches. Its arguments are scope, text, pattern. The time depends on text and pattern, and
// both may come from outside.
func matches(args ...any) (any, error) {
	s := args[0].(*Scope)
	if args[1] == nil || args[2] == nil {
		return false, nil
	}
	text, ok := args[1].(string)
	if !ok {
		return nil, errors.New("matches takes a text and a pattern")
	}
	p, ok := args[2].(*Pattern)
	if !ok {
		source, isText := args[2].(string)
		if !isText {
			return nil, errors.New("matches takes a text and a pattern")
		}
		var err error
		if p, err = s.pattern(source); err != nil {
			return nil, err
		}
	}
	if err := s.Spend(p.Cost(text)); err != nil {
		return nil, err
	}
	return p.expression.MatchString(text), nil
}

func (s *Scope) pattern(source string) (*Pattern, error) {
	if p := s.patterns[source]; p != nil {
		return p, nil
	}
	p, err := CompilePattern(source)
	if err != nil {
		return nil, err
	}
	if s.patterns == nil || len(s.patterns) >= maxPatterns {
		s.patterns = map[string]*Pattern{}
	}
	s.patterns[source] = p
	return p, s.Spend(p.instructions)
}

// patternChecker refuses literal patterns that are too large before expr compiles them.
type patternChecker struct{ faults Errors } // their offsets count runes

// Visit implements ast.Visitor.
func (c *patternChecker) Visit(node *ast.Node) {
	n, ok := (*node).(*ast.BinaryNode)
	if !ok || n.Operator != "matches" {
		return
	}
	if source, ok := n.Right.(*ast.StringNode); ok {
		if _, err := CompilePattern(source.Value); err != nil {
			c.faults = append(c.faults, &Error{Offset: n.Location().From, Message: err.Error()})
			n.Right = &ast.StringNode{} // so that the rest is checked
		}
	}
}

// matching turns the operator into a call. A literal pattern is compiled once.
func matching(n *ast.BinaryNode) ast.Node {
	right := n.Right
	if source, ok := right.(*ast.StringNode); ok {
		if p, err := CompilePattern(source.Value); err == nil { // patternChecker has refused the others
			right = &ast.ConstantNode{Value: p}
		}
	}
	return call(hiddenMatch, n.Left, right)
}
