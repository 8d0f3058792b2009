package httpagent

import (
	"encoding/json"
	"maps"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v4"

	"github.com/sagalog/sagalog/events"
	"github.com/sagalog/sagalog/internal/yamltree"
)

// mapping reads the members of a mapping and returns those that are present. Unknown and duplicate members are faults.
func (p *parser) mapping(n *yaml.Node, known map[string]field) map[string]bool {
	seen := map[string]bool{}
	n = resolve(n)
	if n.Kind != yaml.MappingNode {
		p.fault(n, "must be a mapping with %s", strings.Join(slices.Sorted(maps.Keys(known)), ", "))
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
			p.fault(k, "unknown key %q, %s", k.Value, events.Suggest(k.Value, slices.Sorted(maps.Keys(known))))
		case seen[k.Value]:
			p.fault(k, "key %q is set twice", k.Value)
		default:
			seen[k.Value] = true
			read(resolve(n.Content[i+1]))
		}
	}
	return seen
}

func (p *parser) require(n *yaml.Node, seen map[string]bool, keys ...string) {
	for _, k := range keys {
		if !seen[k] {
			p.fault(n, "key %q is missing", k)
		}
	}
}

// text reads a scalar as it is written in the file.
func (p *parser) text(n *yaml.Node, into *string) bool {
	n = resolve(n)
	if n.Kind != yaml.ScalarNode || n.ShortTag() == "!!null" {
		p.fault(n, "must be text")
		return false
	}
	*into = n.Value
	return true
}

func resolve(n *yaml.Node) *yaml.Node {
	if n.Kind == yaml.AliasNode && n.Alias != nil {
		return n.Alias
	}
	return n
}

// bodyNodes bounds the size of a body that repeats aliases, and bodyDepth the depth of an alias that contains itself.
const (
	bodyNodes = 10_000
	bodyDepth = 64
)

// value returns a node as JSON values, and notes the node of each by its JSON pointer. It returns false after a fault.
func (p *parser) value(n *yaml.Node, pointer string, places map[string]*yaml.Node) (v any, ok bool) {
	n = resolve(n)
	places[pointer] = n
	if len(places) > bodyNodes || strings.Count(pointer, "/") > bodyDepth {
		p.fault(n, "the body has more than %d values, or more than %d levels", bodyNodes, bodyDepth)
		return nil, false
	}
	switch n.Kind {
	case yaml.MappingNode:
		return p.object(n, pointer, places)
	case yaml.SequenceNode:
		list := make([]any, len(n.Content))
		for i, e := range n.Content {
			if list[i], ok = p.value(e, pointer+"/"+strconv.Itoa(i), places); !ok {
				return nil, false
			}
		}
		return list, true
	}
	v, err := yamltree.Scalar(n)
	if err != nil {
		p.fault(n, "%s", err)
	}
	return v, err == nil
}

func (p *parser) object(n *yaml.Node, pointer string, places map[string]*yaml.Node) (_ any, ok bool) {
	out := make(map[string]any, len(n.Content)/2)
	for i := 0; i+1 < len(n.Content); i += 2 {
		k := n.Content[i]
		if _, twice := out[k.Value]; twice || k.Kind != yaml.ScalarNode {
			p.fault(k, "a key of the body must be text, and may be set only once")
			return nil, false
		}
		below := pointer + "/" + strings.NewReplacer("~", "~0", "/", "~1").Replace(k.Value)
		if out[k.Value], ok = p.value(n.Content[i+1], below, places); !ok {
			return nil, false
		}
	}
	return out, true
}

// mustMarshal encodes JSON values, which always encode.
func mustMarshal(v any) json.RawMessage {
	b, err := events.Marshal(v)
	if err != nil {
		panic("httpagent: text does not encode: " + err.Error())
	}
	return b
}
