package wftest_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sagalog/sagalog/internal/wftest"
	"github.com/sagalog/sagalog/scheduler"
)

const invoices = `workflow: invoices
defaults: {retry: {attempts: 2, backoff: 1s}}
steps:
  send:
    for: {each: "${ input.ids }", as: id, parallel: 2, tolerate: 1}
    agent: mailer
    with: {id: "${ id }", place: "${ index }"}
    undo: {with: {id: "${ id }"}}
  report: {needs: [send], agent: mailer, with: "${ steps.send.counts }", retry: {attempts: 1}}
`

func loadInvoices(string) (*scheduler.Source, []scheduler.Fault, error) {
	src, faults := scheduler.Parse("invoices.yaml", []byte(invoices), nil)
	return src, faults, nil
}

const invoicesHead = "workflow: invoices.yaml\ninput: {ids: [a, b, c]}\nmocks: {send: {output: 1}, report: {}}\nundo_mocks: {send: {}}\ncases:\n  - {name: a, "

// The mock of a step answers the calls of all its items, unless one has another mock.
func TestACaseMocksTheItemsOfAStep(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ text, want string }{
		"all are sent":           {"expect: {state: processed, undone: [], steps: {send: {state: completed, output: [1, 1, 1], counts: {total: 3, completed: 3, failed: 0, skipped: 0}}, 'send[2]': {input: {id: c, place: 2}, output: 1}}}", ""},
		"one is tolerated":       {"mocks: {'send[1]': {fail: permanent, effect: none, error: no address}}, expect: {state: processed, steps: {send: {output: [1, null, 1], counts: {failed: 1}}, 'send[1]': {state: failed, error: no address}, report: {input: {total: 3, completed: 2, failed: 1, skipped: 0}}}}", ""},
		"one is retried":         {"mocks: {'send[1]': [{fail: retryable, effect: none}, {output: 2}]}, expect: {state: processed, steps: {send: {output: [1, 2, 1]}, 'send[0]': {attempts: 1}, 'send[1]': {attempts: 2}}}", ""},
		"in order of calls":      {"mocks: {send: [{output: 1, after: 5s}, {output: 2, after: 1s}, {output: 3}]}, expect: {state: processed, steps: {send: {output: [1, 2, 3]}}}", ""},
		"two fail":               {"mocks: {'send[0]': {fail: permanent, effect: none}, 'send[1]': {fail: permanent, effect: none, after: 10s}}, expect: {state: undone, undone: ['send[2]'], never_called: [report], steps: {'send[2]': {undo_attempts: 1, undo_input: {id: c}}}}", ""},
		"a cancel":               {"mocks: {send: {output: 1, after: 5s}}, undo_mocks: {'send[0]': {after: 1s}}, requests: [{verb: cancel, when: 'send[1].running'}], expect: {state: undone, undone: ['send[1]', 'send[0]'], never_called: ['send[2]', report]}", ""},
		"another count":          {"expect: {state: processed, steps: {send: {counts: {completed: 2}}}}", "steps.send.counts.completed | 2 | 3"},
		"another output":         {"expect: {state: processed, steps: {'send[2]': {output: 2}}}", "steps.send[2].output | 2 | 1"},
		"no such item":           {"expect: {state: processed, steps: {'send[3]': completed}}", "steps.send[3].state | completed | not_started"},
		"it is called":           {"expect: {state: processed, never_called: [send, 'send[2]']}", "calls of send | none | 3 calls"},
		"no list is long enough": {"mocks: {send: [{}, {}]}, expect: {state: processed}", `attempt 1 to do step "send[2]" has no answer: its mock has only 2 answers: add one to mocks.send, or`},
		"unused":                 {"mocks: {'send[3]': [{}]}, expect: {state: processed}", "mocks.send[3]: answers that no call used; remove them | 1 used | 0 used"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f, faults := wftest.Parse("invoices.test.yaml", []byte(invoicesHead+c.text+"}"), loadInvoices)
			require.NotNil(t, f, "%v", faults)
			r, err := f.Run(f.Cases[0])
			require.NoError(t, err)
			if got := lines(r); c.want == "" {
				require.Empty(t, got)
			} else {
				require.Contains(t, got, c.want)
			}
		})
	}
}

// Items without a mock ask for one of their step, and items of a step without a for have a place.
func TestFaultsOfItemsHaveAPlace(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"mocks: {'report[0]': {}}, expect: {state: processed}":                                  `mocks.report[0]: step "report" has no items, since it has no for: write report`,
		"mocks: {'sent[0]': {}}, expect: {state: processed}":                                    `mocks.sent[0]: workflow invoices has no step "sent": did you mean "send"?`,
		"undo_mocks: {'report': {}}, expect: {state: processed}":                                `step "report" has no undo`,
		"expect: {state: undone, undone: [send]}":                                               `expect.undone: step "send" is undone item by item: name the items, such as "send[0]"`,
		"expect: {state: processed, steps: {report: {counts: {total: 1}}}}":                     `counts: only a step with for has counts, and report has none`,
		"expect: {state: processed, steps: {send: {counts: {done: 1}}}}":                        `counts.done: unknown key "done"`,
		"requests: [{verb: retry, step: 'report[1]', when: error}], expect: {state: processed}": `step "report" has no items`,
	} {
		f, faults := wftest.Parse("invoices.test.yaml", []byte(invoicesHead+text+"}"), loadInvoices)
		require.Nil(t, f, text)
		var all []string
		for _, x := range faults {
			all = append(all, x.String())
		}
		require.Contains(t, strings.Join(all, "\n"), want)
	}
	f, faults := wftest.Parse("invoices.test.yaml", []byte("workflow: invoices.yaml\ncases: [{name: a, input: {ids: [a]}, expect: {state: processed}}]"), loadInvoices)
	require.NotNil(t, f, "%v", faults)
	r, err := f.Run(f.Cases[0])
	require.NoError(t, err)
	require.Contains(t, lines(r), `attempt 1 to do step "send[0]" has no answer: there is no mock: add mocks: {send: {}}`)
}
