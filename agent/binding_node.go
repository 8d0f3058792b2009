package agent

import (
	"encoding/json"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"go.yaml.in/yaml/v4"

	"github.com/sagalog/sagalog/events"
)

type rawMessage = json.RawMessage

// mapping reads the members of a mapping and returns those that were there. Unknown and doubled ones are faults.
func (p *bindingParser) mapping(n *yaml.Node, known map[string]field) map[string]bool {
	seen := map[string]bool{}
	n = resolve(n)
	if n.Kind != yaml.MappingNode {
		p.fault(n, "must be a mapping with %s", strings.Join(slices.Sorted(maps.Keys(known)), ", "))
		for k := range known {
			seen[k] = true // one fault says it
		}
		return seen
	}
	for i := 0; i+1 < len(n.Content); i += 2 {
		k := n.Content[i]
		read, ok := known[k.Value]
		switch {
		case k.Kind != yaml.ScalarNode || !ok:
			p.fault(k, "unknown key %q%s", k.Value, nearest(k.Value, slices.Sorted(maps.Keys(known))))
		case seen[k.Value]:
			p.fault(k, "key %q stands here twice", k.Value)
		default:
			seen[k.Value] = true
			read(resolve(n.Content[i+1]))
		}
	}
	return seen
}

func (p *bindingParser) require(n *yaml.Node, seen map[string]bool, keys ...string) {
	for _, k := range keys {
		if !seen[k] {
			p.fault(n, "key %q is missing", k)
		}
	}
}

// text reads a scalar as the text that stands there.
func (p *bindingParser) text(n *yaml.Node, into *string) bool {
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

// What aliases can blow a body up to, and how deep one that holds itself goes.
const (
	bodyNodes = 10_000
	bodyDepth = 64
)

var jsonNumber = regexp.MustCompile(`^-?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][+-]?[0-9]+)?$`)

// json turns a node into JSON and notes where each value stands. It returns nil after a fault.
func (p *bindingParser) json(n *yaml.Node, pointer string, places map[string]*yaml.Node) json.RawMessage {
	n = resolve(n)
	places[pointer] = n
	if len(places) > bodyNodes || strings.Count(pointer, "/") > bodyDepth {
		p.fault(n, "the body has more than %d values, or more than %d levels", bodyNodes, bodyDepth)
		return nil
	}
	switch n.Kind {
	case yaml.MappingNode:
		return p.jsonObject(n, pointer, places)
	case yaml.SequenceNode:
		out := []byte{'['}
		for i, e := range n.Content {
			raw := p.json(e, pointer+"/"+strconv.Itoa(i), places)
			if raw == nil {
				return nil
			}
			if i > 0 {
				out = append(out, ',')
			}
			out = append(out, raw...)
		}
		return append(out, ']')
	default:
		return p.jsonScalar(n)
	}
}

func (p *bindingParser) jsonObject(n *yaml.Node, pointer string, places map[string]*yaml.Node) json.RawMessage {
	out := []byte{'{'}
	seen := map[string]bool{}
	for i := 0; i+1 < len(n.Content); i += 2 {
		k := n.Content[i]
		if k.Kind != yaml.ScalarNode || seen[k.Value] {
			p.fault(k, "a key of the body must be text and stand there once")
			return nil
		}
		seen[k.Value] = true
		raw := p.json(n.Content[i+1], pointer+"/"+strings.NewReplacer("~", "~0", "/", "~1").Replace(k.Value), places)
		if raw == nil {
			return nil
		}
		if i > 0 {
			out = append(out, ',')
		}
		out = append(append(append(out, mustMarshal(k.Value)...), ':'), raw...)
	}
	return append(out, '}')
}

func (p *bindingParser) jsonScalar(n *yaml.Node) json.RawMessage {
	switch n.ShortTag() {
	case "!!null":
		return json.RawMessage("null")
	case "!!bool", "!!int", "!!float":
		if jsonNumber.MatchString(n.Value) {
			return json.RawMessage(n.Value) // with all its digits
		}
		var v any
		if err := n.Decode(&v); err != nil {
			p.fault(n, "%v", err)
			return nil
		}
		raw, err := events.Marshal(v)
		if err != nil {
			p.fault(n, "%q has no form in JSON", n.Value)
			return nil
		}
		return raw
	default:
		return mustMarshal(n.Value)
	}
}

// mustMarshal encodes text and maps of text, which always encode.
func mustMarshal(v any) json.RawMessage {
	b, err := events.Marshal(v)
	if err != nil {
		panic("agent: text does not encode: " + err.Error())
	}
	return b
}

func at(places map[string]*yaml.Node, pointer string, otherwise *yaml.Node) *yaml.Node {
	if n := places[pointer]; n != nil {
		return n
	}
	return otherwise
}

// inside returns a place within a scalar. In a block the text's own lines and indentation are gone, so there it is
// the scalar's beginning.
func inside(n *yaml.Node, offset int) *yaml.Node {
	if n.Kind != yaml.ScalarNode || n.Style&(yaml.LiteralStyle|yaml.FoldedStyle) != 0 || offset > len(n.Value) {
		return n
	}
	before := n.Value[:offset]
	if strings.ContainsAny(before, "\n\"\\\t") {
		return n
	}
	c := *n
	c.Column += utf8.RuneCountInString(before)
	if n.Style&(yaml.SingleQuotedStyle|yaml.DoubleQuotedStyle) != 0 {
		c.Column++
	}
	return &c
}

// nearest returns the end of a message about an unknown name: the known one that was probably meant, or all.
func nearest(name string, known []string) string {
	best, distance := "", 3
	for _, k := range known {
		if d := editDistance(name, k); d < distance {
			best, distance = k, d
		}
	}
	if best == "" {
		return ", known are " + strings.Join(known, ", ")
	}
	return `, did you mean "` + best + `"?`
}

// editDistance is Levenshtein's.
func editDistance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			cost := 1
			if a[i] == b[j] {
				cost = 0
			}
			diagonal, row[j+1] = row[j+1], min(diagonal+cost, row[j]+1, row[j+1]+1)
		}
	}
	return row[len(b)]
}
