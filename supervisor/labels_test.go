package supervisor_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sagalog/sagalog/events"
)

// The fact records the labels and the priority, so that a fold needs no definition.
func TestATaskGetsTheLabelsAndPriorityOfItsWorkflow(t *testing.T) {
	t.Parallel()
	b := newBench(t, "workflow: paid\nlabels: {tenant: \"${ input.tenant }\", kind: payment}\npriority: \"${ input.express ? 10 : 0 }\"\nsteps: {only: {agent: alpha}}\n")
	a := b.candidate("A").own()
	b.submit("t1", "paid", `,"input":{"tenant":"acme","express":true}`)
	b.submit("t2", "paid", `,"input":{"express":true},"labels":{"kind":"own"},"priority":-4`)
	b.submit("t3", "paid", `,"input":{"tenant":["acme"],"express":true}`)
	a.run()
	require.Equal(t, map[string]string{"tenant": "acme", "kind": "payment"}, b.task("t1").Labels)
	require.Equal(t, 10, b.task("t1").Priority)
	require.Equal(t, map[string]string{"kind": "own"}, b.task("t2").Labels)
	require.Equal(t, -4, b.task("t2").Priority)
	require.Equal(t, events.RejectSchema, last[*events.InputRejected](b).Reason)
	require.Contains(t, last[*events.InputRejected](b).Detail, "/labels/tenant: the label of the workflow is an object or a list")
	require.Len(t, a.sentTo("dlq.submissions"), 1)
	sameEverywhere(t, b, a)
}
