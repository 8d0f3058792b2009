package httpagent

import (
	"encoding/json"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v4"

	"github.com/sagalog/sagalog/events"
	"github.com/sagalog/sagalog/internal/agentfile"
	"github.com/sagalog/sagalog/internal/yamltree"
)

// bodyNodes bounds the size of a body that repeats aliases, and bodyDepth the depth of an alias that contains itself.
const (
	bodyNodes = 10_000
	bodyDepth = 64
)

// value returns a node as JSON values, and notes the node of each by its JSON pointer. It returns false after a fault.
func (p *parser) value(n *yaml.Node, pointer string, places map[string]*yaml.Node) (v any, ok bool) {
	n = agentfile.Resolve(n)
	places[pointer] = n
	if len(places) > bodyNodes || strings.Count(pointer, "/") > bodyDepth {
		p.Fault(n, "the body has more than %d values, or more than %d levels", bodyNodes, bodyDepth)
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
		p.Fault(n, "%s", err)
	}
	return v, err == nil
}

func (p *parser) object(n *yaml.Node, pointer string, places map[string]*yaml.Node) (_ any, ok bool) {
	out := make(map[string]any, len(n.Content)/2)
	for i := 0; i+1 < len(n.Content); i += 2 {
		k := n.Content[i]
		if _, twice := out[k.Value]; twice || k.Kind != yaml.ScalarNode {
			p.Fault(k, "a key of the body must be text, and may be set only once")
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
