package agentfile

import (
	"slices"

	"go.yaml.in/yaml/v4"

	"github.com/sagalog/sagalog/agent"
	"github.com/sagalog/sagalog/events"
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
	if len(n.Content)/2 > events.MaxFunctions {
		r.Fault(n, "operations has %d operations, more than the %d of an agent: divide them among several agents", len(n.Content)/2, events.MaxFunctions)
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

// Names returns the names of the operations that are bound, in order. The operation without a name has an empty one. The agent is left out
// of the calls.
func Names[C any](calls map[events.Call]C) (names []string) {
	for c := range calls {
		if c.Operation == events.Do {
			names = append(names, c.Function)
		}
	}
	slices.Sort(names)
	return names
}

// Functions returns what makes a try of each call, given what the call is bound to.
func Functions[C any](calls map[events.Call]C, try func(C) agent.RawFunc) map[events.Call]agent.RawFunc {
	all := make(map[events.Call]agent.RawFunc, len(calls))
	for call, bound := range calls {
		all[call] = try(bound)
	}
	return all
}

// Register registers an agent with its operations. The options are those of the agent.
func Register(r *agent.Registry, name string, calls map[events.Call]agent.RawFunc, options ...agent.Option) {
	for _, operation := range Names(calls) {
		if undo := calls[events.Call{Function: operation, Operation: events.Undo}]; undo != nil {
			options = append(options, agent.WithRawUndo(undo))
		}
		do := calls[events.Call{Function: operation, Operation: events.Do}]
		if operation == "" {
			agent.HandleRaw(r, name, do, options...)
		} else {
			agent.HandleRawOperation(r, name, operation, do, options...)
		}
		options = nil // the registry keeps them: a fault among them is one fault
	}
}

// SchemaOperations is the schema of the operations of an agent that have a name.
func SchemaOperations(operation Object) Object {
	return Object{
		"type": "object", "minProperties": 1, "maxProperties": events.MaxFunctions, "additionalProperties": operation,
		"propertyNames": Object{"pattern": "^[a-z]", "not": Object{"enum": []string{"do", "undo"}}},
		"description":   "The agent's operations that have a name: a step with `operation: capture` calls the one of that name. They share the rest of the binding.",
	}
}
