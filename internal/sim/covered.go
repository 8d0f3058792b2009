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

// Missing returns the situations that a run of this many seeds should have reached and did not.
func (c *Coverage) Missing(seeds int) (names []string) {
	for i, n := range c {
		if n == 0 && seeds >= named[i].from {
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
