package agentfile

import (
	"cmp"
	"encoding/json"
	"errors"
	"maps"

	"go.yaml.in/yaml/v4"

	"github.com/sagalog/sagalog/events"
	"github.com/sagalog/sagalog/internal/exprlang"
)

// environment holds the environment variables that a document names.
type environment struct {
	lookup func(string) (string, bool)
	values map[string]string
	// hidden holds the variables that are secret, and public the names of the others.
	hidden map[string]string
	public []string
	// open says that the variables named now are not secret.
	open bool
}

// Template compiles a string with expressions over the given variables, and looks up the environment variables that it names.
func (r *Reader) Template(n *yaml.Node, escape func(string) string, vars []string) *exprlang.Text {
	var s string
	if !r.Text(n, &s) {
		return nil
	}
	n = Resolve(n)
	t, err := exprlang.CompileString(s, escape, vars...)
	if err != nil {
		r.ExpressionFaults(n, err, nil)
		return nil
	}
	for _, ref := range t.References() {
		r.reference(n, ref)
	}
	return t
}

// reference looks up an environment variable that an expression names.
func (r *Reader) reference(n *yaml.Node, ref exprlang.Reference) {
	switch {
	case ref.Path[0] != "env":
	case len(ref.Path) < 2:
		r.Within(n, ref.Offset, "name one variable of the environment, as in env.NAME")
	default:
		r.Variable(n, ref.Offset, ref.Path[1])
	}
}

// Variable returns the value of an environment variable that a document names at an offset in the text of a node.
func (r *Reader) Variable(n *yaml.Node, offset int, name string) (string, bool) {
	v, ok := r.lookup(name)
	if !ok {
		r.Within(n, offset, "the environment has no variable %s: set it (export %s=...) or remove it here", name, name)
		r.faults[len(r.faults)-1].Unset = true
		return "", false
	}
	r.values[name] = v
	if !r.open {
		r.hidden[name] = v
	}
	return v, true
}

// ExpressionFaults notes the faults of an expression. places holds the nodes of a structured value by their JSON pointers.
func (r *Reader) ExpressionFaults(n *yaml.Node, err error, places map[string]*yaml.Node) {
	var all exprlang.Errors
	if !errors.As(err, &all) {
		r.Fault(n, "%v", err)
		return
	}
	for _, e := range all {
		r.Within(cmp.Or(places[e.Pointer], n), e.Offset, "%s", e.Message)
	}
}

// Constant returns a text that may name environment variables, none of which is secret.
func (r *Reader) Constant(n *yaml.Node) (string, bool) {
	r.open = true
	defer func() { r.open = false }()
	return r.Secret(n)
}

// Secret returns a text that may name environment variables, which are secret. No fault shows the text.
func (r *Reader) Secret(n *yaml.Node) (string, bool) {
	before := len(r.faults)
	t := r.Template(n, nil, []string{"env"})
	if t == nil || len(r.faults) > before {
		return "", false
	}
	s, err := t.Eval(exprlang.NewScope(map[string]json.RawMessage{"env": mustMarshal(r.values)}))
	if err != nil {
		r.Fault(n, "%v", err)
		return "", false
	}
	return s, true
}

// Public reads the list of the variables whose values are not secret.
func (r *Reader) Public(n *yaml.Node) {
	if n.Kind != yaml.SequenceNode {
		r.Fault(n, "public is a list of environment variables, such as [REGION]")
		return
	}
	for _, e := range n.Content {
		var name string
		if r.Text(e, &name) {
			r.public = append(r.public, name)
		}
	}
}

// Reveal says that the values of these variables are not secret.
func (r *Reader) Reveal(names ...string) { r.public = append(r.public, names...) }

// Hide makes a value secret that is not the whole value of a variable.
func (r *Reader) Hide(name, value string) { r.hidden[name] = value }

// Environment returns the variables that the document names, as the JSON value env of expressions, and those that are secret.
func (r *Reader) Environment(n *yaml.Node) (json.RawMessage, *Secrets) {
	env, err := events.Marshal(r.values)
	if err != nil {
		r.Fault(n, "an environment variable cannot be used: %v", err)
		return nil, nil
	}
	hidden := maps.Clone(r.hidden)
	for _, name := range r.public {
		delete(hidden, name)
	}
	return env, NewSecrets(hidden)
}

// mustMarshal encodes JSON values, which always encode.
func mustMarshal(v any) json.RawMessage {
	b, err := events.Marshal(v)
	if err != nil {
		panic("agentfile: text does not encode: " + err.Error())
	}
	return b
}
