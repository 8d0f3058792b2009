package exprlang

import (
	"fmt"
	"strings"
)

// Condition is a compiled expression that must evaluate to true or false.
type Condition struct {
	expression *expression
	offset     int
}

// CompileCondition compiles "${ expr }", or the bare expression. The error is of the type Errors; with one, the condition serves for its
// references only.
func CompileCondition(src string, vars ...string) (*Condition, error) {
	bare, offset := src, 0
	if strings.Contains(src, "${") {
		parts, fail := split(src)
		if fail != nil {
			return &Condition{}, Errors{fail}
		}
		only, ok := lone(parts)
		if !ok {
			return &Condition{}, Errors{{Message: "a condition must be a single ${ ... } with nothing around it"}}
		}
		bare, offset = only.source, only.offset
	}
	c := &Condition{offset: offset}
	var faults Errors
	if c.expression, faults = compileExpression(bare, vars); len(faults) > 0 {
		return c, faults.shifted(offset)
	}
	return c, nil
}

// lone returns the only expression among parts, if the rest is white space.
func lone(parts []part) (part, bool) {
	var found []part
	for _, p := range parts {
		if p.expression || strings.TrimSpace(p.literal) != "" {
			found = append(found, p)
		}
	}
	if len(found) != 1 || !found[0].expression {
		return part{}, false
	}
	return found[0], true
}

// References returns the paths that the condition refers to.
func (c *Condition) References() []Reference {
	if c.expression == nil {
		return nil
	}
	return c.expression.references(c.offset)
}

// Eval evaluates the condition. Anything but a boolean is an error: if null or "" counted as false, a typo would silently skip a
// step.
func (c *Condition) Eval(s *Scope) (bool, error) {
	v, err := c.expression.value(s)
	if err != nil {
		return false, err
	}
	b, ok := v.(bool)
	if !ok {
		return false, evalError(c.expression.source, fmt.Errorf("the condition evaluates to %s, not to true or false", typeName(v)))
	}
	return b, nil
}

func typeName(v any) string {
	if v == nil {
		return "null"
	}
	b, err := encode(v)
	if err != nil {
		return fmt.Sprintf("a %T", v)
	}
	return kindName(first(b))
}
