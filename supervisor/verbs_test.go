package supervisor_test

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/sagalog/sagalog/events"
	"github.com/sagalog/sagalog/supervisor"
	"github.com/stretchr/testify/require"
)

// operated is a task in one of the states in which an operator may find it.
type operated struct {
	state string
	// reach brings the task t1 there.
	reach func(b *bench, a *candidate)
	// step is the step that requests are about.
	step string
	// answers are "granted", or how the reason of the refusal begins, by the verb. An ended task refuses all, by a dead letter.
	answers map[events.Verb]string
}

// about are the answers to the verbs about a step.
type about struct{ skip, complete, fail string }

const (
	granted       = "granted"
	nothingFailed = "nothing can be retried"
	notPaused     = "the task is not paused"
	runs          = "attempt 1 of the do of step"
	hasEnded      = "the task has ended"
	pivotPassed   = "the task is past its point of no return"
	runsDo        = "an attempt to do step"
	notEnded      = "the task is processing: rerun is for"
	isPaused      = "the task is paused: resume it"
	noSignal      = "/signal: no step of workflow"
)

var (
	unbegun    = about{granted, "no attempt of step", "no attempt to do step"}
	doRuns     = about{"attempt 1 to do step", "attempt 1 to do step", granted}
	undoRuns   = about{"attempt 1 to undo step", "attempt 1 to undo step", granted}
	waits      = about{granted, granted, granted}
	failedDo   = about{granted, granted, "no attempt to do step"}
	failedUndo = about{granted, granted, "no attempt to undo step"}
	stepVerbs  = []events.Verb{events.RequestSkip, events.RequestComplete, events.RequestFail}
)

// with adds the answers to the verbs about a step.
func with(answers map[events.Verb]string, steps about) map[events.Verb]string {
	for i, answer := range []string{steps.skip, steps.complete, steps.fail} {
		answers[stepVerbs[i]] = answer
	}
	return answers
}

// throughPivot has a pivot in the middle.
const throughPivot = `
workflow: through
defaults: {complete_within: 1s, retry: {attempts: 1, backoff: 100ms, then: park}}
steps:
  first: {agent: alpha, pivot: true}
  second: {agent: beta, needs: [first]}
`

// twoWaits sleeps and waits side by side, and parks if one of them fails.
const twoWaits = `
workflow: waits
defaults: {retry: {attempts: 1, then: park}}
steps:
  approve: {wait: {signal: approval}, complete_within: 1h, on_timeout: park}
  nap: {sleep: 2h}
  last: {needs: [approve, nap], agent: alpha}
`

// ask makes the request, and lets the owner judge it.
func (b *bench) ask(a *candidate, verb events.Verb, id string) {
	b.request(verb, id, "t1")
	a.run()
}

func submitted(workflow string) func(b *bench, a *candidate) {
	return func(b *bench, a *candidate) {
		b.submit("t1", workflow, "")
		a.run()
	}
}

// after returns what reaches a state from another one.
func after(before func(b *bench, a *candidate), then ...func(b *bench, a *candidate)) func(b *bench, a *candidate) {
	return func(b *bench, a *candidate) {
		before(b, a)
		for _, f := range then {
			f(b, a)
			a.run()
		}
	}
}

func asks(verb events.Verb) func(b *bench, a *candidate) {
	return func(b *bench, _ *candidate) { b.request(verb, "before-"+string(verb), "t1") }
}

func completes(step string) func(b *bench, a *candidate) {
	return func(b *bench, _ *candidate) { b.done("t1", step, 1) }
}

func fails(class events.Class) func(b *bench, a *candidate) {
	return func(b *bench, _ *candidate) { b.failed("t1", "only", 1, class, events.EffectNone) }
}

// undoFails lets the undo fail until the task is parked.
func undoFails(b *bench, a *candidate) {
	for range 100 {
		if b.task("t1").State == events.TaskStateError {
			return
		}
		a.pass(time.Minute)
	}
}

var (
	running     = submitted("one")
	parkedTask  = after(running, fails(events.ClassPermanent))
	undoingTask = after(running, asks(events.RequestCancel), completes("only"))
	processed   = after(running, completes("only"))
	unoffered   = func(b *bench, a *candidate) {
		a.o.SetOffers(b.now, map[string]supervisor.Offer{"beta": {Window: 8, Do: true}})
		running(b, a)
	}
	ended        = with(map[events.Verb]string{"rerun": granted, "signal": hasEnded, "cancel": hasEnded, "pause": hasEnded, "resume": hasEnded, "retry": hasEnded, "terminate": hasEnded}, about{hasEnded, hasEnded, hasEnded})
	operatedList = []operated{
		{"pending", unoffered, "only", with(map[events.Verb]string{"rerun": "the task is pending", "signal": noSignal, "cancel": granted, "pause": granted, "resume": notPaused, "retry": nothingFailed, "terminate": granted}, unbegun)},
		{"running", running, "only", with(map[events.Verb]string{"rerun": runsDo, "signal": noSignal, "cancel": granted, "pause": granted, "resume": notPaused, "retry": nothingFailed, "terminate": runs}, doRuns)},
		{"waiting", after(running, fails(events.ClassRetryable)),
			"only", with(map[events.Verb]string{"rerun": notEnded, "signal": noSignal, "cancel": granted, "pause": granted, "resume": notPaused, "retry": granted, "terminate": granted}, waits)},
		{"paused while it runs", after(running, asks(events.RequestPause)),
			"only", with(map[events.Verb]string{"rerun": runsDo, "signal": noSignal, "cancel": granted, "pause": "the task is paused already", "resume": granted, "retry": nothingFailed, "terminate": runs}, doRuns)},
		{"paused before it starts", after(unoffered, asks(events.RequestPause)),
			"only", with(map[events.Verb]string{"rerun": isPaused, "signal": noSignal, "cancel": granted, "pause": "the task is paused already", "resume": granted, "retry": nothingFailed, "terminate": granted}, unbegun)},
		{"parked", parkedTask, "only", with(map[events.Verb]string{"rerun": granted, "signal": noSignal, "cancel": granted, "pause": granted, "resume": "the task is not paused, but parked", "retry": granted, "terminate": granted}, failedDo)},
		{"parked and paused", after(parkedTask, asks(events.RequestPause)),
			"only", with(map[events.Verb]string{"rerun": isPaused, "signal": noSignal, "cancel": granted, "pause": "the task is paused already", "resume": granted, "retry": granted, "terminate": granted}, failedDo)},
		{"undoing", undoingTask, "only", with(map[events.Verb]string{"rerun": "an attempt to undo step", "signal": events.RefusedUndoing, "cancel": events.RefusedUndoing, "pause": granted, "resume": notPaused, "retry": nothingFailed, "terminate": "attempt 1 of the undo of step"}, undoRuns)},
		{"undoing and paused", after(undoingTask, asks(events.RequestPause)),
			"only", with(map[events.Verb]string{"rerun": "an attempt to undo step", "signal": events.RefusedUndoing, "cancel": events.RefusedUndoing + ", and is paused", "pause": "the task is paused already", "resume": granted, "retry": nothingFailed, "terminate": "attempt 1 of the undo of step"}, undoRuns)},
		{"parked in its undo", after(undoingTask, undoFails),
			"only", with(map[events.Verb]string{"rerun": granted, "signal": events.RefusedUndoing, "cancel": events.RefusedUndoParked, "pause": granted, "resume": "the task is not paused, but parked", "retry": granted, "terminate": granted}, failedUndo)},
		{"past the pivot", after(submitted("through"), completes("first")),
			"second", with(map[events.Verb]string{"rerun": runsDo, "signal": noSignal, "cancel": pivotPassed, "pause": granted, "resume": notPaused, "retry": nothingFailed, "terminate": runs}, doRuns)},
		{"in the pivot", submitted("through"),
			"first", with(map[events.Verb]string{"rerun": runsDo, "signal": noSignal, "cancel": "the pivot is under way", "pause": granted, "resume": notPaused, "retry": nothingFailed, "terminate": runs}, doRuns)},
		{"waiting for a signal", submitted("waits"), "approve", with(map[events.Verb]string{"rerun": notEnded, "signal": granted, "cancel": granted, "pause": granted, "resume": notPaused, "retry": nothingFailed, "terminate": granted}, waits)},
		{"sleeping", submitted("waits"), "nap", with(map[events.Verb]string{"rerun": notEnded, "signal": granted, "cancel": granted, "pause": granted, "resume": notPaused, "retry": nothingFailed, "terminate": granted}, waits)},
		{"parked after a wait", after(submitted("waits"), func(_ *bench, a *candidate) { a.pass(time.Hour) }), "approve", with(map[events.Verb]string{"rerun": granted, "signal": granted, "cancel": granted, "pause": granted, "resume": "the task is not paused, but parked", "retry": granted, "terminate": granted}, about{granted, "no attempt of step", "no attempt to do step"})},
		{"processed", processed, "only", ended},
		{"undone", after(undoingTask, func(b *bench, _ *candidate) { b.undone("t1", "only", 1) }), "only", ended},
		{"terminated", after(unoffered, asks(events.RequestTerminate)), "only", ended},
	}
)

// Each verb in each state of a task is granted or refused by a fact, and the same request again is answered by none.
func TestEachVerbIsAnsweredInEachState(t *testing.T) {
	t.Parallel()
	for _, state := range operatedList {
		for _, verb := range events.Verbs() {
			t.Run(state.state+", "+string(verb), func(t *testing.T) {
				t.Parallel()
				b := newBench(t, oneStep, throughPivot, twoWaits)
				a := b.candidate("A").own()
				state.reach(b, a)
				before := b.task("t1")
				q := events.Request{ID: "q", Kind: verb, Task: "t1"}
				if verb == events.RequestSignal {
					q.Signal, q.Payload = "approval", json.RawMessage("{}")
				}
				if slices.Contains(stepVerbs, verb) {
					q.Step = state.step
				}
				_, no := supervisor.JudgeRequest(before, &q)
				b.decide(a, q)
				want, task := state.answers[verb], b.task("t1")
				require.NotEmpty(t, want)
				answer, known := task.Request("q")
				if before.State.Ended() && verb != events.RequestRerun {
					require.False(t, known, "INV9")
					require.True(t, no.Lasting)
					require.True(t, strings.HasPrefix(last[*events.InputRejected](b).Detail, want))
					return
				}
				require.True(t, known, "each request is answered: %v", b.names())
				if want != noSignal { // only the definition says so
					require.Equal(t, no.Reason, answer.Refused, "the API would say the same")
				}
				if want == granted {
					require.Empty(t, answer.Refused)
				} else {
					require.True(t, strings.HasPrefix(answer.Refused, want), answer.Refused)
					require.Equal(t, before.Facts, task.Facts, "a refusal does not count")
				}
				n := len(b.names())
				b.decide(a, q)
				require.Len(t, b.names(), n)
			})
		}
	}
}

// What runs is judged and recorded, and nothing else starts, also at the next owner.
func TestNothingStartsWhileATaskIsPaused(t *testing.T) {
	t.Parallel()
	b := newBench(t, twoSteps)
	a := b.candidate("A").own()
	submitted("two")(b, a)
	b.ask(a, events.RequestPause, "q1")
	b.done("t1", "first", 1)
	a.run()
	require.Equal(t, events.StepStateCompleted, b.task("t1").Step("first").State)
	a.pass(time.Minute)
	c := b.candidate("C").own()
	c.pass(time.Minute)
	require.Equal(t, 1, count[*events.StepStarted](b))
	require.Equal(t, events.TaskStateProcessing, b.task("t1").State)
	b.ask(c, events.RequestResume, "q2")
	require.Equal(t, 2, count[*events.StepStarted](b))
	b.ask(c, events.RequestPause, "q3")
	b.done("t1", "second", 1)
	c.run()
	c.pass(time.Minute)
	require.Equal(t, events.TaskStateProcessing, b.task("t1").State, "a paused task does not end")
	b.ask(c, events.RequestResume, "q4")
	require.Equal(t, events.TaskStateProcessed, b.task("t1").State)
}

func TestNothingIsUndoneWhileATaskIsPaused(t *testing.T) {
	t.Parallel()
	b := newBench(t, twoSteps)
	a := b.candidate("A").own()
	after(submitted("two"), completes("first"), asks(events.RequestPause), func(b *bench, _ *candidate) {
		b.failed("t1", "second", 1, events.ClassPermanent, events.EffectNone)
	})(b, a)
	require.Equal(t, events.TaskStateUndoing, b.task("t1").State, "the verdict is recorded")
	a.pass(time.Minute)
	require.Zero(t, count[*events.CompensationStarted](b))
	b.ask(a, events.RequestResume, "q")
	require.Equal(t, 1, count[*events.CompensationStarted](b))
}

func TestADeadlineCountsOnWhenATaskIsResumed(t *testing.T) {
	t.Parallel()
	b := newBench(t, oneStep)
	a := b.candidate("A").own()
	b.submit("t1", "one", `,"deadline":"10m"`)
	a.run()
	b.failed("t1", "only", 1, events.ClassRetryable, events.EffectNone)
	a.run()
	due := b.task("t1").Deadline
	b.ask(a, events.RequestPause, "q1")
	a.pass(time.Hour)
	a.pass(time.Second)
	require.Equal(t, events.DeadlineAlert, last[*events.DeadlinePassed](b).Action)
	require.True(t, b.task("t1").DeadlinePassed)
	require.Equal(t, 1, count[*events.StepStarted](b), "its retry waits")
	since := b.task("t1").Paused.Since
	b.ask(a, events.RequestResume, "q2")
	task := b.task("t1")
	require.False(t, task.DeadlinePassed)
	require.Equal(t, due.Add(resumedAt(b).Sub(since)), task.Deadline)
	require.Equal(t, 2, task.Step("only").Attempt)
}

// resumedAt returns the time of the fact that resumed the task.
func resumedAt(b *bench) events.Instant {
	_, facts, _ := b.read()
	for _, f := range facts {
		if _, ok := f.Body.(*events.TaskResumed); ok {
			return f.Time
		}
	}
	return 0
}

func TestATerminatedTaskSaysWhatIsLeft(t *testing.T) {
	t.Parallel()
	b := newBench(t, twoSteps)
	a := b.candidate("A").own()
	after(submitted("two"), completes("first"), asks(events.RequestPause), completes("second"))(b, a)
	b.ask(a, events.RequestTerminate, "q")
	require.Equal(t, []string{"first", "second"}, last[*events.TaskTerminated](b).NotUndone)
	require.Equal(t, events.TaskStateTerminated, b.task("t1").State)
	n := len(b.names())
	b.done("t1", "second", 1)
	a.run()
	a.pass(time.Hour)
	require.Len(t, b.names(), n, "reports that come later are passed: %v", b.names())
}
