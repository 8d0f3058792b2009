// Package helm holds the Helm chart, so that `sagalog generate helm` can write the one that fits the program.
//
// The chart is in the folder sagalog, and docs/kubernetes.md says how to use it. The folder check is a separate module, which
// renders the chart and checks what comes out.
package helm
