package scheduler

import (
	"cmp"
	"fmt"
	"slices"

	yaml "go.yaml.in/yaml/v4"

	"github.com/sagalog/sagalog/events"
	"github.com/sagalog/sagalog/internal/yamltree"
)

// Fault is something wrong in a definition, and its place.
type Fault struct {
	File   string `json:"file"`
	Line   int    `json:"line"`
	Column int    `json:"column"`
	// Path is the place within the document, such as steps.account.needs[0].
	Path    string `json:"path,omitempty"`
	Message string `json:"message"`
	// Warning is set if the definition can be applied despite the fault.
	Warning bool `json:"warning,omitempty"`
}

// Places returns where in the text of a definition, schedule or limit, in YAML or JSON, a JSON pointer points: at a key, or at an item of a
// list. found is false if the text has no such place. The function reads the text once, at its first call. Only one
// goroutine may call it.
func Places(text []byte) func(pointer string) (line, column int, found bool) {
	var root *yaml.Node
	read := false
	return func(pointer string) (int, int, bool) {
		if !read {
			root, read = yamltree.Read(text), true
		}
		p, found := yamltree.Find(root, pointer)
		return p.Line, p.Column, found
	}
}

// String returns "file:line:column: message", the form that editors follow.
func (f Fault) String() string {
	kind := ""
	if f.Warning {
		kind = "warning: "
	}
	path := ""
	if f.Path != "" {
		path = f.Path + ": "
	}
	return fmt.Sprintf("%s:%d:%d: %s%s%s", f.File, f.Line, f.Column, kind, path, f.Message)
}

// faults collects what is wrong, up to a bound, so that everything is reported at once.
type faults struct {
	list []Fault
	// errors and warnings have separate counts, so that a flood of warnings does not hide an error.
	errors, warnings int
}

const (
	// maxFaults bounds the work that a document full of faults causes. Nobody reads more at once.
	maxFaults = 500
	// maxMessageBytes leaves room for an error of the YAML parser or of an expression, and a few more words.
	maxMessageBytes = 1000
)

func (f *faults) add(x Fault) {
	n := &f.errors
	if x.Warning {
		n = &f.warnings
	}
	if *n < maxFaults {
		*n++
		x.Message = events.Clip(x.Message, maxMessageBytes)
		f.list = append(f.list, x)
	}
}

// full says that more errors would not be reported.
func (f *faults) full() bool { return f.errors >= maxFaults }

func (f *faults) failed() bool { return f.errors > 0 }

// sorted returns the faults by place, each once.
func (f *faults) sorted() []Fault {
	slices.SortStableFunc(f.list, func(a, b Fault) int {
		return cmp.Or(cmp.Compare(a.File, b.File), cmp.Compare(a.Line, b.Line), cmp.Compare(a.Column, b.Column),
			cmp.Compare(a.Path, b.Path), cmp.Compare(a.Message, b.Message))
	})
	return slices.Compact(f.list)
}

func warningsOf(list []Fault) []Fault {
	return slices.DeleteFunc(slices.Clone(list), func(f Fault) bool { return !f.Warning })
}
