package scheduler

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	yaml "go.yaml.in/yaml/v4"

	"github.com/sagalog/sagalog/events"
	"github.com/sagalog/sagalog/internal/yamltree"
)

// member is a key of a mapping and its value.
type member struct {
	doc        *document
	key, value *yaml.Node
	path       string
}

// laterKeys will have a meaning in a later version. They are reserved, so that no definition uses them for something else.
var laterKeys = map[string]string{
	"task":       "child tasks",
	"not_before": "delayed starts", "reply_to": "replies",
	"on_failure": "failure handlers", "limits": "limits by workflow",
}

// objectKeys are the keys by which other objects than workflows say what they are.
var objectKeys = map[string]string{"schedule": "schedule", "limit": "limit"}

// renamedKeys are the names that keys had before. They are near no other key by their letters.
var renamedKeys = map[string]string{"complete_by": "complete_within", "max": "max_backoff"}

// members returns the known members of a mapping and reports the others. hint may be "".
func (d *document) members(n *yaml.Node, path string, known []string, hint string) (map[string]member, bool) {
	if n.Kind != yaml.MappingNode {
		d.fault(n, path, "expected a mapping%s, got %s", hint, kindOf(n))
		return nil, false
	}
	out := make(map[string]member, len(n.Content)/2)
	for i := 0; i+1 < len(n.Content); i += 2 {
		key := n.Content[i]
		below := join(path, key.Value)
		if _, twice := out[key.Value]; twice {
			continue // plain has reported it
		}
		if !slices.Contains(known, key.Value) {
			d.unknown(key, below, known)
			continue
		}
		out[key.Value] = member{doc: d, key: key, value: n.Content[i+1], path: below}
	}
	return out, true
}

func (d *document) unknown(key *yaml.Node, path string, known []string) {
	if object := objectKeys[key.Value]; object != "" && path == key.Value {
		d.fault(key, path, "unknown key %q: if this is a %s, apply it with `sagalog %s apply`", key.Value, object, object)
		return
	}
	if what, ok := laterKeys[key.Value]; ok {
		d.fault(key, path, "%q (%s) is reserved for a later version and not supported yet", key.Value, what)
		return
	}
	if slices.Contains(forKeys, key.Value) && slices.Contains(known, keyFor) {
		d.fault(key, path, "unknown key %q: it belongs to for: write for: {each: ..., %s: ...}", key.Value, key.Value)
		return
	}
	if now := renamedKeys[key.Value]; slices.Contains(known, now) {
		d.fault(key, path, "unknown key %q: it is called %q now", key.Value, now)
		return
	}
	d.fault(key, path, "unknown key %q: %s", key.Value, events.Suggest(key.Value, known))
}

func kindOf(n *yaml.Node) string {
	switch n.Kind {
	case yaml.MappingNode:
		return "a mapping"
	case yaml.SequenceNode:
		return "a list"
	}
	switch n.Tag {
	case "!!null":
		return "nothing"
	case "!!bool":
		return "the boolean " + n.Value
	case "!!int", "!!float":
		return "the number " + n.Value
	}
	return fmt.Sprintf("the text %q", abbreviate(n.Value))
}

// maxQuotedBytes limits how much of a definition an error repeats.
const maxQuotedBytes = 60

func abbreviate(s string) string { return events.Clip(s, maxQuotedBytes) }

func (m member) fault(format string, args ...any) { m.doc.fault(m.value, m.path, format, args...) }

func (m member) warn(format string, args ...any) { m.doc.warn(m.value, m.path, format, args...) }

func isText(n *yaml.Node) bool {
	return n.Kind == yaml.ScalarNode && (n.Tag == "!!str" || n.Tag == "!!timestamp")
}

func (m member) text() (string, bool) {
	if !isText(m.value) {
		m.fault("expected text, got %s", kindOf(m.value))
		return "", false
	}
	return m.value.Value, true
}

// oneOf says whether the member is one of the texts, at least two. Otherwise it reports a fault.
func (m member) oneOf(texts ...string) bool {
	s, ok := m.text()
	if ok && !slices.Contains(texts, s) {
		last := len(texts) - 1
		m.fault("%q is not %s or %s", abbreviate(s), strings.Join(texts[:last], ", "), texts[last])
		return false
	}
	return ok
}

// is says whether the member is present and is the text.
func (m *member) is(text string) bool { return m != nil && m.value.Value == text }

// boolean returns false if it reported a fault.
func (m member) boolean() bool {
	if m.value.Kind != yaml.ScalarNode || m.value.Tag != "!!bool" {
		m.fault("expected true or false, got %s", kindOf(m.value))
		return false
	}
	return strings.EqualFold(m.value.Value, "true")
}

// duration returns zero if it reported a fault.
func (m member) duration() events.Duration {
	if !isText(m.value) {
		hint := ""
		if m.value.Kind == yaml.ScalarNode && m.value.Tag == "!!int" {
			hint = ": write the unit, such as " + m.value.Value + "s"
		}
		m.fault("expected a duration such as 30s, got %s%s", kindOf(m.value), hint)
		return 0
	}
	v, err := events.ParseDuration(m.value.Value)
	switch {
	case err != nil:
		m.fault("%s", err)
		return 0
	case v <= 0:
		m.fault("%q is not positive", m.value.Value)
		return 0
	case v.Std().Milliseconds() == 0:
		m.fault("%q is less than a millisecond, the smallest duration here", m.value.Value)
		return 0
	}
	return v
}

// remembered checks how long tasks are remembered after their end.
func (m member) remembered() {
	if v := m.duration(); v != 0 && (v < events.MinRemember || v > events.MaxRemember) {
		m.fault("%s is not from %s to %s, which is how long tasks can be remembered after their end", v, events.MinRemember, events.MaxRemember)
	}
}

// rate returns the member, a text such as 50/s. Otherwise it reports a fault.
func (m member) rate() string {
	s, ok := m.text()
	if !ok {
		return ""
	}
	each, err := events.ParseRate(s)
	switch {
	case err != nil:
		m.fault("%q %s", abbreviate(s), err)
	case each == 0:
		m.fault("is empty: write a rate such as 50/s, or leave it out")
	}
	return s
}

// bounds of a number, both inclusive.
type bounds struct{ least, most int }

func (m member) count(b bounds) (n int) {
	large := m.value.Tag == "!!float" && strings.Trim(m.value.Value, "+-0123456789") == "" // YAML has no integers beyond 64 bits
	if m.value.Kind != yaml.ScalarNode || m.value.Tag != "!!int" && !large {
		m.fault("expected a whole number, got %s", kindOf(m.value))
		return 0
	}
	written, err := yamltree.Scalar(m.value)
	if err != nil {
		return 0 // plain has reported it
	}
	if n, err = strconv.Atoi(fmt.Sprint(written)); err != nil || n < b.least || n > b.most { // an error means that it is too large for an int
		m.fault("%s is not between %d and %d", abbreviate(m.value.Value), b.least, b.most)
	}
	return n
}

func (m member) factor() {
	v, err := strconv.ParseFloat(m.value.Value, 64)
	if m.value.Kind != yaml.ScalarNode || (m.value.Tag != "!!int" && m.value.Tag != "!!float") || err != nil {
		m.fault("expected a number, got %s", kindOf(m.value))
		return
	}
	if !(v >= 1 && v <= maxFactor) {
		m.fault("%s is not between 1 and %d", m.value.Value, maxFactor)
	}
}

// name checks the name of a workflow, step or agent.
func (m member) name() string {
	s, ok := m.text()
	if ok {
		m.doc.checkName(m.value, m.path, s)
	}
	return s
}

func (d *document) checkName(n *yaml.Node, path, s string) {
	switch {
	case s == "":
		d.fault(n, path, "is empty: a name is %s", nameRule)
	case !validName(s):
		d.fault(n, path, "%q is not a name: a name is %s", abbreviate(s), nameRule)
	}
}

const (
	maxNameBytes = 64
	nameRule     = "a lower-case letter, then lower-case letters, digits, - and _, up to 64"
)

func validName(s string) bool {
	if s == "" || len(s) > maxNameBytes || s[0] < 'a' || s[0] > 'z' {
		return false
	}
	for _, c := range s {
		if (c < 'a' || c > 'z') && (c < '0' || c > '9') && c != '-' && c != '_' {
			return false
		}
	}
	return true
}
