package scheduler

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"path"

	"github.com/sagalog/sagalog/events"
)

// Source is a definition as its author wrote it, in canonical form. It is the form that is applied.
type Source struct {
	Workflow string
	// Body is compact JSON with sorted keys, every $ref inlined, numbers as they were written, and no defaults.
	Body json.RawMessage
	// Hash is the SHA-256 of Body in hexadecimal: the identity of the content.
	Hash string
	// Level is the level that its keys need: see Levels. NeedsLevel is the path of a key that needs it, "" for events.FirstLevel.
	Level      int
	NeedsLevel string
	Warnings   []Fault
}

// Parse reads a definition in YAML or JSON and reports every fault at once, by place. open reads a file that a $ref names, by its
// path relative to the folder of the definition. Source is nil if any fault is an error.
func Parse(file string, data []byte, open func(ref string) ([]byte, error)) (*Source, []Fault) {
	all := &faults{}
	return parse(openDocument(file, data, all), all, open)
}

// parse checks a document, which is nil if there are no nodes to check.
func parse(d *document, all *faults, open func(ref string) ([]byte, error)) (*Source, []Fault) {
	if d == nil {
		return nil, all.sorted()
	}
	o := outlineOf(d)
	ancestors := o.crossCheck()
	var schema any
	if o.input != nil {
		schema = inlineInput(o.input, open)
	}
	for _, s := range o.steps {
		if s.schema != nil {
			s.payload = inlineInput(s.schema, open)
		}
	}
	o.checkExpressions(ancestors, schema)
	o.checkSignals()
	if all.failed() {
		return nil, all.sorted()
	}
	src, err := newSource(o, schema)
	if err != nil {
		// The second reading refuses something that the checks above let through. That is a fault, too.
		d.fault(d.root, "", "%s", err)
		return nil, all.sorted()
	}
	list := all.sorted()
	src.Warnings = warningsOf(list)
	return src, list
}

// MaxCompleteBytes bounds a definition as DefinitionAdopted holds it. A topic takes records of 2 MiB. An owner that decided a larger
// fact could never append it.
const MaxCompleteBytes = 3 << 19

func newSource(o *outline, schema any) (*Source, error) {
	body, _ := value(o.doc.root).(map[string]any)
	if o.input != nil {
		body["input"] = schema
	}
	steps, _ := body["steps"].(map[string]any)
	for _, s := range o.steps {
		if step, _ := steps[s.id].(map[string]any); s.schema != nil {
			step[keyWait].(map[string]any)["schema"] = s.payload
		}
	}
	b, err := events.Marshal(body)
	if err != nil {
		return nil, err
	}
	d, err := Complete(b)
	if err != nil {
		return nil, err
	}
	full, err := events.Marshal(d)
	if err != nil {
		return nil, err
	}
	if len(full) > MaxCompleteBytes {
		return nil, fmt.Errorf("the definition takes %d bytes with the files and defaults that it includes; %d are allowed: shorten its schemas, or divide the workflow", len(full), MaxCompleteBytes)
	}
	if _, err := Compile(d); err != nil {
		return nil, err
	}
	src := &Source{Workflow: o.workflow, Body: b, Hash: hashOf(b)}
	src.Level, src.NeedsLevel = keyLevels.Of(b)
	return src, nil
}

func hashOf(body []byte) string {
	sum := sha256.Sum256(body)
	return hex.EncodeToString(sum[:])
}

// relative returns the path of ref relative to the folder of the file from.
func relative(from, ref string) string {
	if path.IsAbs(ref) {
		return path.Clean(ref)
	}
	return path.Join(path.Dir(from), ref)
}
