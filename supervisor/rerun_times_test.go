package supervisor_test

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sagalog/sagalog/events"
)

// A step that is kept was done with the old input. If its undo reads the new one, a later cancel would release what was never reserved.
func TestAKeptStepIsNotUndoneWithTheNewInput(t *testing.T) {
	t.Parallel()
	const workflow = `
workflow: seats
defaults: {complete_within: 1s, retry: {attempts: 1, then: undo}}
steps:
  reserve: {agent: alpha, with: {seat: "${ input.seat }"}, undo: {%s}}
  notify: {agent: beta, needs: [reserve], undo: {}}
`
	for undo, why := range map[string]string{
		`with: {seat: "${ input.seat }"}`:      `step "reserve" does not run again, but the new input`,
		`with: {seat: "${ step.input.seat }"}`: "",
		``:                                     "",
	} {
		b := newBench(t, strings.ReplaceAll(workflow, "%s", undo))
		a := b.candidate("A").own()
		b.submit("t1", "seats", `,"input":{"seat":"12A"}`)
		a.run()
		for _, step := range []string{"reserve", "notify"} {
			b.done("t1", step, 1)
			a.run()
		}
		b.decide(a, events.Request{ID: "q", Kind: events.RequestRerun, From: "notify", Input: json.RawMessage(`{"seat":"14C"}`)})
		if why != "" {
			require.Contains(t, last[*events.InputRejected](b).Detail, why)
			b.decide(a, events.Request{ID: "all", Kind: events.RequestRerun, Input: json.RawMessage(`{"seat":"14C"}`)})
		}
		require.Equal(t, events.TaskStateUndoing, b.task("t1").State, undo)
	}
}

func TestARerunFromAStepWithALongNameIsInvalid(t *testing.T) {
	t.Parallel()
	b := newBench(t, oneStep)
	a := b.candidate("A").own()
	parkedTask(b, a)
	b.decide(a, events.Request{ID: "q", Kind: events.RequestRerun, From: strings.Repeat("s", 256)})
	require.Equal(t, events.RejectInvalid, last[*events.InputRejected](b).Reason)
}

// As long as the pivot is not over, each rerun concerns it, also one from a step behind it.
func TestAPivotInDoubtIsFinishedBeforeARerun(t *testing.T) {
	t.Parallel()
	b := newBench(t, pivoted)
	a := b.candidate("A").own()
	b.submit("t1", "pivoted", "")
	a.run()
	completes("before")(b, a)
	a.pass(2 * time.Second)
	a.pass(time.Second)
	require.Equal(t, events.TaskStateError, b.task("t1").State)
	require.Contains(t, b.rerun(a, "behind"), "retry it, or complete it if it is done")
}

const dated = `
workflow: dated
remind_after: 1h
defaults: {complete_within: 1s, retry: {attempts: 1, then: park}}
steps:
  only: {agent: alpha, undo: {}}
`

// The deadline of the new run is as far away as it was at first, whether the task was paused, or waited for its time, before.
func TestADeadlineIsAsFarAwayInEachRun(t *testing.T) {
	t.Parallel()
	b := newBench(t, dated)
	a := b.candidate("A").own()
	b.submit("t1", "dated", `,"deadline":"10m"`)
	a.run()
	b.failed("t1", "only", 1, events.ClassPermanent, events.EffectNone)
	a.run()
	require.Equal(t, events.TaskStateError, b.task("t1").State)
	a.pass(9 * time.Minute)
	b.decide(a, events.Request{ID: "r", Kind: events.RequestRetry})
	require.NotEqual(t, events.TaskStateError, b.task("t1").State)
	a.pass(100 * time.Millisecond)
	b.done("t1", "only", 2)
	a.run()
	require.Equal(t, events.TaskStateProcessed, b.task("t1").State)
	began := rerunOnly(t, b, a)
	require.Equal(t, 10*time.Minute, b.task("t1").Deadline.Sub(began), "it was parked for some time")

	b = newBench(t, dated)
	a = b.candidate("A").own()
	b.submit("t1", "dated", `,"deadline":"10m","not_before":"1h"`)
	a.run()
	a.pass(time.Hour)
	b.done("t1", "only", 1)
	a.run()
	require.Equal(t, events.TaskStateProcessed, b.task("t1").State)
	began = rerunOnly(t, b, a)
	require.Equal(t, 10*time.Minute, b.task("t1").Deadline.Sub(began), "it waited for its time")
}

// rerunOnly reruns t1, whose only step is undone if it must be, and returns when the new run began.
func rerunOnly(t *testing.T, b *bench, a *candidate) events.Instant {
	require.Empty(t, b.rerun(a, ""))
	if s := b.task("t1").Step("only"); s.Undo != nil && s.Undo.State == events.StepStateRunning {
		b.undone("t1", "only", s.Undo.Attempt)
		a.run()
	}
	_, accepted, _ := b.read()
	for _, f := range accepted {
		if _, ok := f.Body.(*events.RunBegun); ok {
			return f.Time
		}
	}
	t.Fatalf("no run began: the task is %s", b.task("t1").State)
	return 0
}

// A task that ended in time raises no alert about its soft limit when it is rerun a week later; its new run has the whole soft limit again.
func TestASoftLimitCountsFromTheNewRun(t *testing.T) {
	t.Parallel()
	b := newBench(t, dated)
	a := b.candidate("A").own()
	b.submit("t1", "dated", "")
	a.run()
	completes("only")(b, a)
	a.run()
	a.pass(24 * time.Hour)
	began := rerunOnly(t, b, a)
	a.pass(100 * time.Millisecond)
	require.Zero(t, count[*events.SoftLimitPassed](b))
	require.Equal(t, began.Add(time.Hour), b.task("t1").SoftAt)
	b.decide(a, events.Request{ID: "p", Kind: events.RequestPause})
	a.pass(time.Hour)
	require.Equal(t, 1, count[*events.SoftLimitPassed](b))
	require.Equal(t, began, last[*events.SoftLimitPassed](b).Since)
	sameEverywhere(t, b, a)
}

// A task ends, in doubt, while the clock is eight days ahead. When the clock is right again it is rerun: its undo waits for what is left of the
// quiet time, and not for the time that the wrong clock showed.
func TestARerunDoesNotWaitForAWrongClock(t *testing.T) {
	t.Parallel()
	b := newBench(t, `
workflow: one
defaults: {complete_within: 1s, retry: {attempts: 2, backoff: 100ms, then: park}}
steps:
  only: {agent: alpha, undo: {}}
`)
	right := b.now
	b.now = right.Add(8 * 24 * time.Hour)
	a := b.candidate("A").own()
	b.submit("t1", "one", "")
	a.run()
	b.failed("t1", "only", 1, events.ClassPermanent, events.EffectInDoubt)
	a.run()
	b.decide(a, events.Request{ID: "end", Kind: events.RequestTerminate})
	require.Equal(t, events.TaskStateTerminated, b.task("t1").State)
	b.now = right.Add(time.Minute)
	next := b.candidate("B").own()
	next.pass(time.Second)
	next.o.Suspend(b.now, false, true)
	for range 20 {
		next.pass(100 * time.Millisecond)
	}
	require.NotZero(t, count[*events.TimeCorrected](b))
	require.Empty(t, b.rerun(next, ""))
	require.Zero(t, count[*events.CompensationStarted](b), "a request may still take effect")
	for range 10 {
		next.pass(10 * time.Second)
	}
	require.NotZero(t, count[*events.CompensationStarted](b))
	sameEverywhere(t, b, next)
}
