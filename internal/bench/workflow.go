package bench

import (
	"bytes"
	_ "embed"
	"fmt"
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

// itemized is the workflow of tasks with one step that has items.
//
//go:embed items.yaml
var itemized []byte

// itemsSubmission is the value of every submission of tasks that have this many items.
func itemsSubmission(items int) []byte {
	customers := bytes.Repeat([]byte(`"c-17",`), items)
	return fmt.Appendf(nil, `{"workflow":"bench","input":{"customers":[%s]}}`, customers[:len(customers)-1])
}

// submission is the value of every submission of tasks with five steps. It is built once, since the load is part of the measured CPU.
var submission = []byte(`{"workflow":"bench","input":{"customer":"c-17","amount":12.5}}`)
