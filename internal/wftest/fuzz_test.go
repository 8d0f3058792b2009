package wftest_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sagalog/sagalog/internal/wftest"
)

// FuzzFile reads any bytes as a test file. It has a fault with a place, or each of its cases comes to an end.
func FuzzFile(f *testing.F) {
	for _, text := range []string{
		"", "# nothing", "---\n", "[", "5", "*a", head, head + "  - {name: a, expect: {state: processed}}",
		head + "  - {name: a, advance: 9h, mocks: {charge: [{fail: retryable, effect: none, retry_after: 2m}, {silent: true}]}, requests: [{verb: cancel, at: 1s}, {verb: retry, when: charge.waiting}], expect: {state: error, steps: {ship: skipped}}}",
		head + "  - {name: a, id: \"x/y\", labels: {a: b}, priority: 7, deadline: 5s, mocks: {ship: {silent: true}}, expect: {state: undone, reason: x, output: [1], undone: [ship], never_called: [gift]}}",
	} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		file, faults := wftest.Parse("f", text, loadOrder)
		if file == nil {
			require.NotEmpty(t, faults)
			for _, x := range faults {
				require.Positive(t, x.Line, x)
			}
			return
		}
		for _, c := range file.Cases {
			r, err := file.Run(c)
			require.NoError(t, err)
			require.NotEmpty(t, r.State)
		}
	})
}
