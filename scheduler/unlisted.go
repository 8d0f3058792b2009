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

// unlisted warns of a reference to a member that the schema of the input, or the output of a step that waits, does not list. It is never a
// fault: versions that were applied before may have such references, and ?? gives them a value.
func (a setting) unlisted(n *yaml.Node, path string, r exprlang.Reference) {
	switch p := r.Path; {
	case p[0] == "input":
		a.note(n, path, r.Offset, described{"the input", a.input}.missing(p[1:]))
	case p[0] == "output" && a.check && a.waits[a.self] != nil:
		a.note(n, path, r.Offset, a.waits[a.self].unlisted("output", p[1:]))
	case p[0] == "steps" && len(p) > 3 && p[2] == "output" && a.waits[p[1]] != nil:
		a.note(n, path, r.Offset, a.waits[p[1]].unlisted(stepPath(p[1])+".output", p[3:]))
	}
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
		return described{"the signal", s.payload}.missing(rest[1:])
	}
	return fmt.Sprintf("step %s waits for a signal, so its output is {signal, payload}: write %s.%s.%s", s.id, output, outputPayload, abbreviate(strings.Join(rest, ".")))
}

// missing returns what is wrong with a path below the value, or "".
func (v described) missing(rest []string) string {
	schema := v.schema
	for _, name := range rest {
		properties := listed(schema)
		if properties == nil {
			return ""
		}
		below, ok := properties[name]
		if !ok {
			return fmt.Sprintf("the schema of %s has no property %q: %s", v.what, abbreviate(name), suggestProperty(name, properties))
		}
		schema = below
	}
	return ""
}

// listed returns the properties of a schema, nil if there may be others of which nothing is known.
func listed(schema any) map[string]any {
	m, _ := schema.(map[string]any)
	for _, key := range addsProperties {
		if _, has := m[key]; has {
			return nil
		}
	}
	if others, has := m["additionalProperties"]; has && others != false {
		return nil // the author says that others come
	}
	properties, _ := m["properties"].(map[string]any)
	if len(properties) == 0 {
		return nil
	}
	return properties
}

// suggestProperty names the nearest property, or all if they are few.
func suggestProperty(name string, properties map[string]any) string {
	known := slices.Sorted(maps.Keys(properties))
	if len(known) <= 10 || events.Nearest(name, known) != "" {
		return events.Suggest(name, known)
	}
	return "none of its " + strconv.Itoa(len(known)) + " properties has a similar name"
}
