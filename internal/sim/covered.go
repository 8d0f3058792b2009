package sim

import (
	"fmt"
	"strings"
)

// Coverage counts situations.
type Coverage [situations]int

// Add adds the situations of another run.
func (c *Coverage) Add(o *Coverage) {
	for i := range c {
		c[i] += o[i]
	}
}

// Missing returns the situations that never occurred. Rare ones count only in long runs.
func (c *Coverage) Missing(long bool) (names []string) {
	for i, n := range c {
		if n == 0 && (long || !named[i].rare) {
			names = append(names, named[i].name)
		}
	}
	return names
}

// String returns a table for people.
func (c *Coverage) String() string {
	var b strings.Builder
	for i, n := range c {
		fmt.Fprintf(&b, "%9d  %s\n", n, named[i].name)
	}
	return b.String()
}

func (w *World) saw(s situation) { w.report.Saw[s]++ }
