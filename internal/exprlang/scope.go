package exprlang

import (
	"encoding/json"
	"strconv"
	"sync"

	"github.com/sagalog/sagalog/internal/jsontext"
)

// Scope holds the values that expressions see by their top-level names. It belongs to one goroutine.
type Scope struct {
	vars []variable
	// env is the environment of expr: the scope itself, under a name that no source can write. It is created for the first
	// expression that needs expr's virtual machine.
	env map[string]any
	// left is what remains of the budget, which all evaluations with the scope share.
	left int
	// unseal opens sealed values; nil if there are none.
	unseal func(json.RawMessage) (json.RawMessage, error)
	// patterns are the regular expressions compiled during evaluation.
	patterns map[string]*Pattern

	// The fields below are memory that a borrowed scope keeps from one use to the next. Nodes point into it: when a piece is
	// full, a new one begins and existing nodes keep the old one.
	nodes  []Node
	fields []field
	texts  []byte
	// result is the buffer in which a template is assembled, nil in a scope that is not borrowed.
	result []byte
}

type variable struct {
	name string
	node *Node
	// later makes the node when it is used first, nil if there is one.
	later func() *Node
}

// The memory that a scope keeps: enough for a mapping of dozens of paths, and little compared to a task.
const (
	leastNodes, mostNodes = 4, 64
	leastFields           = 8
	maxFieldsKept         = 1024
	maxBytesKept          = 64 << 10
)

// NewScope returns a scope of raw JSON values. Absent (empty) values are null.
func NewScope(vars map[string]json.RawMessage) *Scope {
	s := &Scope{vars: make([]variable, 0, len(vars)), left: evaluationBudget}
	for name, raw := range vars {
		s.vars = append(s.vars, variable{name, Raw(raw), nil})
	}
	return s
}

// NewNodeScope returns a scope of nodes.
func NewNodeScope(vars map[string]*Node) *Scope {
	s := &Scope{vars: make([]variable, 0, len(vars)), left: evaluationBudget}
	for name, n := range vars {
		s.vars = append(s.vars, variable{name, n, nil})
	}
	return s
}

var scopes = sync.Pool{New: func() any { return &Scope{result: []byte{}, left: evaluationBudget} }}

// Borrow returns an empty scope from a pool, for frequent evaluations. Nothing from it may be used after Return except the
// results of Eval.
func Borrow() *Scope { return scopes.Get().(*Scope) }

// Return gives a borrowed scope back. The scope keeps its memory but none of its values.
func (s *Scope) Return() {
	clear(s.vars)
	clear(s.nodes)
	clear(s.fields)
	s.left, s.unseal = evaluationBudget, nil
	s.vars, s.nodes, s.fields, s.texts, s.patterns = s.vars[:0], s.nodes[:0], s.fields[:0], s.texts[:0], nil
	if cap(s.fields) > maxFieldsKept {
		s.fields = nil
	}
	if cap(s.texts) > maxBytesKept {
		s.texts = nil
	}
	if cap(s.result) > maxBytesKept {
		s.result = []byte{}
	}
	scopes.Put(s)
}

// Spent returns what the evaluations with the scope cost, in units of the budget.
func (s *Scope) Spent() int { return evaluationBudget - s.left }

// Set gives a variable its value.
func (s *Scope) Set(name string, n *Node) {
	for i := range s.vars {
		if s.vars[i].name == name {
			s.vars[i].node, s.vars[i].later = n, nil
			return
		}
	}
	s.vars = append(s.vars, variable{name, n, nil})
}

// SetLater gives a variable a value that is made when an expression uses it first. The variable must not have one yet.
func (s *Scope) SetLater(name string, value func() *Node) {
	s.vars = append(s.vars, variable{name, nil, value})
}

// Raw is the function Raw, with a node of the scope.
func (s *Scope) Raw(raw json.RawMessage) *Node {
	n := s.node()
	n.raw, n.sealed = raw, s.unseal != nil
	return n
}

// Missing returns the node of a value that cannot be had: each use of it is this error.
func (s *Scope) Missing(err error) *Node {
	n := s.node()
	n.value, n.missing = err, true
	return n
}

// Unseal gives the scope the function that opens the values of nodes that are created from now on, when an expression looks at them. It
// returns a value that is not sealed as it is.
func (s *Scope) Unseal(open func(json.RawMessage) (json.RawMessage, error)) { s.unseal = open }

// Object is the function Object, with a node of the scope.
func (s *Scope) Object(m Members) *Node {
	n := s.node()
	n.members, n.kind = m, '{'
	return n
}

// Text returns the node of a text, or nil if the text exceeds every limit.
func (s *Scope) Text(text string) *Node {
	from := len(s.texts)
	b, err := appendString(s.texts, text)
	if err != nil {
		return nil
	}
	s.texts = b
	return s.Raw(b[from:len(b):len(b)])
}

// Int returns the node of a whole number.
func (s *Scope) Int(i int) *Node {
	from := len(s.texts)
	s.texts = strconv.AppendInt(s.texts, int64(i), 10)
	return s.Raw(s.texts[from:len(s.texts):len(s.texts)])
}

func (s *Scope) variable(name string) *Node {
	for i := range s.vars {
		if v := &s.vars[i]; v.name == name {
			if v.later != nil {
				v.node, v.later = v.later(), nil
			}
			return v.node
		}
	}
	return nil
}

// machineEnv returns the environment of expr's programs.
func (s *Scope) machineEnv() map[string]any {
	if s.env == nil {
		s.env = map[string]any{hidden: s}
	}
	return s.env
}

func (s *Scope) node() *Node {
	if len(s.nodes) == cap(s.nodes) {
		s.nodes = make([]Node, 0, min(max(2*cap(s.nodes), leastNodes), mostNodes))
	}
	s.nodes = s.nodes[:len(s.nodes)+1]
	return &s.nodes[len(s.nodes)-1]
}

// split returns the members or elements of a raw object or list, one level deep, and false if jsontext cannot be sure of them.
func (s *Scope) split(raw json.RawMessage) (fields []field, sure bool) {
	at := jsontext.Space(raw, 0)
	if s.fields == nil {
		s.fields = make([]field, 0, leastFields)
	}
	from := len(s.fields)
	defer func() {
		if !sure {
			clear(s.fields[from:])
			s.fields = s.fields[:from]
		}
	}()
	w := jsontext.Begin(raw, at)
	for w.Next() {
		f := field{name: w.Name}
		if raw[at] == '{' && !w.Plain {
			name, err := decodeName(w.Name)
			if err != nil {
				return nil, false
			}
			f.name = name
		}
		begin := w.At
		w.To(jsontext.Skip(raw, begin))
		if w.At < 0 {
			return nil, false
		}
		f.raw = raw[begin:w.At:w.At]
		s.fields = append(s.fields, f)
	}
	end := w.End()
	if end < 0 || jsontext.Space(raw, end) != len(raw) {
		return nil, false
	}
	return s.fields[from:len(s.fields):len(s.fields)], true
}

// decodeName decodes a name that has escapes or is not ASCII.
func decodeName(name []byte) ([]byte, error) {
	quoted := make([]byte, 0, len(name)+2)
	quoted = append(append(append(quoted, '"'), name...), '"')
	var text string
	err := json.Unmarshal(quoted, &text)
	return []byte(text), err
}
