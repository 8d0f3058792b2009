package scheduler

import (
	"encoding/json"
	"errors"
	"maps"
	"slices"
	"strconv"
	"strings"

	yaml "go.yaml.in/yaml/v4"

	"github.com/sagalog/sagalog/events"
	"github.com/sagalog/sagalog/internal/exprlang"
	"github.com/sagalog/sagalog/internal/yamltree"
)

// The variables of expressions, and their members if those are known.
var (
	doVars     = []string{"task", "input", "steps"}
	undoVars   = []string{"task", "input", "steps", "step"}
	checkVars  = []string{"task", "input", "steps", "output"}
	outputVars = doVars
	acceptVars = []string{"task", "input"}

	taskMembers     = []string{"id", "run", "workflow", "version", "labels", "priority", "submitted_at", "deadline", "reason"}
	changingMembers = []string{"run", "deadline", "reason"}
	// changingOfSteps are the members of a step that change when it is undone.
	changingOfSteps = []string{"state", "error", "counts"}
	stepMembers     = []string{"state", "input", "output", "error"}
	ownStepMembers  = []string{"input", "output", "error", "progress"}
	// What is known of a task when it is accepted. Its priority may depend on its labels.
	labelMembers    = []string{"id", "workflow", "version"}
	priorityMembers = []string{"id", "workflow", "version", "labels"}
)

// setting is the place of an expression and the names that it may use there.
type setting struct {
	doc  *document
	vars []string
	// self is the step to which the expressions belong. It is empty for the output, which is evaluated when every step has ended.
	self      string
	ancestors *ancestry
	// absent says when the output of a step that is over is null, for each step where it may be.
	absent map[string]string
	ids    []string
	undo   bool
	// check says that the expressions judge the output of their own step.
	check bool
	// taskMembers are the members of task that the expressions see.
	taskMembers []string
	// listing says that the expression gives the entries of a fan-out, which must be the same at any time.
	listing bool
	// items are the names that the expressions of an item have besides the others.
	items []string
	// fans are the steps that have items, and waits those that wait for a signal.
	fans, waits map[string]*outlineStep
	// input is the schema of the input; nil if the definition has no schema.
	input any
}

// checkExpressions compiles every expression and checks its references. input is the schema of the input.
func (o *outline) checkExpressions(ancestors *ancestry, input any) {
	base := setting{doc: o.doc, ids: o.ids(), absent: map[string]string{}, vars: doVars, taskMembers: taskMembers, input: input}
	base.fans, base.waits = map[string]*outlineStep{}, map[string]*outlineStep{}
	for _, s := range o.steps {
		if when := s.withoutOutput(); when != "" {
			base.absent[s.id] = when
		}
		if s.items != nil {
			base.fans[s.id] = s
		}
		if len(s.signals) > 0 {
			base.waits[s.id] = s
		}
	}
	for _, s := range o.steps {
		at := base
		at.self, at.ancestors = s.id, ancestors
		if s.condition != nil {
			at.condition(*s.condition, "the step can never run")
		}
		if s.each != nil {
			list := at
			list.listing = true
			list.template(s.each.value, s.each.path)
			at.list(*s.each)
		}
		at.items = s.items
		at.vars = at.with(doVars)
		for _, m := range []*member{s.with, s.until} {
			if m != nil {
				at.template(m.value, m.path)
			}
		}
		for _, m := range s.given {
			at.template(m.value, m.path)
		}
		if s.failIf != nil {
			at.judging().condition(*s.failIf, "the check can never fail")
		}
		if s.failReason != nil {
			at.judging().template(s.failReason.value, s.failReason.path)
		}
		if s.undoWith != nil {
			at.undo, at.vars = true, at.with(undoVars)
			at.template(s.undoWith.value, s.undoWith.path)
		}
	}
	o.checkAcceptance(base)
	if o.output != nil {
		at := base
		at.vars = outputVars
		at.template(o.output.value, o.output.path)
	}
}

// judging returns the setting of the expressions that judge the output of their step.
func (a setting) judging() setting {
	a.check, a.vars = true, a.with(checkVars)
	return a
}

// with returns the variables and those of the items of the step.
func (a setting) with(vars []string) []string { return append(slices.Clip(vars), a.items...) }

// condition checks an expression that gives true or false. never says what it means if it is always false.
func (a setting) condition(m member, never string) {
	if m.value.Kind == yaml.ScalarNode && m.value.Tag == "!!bool" && !m.boolean() {
		m.fault("%s: its condition is always false", never)
		return
	}
	src, ok := m.text()
	if !ok {
		return
	}
	c, err := exprlang.CompileCondition(src, a.vars...)
	refs := c.References()
	if err != nil {
		a.compileFaults(m.value, m.path, err)
		a.references(m.value, m.path, refs)
		return
	}
	sound := a.references(m.value, m.path, refs)
	if len(refs) == 0 {
		switch yes, err := c.Eval(exprlang.NewScope(nil)); {
		case err != nil:
			m.fault("%s", err)
		case !yes:
			m.fault("%s: its condition is always false", never)
		case a.check:
			m.fault("the step always fails: its condition is always true")
		}
		return
	}
	if sound {
		a.nulls(m.value, m.path, refs, func(s *exprlang.Scope) error {
			_, err := c.Eval(s)
			return err
		})
	}
}

// template checks the expressions of a template, string by string, so that each fault has its place.
func (a setting) template(n *yaml.Node, path string) {
	switch n.Kind {
	case yaml.MappingNode:
		for i := 0; i+1 < len(n.Content); i += 2 {
			key := n.Content[i]
			below := join(path, key.Value)
			if strings.Contains(key.Value, "${") {
				a.doc.fault(key, below, "a key cannot contain an expression")
			}
			a.template(n.Content[i+1], below)
		}
	case yaml.SequenceNode:
		for i, e := range n.Content {
			a.template(e, item(path, i))
		}
	case yaml.ScalarNode:
		if isText(n) && strings.Contains(n.Value, "${") {
			a.text(n, path)
		}
	}
}

func (a setting) text(n *yaml.Node, path string) {
	t, err := exprlang.CompileString(n.Value, nil, a.vars...)
	refs := t.References()
	if err != nil {
		a.compileFaults(n, path, err)
		a.references(n, path, refs)
		return
	}
	if !a.references(n, path, refs) {
		return
	}
	a.collected(n, path, t, refs)
	a.nulls(n, path, refs, func(s *exprlang.Scope) error {
		_, err := t.Bytes(s)
		return err
	})
}

func (a setting) compileFaults(n *yaml.Node, path string, err error) {
	var list exprlang.Errors
	if !errors.As(err, &list) {
		a.doc.fault(n, path, "%s", err)
		return
	}
	for _, f := range list {
		message := f.Message
		if name, ok := strings.CutPrefix(message, "unknown name "); ok {
			message += ": " + a.suggestVariable(name)
		}
		a.faultAt(n, path, f.Offset, "%s", message)
	}
}

func (a setting) suggestVariable(name string) string {
	if a.accepting() && (name == "steps" || name == "step" || name == "output") {
		return "labels, priority, fair_by and concurrency are evaluated when the task is accepted, before any step: use input and task"
	}
	if name == "step" {
		return "step is for undo mappings; write steps." + name + ".output for another step"
	}
	if why := a.entryOf(name); why != "" {
		return why
	}
	if a.isStep(name) {
		return "for the output of the step write " + stepPath(name) + ".output"
	}
	return events.Suggest(name, a.vars)
}

func (a setting) faultAt(n *yaml.Node, path string, offset int, format string, args ...any) {
	a.doc.at(yamltree.Within(a.doc.data, n, offset), path, format, args...)
}

// references checks the paths and says whether all are correct.
func (a setting) references(n *yaml.Node, path string, refs []exprlang.Reference) bool {
	sound := true
	for _, r := range refs {
		if a.doc.faults.full() {
			return false
		}
		if message := a.reference(r.Path); message != "" {
			a.faultAt(n, path, r.Offset, "%s", message)
			sound = false
			continue
		}
		a.unlisted(n, path, r)
	}
	return sound
}

// reference returns what is wrong with a path, or "".
func (a setting) reference(p []string) string {
	switch p[0] {
	case "task":
		switch {
		case a.listing && len(p) == 1:
			return "task may change while the items are done, and their list must not: name a member of it"
		case a.listing && slices.Contains(changingMembers, p[1]):
			return "task." + p[1] + " may change while the items are done, and their list must not: use the input, or outputs of steps"
		}
		if len(p) > 1 && slices.Contains(taskMembers, p[1]) && !slices.Contains(a.taskMembers, p[1]) {
			return "task." + p[1] + " is not known yet when the task is accepted: use input, or task." + strings.Join(a.taskMembers, ", task.")
		}
		return unknownMember("task", p[1:], a.taskMembers)
	case "step":
		return unknownMember("step", p[1:], ownStepMembers)
	case "schedule":
		return unknownMember("schedule", p[1:], scheduleMembers)
	case "steps":
	default:
		return ""
	}
	if len(p) == 1 {
		return `steps needs the name of a step: write steps.<step>.output, or steps["<step>"].output`
	}
	id := p[1]
	switch {
	case !a.isStep(id):
		return "there is no step " + strconv.Quote(abbreviate(id)) + ": " + suggestStep(id, a.ids)
	case id == a.self && a.undo:
		return "an undo mapping has its own step as step.input and step.output"
	case id == a.self && a.check:
		return "a check has the output of its step as output"
	case id == a.self:
		return "a step cannot use its own output: it has not run yet"
	case a.self != "" && !a.ancestors.needs(a.self, id):
		return "step " + id + " may not have run yet: add it to needs of " + a.self
	}
	switch {
	case a.listing && len(p) == 2:
		return stepPath(id) + " may change while the items are done or undone, and their list must not: use " + stepPath(id) + ".output"
	case a.listing && slices.Contains(changingOfSteps, p[2]):
		return stepPath(id) + "." + p[2] + " may change while the items are done or undone, and their list must not: use outputs of steps, or the input"
	case a.fans[id] != nil:
		return a.fanReference(id, p[2:])
	}
	return unknownMember(stepPath(id), p[2:], stepMembers)
}

func (a setting) isStep(id string) bool {
	_, ok := slices.BinarySearch(a.ids, id)
	return ok
}

func unknownMember(of string, rest, known []string) string {
	if len(rest) == 0 || slices.Contains(known, rest[0]) {
		return ""
	}
	return of + " has no member " + strconv.Quote(abbreviate(rest[0])) + ": " + events.Suggest(rest[0], known)
}

func stepPath(id string) string {
	if strings.Contains(id, "-") {
		return "steps[" + strconv.Quote(id) + "]"
	}
	return "steps." + id
}

// nulls warns about outputs that may be null in an expression that fails on null: the output and the error of the same step in an undo
// mapping, since the outcome of the step may be unknown, or good, and outputs of steps that may be over without one.
func (a setting) nulls(n *yaml.Node, path string, refs []exprlang.Reference, eval func(*exprlang.Scope) error) {
	warned := map[string]bool{}
	for _, r := range refs {
		p := r.Path
		own := p[0] == "step"
		skipped := p[0] == "steps" && a.absent[p[1]] != ""
		root := outputPath(p)
		last := root[len(root)-1]
		if !own && !skipped || last != "output" && last != "counts" && !(own && (last == "error" || last == "progress")) {
			continue
		}
		name := strings.Join(root, ".")
		if warned[name] {
			continue
		}
		if a.self == "" && !own {
			warned[name] = true
			a.warnAt(n, path, r.Offset, "%s is null when the step %s %s", stepPath(p[1])+"."+last, p[1], a.absent[p[1]])
			continue
		}
		if len(p) > len(root) && failsOnNull(root, eval) {
			warned[name] = true
			switch {
			case last == "error":
				a.warnAt(n, path, r.Offset, "step.error is null when the step completed, and this mapping then fails: use ?. and ??")
			case last == "progress":
				a.warnAt(n, path, r.Offset, "step.progress is null when no attempt showed any, and this mapping then fails: use ?. and ??")
			case own:
				a.warnAt(n, path, r.Offset, "step.output is null when the outcome of the step is unknown, and this mapping then fails: "+
					"use values that are known before the step runs, or ?. and ??")
			default:
				a.warnAt(n, path, r.Offset, "%s is null when the step %s %s, and this then fails: use ?. and ??", stepPath(p[1])+"."+last, p[1], a.absent[p[1]])
			}
		}
	}
}

func (a setting) warnAt(n *yaml.Node, path string, offset int, format string, args ...any) {
	a.doc.warnAt(yamltree.Within(a.doc.data, n, offset), path, format, args...)
}

// outputPath returns the part of a path that is the output of a step.
func outputPath(p []string) []string {
	if p[0] == "step" {
		return p[:min(2, len(p))]
	}
	return p[:min(3, len(p))]
}

// failsOnNull says whether evaluation fails because one output is null, with everything else unknown. What is unknown counts as null where
// it is calculated with, so a failure that is the same with an unknown output is not for this one.
func failsOnNull(output []string, eval func(*exprlang.Scope) error) bool {
	failure := evalWith(output, exprlang.Raw(json.RawMessage("null")), eval)
	if failure == nil {
		return false
	}
	other := evalWith(output, exprlang.Unknown(), eval)
	return other == nil || other.Error() != failure.Error()
}

// evalWith evaluates with one output given, and everything else unknown.
func evalWith(output []string, value *exprlang.Node, eval func(*exprlang.Scope) error) error {
	known := map[string]*exprlang.Node{"task": exprlang.Unknown(), "input": exprlang.Unknown(), "output": exprlang.Unknown()}
	if output[0] == "step" {
		known["steps"] = exprlang.Unknown()
		known["step"] = exprlang.Object(only{output[1]: value})
	} else {
		known["step"] = exprlang.Unknown()
		known["steps"] = exprlang.Object(only{output[1]: exprlang.Object(only{output[2]: value})})
	}
	return eval(exprlang.NewNodeScope(known))
}

// only is an object with some known members.
type only map[string]*exprlang.Node

// Member implements exprlang.Members.
func (o only) Member(_ *exprlang.Scope, name string) *exprlang.Node {
	if n := o[name]; n != nil {
		return n
	}
	return exprlang.Unknown()
}

// Names implements exprlang.Members.
func (o only) Names() []string {
	return slices.Collect(maps.Keys(o))
}
