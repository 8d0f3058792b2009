package exprlang

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/expr-lang/expr/ast"
	"github.com/expr-lang/expr/checker"
	"github.com/expr-lang/expr/compiler"
	"github.com/expr-lang/expr/conf"
	"github.com/expr-lang/expr/parser"
	"github.com/expr-lang/expr/types"
	"github.com/expr-lang/expr/vm"
)

const (
	// maxSourceBytes bounds the recursion of expr's parser, which does not count parentheses, far below the limit of the stack.
	// Definitions need expressions of one line. Anything longer is a job for an agent.
	maxSourceBytes = 8 << 10
	// maxNodes bounds the number of nodes, for the same reason.
	maxNodes = 2_000
	// hidden names the scope in rewritten expressions. No source can refer to it, since it is not an identifier.
	hidden = "§"
)

// expression is one compiled expression.
type expression struct {
	source string
	// plain is set if the expression is only a path. It then needs no program.
	plain   *path
	program *vm.Program
	paths   []*path
}

// Reference is a path that an expression refers to.
type Reference struct {
	// Path is the variable, then its members and elements as far as they are constants: steps.a.output is [steps a output], and
	// steps[input.x] is [steps] and [input x].
	Path []string
	// Offset is the byte of the text at which it begins.
	Offset int
}

// maxFaultsOfOne bounds the faults of one expression, since each unknown name takes one more pass.
const maxFaultsOfOne = 20

// compileExpression returns every fault of an expression that can be found. The checker stops at the first unknown name, so that name
// is allowed then, and the expression is compiled once more. With faults, the expression serves for its references only.
func compileExpression(src string, vars []string) (e *expression, faults Errors) {
	switch {
	case len(src) > maxSourceBytes:
		return nil, Errors{{Message: fmt.Sprintf("expression is longer than %d bytes", maxSourceBytes)}}
	case strings.TrimSpace(src) == "":
		return nil, Errors{{Message: "the expression is empty"}}
	}
	var unknown []string
	for {
		compiled, found := compileWith(src, vars, unknown)
		if compiled != nil {
			e = compiled
		}
		faults = append(faults, found...)
		if len(found) == 0 || len(faults) >= maxFaultsOfOne || found[0].unknown == "" {
			return e, faults
		}
		unknown = append(unknown, found[0].unknown)
	}
}

// compileWith compiles an expression in which the unknown names have been reported.
func compileWith(src string, vars, unknown []string) (e *expression, faults Errors) {
	defer func() {
		if r := recover(); r != nil {
			faults = Errors{{Message: fmt.Sprintf("expression does not compile: %v", r)}}
		}
	}()
	config := configure(slices.Concat(vars, unknown))
	tree, err := parser.ParseWithConfig(src, config)
	if err != nil {
		return nil, Errors{fault(src, err)}
	}
	var patterns patternChecker
	ast.Walk(&tree.Node, &patterns)
	if _, err := checker.Check(tree, config); err != nil {
		f := fault(src, err)
		if f.unknown == "" {
			faults = append(faults, patterns.faults.in(src)...)
		}
		return nil, append(Errors{f}, faults...)
	}
	w := &rewriter{vars: vars, unknown: unknown}
	ast.Walk(&tree.Node, w)
	e = &expression{source: src, paths: references(tree.Node), plain: plainPath(tree.Node)}
	if faults = append(patterns.faults, w.faults...).in(src); len(faults) > 0 || len(unknown) > 0 || e.plain != nil {
		return e, faults
	}
	if _, err := checker.Check(tree, config); err != nil {
		return e, Errors{fault(src, err)}
	}
	// The optimizer stays off: it folds constants without a budget and saves nothing here.
	if e.program, err = compiler.Compile(tree, config); err != nil {
		return e, Errors{fault(src, err)}
	}
	return e, nil
}

func configure(vars []string) *conf.Config {
	config := conf.CreateNew()
	config.Optimize = false
	config.MaxNodes = maxNodes
	env := types.Map{hidden: types.Any}
	for _, v := range vars {
		env[v] = types.Any
	}
	config.WithEnv(env)
	config.Functions = internals()
	for name := range refusedBuiltins {
		config.Disabled[name] = true
		delete(config.Builtins, name)
	}
	return config
}

// value evaluates the expression. The result shares memory with the scope and must not be changed.
func (e *expression) value(s *Scope) (v any, err error) {
	if e.plain != nil {
		v, err = s.lookUp(e.plain)
	} else {
		machine := vm.VM{MemoryBudget: evaluationBudget}
		v, err = machine.Run(e.program, s.machineEnv())
	}
	if err != nil {
		return nil, evalError(e.source, err)
	}
	return v, nil
}

// bytes evaluates the expression to JSON; a plain path yields the bytes as written.
func (e *expression) bytes(s *Scope) (b json.RawMessage, err error) {
	if e.plain != nil {
		b, err = s.written(e.plain)
	} else {
		var v any
		if v, err = e.value(s); err != nil {
			return nil, err
		}
		b, err = encode(v)
	}
	if err != nil {
		return nil, evalError(e.source, err)
	}
	return b, nil
}

// internals are the functions that only rewritten trees can call.
var internals = sync.OnceValue(func() conf.FunctionsTable {
	config := conf.CreateNew()
	for name, f := range map[string]func(...any) (any, error){
		hiddenCall: callFunction, hiddenTick: tick, hiddenPath: lookUp,
		hiddenWeigh: weighed, hiddenLook: looked, hiddenMeasure: measured, hiddenMatch: matches,
		hiddenRange: span, hiddenBound: boundOf,
	} {
		exprFunction(name, f)(config)
	}
	for _, op := range operators {
		exprFunction(hidden+op, operator(op))(config)
	}
	return config.Functions
})

var bound = sync.OnceValue(func() map[string]*boundFunction {
	m := make(map[string]*boundFunction)
	for name, f := range budgeted() {
		m[name] = &boundFunction{name: name, call: f}
	}
	return m
})
