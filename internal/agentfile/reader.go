package agentfile

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"go.yaml.in/yaml/v4"

	"github.com/sagalog/sagalog/agent"
	"github.com/sagalog/sagalog/events"
	"github.com/sagalog/sagalog/internal/yamltree"
)

// Reader reads one document and collects its faults.
type Reader struct {
	file string
	data []byte
	environment
	faults Faults
}

func newReader(file string, data []byte, env func(string) (string, bool)) *Reader {
	return &Reader{file: file, data: data, environment: environment{lookup: env, values: map[string]string{}, hidden: map[string]string{}}}
}

// File is the name of the file.
func (r *Reader) File() string { return r.file }

// Faulty says that the document has a fault.
func (r *Reader) Faulty() bool { return len(r.faults) > 0 }

// Fault notes a mistake at a node.
func (r *Reader) Fault(n *yaml.Node, format string, args ...any) {
	r.faultAt(yamltree.Of(n), format, args...)
}

// Within notes a mistake at an offset in the text of a node.
func (r *Reader) Within(n *yaml.Node, offset int, format string, args ...any) {
	r.faultAt(yamltree.Within(r.data, n, offset), format, args...)
}

// Field reads one known member of a mapping.
type Field func(*yaml.Node)

// Mapping reads the members of a mapping and returns those that are present. Unknown and duplicate members are faults.
func (r *Reader) Mapping(n *yaml.Node, known map[string]Field) map[string]bool {
	seen := map[string]bool{}
	n = Resolve(n)
	if n.Kind != yaml.MappingNode {
		r.Fault(n, "must be a mapping with %s", strings.Join(slices.Sorted(maps.Keys(known)), ", "))
		for k := range known {
			seen[k] = true // the fault is reported once
		}
		return seen
	}
	for i := 0; i+1 < len(n.Content); i += 2 {
		k := n.Content[i]
		read, ok := known[k.Value]
		switch {
		case k.Kind != yaml.ScalarNode || !ok:
			r.Fault(k, "unknown key %q, %s", k.Value, events.Suggest(k.Value, slices.Sorted(maps.Keys(known))))
		case seen[k.Value]:
			r.Fault(k, "key %q is set twice", k.Value)
		default:
			seen[k.Value] = true
			read(Resolve(n.Content[i+1]))
		}
	}
	return seen
}

// Require notes a fault for each key that is missing.
func (r *Reader) Require(n *yaml.Node, seen map[string]bool, keys ...string) {
	for _, k := range keys {
		if !seen[k] {
			r.Fault(n, "key %q is missing", k)
		}
	}
}

// Text reads a scalar as it is written in the file.
func (r *Reader) Text(n *yaml.Node, into *string) bool {
	n = Resolve(n)
	if n.Kind != yaml.ScalarNode || n.ShortTag() == "!!null" {
		r.Fault(n, "must be text")
		return false
	}
	*into = n.Value
	return true
}

// Agent reads the name of an agent.
func (r *Reader) Agent(n *yaml.Node, into *string) {
	if !r.Text(n, into) {
		return
	}
	if err := agent.CheckName(*into); err != nil {
		r.Fault(n, "%v", err)
	}
}

// Integer reads a whole number from 1 to most.
func (r *Reader) Integer(n *yaml.Node, into *int, most int) {
	v, err := strconv.Atoi(n.Value)
	if n.Kind != yaml.ScalarNode || err != nil || v < 1 || v > most {
		r.Fault(n, "must be a whole number from 1 to %d", most)
		return
	}
	*into = v
}

// Duration reads a duration that is longer than zero.
func (r *Reader) Duration(n *yaml.Node, into *time.Duration) {
	d, err := events.ParseDuration(n.Value)
	switch {
	case n.Kind != yaml.ScalarNode:
		r.Fault(n, "must be a duration such as 10s")
	case err != nil:
		r.Fault(n, "%v", err)
	case d <= 0:
		r.Fault(n, "must be longer than zero")
	default:
		*into = d.Std()
	}
}

func (r *Reader) faultAt(at yamltree.Place, format string, args ...any) {
	r.faults = append(r.faults, Fault{File: r.file, Line: at.Line, Column: at.Column, Message: fmt.Sprintf(format, args...)})
}

// Resolve returns the node that an alias stands for.
func Resolve(n *yaml.Node) *yaml.Node {
	if n.Kind == yaml.AliasNode && n.Alias != nil {
		return n.Alias
	}
	return n
}
