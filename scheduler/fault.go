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

// faults collects, so that everything is reported at once (MISSION B1), up to a bound.
type faults struct {
	list []Fault
	// errors and warnings are counted apart, so that a flood of warnings hides no error.
	errors, warnings int
}

// maxFaults bounds the work that a document of nothing but faults makes; nobody reads more at once.
const maxFaults = 500

func (f *faults) add(x Fault) {
	n := &f.errors
	if x.Warning {
		n = &f.warnings
	}
	if *n < maxFaults {
		*n++
		f.list = append(f.list, x)
	}
}

// full says that looking for more errors is of no use.
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
	var out []Fault
	for _, f := range list {
		if f.Warning {
			out = append(out, f)
		}
	}
	return out
}
