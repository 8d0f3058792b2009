package bench

import (
	"bytes"
	_ "embed"
)

// five is the workflow of all benchmarks.
//
//go:embed five.yaml
var five []byte

// steps are its steps, which are the names of its agents too, in the order in which they run.
var steps = [...]string{"reserve", "pay", "pack", "ship", "notify"}

// stepOf returns the number of a step, or -1.
func stepOf(name []byte) int {
	for i, s := range steps {
		if string(name) == s {
			return i
		}
	}
	return -1
}

// patient is the workflow for runs without agents: an attempt that nobody takes keeps its place for longer than any run
// lasts, so that the window stays full and nothing else starts.
func patient() []byte {
	return bytes.Replace(five, []byte("complete_by: 30s"), []byte("complete_by: 24h"), 1)
}

// submission is the value of every submission: built once, since the load is part of what is measured.
var submission = []byte(`{"workflow":"bench","input":{"customer":"c-17","amount":12.5}}`)
