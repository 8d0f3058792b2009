package agentfile

import (
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"

	"go.yaml.in/yaml/v4"

	"github.com/sagalog/sagalog/agent"
	"github.com/sagalog/sagalog/events"
	"github.com/sagalog/sagalog/internal/yamltree"
)

// Binding is an agent that a document binds.
type Binding interface {
	// Name is the agent's name.
	Name() string
	// Register adds the agent to a registry. Extra options come after those of the file.
	Register(r *agent.Registry, options ...agent.Option)
	// Close is called after the runner has ended.
	Close()
}

// Kind is one way to bind an agent, such as to an HTTP service.
type Kind struct {
	// Key is the member that every document of this kind has, and no document of another kind.
	Key string
	// Bind reads a document. Its result counts only if the document has no fault.
	Bind func(*Reader, *yaml.Node) Binding
	// Schema returns the JSON Schema of a document.
	Schema func() Object
}

// fileLimit bounds the size of a binding file. A hand-written one has a few kilobytes.
const fileLimit = 1 << 20

// Load reads all *.yaml and *.yml files at the root of dir (such as os.DirFS of a directory). Each file holds one binding
// or several, as YAML documents. env looks up environment variables (os.LookupEnv); every variable that a binding names
// must be set. The error is of the type Faults, unless a file cannot be read.
func Load(dir fs.FS, env func(string) (string, bool), kinds ...Kind) ([]Binding, error) {
	entries, err := fs.ReadDir(dir, ".")
	if err != nil {
		return nil, fmt.Errorf("read bindings: %w", err)
	}
	var all []Binding
	var faults Faults
	files := map[string]string{} // by agent
	for _, e := range entries {
		if ext := path.Ext(e.Name()); e.IsDir() || strings.HasPrefix(e.Name(), ".") || ext != ".yaml" && ext != ".yml" {
			continue
		}
		data, err := fs.ReadFile(dir, e.Name())
		if err != nil {
			return nil, fmt.Errorf("read binding: %w", err)
		}
		some, err := Parse(e.Name(), data, env, kinds...)
		var f Faults
		if errors.As(err, &f) {
			faults = append(faults, f...)
		}
		for _, b := range some {
			if file, twice := files[b.Name()]; twice {
				faults = append(faults, Fault{File: e.Name(), Line: 1, Column: 1, Message: fmt.Sprintf("agent %q is bound in %s already", b.Name(), file)})
			}
			files[b.Name()] = e.Name()
			all = append(all, b)
		}
	}
	if len(faults) > 0 {
		return nil, faults
	}
	return all, nil
}

// Parse reads the bindings of one file. The error is of the type Faults.
func Parse(file string, data []byte, env func(string) (string, bool), kinds ...Kind) ([]Binding, error) {
	if len(data) > fileLimit {
		return nil, Faults{{File: file, Line: 1, Column: 1, Message: fmt.Sprintf("the file is larger than %d bytes", fileLimit)}}
	}
	var docs []yaml.Node
	if err := yaml.Load(data, &docs, yaml.WithAllDocuments()); err != nil {
		at, message := yamltree.Syntax(data, err)
		return nil, Faults{{File: file, Line: at.Line, Column: at.Column, Message: message}}
	}
	var out []Binding
	var faults Faults
	for i := range docs {
		r := newReader(file, data, env)
		if b := r.document(&docs[i], kinds); b != nil && len(r.faults) == 0 {
			out = append(out, b)
		}
		faults = append(faults, r.faults...)
	}
	if len(faults) > 0 {
		slices.SortStableFunc(faults, func(a, b Fault) int { return (a.Line-b.Line)*100_000 + a.Column - b.Column })
		return nil, faults
	}
	return out, nil
}

func (r *Reader) document(n *yaml.Node, kinds []Kind) Binding {
	if n.Kind == yaml.DocumentNode {
		if len(n.Content) == 0 {
			return nil
		}
		n = n.Content[0]
	}
	if n.Kind == yaml.ScalarNode && n.ShortTag() == "!!null" {
		return nil // an empty document, such as before a first "---"
	}
	if k := r.kind(n, kinds); k != nil {
		return k.Bind(r, n)
	}
	return nil
}

// kind returns the kind of a document by the key that only this kind has, and nil after a fault.
func (r *Reader) kind(n *yaml.Node, kinds []Kind) *Kind {
	if len(kinds) == 1 {
		return &kinds[0]
	}
	var found *Kind
	members := Resolve(n).Content
	for i := 0; i+1 < len(members); i += 2 {
		at := slices.IndexFunc(kinds, func(k Kind) bool { return k.Key == members[i].Value })
		if at < 0 || found == &kinds[at] {
			continue
		}
		if found != nil {
			r.Fault(members[i], "%s and %s exclude each other: an agent is bound to one of them", found.Key, kinds[at].Key)
			return nil
		}
		found = &kinds[at]
	}
	if found == nil {
		keys := make([]string, len(kinds))
		for i, k := range kinds {
			keys[i] = k.Key
		}
		r.noKind(n, keys)
	}
	return found
}

// noKind notes that a document has the key of no kind, at a key that may be a misspelt one.
func (r *Reader) noKind(n *yaml.Node, keys []string) {
	known := append([]string{"agent", "do", "undo", KeyOperations}, keys...)
	members := Resolve(n).Content
	for i := 0; i+1 < len(members); i += 2 {
		if name := members[i].Value; !slices.Contains(known, name) {
			r.Fault(members[i], "unknown key %q, %s", name, events.Suggest(name, known))
			return
		}
	}
	r.Fault(n, "one of the keys %s is missing: it says to what the agent is bound", strings.Join(keys, ", "))
}
