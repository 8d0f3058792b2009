package events

import (
	_ "embed" // for recordSchema
	"slices"
)

//go:embed schema_gen.json
var recordSchema []byte

// RecordSchema returns a JSON Schema (2020-12) that defines the values of all records of FORMAT.md but workflow definitions, and the entities
// of the state, each under $defs by its name. A fact has the name of its kind. go generate derives it from the types and their comments; a tag
// schema on a field says what its type leaves open (see internal/gen).
func RecordSchema() []byte { return slices.Clone(recordSchema) }
