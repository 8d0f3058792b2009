package scheduler_test

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sagalog/sagalog/events"
	"github.com/sagalog/sagalog/scheduler"
)

// sleeping returns the plan of a task of the workflow.
func sleeping(t *testing.T, text, input string, steps ...*events.Step) events.Plan {
	t.Helper()
	src, faults := scheduler.Parse("f", []byte(text), nil)
	require.NotNil(t, src, "%v", faults)
	d, err := scheduler.Complete(src.Body)
	require.NoError(t, err)
	body, err := json.Marshal(d)
	require.NoError(t, err)
	s := scheduler.New()
	require.NoError(t, s.Prepare("h", body))
	plan, err := s.Plan(&events.Task{ID: "t", Workflow: "w", Definition: "h", State: events.TaskStatePending, Input: json.RawMessage(input), Steps: steps})
	require.NoError(t, err)
	return plan
}

func TestASleepBeginsWithItsDurationOrItsEnd(t *testing.T) {
	t.Parallel()
	const until = "workflow: w\nsteps:\n  a: {sleep: {until: \"${ input.at }\"}}"
	for name, c := range map[string]struct {
		text, input string
		fact        events.WaitStarted
		fault       string
	}{
		"a duration":              {"workflow: w\nsteps:\n  a: {sleep: 10m}", "{}", events.WaitStarted{Within: events.Duration(10 * time.Minute)}, ""},
		"an instant":              {"workflow: w\nsteps:\n  a: {sleep: {until: 2030-01-01T00:00:00Z}}", "{}", events.WaitStarted{Until: 1_893_456_000_000}, ""},
		"an instant of the input": {until, `{"at":"2030-01-01T01:00:00+01:00"}`, events.WaitStarted{Until: 1_893_456_000_000}, ""},
		"a duration of the input": {until, `{"at":"90s"}`, events.WaitStarted{Within: events.Duration(90 * time.Second)}, ""},
		"an instant long ago":     {until, `{"at":"0001-01-01T00:00:00Z"}`, events.WaitStarted{Until: 1}, ""},
		"no instant":              {until, `{"at":"soon"}`, events.WaitStarted{}, `sleep.until: "soon" is neither an instant such as 2026-11-21T14:00:00Z nor a duration such as 10m`},
		"no text":                 {until, `{"at":17}`, events.WaitStarted{}, "sleep.until gives 17, which is neither an instant such as 2026-11-21T14:00:00Z nor a duration such as 10m"},
		"nothing":                 {until, `{}`, events.WaitStarted{}, "sleep.until gives null, which is neither an instant such as 2026-11-21T14:00:00Z nor a duration such as 10m"},
		"a duration back":         {until, `{"at":"-5m"}`, events.WaitStarted{}, `sleep.until: the duration "-5m" is not positive`},
		"no such member":          {until, `"x"`, events.WaitStarted{}, "sleep.until: "},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			plan := sleeping(t, c.text, c.input)
			if c.fault != "" {
				require.Len(t, plan.Broken, 1)
				require.Contains(t, plan.Broken[0].Error.Message, c.fault)
				require.Equal(t, events.ClassExpression, plan.Broken[0].Error.Class)
				return
			}
			c.fact.Step = "a"
			require.Equal(t, []events.Body{&c.fact}, plan.Facts)
		})
	}
}

// The step that sleeps holds back those that need it, and the end of the task, but no other.
func TestAStepThatSleepsIsOpenAndCallsNobody(t *testing.T) {
	t.Parallel()
	const text = "workflow: w\nsteps:\n  a: {if: \"${ input.go }\", sleep: 10m}\n  b: {needs: [a], agent: b}\n  c: {agent: c, needs: []}"
	plan := sleeping(t, text, `{"go":true}`)
	yes := true
	require.Equal(t, []events.Body{&events.WaitStarted{Step: "a", Within: events.Duration(10 * time.Minute), Condition: &yes}}, plan.Facts)
	plan = sleeping(t, text, `{"go":true}`, &events.Step{Path: "a", State: events.StepStateWaiting, Wait: &events.Wait{Until: 1}})
	require.True(t, plan.Quiet())
	require.Len(t, plan.Ready, 1)
	require.Equal(t, "c", plan.Ready[0].Path)
	step, _ := program(t, text).Step("a")
	require.Empty(t, step.Calls())
	require.Equal(t, []string{"b", "c"}, program(t, text).Definition().Agents())
	preview := program(t, text).Preview(&events.Task{ID: "t1", Run: 1, Workflow: "w", Version: 1, State: events.TaskStatePending, Input: json.RawMessage(`{"go":true}`)})
	require.True(t, preview[0].Starts)
}
