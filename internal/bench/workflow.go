package bench

import (
	"bytes"
	_ "embed"
	"slices"
)

// five is the workflow of all benchmarks.
//
//go:embed five.yaml
var five []byte

// steps are its steps, in order. Its agents have the same names.
var steps = [...]string{"reserve", "pay", "pack", "ship", "notify"}

// stepOf returns the number of a step, or -1.
func stepOf(name string) int { return slices.Index(steps[:], name) }

// patient is the workflow for runs without agents: an attempt without an agent keeps its place for longer than any run, so the window
// stays full and nothing else starts.
func patient() []byte {
	return bytes.Replace(five, []byte("complete_within: 30s"), []byte("complete_within: 24h"), 1)
}

// permitted is the workflow for tasks that each need a permit.
func permitted() []byte {
	return append(slices.Clip(five), "concurrency: {key: \"${ task.id }\", max: 1}\n"...)
}

// wide is a limit that holds nobody up.
const wide = "limit: bench\nmax: 100000\n"

// limited is the workflow for tasks of which one step needs a permit of the limit wide.
func limited(workflow []byte) []byte {
	return bytes.Replace(workflow, []byte("    agent: pay\n"), []byte("    agent: pay\n    limit: bench\n"), 1)
}

// submission is the value of every submission. It is built once, since the load is part of the measured CPU.
var submission = []byte(`{"workflow":"bench","input":{"customer":"c-17","amount":12.5}}`)
