package agentfile

import "encoding/json"

// Object is an object of JSON.
type Object = map[string]any

// JSONSchema returns the JSON Schema (draft 2020-12) of a binding of one of the kinds, for editors. Its bounds and words are those of
// the parser. It describes the shape only; Load checks the rest, above all the expressions.
func JSONSchema(kinds ...Kind) []byte {
	schema := Object{}
	if len(kinds) == 1 {
		schema = kinds[0].Schema()
	} else {
		all := make([]Object, len(kinds))
		for i, k := range kinds {
			all[i] = k.Schema()
		}
		schema["oneOf"] = all
	}
	schema["$schema"], schema["$id"], schema["title"] = "https://json-schema.org/draft/2020-12/schema", "https://sagalog.dev/schema/agent.schema.json", "Sagalog agent"
	b, err := json.MarshalIndent(schema, "", "  ")
	if err != nil {
		panic("agentfile: the schema: " + err.Error()) // it consists of constants
	}
	return append(b, '\n')
}

// SchemaMapping is the schema of a mapping with these members and no others.
func SchemaMapping(description string, members Object, required ...string) Object {
	m := Object{"type": "object", "description": description, "additionalProperties": false, "properties": members}
	if len(required) > 0 {
		m["required"] = required
	}
	return m
}

// SchemaAgent is the schema of the agent's name.
func SchemaAgent() Object {
	return Object{"type": "string", "pattern": "^[a-z]", "description": "The name by which the steps of workflows name the agent.", "examples": []string{"package"}}
}

// SchemaText is the schema of a text.
func SchemaText(description string) Object {
	return Object{"type": "string", "description": description}
}

// SchemaInteger is the schema of a whole number from 1 to most.
func SchemaInteger(most int, description string) Object {
	return Object{"type": "integer", "minimum": 1, "maximum": most, "description": description}
}

// SchemaDuration is the schema of a duration.
func SchemaDuration(description string) Object {
	return Object{"type": "string", "pattern": durationPattern, "description": description, "examples": []string{"500ms", "10s"}}
}

// SchemaPublic is the schema of the variables that are not secret.
func SchemaPublic() Object {
	return Object{"type": "array", "items": SchemaText("An environment variable."), "description": "Environment variables whose values are not secret."}
}

// durationPattern matches a duration with units.
const durationPattern = `^\+?([0-9]+(\.[0-9]*)?|\.[0-9]+)(ns|us|µs|μs|ms|s|m|h)(([0-9]+(\.[0-9]*)?|\.[0-9]+)(ns|us|µs|μs|ms|s|m|h))*$`
