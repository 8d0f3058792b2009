package scheduler_test

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sagalog/sagalog/events"
	"github.com/sagalog/sagalog/scheduler"
)

func TestACheckJudgesTheOutputOfItsStep(t *testing.T) {
	t.Parallel()
	src, faults := scheduler.Parse("f", []byte(head+`
  plain: {agent: a}
  bare: {agent: a, fail_if: "${ output.ok == false }"}
  asked: {agent: a, needs: [bare], fail_if: "${ output.by != input.by }", fail_reason: "by ${ output.by }, not ${ input.by }"}
  typed: {agent: a, fail_if: "${ output.code > 3 }", fail_reason: "${ output.code }"}
  vague: {agent: a, fail_if: "${ output.code > 3 }", fail_reason: "${ output.why + 1 }"}
`), nil)
	require.NotNil(t, src, faults)
	d, err := scheduler.Complete(src.Body)
	require.NoError(t, err)
	body, err := events.Marshal(d)
	require.NoError(t, err)
	s := scheduler.New()
	require.NoError(t, s.Prepare(src.Hash, body))
	task := &events.Task{ID: "t", Definition: src.Hash, Input: json.RawMessage(`{"by":"ada"}`)}
	for _, c := range []struct {
		step, output string
		class        events.Class
		message      string
	}{
		{"plain", `{"ok":false}`, "", ""},
		{"bare", `{"ok":true}`, "", ""},
		{"bare", `{"ok":false}`, events.ClassCheck, "fail_if is true: ${ output.ok == false }"},
		{"asked", `{"by":"ada"}`, "", ""},
		{"asked", `{"by":"bob"}`, events.ClassCheck, "by bob, not ada"},
		{"typed", `{"code":4}`, events.ClassCheck, "4"},
		{"typed", `{"code":"x"}`, events.ClassExpression, "fail_if: "},
		{"vague", `{"code":4,"why":"no"}`, events.ClassCheck, "fail_if is true: ${ output.code > 3 }; fail_reason: "},
		{"nowhere", `1`, "", ""},
	} {
		fault, _, _ := s.Check(task, c.step, json.RawMessage(c.output))
		if c.class == "" {
			require.Nil(t, fault, c)
			continue
		}
		require.NotNil(t, fault, c)
		require.Equal(t, c.class, fault.Class, c)
		require.Contains(t, fault.Message, c.message)
	}
}

func TestAStepWithoutACheckCostsNothing(t *testing.T) { // not parallel, since it counts allocations
	src, faults := scheduler.Parse("f", []byte(head+"  plain: {agent: a}"), nil)
	require.NotNil(t, src, faults)
	d, err := scheduler.Complete(src.Body)
	require.NoError(t, err)
	body, err := events.Marshal(d)
	require.NoError(t, err)
	s := scheduler.New()
	require.NoError(t, s.Prepare(src.Hash, body))
	task, output := &events.Task{ID: "t", Definition: src.Hash}, json.RawMessage("1")
	require.Zero(t, testing.AllocsPerRun(100, func() { s.Check(task, "plain", output) }))
}
