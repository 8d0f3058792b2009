package supervisor_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sagalog/sagalog/events"
)

const approvedSteps = `
workflow: order
defaults: {complete_within: 1s, retry: {attempts: 3, then: undo}}
steps:
  first: {agent: alpha, undo: {}}
  approve:
    needs: [first]
    wait: {signal: [approval, rejection], schema: {type: object, properties: {by: {type: string}}}}
    complete_within: 24h
    fail_if: "${ output.signal == 'rejection' }"
    fail_reason: "rejected by ${ output.payload.by }"
  second: {needs: [approve], agent: beta, with: "${ steps.approve.output }"}
`

// signal puts a signal into an input.
func (b *bench) signal(in events.Input, id, name, payload string) {
	q := events.Request{ID: id, Kind: events.RequestSignal, Task: "t1", Signal: name, Payload: json.RawMessage(payload)}
	r, err := events.EncodeRequest(q, events.Subject{ID: id, Source: "/shop", Time: b.now})
	require.NoError(b.t, err)
	b.put(in, r)
}

// ordered returns a bench with an owner whose task t1 is submitted.
func ordered(t *testing.T) (*bench, *candidate) {
	t.Helper()
	b := newBench(t, approvedSteps)
	a := b.candidate("A").own()
	b.submit("t1", "order", "")
	a.run()
	return b, a
}

// waiting brings the task to its wait.
func waiting(b *bench, a *candidate) {
	b.done("t1", "first", 1)
	a.run()
}

var yes = json.RawMessage(`{"signal":"approval","payload":{"by":"ada"}}`)

// A signal comes before its task, before its wait, or while the step waits, and through either input. The step takes it once, and so
// does the next owner's.
func TestASignalIsTakenOnceWheneverItComes(t *testing.T) {
	t.Parallel()
	for _, in := range []events.Input{events.Reports, events.Submissions} {
		for when, facts := range []string{
			"RequestHeld Submitted SignalReceived StepStarted StepCompleted WaitStarted StepCompleted StepStarted",
			"Submitted StepStarted SignalReceived StepCompleted WaitStarted StepCompleted StepStarted",
			"Submitted StepStarted StepCompleted WaitStarted SignalReceived StepCompleted StepStarted",
		} {
			t.Run(fmt.Sprint(in, when), func(t *testing.T) {
				t.Parallel()
				b := newBench(t, approvedSteps)
				a := b.candidate("A").own()
				at := func(now int) {
					if now == when {
						b.signal(in, "s1", "approval", `{ "by": "ada" }`)
						b.signal(in, "s1", "approval", `{"by":"bob"}`) // a repeat
					}
					a.run()
				}
				at(0)
				b.submit("t1", "order", "")
				a.run()
				at(1)
				a = b.candidate("B").own()
				b.done("t1", "first", 1)
				at(2)
				require.Equal(t, facts, strings.Join(b.names(), " "))
				done := last[*events.StepCompleted](b)
				require.Equal(t, "approve", done.Step)
				require.Equal(t, "s1", done.Signal)
				require.JSONEq(t, string(yes), string(done.Output))
				require.JSONEq(t, string(yes), string(last[*events.StepStarted](b).Input))
				require.Empty(t, b.task("t1").Kept)
				sameEverywhere(t, b, a)
			})
		}
	}
}

func TestASignalThatMeansNoUndoesTheTask(t *testing.T) {
	t.Parallel()
	b, a := ordered(t)
	waiting(b, a)
	b.signal(events.Reports, "s1", "rejection", `{"by":"ada"}`)
	a.run()
	f := last[*events.StepFailed](b)
	require.Equal(t, events.Error{Class: events.ClassCheck, Message: "rejected by ada"}, f.Error)
	require.Equal(t, "s1", f.Signal)
	require.Equal(t, "CompensationStarted", b.names()[len(b.names())-1])
	sameEverywhere(t, b, a)
}

// Each is refused by a fact that says why, and what could be done.
func TestASignalThatNoStepCanTakeIsRefused(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		signal, payload, reason string
		before                  func(b *bench, a *candidate)
	}{
		"an unknown name":    {"aproval", `{}`, `/signal: no step waits for a signal "aproval": did you mean "approval"?`, nil},
		"a wrong payload":    {"approval", `{"by":17}`, "/payload/by: ", nil},
		"no payload":         {"approval", ``, "/payload: ", nil},
		"not JSON":           {"approval", `"` + strings.Repeat("x", 300_000) + `"`, "payload has 300002 bytes; ", nil},
		"a task turned back": {"approval", `{}`, events.RefusedUndoing, func(b *bench, a *candidate) { b.ask(a, events.RequestCancel, "q1") }},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b, a := ordered(t)
			if c.before != nil {
				c.before(b, a)
			}
			b.signal(events.Submissions, "s1", c.signal, c.payload)
			a.run()
			require.Contains(t, last[*events.RequestRefused](b).Reason, c.reason)
			require.Equal(t, events.RequestSignal, last[*events.RequestRefused](b).Verb)
			sameEverywhere(t, b, a)
		})
	}
}

// The schema can only be known when the task is accepted.
func TestAHeldSignalIsJudgedWithItsTask(t *testing.T) {
	t.Parallel()
	b := newBench(t, approvedSteps)
	a := b.candidate("A").own()
	b.signal(events.Reports, "s1", "approval", `{"by":17}`)
	b.signal(events.Reports, "s2", "approval", `{"by":"ada"}`)
	a.run()
	a.pass(23 * time.Hour)
	b.submit("t1", "order", "")
	a.run()
	require.Equal(t, []string{"RequestHeld", "RequestHeld"}, b.names()[:2])
	require.Equal(t, "s1", last[*events.RequestRefused](b).Request)
	require.Equal(t, "s2", last[*events.SignalReceived](b).Request)
	sameEverywhere(t, b, a)
}

// What is already in an input, in either topic, wins over the time of the wait.
func TestAWaitTimesOutOnlyAfterTheInputsBeforeIt(t *testing.T) {
	t.Parallel()
	for _, in := range []events.Input{events.Reports, events.Submissions} {
		b, a := ordered(t)
		waiting(b, a)
		a.pass(24*time.Hour - time.Millisecond)
		require.Equal(t, "WaitStarted", b.names()[len(b.names())-1])
		b.now = b.now.Add(time.Millisecond)
		b.signal(in, "s1", "approval", `{"by":"ada"}`)
		a.o.Tick(b.now)
		a.run()
		require.Equal(t, "s1", last[*events.StepCompleted](b).Signal)
		sameEverywhere(t, b, a)
	}
	b, a := ordered(t)
	waiting(b, a)
	a.pass(24 * time.Hour)
	require.Equal(t, `step "approve": no signal came in time`, last[*events.Timeout](b).Verdict.Reason)
	require.Equal(t, "CompensationStarted", b.names()[len(b.names())-1])
	sameEverywhere(t, b, a)
}

// A paused task keeps its signals, and loses none to the time: it may be resumed after that.
func TestAPausedTaskKeepsItsSignals(t *testing.T) {
	t.Parallel()
	b, a := ordered(t)
	waiting(b, a)
	b.ask(a, events.RequestPause, "q1")
	b.signal(events.Submissions, "s1", "approval", `{"by":"ada"}`)
	a.pass(25 * time.Hour)
	require.Equal(t, "SignalReceived", b.names()[len(b.names())-1])
	b.ask(a, events.RequestResume, "q2")
	require.Equal(t, "s1", last[*events.StepCompleted](b).Signal)
	sameEverywhere(t, b, a)
}

func TestATaskKeepsAThousandSignals(t *testing.T) {
	t.Parallel()
	b, a := ordered(t)
	for i := range events.MaxKeptSignals + 1 {
		b.signal(events.Submissions, fmt.Sprint("s", i), "approval", `{}`)
	}
	a.run()
	require.Len(t, b.task("t1").Kept, events.MaxKeptSignals)
	require.Equal(t, events.RefusedKept, last[*events.RequestRefused](b).Reason)
	waiting(b, a)
	require.Equal(t, "s0", last[*events.StepCompleted](b).Signal)
	sameEverywhere(t, b, a)
}

// A step that waits has no input, so none can be given to it. Without one it waits once more, with all its time.
func TestAWaitIsRetriedWithoutAnInput(t *testing.T) {
	t.Parallel()
	b := newBench(t, twoWaits)
	a := b.candidate("A").own()
	after(submitted("waits"), func(_ *bench, a *candidate) { a.pass(time.Hour) })(b, a)
	b.decide(a, events.Request{ID: "q1", Kind: events.RequestRetry, Step: "approve", With: json.RawMessage(`{"decision":"yes"}`)})
	require.Equal(t, `step "approve" waits or sleeps, so it has no input: retry it without another input, or skip it with the output that later steps need`, last[*events.RequestRefused](b).Reason)
	b.decide(a, events.Request{ID: "q2", Kind: events.RequestRetry, Step: "approve"})
	require.Equal(t, b.now.Add(time.Hour), last[*events.WaitStarted](b).Until)
	require.Equal(t, events.TaskStateProcessing, b.task("t1").State)
	b.signal(events.Reports, "s1", "approval", `{}`)
	a.run()
	require.Equal(t, "s1", last[*events.StepCompleted](b).Signal)
	sameEverywhere(t, b, a)
}
