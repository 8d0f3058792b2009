package wftest_test

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sagalog/sagalog/internal/wftest"
	"github.com/sagalog/sagalog/scheduler"
)

const order = `workflow: order
input: {type: object, required: [item]}
deadline: 1h
defaults: {retry: {attempts: 3, backoff: 1s}}
steps:
  reserve: {agent: stock, undo: {}}
  gift: {needs: [reserve], if: "${ input.gift == true }", agent: gift, undo: {}}
  charge: {needs: [reserve], agent: payment, with: {item: "${ input.item }"}, undo: {with: {of: "${ task.id }"}}}
  ship: {needs: [charge, gift], agent: shipping, pivot: true}
output: "${ steps.ship.output }"
`

func loadOrder(string) (*scheduler.Source, []scheduler.Fault, error) {
	src, faults := scheduler.Parse("order.yaml", []byte(order), nil)
	return src, faults, nil
}

const head = "workflow: order.yaml\ninput: {item: x}\nmocks: {reserve: {output: 1}, charge: {output: 2}, ship: {output: 3}}\nundo_mocks: {reserve: {}, charge: {}}\ncases:\n"

// run runs a file with one case, which begins on line 6.
func run(t *testing.T, text string) *wftest.Result {
	t.Helper()
	f, faults := wftest.Parse("order.test.yaml", []byte(head+"  - name: a case\n"+text), loadOrder)
	require.NotNil(t, f, "%v", faults)
	r, err := f.Run(f.Cases[0])
	require.NoError(t, err)
	return r
}

// lines shows failures, a line each.
func lines(r *wftest.Result) string {
	var b strings.Builder
	for _, f := range r.Failures {
		fmt.Fprintf(&b, "%d: %s", f.Line, f.Message)
		if f.Expected != f.Actual {
			fmt.Fprintf(&b, " | %s | %s", f.Expected, f.Actual)
		}
		b.WriteString("\n")
	}
	return b.String()
}

func TestACaseGoesAsTheEngineWould(t *testing.T) {
	t.Parallel()
	for name, text := range map[string]string{
		"done": `
    expect: {state: processed, output: 3, steps: {gift: skipped, charge: {state: completed, attempts: 1, input: {item: x}, output: 2}}, undone: []}`,
		"retried, then undone in reverse": `
    mocks: {ship: {fail: retryable, error: no van, effect: none}, gift: {output: 1, after: 1s}}
    undo_mocks: {gift: {}}
    input: {item: x, gift: true}
    requests: [{verb: cancel, when: error, refused: false}]
    expect: {state: undone, undone: [gift, charge, reserve], steps: {ship: {attempts: 3, error: no van}, charge: {undo_input: {of: test}}}}`,
		"the deadline": `
    mocks: {charge: [{fail: unavailable, effect: none, retry_after: 2h}]}
    expect: {state: undone, reason: deadline, undone: [reserve], never_called: [ship, gift]}`,
		"time ends the case": `
    mocks: {charge: [{fail: retryable, effect: none, retry_after: 10m}]}
    advance: 5m
    expect: {state: processing, steps: {charge: waiting, ship: not_started}}`,
		"no answer in time": `
    mocks: {charge: [{silent: true}, {output: 5, after: 40s}, {output: 6}]}
    expect: {state: processed, steps: {charge: {attempts: 3, output: 6}}}`,
		"a cancel at a time": `
    mocks: {charge: {output: 2, after: 20s}}
    requests: [{verb: cancel, at: 10s, reason: changed their mind}]
    expect: {state: undone, reason: changed their mind, undone: [charge, reserve], never_called: [ship]}`,
		"a cancel before anything": `
    requests: [{verb: cancel, at: 0s}]
    expect: {state: undone, never_called: [reserve, charge, ship]}`,
		"rejected": `
    input: {}
    expect: {state: rejected, reason: item}`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := run(t, strings.TrimPrefix(text, "\n"))
			require.Empty(t, lines(r))
			require.Equal(t, r, func() *wftest.Result { x := run(t, strings.TrimPrefix(text, "\n")); x.Case = r.Case; return x }(), "the same again")
		})
	}
}

func TestACaseThatGoesOtherwiseSaysWhatDiffers(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"    expect: {state: undone, output: 4, undone: [charge], never_called: [ship], steps: {charge: {state: skipped, attempts: 2, input: {}}}}": `7: calls of ship | none | 1 call
7: output | 4 | 3
7: state | undone | processed
7: steps.charge.attempts | 2 | 1
7: steps.charge.input | {} | {"item":"x"}
7: steps.charge.state | skipped | completed
7: undone | [charge] | []
`,
		"    input: {item: x, gift: true}\n    expect: {state: processed}": `6: attempt 1 to do step "gift" has no answer: there is no mock: add mocks: {gift: [{}]}
8: state | processed | processing
`,
		"    mocks:\n      charge:\n        - {fail: retryable, effect: none}\n    expect: {state: processed}": `8: attempt 2 to do step "charge" has no answer: its mock has only 1 answer: add one to mocks.charge, or give one answer as a mapping for all calls
10: state | processed | processing
`,
		"    mocks: {ship: {fail: permanent, effect: none}, gift: {}}\n    input: {item: x, gift: true}\n    requests: [{verb: cancel, when: error}]\n    expect: {state: undone}": `6: attempt 1 to undo step "gift" has no answer: there is no mock: add undo_mocks: {gift: [{}]}
10: state | undone | undoing (cancelled)
`,
		"    mocks: {charge: [{output: 2}, {output: 2}]}\n    expect: {state: processed}": `7: mocks.charge: answers that no call used; remove them | 2 used | 1 used
`,
		"    requests:\n      - {verb: cancel, when: ship.running}\n      - {verb: retry, when: error}\n    expect: {state: processed}": `8: request 1 (cancel) | granted | refused: the pivot is under way, or its outcome is unknown, so the task may be past its point of no return: ask again when the outcome is known
9: request 2 (retry): its point was never reached | sent | not sent
`,
		"    requests: [{verb: pause, when: charge.running}]\n    expect: {state: processed}": `8: state | processed | processing (paused, and no request resumes, cancels or terminates it after 1ms)
`,
	} {
		r := run(t, text)
		got := strings.Split(strings.TrimSpace(lines(r)), "\n")
		require.ElementsMatch(t, strings.Split(strings.TrimSpace(want), "\n"), got, text)
	}
}

func TestEachFaultOfATestFileHasAPlace(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"":                       "f:1:1: the document is empty",
		"[":                      "f:2:1: while parsing",
		"cases: []":              "f:1:1: workflow is missing",
		"workflow: w\ncases: []": "f:2:8: cases: a test file has at least one case",
		head + "  - {expect: {state: processed}}":                                                      "f:6:5: cases[0]: the case has no name",
		head + "  - {name: a}":                                                                         "f:6:5: cases[0]: the case has no expect",
		head + "  - {name: a, expect: {}}":                                                             "f:6:23: cases[0].expect: state is missing",
		head + "  - {name: a, expect: {state: proccessed}}":                                            `f:6:31: cases[0].expect.state: "proccessed" is not known here: did you mean "processed"?`,
		head + "  - {name: a, mock: {}, expect: {state: error}}":                                       `f:6:15: cases[0].mock: unknown key "mock": did you mean "mocks"?`,
		head + "  - {name: a, mocks: {chrge: {}}, expect: {state: error}}":                             `f:6:23: cases[0].mocks.chrge: workflow order has no step "chrge": did you mean "charge"?`,
		head + "  - {name: a, undo_mocks: {ship: {}}, expect: {state: error}}":                         `f:6:28: cases[0].undo_mocks.ship: step "ship" has no undo, so it needs no mock`,
		head + "  - {name: a, mocks: {ship: {fail: never}}, expect: {state: error}}":                   `f:6:36: cases[0].mocks.ship.fail: "never" is not known here`,
		head + "  - {name: a, mocks: {ship: {output: 1, silent: true}}, expect: {state: error}}":       "f:6:29: cases[0].mocks.ship: an answer has one of output, fail and silent",
		head + "  - {name: a, mocks: {ship: {error: x}}, expect: {state: error}}":                      "f:6:37: cases[0].mocks.ship.error: error needs fail",
		head + "  - {name: a, advance: 5, expect: {state: error}}":                                     "f:6:24: cases[0].advance: expected a duration such as 30s",
		head + "  - {name: a, requests: [{verb: cancel}], expect: {state: error}}":                     "f:6:26: cases[0].requests[0]: a request has either at",
		head + "  - {name: a, requests: [{verb: cancel, at: 1s, step: ship}], expect: {state: error}}": `f:6:49: cases[0].requests[0].step: unknown key "step" of a cancel`,
		head + "  - {name: a, requests: [{verb: stop, at: 1s}], expect: {state: error}}":               `f:6:33: cases[0].requests[0].verb: "stop" is not known here`,
		head + "  - {name: a, requests: [{verb: cancel, when: ship.gone}], expect: {state: error}}":    `f:6:47: cases[0].requests[0].when: "gone" is not a state of a step`,
		head + "  - &a {name: a, input: *a, expect: {state: error}}":                                   "f:6:25: cases[0].input: anchors and aliases are not supported",
		head + "  - {name: a, expect: {state: error}}\n  - {name: a, expect: {state: error}}":          `f:7:5: cases[1]: a case is called "a" already, on line 6`,
	} {
		t.Run(want, func(t *testing.T) {
			t.Parallel()
			f, faults := wftest.Parse("f", []byte(text), loadOrder)
			require.Nil(t, f, text)
			var all []string
			for _, x := range faults {
				all = append(all, x.String())
			}
			require.Contains(t, strings.Join(all, "\n"), want, text)
		})
	}
}

func TestFaultsOfTheWorkflowAreReportedWithTheirPlace(t *testing.T) {
	t.Parallel()
	f, faults := wftest.Parse("f", []byte(head), func(string) (*scheduler.Source, []scheduler.Fault, error) {
		src, faults := scheduler.Parse("order.yaml", []byte("workflow: order\nsteps: {a: {agnet: x}}"), nil)
		return src, faults, nil
	})
	require.Nil(t, f)
	require.Contains(t, fmt.Sprint(faults), `order.yaml:2:13`)
	require.Contains(t, fmt.Sprint(faults), `f:1:11: workflow: the workflow in order.yaml has faults`)
	_, faults = wftest.Parse("f", []byte(head), func(string) (*scheduler.Source, []scheduler.Fault, error) { return nil, nil, os.ErrNotExist })
	require.Contains(t, fmt.Sprint(faults), "f:1:11: workflow: file does not exist")
}

func TestCoverageNamesWhatNoCaseReached(t *testing.T) {
	t.Parallel()
	f, faults := wftest.Parse("f", []byte(head+`  - {name: a, expect: {state: processed}}
  - {name: b, mocks: {charge: {fail: permanent, effect: none}}, expect: {state: undone}}
`), loadOrder)
	require.NotNil(t, f, "%v", faults)
	var list []*wftest.Result
	for _, c := range f.Cases {
		r, err := f.Run(c)
		require.NoError(t, err)
		require.Empty(t, lines(r))
		list = append(list, r)
	}
	require.Equal(t, "steps 3/4 (never: gift), undos 1/3 (never: charge, gift), skips 1/1", f.Coverage(list).String())
}
