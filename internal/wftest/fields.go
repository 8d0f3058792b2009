package wftest

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"

	yaml "go.yaml.in/yaml/v4"

	"github.com/sagalog/sagalog/events"
	"github.com/sagalog/sagalog/internal/yamltree"
	"github.com/sagalog/sagalog/scheduler"
)

// reader reads the nodes of a test file and collects their faults.
type reader struct {
	file   string
	faults []scheduler.Fault
}

// node is a value and its path in the file.
type node struct {
	*yaml.Node
	path string
}

// maxDepth bounds the nesting of a test file; an input may not be deeper either.
const maxDepth = 100

func (r *reader) fault(n node, format string, args ...any) {
	at := yamltree.Of(n.Node)
	r.faults = append(r.faults, scheduler.Fault{File: r.file, Line: at.Line, Column: at.Column, Path: n.path, Message: fmt.Sprintf(format, args...)})
}

// member is a key of a mapping.
type member struct {
	key, value node
}

// mapping returns the members of a mapping in order. known lists the keys, any if it is nil.
func (r *reader) mapping(n node, known []string) (list []member) {
	if n.Kind != yaml.MappingNode {
		r.fault(n, "expected a mapping%s", keysHint(known))
		return nil
	}
	seen := map[string]bool{}
	for i := 0; i+1 < len(n.Content); i += 2 {
		name := n.Content[i].Value
		path := name
		if n.path != "" {
			path = n.path + "." + name
		}
		m := member{node{n.Content[i], path}, node{n.Content[i+1], path}}
		switch {
		case m.key.Kind != yaml.ScalarNode:
			r.fault(m.key, "a key must be text")
		case seen[name]:
			r.fault(m.key, "the key %q is set twice", name)
		case known != nil && !slices.Contains(known, name):
			r.fault(m.key, "unknown key %q: %s", name, events.Suggest(name, known))
		default:
			list = append(list, m)
		}
		seen[name] = true
	}
	return list
}

func keysHint(known []string) string {
	if known == nil {
		return " of names"
	}
	return " with the keys " + fmt.Sprint(known)
}

// items returns the elements of a list.
func (r *reader) items(n node) (list []node) {
	if n.Kind != yaml.SequenceNode {
		r.fault(n, "expected a list")
		return nil
	}
	for i, e := range n.Content {
		list = append(list, node{e, n.path + "[" + strconv.Itoa(i) + "]"})
	}
	return list
}

func (r *reader) text(n node) string {
	if n.Kind != yaml.ScalarNode || n.ShortTag() != "!!str" {
		r.fault(n, "expected text")
		return ""
	}
	return n.Value
}

// one reads text that is one of the known words.
func (r *reader) one(n node, known []string) string {
	s := r.text(n)
	if s != "" && !slices.Contains(known, s) {
		r.fault(n, "%q is not known here: %s", s, events.Suggest(s, known))
	}
	return s
}

func (r *reader) boolean(n node) bool {
	if n.Kind != yaml.ScalarNode || n.ShortTag() != "!!bool" {
		r.fault(n, "expected true or false")
	}
	return n.Value == "true"
}

func (r *reader) count(n node) *int {
	v, err := strconv.Atoi(n.Value)
	if n.Kind != yaml.ScalarNode || err != nil || v < 0 {
		r.fault(n, "expected a whole number, 0 or more")
		return nil
	}
	return &v
}

// duration reads a duration; 0s is allowed.
func (r *reader) duration(n node) events.Duration {
	d, err := events.ParseDuration(n.Value)
	switch {
	case n.Kind != yaml.ScalarNode || err != nil:
		r.fault(n, "expected a duration such as 30s")
	case d < 0:
		r.fault(n, "%q is negative", n.Value)
	}
	return d
}

// json returns a value as JSON. The submission, and all that the agents answer, is JSON.
func (r *reader) json(n node) json.RawMessage {
	before := len(r.faults)
	v := r.value(n, 0)
	if len(r.faults) > before {
		return nil
	}
	b, err := events.Marshal(v)
	if err != nil {
		r.fault(n, "%s", err)
	}
	return b
}

func (r *reader) value(n node, depth int) any {
	switch {
	case depth > maxDepth:
		r.fault(n, "nested more than %d levels deep", maxDepth)
	case n.Kind == yaml.MappingNode:
		m := map[string]any{}
		for _, x := range r.mapping(n, nil) {
			m[x.key.Value] = r.value(x.value, depth+1)
		}
		return m
	case n.Kind == yaml.SequenceNode:
		list := []any{}
		for _, e := range r.items(n) {
			list = append(list, r.value(e, depth+1))
		}
		return list
	case n.Kind == yaml.ScalarNode:
		v, err := yamltree.Scalar(n.Node)
		if err != nil {
			r.fault(n, "%s", err)
		}
		return v
	default:
		r.fault(n, "anchors and aliases are not supported: repeat the value")
	}
	return nil
}
