package exprlang

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
)

// path is a variable followed by constant members and elements, such as steps["third-party"].output.items[0]. It is looked up in the
// raw JSON, so the rest is not decoded.
type path struct {
	root  string
	hops  []hop
	begin int // rune of the source at which it begins
}

// hop is one step of a path: an element if element is set, and otherwise a member.
type hop struct {
	name     string
	index    int
	element  bool
	optional bool
}

func (p *path) extend(h hop) *path {
	hops := make([]hop, len(p.hops), len(p.hops)+1)
	copy(hops, p.hops)
	return &path{root: p.root, hops: append(hops, h), begin: p.begin}
}

// names returns the path as text, for references.
func (p *path) names() []string {
	s := []string{p.root}
	for _, h := range p.hops {
		if h.element {
			s = append(s, strconv.Itoa(h.index))
		} else {
			s = append(s, h.name)
		}
	}
	return s
}

// text returns the path up to its first n hops, as a person would write it.
func (p *path) text(n int) string {
	var b strings.Builder
	b.WriteString(p.root)
	for _, h := range p.hops[:n] {
		switch {
		case h.element:
			fmt.Fprintf(&b, "[%d]", h.index)
		case plainName(h.name):
			b.WriteString("." + h.name)
		default:
			fmt.Fprintf(&b, "[%q]", h.name)
		}
	}
	return b.String()
}

func plainName(s string) bool {
	for i, c := range s {
		letter := c == '_' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z'
		if !letter && (i == 0 || c < '0' || c > '9') {
			return false
		}
	}
	return s != ""
}

// fieldsPerUnit is how many members of an object are compared with a name for one unit of the budget. An ordinary object costs
// nothing.
const fieldsPerUnit = 64

// find returns the node of a path; nil is null.
func (s *Scope) find(p *path) (*Node, error) {
	n := s.variable(p.root)
	for i, h := range p.hops {
		if n != nil && n.unknown {
			return n, nil
		}
		if n != nil {
			if err := n.open(s); err != nil {
				return nil, fmt.Errorf("read %s: %w", p.text(i), err)
			}
			if err := s.Spend(len(n.fields) / fieldsPerUnit); err != nil {
				return nil, err
			}
		}
		if n == nil || n.kind == 'n' {
			if h.optional {
				return nil, nil
			}
			return nil, &NullError{Path: p.names()[:i+1], text: p.text(i), missing: h.text()}
		}
		next, err := n.hop(s, h)
		if err != nil {
			return nil, fmt.Errorf("%s %w", p.text(i), err)
		}
		n = next
	}
	return n, nil
}

// lookUp returns the value of a path, decoded.
func (s *Scope) lookUp(p *path) (any, error) {
	n, err := s.find(p)
	if err != nil || n == nil {
		return nil, err
	}
	return n.get(s)
}

// written returns the value of a path as it was written.
func (s *Scope) written(p *path) (json.RawMessage, error) {
	n, err := s.find(p)
	if err != nil || n == nil {
		return null, err
	}
	return n.bytes(s)
}

// hop takes one hop from an open node that is not null. Its errors continue a sentence that begins with the name of the node.
func (n *Node) hop(s *Scope, h hop) (*Node, error) {
	switch {
	case n.kind == '{' && !h.element:
		return n.member(s, h.name), nil
	case n.kind == '[' && h.element:
		if h.index < 0 || h.index >= len(n.fields) {
			return nil, fmt.Errorf("has %d elements, so it has no element %d", len(n.fields), h.index)
		}
		return n.element(s, h.index), nil
	default:
		return nil, fmt.Errorf("is %s, so it has no %s", kindName(n.kind), h.text())
	}
}

func (h hop) text() string {
	if h.element {
		return fmt.Sprintf("element %d", h.index)
	}
	return fmt.Sprintf("member %q", h.name)
}

// KindOf names what a JSON value is, such as "an object". An empty one is null.
func KindOf(raw json.RawMessage) string { return kindName(first(raw)) }

func kindName(kind byte) string {
	switch kind {
	case '{':
		return "an object"
	case '[':
		return "a list"
	case '"':
		return "a string"
	case 't', 'f':
		return "a boolean"
	case 'n':
		return "null"
	}
	return "a number"
}
