package scheduler

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"path"

	"github.com/sagalog/sagalog/events"
)

// Source is a definition as it is applied: what its author wrote, in canonical form.
type Source struct {
	Workflow string
	// Body is compact JSON with sorted keys, every $ref inlined, numbers as they were written, and no defaults.
	Body json.RawMessage
	// Hash is the SHA-256 of Body in hexadecimal: the identity of the content.
	Hash     string
	Warnings []Fault
}

// Parse reads a definition in YAML or JSON and reports every fault at once, by place. open gives the files that
// $ref names, by their path relative to the definition's folder. Source is nil if any fault is not a warning.
func Parse(file string, data []byte, open func(ref string) ([]byte, error)) (*Source, []Fault) {
	all := &faults{}
	d := openDocument(file, data, all)
	if d == nil {
		return nil, all.sorted()
	}
	o := outlineOf(d)
	ancestors := o.crossCheck()
	o.checkExpressions(ancestors)
	var schema any
	if o.input != nil {
		schema = inlineInput(o.input, open)
	}
	if all.failed() {
		return nil, all.sorted()
	}
	src, err := newSource(o, schema)
	if err != nil {
		// The checks above have let something through that the second reading refuses. It is a fault all the same.
		d.fault(d.root, "", "%s", err)
		return nil, all.sorted()
	}
	list := all.sorted()
	src.Warnings = warningsOf(list)
	return src, list
}

func newSource(o *outline, schema any) (*Source, error) {
	body, _ := value(o.doc.root).(map[string]any)
	if o.input != nil {
		body["input"] = schema
	}
	b, err := events.Marshal(body)
	if err != nil {
		return nil, err
	}
	d, err := Complete(b)
	if err != nil {
		return nil, err
	}
	if _, err := Compile(d); err != nil {
		return nil, err
	}
	return &Source{Workflow: o.workflow, Body: b, Hash: hashOf(b)}, nil
}

func hashOf(body []byte) string {
	sum := sha256.Sum256(body)
	return hex.EncodeToString(sum[:])
}

// relative returns the path of ref as seen from the folder of the file from.
func relative(from, ref string) string {
	if path.IsAbs(ref) {
		return path.Clean(ref)
	}
	return path.Join(path.Dir(from), ref)
}
