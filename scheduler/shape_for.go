package scheduler

import (
	"encoding/json"
	"slices"
	"strconv"
	"strings"

	yaml "go.yaml.in/yaml/v4"

	"github.com/sagalog/sagalog/events"
	"github.com/sagalog/sagalog/internal/exprlang"
)

// shapeFor checks which items a step has.
func (s *outlineStep) shapeFor(m member) {
	s.items = []string{defaultItem, "index"}
	keys, ok := m.doc.members(m.value, m.path, forKeys, " with each")
	v, has := keys["collect"]
	if has && v.oneOf(events.CollectOutputs, events.CollectFailures, events.CollectNone) {
		s.collect = &v
	}
	if v, has := keys["each"]; has {
		s.each = &v
		s.shapeEach()
	} else if ok {
		m.doc.fault(m.key, m.path, "each is missing: the list, such as \"${ input.orders }\"")
	}
	if v, has := keys["as"]; has {
		s.shapeAs(v)
	}
	if v, has := keys["parallel"]; has {
		v.count(bounds{1, maxParallel})
	}
	tolerate, has := keys["tolerate"]
	if has {
		shapeTolerate(tolerate)
	}
	if s.collect.is(events.CollectFailures) && (!has || strings.TrimSuffix(tolerate.value.Value, "%") == "0") {
		s.collect.warn("is always an empty list, since no item may fail: say with tolerate how many may")
	}
}

// shapeEach checks what can be known of the list before there is a task.
func (s *outlineStep) shapeEach() {
	v := *s.each
	switch n := v.value; {
	case n.Kind == yaml.SequenceNode:
		switch count := len(n.Content); {
		case count == 0:
			v.fault("the list is empty, so the step would have no items")
		case count > events.MaxItems:
			v.fault("the list has %d entries, and a step has at most %d items: split the list, and let a child do each part", count, events.MaxItems)
		case count > maxCollected && s.collect == nil:
			v.fault("the list has %d entries, and the outputs of more than %d are collected only on request: write collect: outputs, or collect: failures to keep only what failed, or collect: none", count, maxCollected)
		}
	case !isText(n) || !strings.Contains(n.Value, "${"):
		v.fault("expected a list, or an expression that gives one, got %s", kindOf(n))
	}
}

// shapeAs checks the name of an entry.
func (s *outlineStep) shapeAs(v member) {
	name := v.name()
	switch {
	case !validName(name):
	case slices.Contains([]string{"task", "input", "steps", "step", "output", "index"}, name):
		v.fault("%q is another variable already: give the entry a name such as order", name)
	case !isVariable(name):
		v.fault("%q cannot be written in an expression: give the entry a name of letters, digits and _, such as order", name)
	default:
		s.items[0] = name
	}
}

// isVariable says whether an expression can refer to a variable by that name: it is no operator, constant or function.
func isVariable(name string) bool {
	t, err := exprlang.CompileString("${ "+name+" }", nil, name)
	if err != nil {
		return false
	}
	refs := t.References()
	return len(refs) == 1 && slices.Equal(refs[0].Path, []string{name})
}

// shapeTolerate checks how many items may fail.
func shapeTolerate(m member) {
	if m.value.Tag == "!!int" {
		m.count(bounds{0, events.MaxItems})
		return
	}
	percent, ok := strings.CutSuffix(m.value.Value, "%")
	if n, err := strconv.Atoi(percent); !ok || !isText(m.value) || err != nil || n < 0 || n > 100 || strconv.Itoa(n) != percent {
		m.fault("expected a number of items, or a whole percentage of them such as 1%%, got %s", kindOf(m.value))
	}
}

// checkItems checks what must differ from item to item.
func (o *outline) checkItems() {
	for _, s := range o.steps {
		if s.items == nil {
			continue
		}
		for _, m := range s.given {
			if m.key.Value == "id" && isText(m.value) && !s.variesByItem(m.value.Value) {
				m.fault("the children of all items would have the same id: use %s or index in it, or leave it out", s.items[0])
			}
		}
	}
}

// variesByItem says whether a text depends on the entry, as far as can be seen.
func (s *outlineStep) variesByItem(text string) bool {
	vars := append(slices.Clip(doVars), s.items...)
	t, err := exprlang.CompileString(text, nil, vars...)
	if err != nil {
		return true // it is reported
	}
	return slices.ContainsFunc(t.References(), func(r exprlang.Reference) bool { return len(r.Path) > 0 && slices.Contains(s.items, r.Path[0]) })
}

// list checks an expression that gives the entries, as far as its result can be known before there is a task.
func (a setting) list(m member) {
	if m.value.Kind != yaml.ScalarNode {
		return
	}
	t, err := exprlang.CompileString(m.value.Value, nil, a.vars...)
	switch {
	case err != nil: // it is reported
	case !t.IsValue():
		if strings.Contains(m.value.Value, "${") {
			m.fault("gives a text, since the expression is not alone: write it alone, such as \"${ input.orders }\"")
		}
	case len(t.References()) == 0:
		raw, err := t.Bytes(exprlang.NewScope(nil))
		var list []json.RawMessage
		if err == nil && json.Unmarshal(raw, &list) != nil {
			m.fault("gives %s, which is not a list", abbreviate(string(raw)))
		}
	}
}

// entryOf returns why an expression does not see a variable of items, "" if no step calls its entries so.
func (a setting) entryOf(name string) string {
	own := a.fans[a.self]
	if own != nil && slices.Contains(own.items, name) {
		return "if and for.each are evaluated once, before there are items; " + name + " is for with, child, fail_if, fail_reason and undo.with"
	}
	for _, id := range a.ids {
		if fan := a.fans[id]; fan != nil && slices.Contains(fan.items, name) {
			return "only the expressions of step " + id + ", which has a for, see it"
		}
	}
	return ""
}

// fanReference returns what is wrong with a reference to a member of a step with items, or "".
func (a setting) fanReference(id string, rest []string) string {
	if len(rest) == 0 {
		return ""
	}
	switch fan := a.fans[id]; {
	case rest[0] == "input" || rest[0] == "error":
		return stepPath(id) + " has no " + rest[0] + ", since each of its items has one: collect: failures lists index, input and error of the items that failed"
	case rest[0] == "output" && fan.collect.is(events.CollectNone):
		return stepPath(id) + ".output is always null, since its for says collect: none: write collect: outputs or failures, or use " + stepPath(id) + ".counts"
	}
	return unknownMember(stepPath(id), rest, fanMembers)
}

// collected warns about an expression that passes on the outputs of all items, which together may be too large.
func (a setting) collected(n *yaml.Node, path string, t *exprlang.Text, refs []exprlang.Reference) {
	if !t.IsValue() || len(refs) != 1 || len(refs[0].Path) != 3 || refs[0].Path[0] != "steps" || refs[0].Path[2] != "output" {
		return
	}
	id := refs[0].Path[1]
	text := strings.ReplaceAll(strings.TrimSpace(strings.TrimSuffix(strings.TrimPrefix(n.Value, "${"), "}")), "'", `"`)
	alone := text == "steps."+id+".output" || text == "steps["+strconv.Quote(id)+"].output"
	if fan := a.fans[id]; fan == nil || !alone || fan.collect.is(events.CollectFailures) {
		return
	}
	a.warnAt(n, path, refs[0].Offset, "has the outputs of all items of %s, and fails if they take more than payload_bytes, by default %d KiB: pass on what is needed of each with map, or collect failures",
		id, events.DefaultSettings().PayloadBytes>>10)
}
