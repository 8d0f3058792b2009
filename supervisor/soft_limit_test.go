package supervisor_test

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sagalog/sagalog/events"
	"github.com/sagalog/sagalog/supervisor"
)

// A step that runs, one that waits and the task itself each raise one alert, the second attempt of a step none; a step that is over and a task
// that has ended raise none. The reports cannot be read all the while: a soft limit waits for nothing.
func TestWorkThatIsNotOverAtItsSoftLimitIsAlertedOnce(t *testing.T) {
	t.Parallel()
	b := newBench(t, `
workflow: slow
remind_after: 3h
defaults: {complete_within: 90m, retry: {attempts: 3, backoff: 1m, then: park}}
steps:
  quick: {agent: alpha, remind_after: 1h}
  long: {agent: alpha, remind_after: 2h}
  sign: {needs: [quick], wait: {signal: yes}, remind_after: 1h}
`)
	a := b.candidate("A").own()
	b.submit("t1", "slow", "")
	a.run()
	began := b.task("t1").Step("long").StartedAt
	b.done("t1", "quick", 1)
	a.run()
	signs := b.task("t1").Step("sign").StartedAt
	a.pass(100 * time.Minute) // the time of the first attempt is over
	a.pass(2 * time.Minute)
	require.Equal(t, 2, b.task("t1").Step("long").Attempt)
	a.hold["AskEnds"] = true
	a.pass(80 * time.Minute)
	a.pass(80 * time.Minute)
	var alerts []supervisor.Alert
	for _, r := range a.sentTo("alerts") {
		var alert supervisor.Alert
		require.NoError(t, json.Unmarshal(r.Value, &alert))
		require.NotEmpty(t, alert.Of)
		alert.Of, alert.Time = "", 0
		alerts = append(alerts, alert)
	}
	soft := func(step, after string, since events.Instant) supervisor.Alert {
		return supervisor.Alert{
			Kind: supervisor.AlertSoftLimit, Task: "t1", Workflow: "slow", Step: step, Since: since,
			Reason: "not over " + after + " after it began (remind_after of its workflow)",
		}
	}
	require.Equal(t, []supervisor.Alert{soft("sign", "1h", signs), soft("long", "2h", began), soft("", "3h", b.task("t1").SubmittedAt)}, alerts)
	require.Zero(t, b.task("t1").SoftAt)
	sameEverywhere(t, b, a)
}
