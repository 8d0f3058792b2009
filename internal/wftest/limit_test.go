package wftest_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sagalog/sagalog/internal/wftest"
	"github.com/sagalog/sagalog/scheduler"
)

// Steps that name a limit run as if it were large, to do and to undo.
func TestANamedLimitHoldsUpNoCase(t *testing.T) {
	t.Parallel()
	const text = "workflow: w\nsteps:\n  a: {agent: bank, limit: bank, undo: {}}\n  b: {agent: bank, limit: post, undo: {}}\n  c: {needs: [a, b], agent: bank, limit: bank}\n"
	load := func(string) (*scheduler.Source, []scheduler.Fault, error) {
		src, faults := scheduler.Parse("w.yaml", []byte(text), nil)
		return src, faults, nil
	}
	const head = "workflow: w.yaml\nmocks: {a: {}, b: {}, c: {}}\nundo_mocks: {a: {}, b: {}}\ncases:\n"
	for _, c := range []string{
		"  - {name: a case, expect: {state: processed, steps: {c: completed}}}",
		"  - {name: a case, requests: [{verb: cancel, when: b.completed}], expect: {state: undone}}",
	} {
		f, faults := wftest.Parse("w.test.yaml", []byte(head+c), load)
		require.NotNil(t, f, "%v", faults)
		r, err := f.Run(f.Cases[0])
		require.NoError(t, err)
		require.Empty(t, lines(r), c)
	}
}
