package exprlang

import (
	"encoding/json"
	"errors"
)

// Scope holds the values that expressions see by their top-level names. It belongs to one goroutine.
type Scope struct {
	vars map[string]*Node
	// env is what expr sees: the scope itself, under a name that no source can write.
	env map[string]any
	// left is what the running evaluation may still spend.
	left int
}

// NewScope returns a scope of raw JSON values. Absent (empty) values are null.
func NewScope(vars map[string]json.RawMessage) *Scope {
	nodes := make(map[string]*Node, len(vars))
	for name, raw := range vars {
		nodes[name] = Raw(raw)
	}
	return NewNodeScope(nodes)
}

// NewNodeScope returns a scope of nodes. It keeps the map.
func NewNodeScope(vars map[string]*Node) *Scope {
	s := &Scope{vars: vars}
	s.env = map[string]any{hidden: s}
	return s
}

// With returns a scope with one more variable. What either scope decodes, both have.
func (s *Scope) With(name string, n *Node) *Scope {
	vars := make(map[string]*Node, len(s.vars)+1)
	for k, v := range s.vars {
		vars[k] = v
	}
	vars[name] = n
	return NewNodeScope(vars)
}

// Members is an object whose members are made when an expression asks for them.
type Members interface {
	// Member returns nil if the object has no such member.
	Member(name string) *Node
	// Names returns the names of all members, in any order.
	Names() []string
}

// Node is a value in a scope: raw JSON, decoded level by level as far as paths go into it.
type Node struct {
	raw     json.RawMessage
	members Members
	// kind is the first byte of raw, and 0 as long as the node was not touched.
	kind   byte
	object map[string]json.RawMessage
	array  []json.RawMessage
	// children caches the nodes of members and elements that paths went through.
	children map[any]*Node
	decoded  bool
	value    any
	unknown  bool
}

// Raw returns the node of a raw JSON value; an empty one is null.
func Raw(raw json.RawMessage) *Node { return &Node{raw: raw} }

// Object returns the node of an object whose members are made on demand.
func Object(m Members) *Node { return &Node{members: m, kind: '{'} }

// Unknown returns the node of a value of which nothing is known: it is null, and so is each of its members. The
// validator of definitions evaluates with it.
func Unknown() *Node { return &Node{unknown: true, kind: 'n'} }

// Value returns the node of a value of Go: a string, bool, number, nil, map or slice of these.
func Value(v any) (*Node, error) {
	b, err := encode(v)
	if err != nil {
		return nil, err
	}
	return Raw(b), nil
}

// open splits the value into its members or elements, one level deep.
func (n *Node) open() error {
	if n.kind != 0 {
		return nil
	}
	kind := first(n.raw)
	switch kind {
	case '{':
		if err := json.Unmarshal(n.raw, &n.object); err != nil {
			return err
		}
	case '[':
		if err := json.Unmarshal(n.raw, &n.array); err != nil {
			return err
		}
	default:
		if kind != 'n' && !json.Valid(n.raw) {
			return errors.New("not JSON")
		}
	}
	n.kind = kind
	return nil
}

// first returns the byte that tells the type of a JSON value; an empty value is null.
func first(raw json.RawMessage) byte {
	for _, c := range raw {
		if c != ' ' && c != '\t' && c != '\n' && c != '\r' {
			return c
		}
	}
	return 'n'
}

// child returns the cached node of a member or element, or makes it.
func (n *Node) child(key any, raw json.RawMessage) *Node {
	if c := n.children[key]; c != nil {
		return c
	}
	if n.children == nil {
		n.children = make(map[any]*Node)
	}
	c := Raw(raw)
	n.children[key] = c
	return c
}

// member returns nil if the object has no such member. The node must be an open object.
func (n *Node) member(name string) *Node {
	if n.members == nil {
		raw, ok := n.object[name]
		if !ok {
			return nil
		}
		return n.child(name, raw)
	}
	if c := n.children[name]; c != nil {
		return c
	}
	c := n.members.Member(name)
	if c != nil {
		if n.children == nil {
			n.children = make(map[any]*Node)
		}
		n.children[name] = c
	}
	return c
}

// get decodes the whole value.
func (n *Node) get() (any, error) {
	if n.decoded {
		return n.value, nil
	}
	var err error
	if n.members != nil {
		n.value, err = n.gather()
	} else {
		n.value, err = decode(n.raw)
	}
	n.decoded = err == nil
	return n.value, err
}

func (n *Node) gather() (any, error) {
	names := n.members.Names()
	m := make(map[string]any, len(names))
	for _, name := range names {
		c := n.member(name)
		if c == nil {
			continue
		}
		v, err := c.get()
		if err != nil {
			return nil, err
		}
		m[name] = v
	}
	return m, nil
}

// bytes returns the value as it was written.
func (n *Node) bytes() (json.RawMessage, error) {
	if n.members == nil {
		if len(n.raw) == 0 {
			return null, nil
		}
		return n.raw, nil
	}
	v, err := n.get()
	if err != nil {
		return nil, err
	}
	return encode(v)
}
