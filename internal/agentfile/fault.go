package agentfile

import (
	"fmt"
	"strings"
)

// Fault is one mistake in a binding file.
type Fault struct {
	File    string
	Line    int
	Column  int
	Message string
	// Unset is set if the fault is that the environment has no variable of a name.
	Unset bool
}

func (f Fault) Error() string {
	return fmt.Sprintf("%s:%d:%d: %s", f.File, f.Line, f.Column, f.Message)
}

// Faults are all mistakes that were found, ordered by file and line.
type Faults []Fault

func (f Faults) Error() string {
	lines := make([]string, len(f))
	for i, x := range f {
		lines[i] = x.Error()
	}
	return strings.Join(lines, "\n")
}
