package supervisor_test

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sagalog/sagalog/events"
)

// An open transaction keeps the reports from being read to their high watermark, for minutes. What no report could contradict goes on:
// here the retry of one of two parallel steps, while the attempt of the other is past its complete-by time.
func TestRetriesGoOnWhileReportsCannotBeRead(t *testing.T) {
	t.Parallel()
	b := newBench(t, `
workflow: two
defaults: {complete_within: 1s, retry: {attempts: 5, backoff: 2s, then: park}}
steps:
  left: {agent: alpha}
  right: {agent: beta}
`)
	a := b.candidate("A").own()
	b.submit("t1", "two", "")
	a.run()
	b.failed("t1", "left", 1, events.ClassRetryable, events.EffectNone)
	a.run()
	a.hold["AskEnds"] = true
	for range 4 {
		a.pass(time.Second)
	}
	require.Equal(t, []string{"Submitted", "StepStarted", "StepStarted", "StepFailed", "StepStarted"}, b.names())
	require.Equal(t, 2, b.task("t1").Step("left").Attempt)
	a.hold["AskEnds"] = false
	a.run()
	a.pass(time.Second)
	require.Equal(t, 2, count[*events.Timeout](b))
	sameEverywhere(t, b, a)
}

// The same holds for an undo that waits until the last request of an attempt in doubt can no longer land.
func TestAnUndoStartsWhileReportsCannotBeRead(t *testing.T) {
	t.Parallel()
	b := newBench(t, strings.Replace(oneStep, "then: park", "then: undo", 1))
	a := b.candidate("A").own()
	b.submit("t1", "one", "")
	a.run()
	b.failed("t1", "only", 1, events.ClassPermanent, "")
	a.run()
	a.hold["AskEnds"] = true
	for range 5 {
		a.pass(time.Second)
	}
	require.Equal(t, []string{"Submitted", "StepStarted", "StepFailed", "CompensationStarted"}, b.names())
}

// An owner does not ask the brokers where its inputs end because a retry is due.
func TestARetryAsksForNoEnds(t *testing.T) {
	t.Parallel()
	b := newBench(t, oneStep)
	a := b.candidate("A").own()
	b.submit("t1", "one", "")
	a.run()
	b.failed("t1", "only", 1, events.ClassRetryable, events.EffectNone)
	a.run()
	asked := a.asked
	a.pass(200 * time.Millisecond)
	require.Equal(t, 2, count[*events.StepStarted](b))
	require.Equal(t, asked, a.asked)
}
