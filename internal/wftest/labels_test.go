package wftest_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sagalog/sagalog/internal/wftest"
	"github.com/sagalog/sagalog/scheduler"
)

const payment = `workflow: payment
labels: {tenant: "${ input.tenant }", amount: "${ input.amount }", vip: "${ input.vip }"}
priority: "${ task.labels.tenant == 'gold' ? 10 : 0 }"
steps: {pay: {agent: bank, with: {tenant: "${ task.labels.tenant }", priority: "${ task.priority }"}}}
`

func TestACaseExpectsLabelsAndAPriority(t *testing.T) {
	t.Parallel()
	load := func(string) (*scheduler.Source, []scheduler.Fault, error) {
		src, faults := scheduler.Parse("payment.yaml", []byte(payment), nil)
		return src, faults, nil
	}
	for text, want := range map[string]string{
		"input: {tenant: gold, amount: 5}, expect: {state: processed, labels: {tenant: gold, amount: '5'}, priority: 10, steps: {pay: {input: {tenant: gold, priority: 10}}}}": "",
		"input: {tenant: gold, amount: 5}, labels: {tenant: tin}, priority: 3, expect: {state: processed, labels: {tenant: tin, amount: '5'}, priority: 3}":                    "",
		"input: {tenant: gold, vip: true}, expect: {state: processed, labels: {tenant: gold}, priority: 0}":                                                                    "3: labels | {tenant: gold} | {tenant: gold, vip: true}\n3: priority | 0 | 10\n",
		"input: {tenant: [gold]}, expect: {state: rejected, reason: 'schema: /labels/tenant: '}":                                                                               "",
	} {
		f, faults := wftest.Parse("payment.test.yaml", []byte("workflow: payment.yaml\ncases:\n  - {name: a, mocks: {pay: {}}, "+text+"}"), load)
		require.NotNil(t, f, "%v", faults)
		r, err := f.Run(f.Cases[0])
		require.NoError(t, err)
		if r.State == "rejected" {
			r.Failures = r.Failures[:0] // the answer of the bank is not used
			require.Contains(t, r.Reason, "/labels/tenant: the label of the workflow is an object or a list")
		}
		require.Equal(t, want, lines(r), text)
	}
}
