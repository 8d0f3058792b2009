package supervisor_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sagalog/sagalog/events"
	"github.com/sagalog/sagalog/supervisor"
)

const limited = `
workflow: limited
steps:
  ask: {agent: alpha, complete_within: 5s, start_within: 10s, retry: {attempts: 9, backoff: 2s, factor: 1, within: 6s}, on_timeout: continue, undo: {}}
  use: {needs: [ask], agent: alpha}
`

// missing returns an owner with the task t1 of the workflow limited, whose agent is missing.
func missing(t *testing.T) (*bench, *candidate) {
	b := newBench(t, limited)
	a := b.candidate("A")
	a.o.SetOffers(b.now, map[string]supervisor.Offer{})
	a.own()
	b.submit("t1", "limited", "")
	a.run()
	return b, a
}

func TestAStepThatDoesNotStartInTimeIsOver(t *testing.T) {
	t.Parallel()
	b, a := missing(t)
	require.Equal(t, []string{"Submitted", "StepQueued"}, b.names())
	a.pass(9 * time.Second)
	require.Equal(t, []string{"Submitted", "StepQueued"}, b.names())
	a.pass(2 * time.Second)
	require.Equal(t, []string{"Submitted", "StepQueued", "Timeout"}, b.names())
	a.o.SetOffers(b.now, offers(8))
	a.pass(time.Second)
	require.Equal(t, []string{"t1.use do#1"}, a.work(), "the task goes on without it")
}

func TestNothingStartsLateThoughTheReportsCannotBeRead(t *testing.T) {
	t.Parallel()
	b, a := missing(t)
	a.hold["AskEnds"] = true
	a.pass(11 * time.Second)
	a.o.SetOffers(b.now, offers(8))
	a.pass(time.Second)
	require.Empty(t, a.work())
	a.hold["AskEnds"] = false
	a.pass(time.Second)
	a.pass(time.Second)
	require.Equal(t, []string{"t1.use do#1"}, a.work())
}

func TestTheTimeOfAStepIsJudgedWhenItsTaskIsResumed(t *testing.T) {
	t.Parallel()
	b, a := missing(t)
	b.request(events.RequestPause, "p", "t1")
	a.run()
	a.pass(time.Minute)
	require.Zero(t, count[*events.Timeout](b))
	b.request(events.RequestResume, "r", "t1")
	a.run()
	a.pass(time.Second)
	require.Equal(t, 1, count[*events.Timeout](b))
}

func TestNoAttemptStartsAfterRetryWithin(t *testing.T) {
	t.Parallel()
	b, a := missing(t)
	a.o.SetOffers(b.now, offers(8))
	a.pass(time.Second)
	b.failed("t1", "ask", 1, events.ClassRetryable, events.EffectDoneUnknown)
	a.run()
	a.o.SetOffers(b.now, map[string]supervisor.Offer{}) // its second attempt could start in time, if there were an agent
	a.pass(7 * time.Second)
	require.Equal(t, []string{"Submitted", "StepQueued", "StepStarted", "StepFailed", "Timeout"}, b.names())

	b.request(events.RequestCancel, "c", "t1")
	a.run()
	a.o.SetOffers(b.now, offers(8))
	a.pass(time.Second)
	b.undone("t1", "ask", 1)
	a.run()
	require.Equal(t, []string{"CancelRequested", "CompensationStarted", "Compensated", "TaskUndone"}, b.names()[len(b.names())-4:],
		"its first attempt may have had an effect")
}
