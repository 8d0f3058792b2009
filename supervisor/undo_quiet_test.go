package supervisor_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sagalog/sagalog/events"
)

// A step is undone and runs once more. A request of an attempt to undo it that is in doubt could undo what the new run does, so that waits.
func TestADoWaitsForTheUndosOfItsStep(t *testing.T) {
	t.Parallel()
	reports := func(attempt int, result events.Result, effect events.Effect) func(*bench, *candidate) {
		return func(b *bench, a *candidate) {
			p := events.Report{Task: "t1", Run: 1, Step: "only", Operation: events.Undo, Attempt: attempt, Result: result, Effect: effect}
			if result == events.ResultFailed {
				p.Error = &events.Error{Class: events.ClassRetryable, Message: "it failed"}
			}
			b.report(p)
			a.run()
		}
	}
	secondUndo := func(b *bench, a *candidate) {
		for range 20 {
			if u := b.task("t1").Step("only").Undo; u.Attempt == 2 {
				break
			}
			a.pass(100 * time.Millisecond)
		}
		reports(2, events.ResultCompleted, "")(b, a)
	}
	takenOver := func(_ *bench, a *candidate) {
		a.restart()
		a.own()
	}
	byHand := func(verb events.Verb) func(*bench, *candidate) {
		return func(b *bench, a *candidate) {
			b.decide(a, events.Request{ID: string(verb), Kind: verb, Step: "only", Operation: events.Undo})
		}
	}
	for name, x := range map[string]struct {
		ends  func(*bench, *candidate)
		waits bool
	}{
		"done at once":             {ends: reports(1, events.ResultCompleted, "")},
		"failed without effect":    {ends: after(reports(1, events.ResultFailed, events.EffectNone), secondUndo)},
		"done, sent twice":         {after(takenOver, reports(1, events.ResultCompleted, "")), true},
		"done, in doubt":           {reports(1, events.ResultCompleted, events.EffectInDoubt), true},
		"failed, in doubt":         {after(reports(1, events.ResultFailed, events.EffectInDoubt), secondUndo), true},
		"failed, sent twice":       {after(takenOver, reports(1, events.ResultFailed, events.EffectNone), secondUndo), true},
		"timed out":                {secondUndo, true},
		"ended and done by hand":   {after(byHand(events.RequestFail), byHand(events.RequestComplete)), true},
		"ended and left by hand":   {after(byHand(events.RequestFail), byHand(events.RequestSkip)), true},
		"failed, and left by hand": {after(reports(1, events.ResultFailed, events.EffectInDoubt), byHand(events.RequestSkip)), true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t, oneStep)
			a := b.candidate("A").own()
			processed(b, a)
			a.pass(time.Second)
			require.Empty(t, b.rerun(a, ""))
			u := b.task("t1").Step("only").Undo
			require.Equal(t, events.StepStateRunning, u.State)
			quiet := u.CompleteBy.Add(events.DefaultSettings().Grace.Std())
			x.ends(b, a)
			require.Equal(t, 1, count[*events.RunBegun](b))
			if x.waits {
				require.Equal(t, quiet, b.task("t1").Step("only").UndoQuietAt)
				a.pass(quiet.Sub(b.now) - time.Millisecond)
				require.Equal(t, 1, count[*events.StepStarted](b))
				a.pass(time.Millisecond)
			}
			require.Equal(t, 2, count[*events.StepStarted](b))
			sameEverywhere(t, b, a)
		})
	}
}

// The time in which a step must start counts from when it can.
func TestAStepIsNotQueuedLateBehindItsUndo(t *testing.T) {
	t.Parallel()
	b := newBench(t, `
workflow: one
defaults: {complete_within: 1m, retry: {attempts: 1, then: park}}
steps:
  only: {agent: alpha, start_within: 5s, undo: {}}
`)
	a := b.candidate("A").own()
	processed(b, a)
	a.pass(time.Second)
	require.Empty(t, b.rerun(a, ""))
	quiet := b.task("t1").Step("only").Undo.CompleteBy.Add(events.DefaultSettings().Grace.Std())
	b.report(events.Report{Task: "t1", Run: 1, Step: "only", Operation: events.Undo, Attempt: 1, Result: events.ResultCompleted, Effect: events.EffectInDoubt})
	a.run()
	require.Equal(t, quiet.Add(5*time.Second), last[*events.StepQueued](b).StartBy)
	a.pass(quiet.Sub(b.now))
	require.Equal(t, 2, count[*events.StepStarted](b))
}
