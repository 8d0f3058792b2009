package supervisor_test

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sagalog/sagalog/events"
	"github.com/sagalog/sagalog/supervisor"
)

func hourly(c *candidate) { c.cfg.Settings.RemindAfter = events.Duration(time.Hour) }

// The reports cannot be read all the while: a reminder waits for nothing.
func TestTheAlertOfAParkedTaskIsRepeatedUntilItIsRetried(t *testing.T) {
	t.Parallel()
	b := newBench(t, oneStep)
	a := b.candidate("A", hourly).own()
	b.submit("t1", "one", "")
	a.run()
	b.failed("t1", "only", 1, events.ClassPermanent, events.EffectNone)
	a.run()
	parkedAt := b.task("t1").ParkedAt
	a.hold["AskEnds"] = true
	for range 4 {
		a.pass(31 * time.Minute)
	}
	require.Equal(t, 2, count[*events.TaskReminded](b))
	var repeated []supervisor.Alert
	for _, r := range a.sentTo("alerts") {
		var alert supervisor.Alert
		require.NoError(t, json.Unmarshal(r.Value, &alert))
		if alert.Reminder > 0 {
			require.Equal(t, supervisor.AlertParked, alert.Kind)
			require.Equal(t, "one", alert.Workflow)
			require.Equal(t, b.task("t1").Reason, alert.Reason)
			require.Equal(t, parkedAt, alert.Since)
			repeated = append(repeated, alert)
		}
	}
	require.Len(t, repeated, 2)
	require.Equal(t, []int{1, 2}, []int{repeated[0].Reminder, repeated[1].Reminder})
	a.hold["AskEnds"] = false
	b.request(events.RequestRetry, "q", "t1")
	a.run()
	a.pass(3 * time.Hour)
	require.Equal(t, 2, count[*events.TaskReminded](b))
	sameEverywhere(t, b, a)
}

// The report of another step fills the batch in which the reminder falls due, and that batch writes the row of the task.
func TestAReminderThatIsDueIsNotLost(t *testing.T) {
	t.Parallel()
	b := newBench(t, `
workflow: two
defaults: {complete_within: 5h, retry: {attempts: 1, then: park}}
steps:
  left: {agent: alpha}
  right: {agent: beta}
`)
	a := b.candidate("A", hourly, func(c *candidate) { c.cfg.BatchFacts, c.cfg.InFlight = 1, 1 }).own()
	b.submit("t1", "two", "")
	a.run()
	b.failed("t1", "left", 1, events.ClassPermanent, events.EffectNone)
	a.run()
	require.Equal(t, events.TaskStateError, b.task("t1").State)
	b.now = b.now.Add(time.Hour)
	b.done("t1", "right", 1)
	a.run()
	a.pass(time.Second)
	require.Equal(t, 1, count[*events.TaskReminded](b))
	require.Equal(t, events.StepStateCompleted, b.task("t1").Step("right").State)
}
