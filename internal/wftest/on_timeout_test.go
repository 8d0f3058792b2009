package wftest_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sagalog/sagalog/internal/wftest"
	"github.com/sagalog/sagalog/scheduler"
)

const survey = `workflow: survey
defaults: {complete_within: 30s, retry: {attempts: 9, backoff: 1s, factor: 1}}
steps:
  ask: {agent: asker, start_within: 10s, retry: {within: 45s}, on_timeout: continue, undo: {}}
  use: {needs: [ask], agent: user, retry: {attempts: 1}, with: {answer: "${ steps.ask.output ?? 'nothing' }"}}
`

func TestTheTimeOfAStepPassesInACase(t *testing.T) {
	t.Parallel()
	load := func(string) (*scheduler.Source, []scheduler.Fault, error) {
		src, faults := scheduler.Parse("survey.yaml", []byte(survey), nil)
		return src, faults, nil
	}
	for name, text := range map[string]string{
		"the task goes on":  "mocks: {ask: {silent: true}, use: {}}, expect: {state: processed, steps: {ask: {state: timed_out, attempts: 2}, use: {input: {answer: nothing}}}}",
		"and turns back":    "mocks: {ask: {silent: true}, use: {fail: permanent, effect: none}}, undo_mocks: {ask: {}}, expect: {state: undone, undone: [ask]}",
		"nothing was done":  "mocks: {ask: {fail: retryable, effect: none, retry_after: 50s}, use: {fail: permanent, effect: none}}, expect: {state: undone, undone: []}",
		"an answer in time": "mocks: {ask: [{silent: true}, {output: yes}], use: {}}, expect: {state: processed, steps: {use: {input: {answer: yes}}}}",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f, faults := wftest.Parse("survey.test.yaml", []byte("workflow: survey.yaml\ncases:\n  - {name: a, "+text+"}"), load)
			require.NotNil(t, f, "%v", faults)
			r, err := f.Run(f.Cases[0])
			require.NoError(t, err)
			require.Empty(t, lines(r))
		})
	}
}
