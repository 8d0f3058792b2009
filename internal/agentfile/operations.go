package agentfile

import (
	"go.yaml.in/yaml/v4"

	"github.com/sagalog/sagalog/agent"
)

// KeyOperations is the member that holds the operations of an agent that have a name, in bindings of all kinds.
const KeyOperations = "operations"

// Operations reads a mapping of the names of operations to what binds them.
func (r *Reader) Operations(n *yaml.Node, read func(name string, n *yaml.Node)) {
	known := map[string]Field{}
	if n.Kind != yaml.MappingNode || len(n.Content) == 0 {
		r.Fault(n, "operations is a mapping of names to operations, such as {capture: {...}}")
		return
	}
	for i := 0; i+1 < len(n.Content); i += 2 {
		k := n.Content[i]
		name := k.Value
		if err := agent.CheckOperation(name); err != nil {
			r.Fault(k, "%v", err)
		}
		known[name] = func(n *yaml.Node) { read(name, n) }
	}
	r.Mapping(n, known)
}

// SchemaOperations is the schema of the operations of an agent that have a name.
func SchemaOperations(operation Object) Object {
	return Object{
		"type": "object", "minProperties": 1, "additionalProperties": operation,
		"propertyNames": Object{"pattern": "^[a-z]", "not": Object{"enum": []string{"do", "undo"}}},
		"description":   "The agent's operations that have a name: a step with `operation: capture` calls the one of that name. They share the rest of the binding.",
	}
}
