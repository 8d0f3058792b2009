// Package check renders the chart in deploy/helm/sagalog as `helm template` does, once with each file of values in its folder ci,
// and checks what comes out without a cluster: `helm lint`, Kubernetes' own types (no unknown or repeated field), JSON Schemas of Kubernetes
// (required fields, types of values), and what holds for every pod of ours.
//
// It is a separate module, so that Helm and Kubernetes do not raise the versions that the program is built with.
//
// The schemas are not in the repository: step helm of .ci/run gets them, and names their folder in SAGALOG_KUBERNETES_SCHEMAS. Without
// it, that one test is skipped.
//
// What it cannot show is that a cluster runs the chart: that pods start, that a Secret is mounted readable, that probes succeed.
package check
