package supervisor_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sagalog/sagalog/events"
	"github.com/sagalog/sagalog/supervisor"
)

// decide puts a request about a step into the inputs, and lets the owner judge it.
func (b *bench) decide(a *candidate, q events.Request) {
	q.Task = "t1"
	r, err := events.EncodeRequest(q, events.Subject{ID: q.ID, Source: "/op", Time: b.now})
	require.NoError(b.t, err)
	b.put(events.Reports, r)
	a.run()
}

// The attempts of a step have left the window long before an operator completes it, or its undo. If the completion took another place
// off the count, the agent would get one attempt too many for each.
func TestACompletionByHandFreesNoPlace(t *testing.T) {
	t.Parallel()
	for _, op := range []events.Operation{events.Do, events.Undo} {
		t.Run(string(op), func(t *testing.T) {
			t.Parallel()
			b := newBench(t, oneStep, patient)
			a := b.candidate("A", func(c *candidate) { c.cfg.Window = 1 }).own()
			if op == events.Undo {
				after(undoingTask, undoFails)(b, a)
			} else {
				parkedTask(b, a)
			}
			for _, id := range []string{"p1", "p2"} {
				b.submit(id, "patient", "")
			}
			a.run()
			require.Equal(t, 1, runningIn(b))
			b.decide(a, events.Request{ID: "q", Kind: events.RequestComplete, Step: "only", Operation: op})
			answer, known := b.task("t1").Request("q")
			require.True(t, known)
			require.Empty(t, answer.Refused)
			a.pass(time.Second)
			require.True(t, b.task("t1").State.Ended())
			require.Equal(t, 1, runningIn(b), "the window has one place")
		})
	}
}

// runningIn counts the running attempts of all tasks.
func runningIn(b *bench) (n int) {
	counts := map[string]int{}
	for _, id := range []string{"t1", "p1", "p2"} {
		b.task(id).RunningBy(counts, 1)
	}
	for _, c := range counts {
		n += c
	}
	return n
}

// A new owner holds the work of running attempts back until it has judged the earlier reports. If an operator fails such an attempt
// meanwhile, its work is not sent, and the request is answered.
func TestWorkThatIsHeldBackCanBeFailed(t *testing.T) {
	t.Parallel()
	b := newBench(t, oneStep)
	a := b.candidate("A").own()
	a.silent = func(s supervisor.Send) bool { return s.Kind == events.EffectWork } // so that the next owner sends it again
	running(b, a)
	b.now = b.now.Add(100 * time.Millisecond)
	c := b.candidate("C")
	c.hold["AskEnds"] = true
	c.own()
	b.decide(c, events.Request{ID: "q", Kind: events.RequestFail, Step: "only", Error: &events.Error{Class: events.ClassRetryable}})
	answer, known := b.task("t1").Request("q")
	require.True(t, known, "the request is answered before the work may leave")
	require.Empty(t, answer.Refused)
	require.Empty(t, c.work())
	clear(c.hold)
	c.pass(time.Millisecond)
	require.NoError(t, c.stopped)
	require.NotContains(t, c.work(), "t1.only do#1")
	c.pass(time.Second)
	require.Equal(t, []string{"t1.only do#2"}, c.work())
	b.done("t1", "only", 1)
	c.run()
	require.Equal(t, events.StepStateRunning, b.task("t1").Step("only").State, "the report of the attempt that was failed is passed")
	b.done("t1", "only", 2)
	c.run()
	require.Equal(t, events.TaskStateProcessed, b.task("t1").State)
	require.Empty(t, b.rejected())
}

// What an operator leaves is named by the fact that ends the task, whichever that is.
func TestTheEndOfATaskNamesWhatIsLeft(t *testing.T) {
	t.Parallel()
	for _, terminates := range []bool{false, true} {
		b := newBench(t, twoSteps)
		a := b.candidate("A").own()
		after(submitted("two"), completes("first"), asks(events.RequestPause), completes("second"), asks(events.RequestCancel), undoFails)(b, a)
		b.decide(a, events.Request{ID: "q1", Kind: events.RequestSkip, Step: "second"})
		require.True(t, b.task("t1").Step("second").Left)
		undoFails(b, a)
		require.Equal(t, events.StepStateUndoFailed, b.task("t1").Step("first").State)
		if terminates {
			b.ask(a, events.RequestTerminate, "q2")
			require.Equal(t, []string{"first", "second"}, last[*events.TaskTerminated](b).NotUndone)
			continue
		}
		b.decide(a, events.Request{ID: "q2", Kind: events.RequestComplete, Step: "first"})
		require.Equal(t, []string{"second"}, last[*events.TaskUndone](b).Left)
		require.Equal(t, []string{"second"}, b.task("t1").NotUndone())
	}
}
