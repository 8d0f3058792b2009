package supervisor_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sagalog/sagalog/events"
)

const sleepingSteps = `
workflow: nap
defaults: {complete_within: 1s, retry: {attempts: 3, then: undo}}
steps:
  first: {agent: alpha, undo: {}}
  nap: {needs: [first], sleep: {until: "${ input.at }"}}
  second: {needs: [nap], agent: beta}
`

// begun returns a bench whose task t1 has come to its sleep, and what its owner did before that.
func begun(t *testing.T, at string) (*bench, *candidate) {
	t.Helper()
	b := newBench(t, sleepingSteps)
	a := b.candidate("A").own()
	b.submit("t1", "nap", `,"input":{"at":"`+at+`"}`)
	a.run()
	b.done("t1", "first", 1)
	a.run()
	return b, a
}

// since returns the facts from the end of the first step on.
func since(b *bench) []string { return b.names()[3:] }

// The instant stands in the log, so a take-over neither shortens nor lengthens the sleep.
func TestASleepOutlivesItsOwner(t *testing.T) {
	t.Parallel()
	b, _ := begun(t, "10m")
	require.Equal(t, b.now.Add(10*time.Minute), last[*events.WaitStarted](b).Until)
	b.now = b.now.Add(9 * time.Minute)
	c := b.candidate("B").own()
	c.pass(59 * time.Second)
	require.Equal(t, []string{"WaitStarted"}, since(b))
	c.pass(time.Second)
	require.Equal(t, []string{"WaitStarted", "StepCompleted", "StepStarted"}, since(b))
	require.Equal(t, "second", last[*events.StepStarted](b).Step)
	require.Equal(t, []string{"t1.second do#1"}, c.work())
	sameEverywhere(t, b, c)
}

// An instant that passed while nobody owned the partition is due at once, and so is one that had passed before the sleep began.
func TestASleepUntilAPastInstantIsOverAtOnce(t *testing.T) {
	t.Parallel()
	b, a := begun(t, "2001-01-01T00:00:00Z")
	a.pass(0)
	require.Equal(t, []string{"WaitStarted", "StepCompleted", "StepStarted"}, since(b))
	b, _ = begun(t, "10m")
	b.now = b.now.Add(time.Hour)
	c := b.candidate("B").own()
	c.pass(0)
	require.Equal(t, []string{"WaitStarted", "StepCompleted", "StepStarted"}, since(b))
	sameEverywhere(t, b, c)
}

func TestASleepWithoutAnEndUndoesTheTask(t *testing.T) {
	t.Parallel()
	b, a := begun(t, "soon")
	require.Equal(t, []string{"StepFailed", "CompensationStarted"}, since(b))
	f := last[*events.StepFailed](b)
	require.Equal(t, events.ClassExpression, f.Error.Class)
	require.Equal(t, `step "nap": no retry can help: sleep.until: "soon" is neither an instant such as 2026-11-21T14:00:00Z nor a duration such as 10m`, f.Verdict.Reason)
	sameEverywhere(t, b, a)
}

func TestACancelEndsASleep(t *testing.T) {
	t.Parallel()
	b, a := begun(t, "10m")
	b.ask(a, events.RequestCancel, "q1")
	require.Equal(t, []string{"WaitStarted", "CancelRequested", "CompensationStarted"}, since(b))
	b.undone("t1", "first", 1)
	a.run()
	a.pass(time.Hour)
	require.Equal(t, []string{"WaitStarted", "CancelRequested", "CompensationStarted", "Compensated", "TaskUndone"}, since(b))
	sameEverywhere(t, b, a)
}

// A paused task sleeps on, and starts nothing when the sleep is over.
func TestAPausedTaskSleepsOn(t *testing.T) {
	t.Parallel()
	b, a := begun(t, "10m")
	b.ask(a, events.RequestPause, "q1")
	a.pass(10 * time.Minute)
	require.Equal(t, []string{"WaitStarted", "TaskPaused", "StepCompleted"}, since(b))
	b.ask(a, events.RequestResume, "q2")
	require.Equal(t, []string{"WaitStarted", "TaskPaused", "StepCompleted", "TaskResumed", "StepStarted"}, since(b))
	sameEverywhere(t, b, a)
}

// An operator ends a sleep early, one way or another. A retry would have nothing to try.
func TestAnOperatorEndsASleep(t *testing.T) {
	t.Parallel()
	for verb, facts := range map[events.Verb][]string{
		events.RequestSkip:      {"StepSkipped", "StepStarted"},
		events.RequestComplete:  {"StepCompleted", "StepStarted"},
		events.RequestFail:      {"StepFailed", "CompensationStarted"},
		events.RequestTerminate: {"TaskTerminated"},
		events.RequestRetry:     {"RequestRefused"},
	} {
		t.Run(string(verb), func(t *testing.T) {
			t.Parallel()
			b, a := begun(t, "10m")
			q := events.Request{ID: "q", Kind: verb, Task: "t1", Step: "nap"}
			r, err := events.EncodeRequest(q, events.Subject{ID: q.ID, Source: "/op", Time: b.now})
			require.NoError(t, err)
			b.put(events.Reports, r)
			a.run()
			require.Equal(t, append([]string{"WaitStarted"}, facts...), since(b))
			a.pass(time.Hour)
			require.NotContains(t, since(b)[len(facts)+1:], "WaitStarted")
			sameEverywhere(t, b, a)
		})
	}
}
