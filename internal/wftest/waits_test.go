package wftest_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sagalog/sagalog/internal/wftest"
	"github.com/sagalog/sagalog/scheduler"
)

const approval = `workflow: approval
steps:
  reserve: {agent: stock, undo: {}}
  nap: {needs: [reserve], sleep: 10m}
  approve:
    needs: [nap]
    wait: {signal: [approval, rejection], schema: {type: object, properties: {by: {type: string}}}}
    complete_within: 24h
    on_timeout: undo
    fail_if: "${ output.signal == 'rejection' }"
    fail_reason: "rejected by ${ output.payload.by }"
  ship: {needs: [approve], agent: shipping, with: "${ steps.approve.output }"}
`

// Signals are requests, and the time of sleeps and waits passes by itself.
func TestACaseSignalsSleepsAndWaits(t *testing.T) {
	t.Parallel()
	load := func(string) (*scheduler.Source, []scheduler.Fault, error) {
		src, faults := scheduler.Parse("approval.yaml", []byte(approval), nil)
		return src, faults, nil
	}
	const head = "workflow: approval.yaml\nmocks: {reserve: {}, ship: {}}\nundo_mocks: {reserve: {}}\ncases:\n  - {name: a, "
	for name, c := range map[string]struct{ text, want string }{
		"approved":             {"requests: [{verb: signal, signal: approval, payload: {by: ada}, when: approve.waiting}], expect: {state: processed, steps: {ship: {input: {signal: approval, payload: {by: ada}}}}}", ""},
		"approved before":      {"requests: [{verb: signal, signal: approval, payload: {by: ada}, at: 0s}], expect: {state: processed}", ""},
		"rejected":             {"requests: [{verb: signal, signal: rejection, payload: {by: ada}, at: 1h}], expect: {state: undone, reason: rejected by ada, undone: [reserve], never_called: [ship]}", ""},
		"nobody answers":       {"expect: {state: undone, reason: no signal came in time, steps: {approve: timed_out}, undone: [reserve]}", ""},
		"still asleep":         {"advance: 9m, expect: {state: processing, steps: {nap: waiting, approve: not_started}}", ""},
		"still waits":          {"advance: 11m, expect: {state: processing, steps: {nap: completed, approve: waiting}}", ""},
		"a wrong payload":      {"requests: [{verb: signal, signal: approval, payload: {by: 7}, when: approve.waiting, refused: true}], expect: {state: undone}", ""},
		"a wrong name":         {"requests: [{verb: signal, signal: aproval, payload: {}, when: approve.waiting}], expect: {state: undone}", `did you mean "approval"?`},
		"the operator":         {"requests: [{verb: complete, step: nap, when: nap.waiting}, {verb: skip, step: approve, output: {signal: approval}, when: approve.waiting}], advance: 1m, expect: {state: processed, steps: {approve: skipped}}", ""},
		"a state that differs": {"requests: [{verb: signal, signal: approval, payload: {}, when: approve.waiting}], expect: {state: undone}", "state"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f, faults := wftest.Parse("approval.test.yaml", []byte(head+c.text+"}"), load)
			require.NotNil(t, f, "%v", faults)
			r, err := f.Run(f.Cases[0])
			require.NoError(t, err)
			if name == "still waits" {
				require.Equal(t, "3/4 (never: ship)", f.Coverage([]*wftest.Result{r}).Steps.String())
			}
			if got := lines(r); c.want == "" {
				require.Empty(t, got)
			} else {
				require.Contains(t, got, c.want)
			}
		})
	}
}
