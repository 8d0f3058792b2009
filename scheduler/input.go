package scheduler

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"
	yaml "go.yaml.in/yaml/v4"
)

const (
	// schemaBase is the address of a definition's schema and of the files in it. Nothing is ever loaded from it.
	schemaBase = "sagalog:///"
	// wholeSchema names the schema as a whole. No file can have this name.
	wholeSchema = "sagalog://definition/input"
	// maxSchemaFiles bounds the files that one definition includes.
	maxSchemaFiles = 100
)

// inliner includes the files that a schema refers to: each becomes a member of $defs with its own $id, and references to the file
// name that $id. So a reference inside a file keeps its meaning, and files may refer to each other in cycles.
type inliner struct {
	faults *faults
	open   func(string) ([]byte, error)
	files  map[string]any
	order  []string
	limits schemaLimits
	// large says that a file is over the limits, so that the schema as a whole is not compiled.
	large bool
}

// inlineInput returns the schema of the input with every $ref to a file inlined. It reports a schema that does not compile.
func inlineInput(m *member, open func(string) ([]byte, error)) any {
	if m.value.Kind != yaml.MappingNode && m.value.Tag != "!!bool" {
		m.fault("expected a JSON Schema, got %s", kindOf(m.value))
		return nil
	}
	in := &inliner{faults: m.doc.faults, open: open, files: map[string]any{}}
	if m.doc.maxBytes > MaxDocumentBytes {
		in.limits.subSchemas = -1 // files are inlined, and their $defs is one object more
	}
	at, root := source{doc: m.doc, node: m.value, name: ""}, value(m.value)
	if ref := loneRef(m.value); ref != nil && isFile(ref.Value) && !strings.Contains(ref.Value, "#") {
		d := in.load(source{doc: m.doc, node: ref}, ref.Value)
		if d == nil {
			return nil
		}
		at, root = source{doc: d, node: d.root, name: relative("", ref.Value)}, value(d.root)
	}
	in.walk(root, at)
	root = in.bundle(root)
	if m.doc.faults.full() || in.large || !in.limits.within(at.doc, at.node, m.path) {
		return nil
	}
	if _, err := compileSchema(root); err != nil {
		schemaFaults(at, m.path, err)
	}
	return root
}

// source is the place of a piece of a schema.
type source struct {
	doc  *document
	node *yaml.Node
	// name is the path of the file, relative to the definition's folder; empty for the definition itself.
	name string
}

// loneRef returns the $ref of a mapping that holds nothing else.
func loneRef(n *yaml.Node) *yaml.Node {
	if n.Kind == yaml.MappingNode && len(n.Content) == 2 && n.Content[0].Value == "$ref" && isText(n.Content[1]) {
		return n.Content[1]
	}
	return nil
}

// isFile says whether a reference names a file, and not a fragment or a file that was inlined before.
func isFile(ref string) bool {
	return ref != "" && ref[0] != '#' && !strings.HasPrefix(ref, schemaBase)
}

// dataKeywords hold plain values, in which $ref has no meaning.
var dataKeywords = []string{"const", "enum", "default", "examples"}

// walk rewrites the references below v, in place. The node in at is the node of v.
func (in *inliner) walk(v any, at source) {
	switch v := v.(type) {
	case []any:
		for i, e := range v {
			in.walk(e, source{doc: at.doc, node: at.node.Content[i], name: at.name})
		}
	case map[string]any:
		for i := 0; i+1 < len(at.node.Content); i += 2 {
			key, below := at.node.Content[i].Value, at.node.Content[i+1]
			switch ref, isRef := v[key].(string); {
			case isRef && (key == "$ref" || key == "$dynamicRef") && isFile(ref):
				if to := in.reference(source{doc: at.doc, node: below, name: at.name}, ref); to != "" {
					v[key] = to
				} else {
					delete(v, key) // what is missing allows everything, so that the rest can be checked
				}
			case !slices.Contains(dataKeywords, key):
				in.walk(v[key], source{doc: at.doc, node: below, name: at.name})
			}
		}
	}
}

// reference returns what a $ref to a file becomes, "" if it reported a fault.
func (in *inliner) reference(at source, ref string) string {
	file, fragment, _ := strings.Cut(ref, "#")
	name := relative(at.name, file)
	if _, known := in.files[name]; !known {
		d := in.load(at, file)
		if d == nil {
			return ""
		}
		v := value(d.root)
		if !in.limits.within(d, d.root, "") {
			in.large = true
			return ""
		}
		in.files[name] = v
		in.order = append(in.order, name)
		in.walk(v, source{doc: d, node: d.root, name: name})
	}
	out := address(name)
	if fragment != "" {
		out += "#" + fragment
	}
	return out
}

// load reads the file that a $ref names. It returns nil if it reported a fault.
func (in *inliner) load(at source, file string) *document {
	refuse := func(format string, args ...any) *document {
		at.doc.fault(at.node, "$ref", format, args...)
		return nil
	}
	if strings.Contains(file, "://") {
		return refuse("%s is not a file: a schema is never loaded from elsewhere, since it could then change without a new version", abbreviate(file))
	}
	if len(in.files) >= maxSchemaFiles {
		return refuse("more than %d files", maxSchemaFiles)
	}
	name := relative(at.name, file)
	if in.open == nil {
		return refuse("%s: files cannot be opened here: send the definition with the schema inlined", name)
	}
	data, err := in.open(name)
	if err != nil {
		return refuse("%s: %s", name, err)
	}
	return openDocument(name, data, in.faults)
}

// bundle puts the files into the $defs of the root.
func (in *inliner) bundle(root any) any {
	if len(in.order) == 0 {
		return root
	}
	m, ok := root.(map[string]any)
	if !ok {
		return root // a boolean holds no reference
	}
	defs, ok := m["$defs"].(map[string]any)
	if !ok {
		defs = map[string]any{}
		m["$defs"] = defs
	}
	for _, name := range in.order {
		v, ok := in.files[name].(map[string]any)
		if !ok {
			v = map[string]any{"allOf": []any{in.files[name]}}
		}
		v["$id"] = address(name)
		defs[address(name)] = v
	}
	return root
}

// address returns the $id of a file. It serves as the name in $defs too, since no author would choose it.
func address(name string) string {
	return schemaBase + (&url.URL{Path: strings.TrimPrefix(name, "/")}).EscapedPath()
}

// noLoader refuses to load anything: schemas are complete.
type noLoader struct{}

// Load implements jsonschema.URLLoader.
func (noLoader) Load(where string) (any, error) {
	return nil, fmt.Errorf("%s is not part of the schema", where)
}

// compileSchema compiles a schema with its guards.
func compileSchema(schema any) (*boundedSchema, error) {
	budget := &visits{left: inputBudget}
	compiled, objects, err := compileUnguarded(schema, budget)
	if err != nil {
		return nil, err
	}
	budget.guarded(append(objects, compiled))
	return &boundedSchema{compiled, budget}, nil
}

// compileUnguarded compiles a schema whose numbers are json.Number. It makes formats such as date-time and uuid binding, as their
// authors expect. It returns the schemas that are objects, too.
func compileUnguarded(schema any, budget *visits) (root *jsonschema.Schema, objects []*jsonschema.Schema, err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("the schema does not compile: %v", r)
		}
	}()
	c := jsonschema.NewCompiler()
	c.DefaultDraft(jsonschema.Draft2020)
	c.AssertFormat()
	c.RegisterVocabulary(vocabulary(&objects))
	c.AssertVocabs()
	c.UseRegexpEngine(budget.patterns)
	c.UseLoader(noLoader{})
	if err := c.AddResource(wholeSchema, schema); err != nil {
		return nil, nil, err
	}
	root, err = c.Compile(wholeSchema)
	return root, objects, err
}

// schemaFaults reports why a schema does not compile, at the place of the fault if it is known.
func schemaFaults(at source, path string, err error) {
	var invalid *jsonschema.ValidationError
	var outer *jsonschema.SchemaValidationError
	if errors.As(err, &outer) && errors.As(outer.Err, &invalid) {
		for _, leaf := range leaves(invalid, nil) {
			n := nodeAt(at.node, leaf.InstanceLocation)
			at.doc.fault(n, strings.Join(append([]string{path}, leaf.InstanceLocation...), "."), "not a JSON Schema: %s", describe(leaf))
		}
		return
	}
	at.doc.fault(at.node, path, "not a JSON Schema: %s", oneLine(strings.ReplaceAll(err.Error(), wholeSchema, "")))
}

// nodeAt follows a JSON pointer as far as the nodes exist.
func nodeAt(n *yaml.Node, pointer []string) *yaml.Node {
	for _, p := range pointer {
		next := n
		switch n.Kind {
		case yaml.MappingNode:
			for i := 0; i+1 < len(n.Content); i += 2 {
				if n.Content[i].Value == p {
					next = n.Content[i+1]
				}
			}
		case yaml.SequenceNode:
			if i, err := strconv.Atoi(p); err == nil && i >= 0 && i < len(n.Content) {
				next = n.Content[i]
			}
		}
		if next == n {
			return n
		}
		n = next
	}
	return n
}

// decodeSchema reads a schema from a definition.
func decodeSchema(raw json.RawMessage) (any, error) {
	return jsonschema.UnmarshalJSON(strings.NewReader(string(raw)))
}
