package exprlang

import (
	"encoding/json"
	"errors"
)

// Members is an object that creates its members when an expression asks for them.
type Members interface {
	// Member returns nil if the object has no such member, and otherwise a node that belongs to the object alone. It may create
	// the node in the scope. The scope asks once for each name.
	Member(s *Scope, name string) *Node
	// Names returns the names of all members, in any order.
	Names() []string
}

// Node is a value in a scope: raw JSON, decoded level by level as far as paths go into it.
type Node struct {
	raw     json.RawMessage
	members Members
	// made is the member that was created last. Each member knows its name and the one created before it.
	made, before *Node
	name         string
	// kind is the first byte of raw, and 0 until the node is opened.
	kind    byte
	decoded bool
	unknown bool
	// sealed says that raw must be opened first.
	sealed bool
	// missing says that value is an error, which says why there is no value.
	missing bool
	// fields are the members or elements of raw, in order. If two members have the same name, the last
	// one counts.
	fields []field
	value  any
}

// field is a member of an object or an element of a list.
type field struct {
	name []byte
	raw  json.RawMessage
	node *Node // nil until a path goes through it
}

// Raw returns the node of a raw JSON value; an empty one is null.
func Raw(raw json.RawMessage) *Node { return &Node{raw: raw} }

// Object returns the node of an object whose members are created on demand.
func Object(m Members) *Node { return &Node{members: m, kind: '{'} }

// Unknown returns the node of an unknown value: it is null, and so is each of its members. The validator of definitions evaluates
// with it.
func Unknown() *Node { return &Node{unknown: true, kind: 'n'} }

// The bytes of JSON that are split or decoded for one unit of the budget. Ordinary values cost nothing to split.
const (
	splitPerUnit   = 256
	decodedPerUnit = 16
)

// open splits the value into its members or elements, one level deep.
func (n *Node) open(s *Scope) error {
	if n.kind != 0 {
		return nil
	}
	if err := n.unseal(s); err != nil {
		return err
	}
	if err := s.Spend(len(n.raw) / splitPerUnit); err != nil {
		return err
	}
	kind := first(n.raw)
	switch kind {
	case '{', '[':
		fields, sure := s.split(n.raw)
		if !sure {
			var err error
			if fields, err = splitAny(n.raw, kind); err != nil {
				return err
			}
		}
		n.fields = fields
	default:
		if kind != 'n' && !json.Valid(n.raw) {
			return errors.New("not JSON")
		}
	}
	n.kind = kind
	return nil
}

// splitAny is Scope.split by encoding/json, whose errors say what is wrong.
func splitAny(raw json.RawMessage, kind byte) (fields []field, err error) {
	if kind == '[' {
		var list []json.RawMessage
		err = json.Unmarshal(raw, &list)
		for _, e := range list {
			fields = append(fields, field{raw: e})
		}
		return fields, err
	}
	var object map[string]json.RawMessage
	err = json.Unmarshal(raw, &object)
	for name, e := range object {
		fields = append(fields, field{name: []byte(name), raw: e})
	}
	return fields, err
}

// unseal opens a sealed value.
func (n *Node) unseal(s *Scope) (err error) {
	if n.missing {
		err, _ = n.value.(error)
		return err
	}
	if n.sealed {
		n.raw, err = s.unseal(n.raw)
		n.sealed = err != nil
	}
	return err
}

// first returns the byte that determines the type of a JSON value. An empty value is null.
func first(raw json.RawMessage) byte {
	for _, c := range raw {
		if c != ' ' && c != '\t' && c != '\n' && c != '\r' {
			return c
		}
	}
	return 'n'
}

// element returns an element of an open list, which must have it.
func (n *Node) element(s *Scope, i int) *Node { return s.through(&n.fields[i]) }

// through returns the node of a field. It creates the node once.
func (s *Scope) through(f *field) *Node {
	if f.node == nil {
		f.node = s.Raw(f.raw)
	}
	return f.node
}

// member returns nil if the object has no such member. The node must be an open object.
func (n *Node) member(s *Scope, name string) *Node {
	if n.members == nil {
		for i := len(n.fields) - 1; i >= 0; i-- {
			if f := &n.fields[i]; string(f.name) == name {
				return s.through(f)
			}
		}
		return nil
	}
	for c := n.made; c != nil; c = c.before {
		if c.name == name {
			return c
		}
	}
	c := n.members.Member(s, name)
	if c != nil {
		c.name, c.before, n.made = name, n.made, c
	}
	return c
}

// get decodes the whole value.
func (n *Node) get(s *Scope) (any, error) {
	if n.decoded {
		return n.value, nil
	}
	err := n.unseal(s)
	if err != nil {
		return nil, err
	}
	if n.members != nil {
		n.value, err = n.collect(s)
	} else if err = s.Spend(len(n.raw) / decodedPerUnit); err == nil {
		n.value, err = decode(n.raw)
	}
	n.decoded = err == nil
	return n.value, err
}

func (n *Node) collect(s *Scope) (any, error) {
	names := n.members.Names()
	m := make(map[string]any, len(names))
	for _, name := range names {
		c := n.member(s, name)
		if c == nil {
			continue
		}
		v, err := c.get(s)
		if err != nil {
			return nil, err
		}
		m[name] = v
	}
	return m, nil
}

// bytes returns the value as it was written.
func (n *Node) bytes(s *Scope) (json.RawMessage, error) {
	if err := n.unseal(s); err != nil {
		return nil, err
	}
	if n.members == nil {
		if len(n.raw) == 0 {
			return null, nil
		}
		return n.raw, nil
	}
	v, err := n.get(s)
	if err != nil {
		return nil, err
	}
	return encode(v)
}
