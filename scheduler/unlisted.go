package scheduler

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	yaml "go.yaml.in/yaml/v4"

	"github.com/sagalog/sagalog/events"
	"github.com/sagalog/sagalog/internal/exprlang"
)

// The members of the output of a step that waits for a signal.
const (
	outputSignal  = "signal"
	outputPayload = "payload"
)

// addsProperties are the keywords by which a schema may allow properties that its own list does not have.
var addsProperties = []string{"$ref", "$dynamicRef", "allOf", "anyOf", "oneOf", "if", "then", "else", "patternProperties", "dependentSchemas"}

// described is a value whose members a schema lists.
type described struct {
	// what names the value in messages.
	what   string
	schema any
}

// unlisted reports a reference to a member that the schema of the input, or the output of a step that waits, does not list, and returns
// whether the reference is sound. It is a fault if the schema of the input allows no other members, and otherwise a warning.
func (a setting) unlisted(n *yaml.Node, path string, r exprlang.Reference) bool {
	switch p := r.Path; {
	case p[0] == "input":
		message, closed := described{"the input", a.input}.missing(p[1:])
		if closed {
			a.faultAt(n, path, r.Offset, "%s", message)
			return false
		}
		a.note(n, path, r.Offset, message)
	case p[0] == "output" && a.check && a.waits[a.self] != nil:
		a.note(n, path, r.Offset, a.waits[a.self].unlisted("output", p[1:]))
	case p[0] == "steps" && len(p) > 3 && p[2] == "output" && a.waits[p[1]] != nil:
		a.note(n, path, r.Offset, a.waits[p[1]].unlisted(stepPath(p[1])+".output", p[3:]))
	}
	return true
}

// note warns unless there is nothing to say.
func (a setting) note(n *yaml.Node, path string, offset int, message string) {
	if message != "" {
		a.warnAt(n, path, offset, "%s", message)
	}
}

// unlisted returns what is wrong with a path below the output of a step that waits, or "". It is never a fault, since an operator may
// complete the step with any output.
func (s *outlineStep) unlisted(output string, rest []string) string {
	switch {
	case len(rest) == 0 || rest[0] == outputSignal:
		return ""
	case rest[0] == outputPayload:
		message, _ := described{"the signal", s.payload}.missing(rest[1:])
		return message
	}
	return fmt.Sprintf("step %s waits for a signal, so its output is {signal, payload}: write %s.%s.%s", s.id, output, outputPayload, abbreviate(strings.Join(rest, ".")))
}

// missing returns what is wrong with a path below the value, or "", and whether the schema allows no members that it does not list.
func (v described) missing(rest []string) (message string, closed bool) {
	schema := v.schema
	for _, name := range rest {
		properties, closed := listed(schema)
		if properties == nil {
			return "", false
		}
		below, ok := properties[name]
		if !ok {
			return fmt.Sprintf("the schema of %s has no property %q: %s", v.what, abbreviate(name), suggestProperty(name, properties)), closed
		}
		schema = below
	}
	return "", false
}

// listed returns the properties of a schema, nil if there may be others of which nothing is known. closed says that no others are allowed.
func listed(schema any) (properties map[string]any, closed bool) {
	m, _ := schema.(map[string]any)
	for _, key := range addsProperties {
		if _, has := m[key]; has {
			return nil, false
		}
	}
	others, has := m["additionalProperties"]
	if has && others != false {
		return nil, false // the author says that others come
	}
	properties, _ = m["properties"].(map[string]any)
	if len(properties) == 0 {
		return nil, false
	}
	return properties, has
}

// suggestProperty names the nearest property, or all if they are few.
func suggestProperty(name string, properties map[string]any) string {
	known := slices.Sorted(maps.Keys(properties))
	if len(known) <= 10 || events.Nearest(name, known) != "" {
		return events.Suggest(name, known)
	}
	return "none of its " + strconv.Itoa(len(known)) + " properties has a similar name"
}
