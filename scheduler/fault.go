package scheduler

import (
	"cmp"
	"fmt"
	"slices"
)

// Fault is what is wrong with a definition, and where.
type Fault struct {
	File         string
	Line, Column int
	// Path is the place within the document, such as steps.account.needs[0].
	Path    string
	Message string
	// Warning does not keep the definition from being applied.
	Warning bool
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

// faults collects, so that everything is reported at once (MISSION B1).
type faults struct{ list []Fault }

// sorted returns the faults by place, each once.
func (f *faults) sorted() []Fault {
	slices.SortStableFunc(f.list, func(a, b Fault) int {
		return cmp.Or(cmp.Compare(a.File, b.File), cmp.Compare(a.Line, b.Line), cmp.Compare(a.Column, b.Column),
			cmp.Compare(a.Path, b.Path), cmp.Compare(a.Message, b.Message))
	})
	return slices.Compact(f.list)
}

func (f *faults) failed() bool {
	return slices.ContainsFunc(f.list, func(x Fault) bool { return !x.Warning })
}

func warningsOf(list []Fault) []Fault {
	var out []Fault
	for _, f := range list {
		if f.Warning {
			out = append(out, f)
		}
	}
	return out
}
