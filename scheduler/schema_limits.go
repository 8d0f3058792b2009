package scheduler

import yaml "go.yaml.in/yaml/v4"

// The limits of an input's schema, with its files. Compiling takes time in proportion to the square of the sub-schemas: 2,000 take less
// than a tenth of a second, and 200,000 took minutes. A document has at most maxDocumentDepth levels.
//
// They are checked only when a definition is parsed: a partition keeps a definition that it adopted earlier, whatever its size.
const (
	// MaxSubSchemas counts objects and booleans. A reference may lead to any of them, even within a default or an example, so all
	// of them count.
	MaxSubSchemas = 2_000
	// MaxListValues counts lists and the texts and numbers in them, such as the names of required and the values of enum.
	MaxListValues = 2_000
)

// schemaLimits counts what a schema and its files hold.
type schemaLimits struct{ subSchemas, listValues int }

// within reports the place at which a limit is exceeded, and returns false.
func (l *schemaLimits) within(d *document, n *yaml.Node, path string) bool {
	if n.Kind == yaml.MappingNode || n.Tag == "!!bool" {
		l.subSchemas++
	}
	if n.Kind == yaml.SequenceNode {
		l.listValues++
		for _, e := range n.Content {
			if e.Kind == yaml.ScalarNode && e.Tag != "!!bool" {
				l.listValues++
			}
		}
	}
	switch {
	case l.subSchemas > MaxSubSchemas:
		d.fault(n, path, "the schema has more than %d objects and booleans up to here: describe less, and let an agent check the rest", MaxSubSchemas)
		return false
	case l.listValues > MaxListValues:
		d.fault(n, path, "the lists of the schema have more than %d values up to here, such as those of required and enum: "+
			"use a pattern, or let an agent check the value", MaxListValues)
		return false
	}
	for i, e := range n.Content {
		below := path
		switch {
		case n.Kind == yaml.SequenceNode:
			below = item(path, i)
		case i%2 == 0:
			continue // a key
		default:
			below = join(path, n.Content[i-1].Value)
		}
		if !l.within(d, e, below) {
			return false
		}
	}
	return true
}
