package events_test

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sagalog/sagalog/events"
)

// reopened returns a log with a parent that is undone and its child, which has been processed, and the link by which the one asks the other.
func reopened(t *testing.T) (family, events.Link) {
	w := family{owned(t)}
	w.submit("p")
	w.born("p/a", w.try("p", "a", events.ChildCall{Workflow: "w"}))
	w.start("p/a", "only", 1)
	w.complete("p/a", "only", 1)
	w.ends("p/a", &events.TaskProcessed{Output: raw(`1`)})
	w.complete("p", "a", 1)
	w.write("p", &events.CancelRequested{Request: "q"})
	return w, w.undoes("p", "a")
}

// A child that is undone after its end raises no alert that it takes long: it was in time.
func TestAChildUndoneAfterItsEndHasNoSoftLimit(t *testing.T) {
	t.Parallel()
	w, link := reopened(t)
	require.NotZero(t, w.task("p/a").SoftAt)
	w.write("p/a", &events.ChildUndoRequested{Link: link})
	child := w.task("p/a")
	require.Zero(t, child.SoftAt)
	require.Zero(t, child.EndedAt)
	require.Empty(t, child.Output)
	require.Equal(t, events.TaskStateUndoing, child.State)
	require.Equal(t, "its parent is undone", child.Reason)
	w.refused("p/a", &events.ChildUndoRequested{Link: link})
}

// A request of its parent lets a child go on that is paused while it is being undone. Nothing halts it any more, so that a later pause counts from
// its own beginning.
func TestAPausedChildGoesOnWhenItsParentAsks(t *testing.T) {
	t.Parallel()
	w, link := reopened(t)
	w.write("p/a", &events.ChildUndoRequested{Link: link})
	w.write("p/a", &events.TaskPaused{Request: "r"})
	require.NotZero(t, w.task("p/a").HaltedAt)
	link.N++
	w.write("p/a", &events.ChildUndoRequested{Link: link})
	require.Nil(t, w.task("p/a").Paused)
	require.Zero(t, w.task("p/a").HaltedAt)
}

// A child that was never accepted counts as a task, and so does its end.
func TestARefusedChildCountsAsATask(t *testing.T) {
	t.Parallel()
	w := family{owned(t)}
	w.submit("p")
	refused := &events.ChildRefused{Parent: w.try("p", "a", events.ChildCall{Workflow: "w"}), Reason: events.RejectSchema, RememberFor: events.Duration(time.Hour)}
	w.write("p/a", refused)
	require.EqualValues(t, 2, w.state.Partition.Tasks)
	for _, b := range []events.Body{refused, &events.Submitted{Workflow: "w"}, &events.TaskRerun{Request: "r"}, &events.CancelRequested{Request: "q"}} {
		other := family{owned(t)}
		other.write("p/a", refused)
		other.refused("p/a", b)
	}
	w.write("p/a", &events.ChildReleased{Link: refused.Parent.Link})
	w.write("", &events.TasksSwept{Tasks: []string{"p/a"}, EndedBefore: w.now})
	require.EqualValues(t, 1, w.state.Partition.Tasks)
}

// A task that has released its children knows none of them, and is neither rerun nor undone any more. It releases many of them by several facts.
func TestAReleaseForgetsTheTriesOfAllSteps(t *testing.T) {
	t.Parallel()
	w := family{owned(t)}
	w.submit("p")
	for i := range 501 {
		w.try("p", "a", events.ChildCall{Workflow: "w"})
		w.write("p", failure("a", i+1, retryAt(w.now.Add(1e9))))
	}
	w.write("p", &events.TaskTerminated{Request: "t"})
	first := events.ReleaseChildren(w.task("p"))
	require.Len(t, first.Children, 500)
	w.write("p", first)
	require.Len(t, w.task("p").Step("a").ByChild.Tries, 1)
	w.write("p", events.ReleaseChildren(w.task("p")))
	require.Nil(t, w.task("p").Step("a").ByChild)
	require.Nil(t, events.ReleaseChildren(w.task("p")))
	w.refused("p", &events.TaskRerun{Request: "r", Steps: []string{"a"}})
}

func TestIDsOfChildrenHaveABound(t *testing.T) {
	t.Parallel()
	require.Equal(t, "p/a", events.ChildID("p", "a", "", 1))
	require.Equal(t, "p/a~12", events.ChildID("p", "a", "", 12))
	require.Equal(t, "given~2", events.ChildID("p", "a", "given", 2))
	whole := strings.Repeat("ü", 126)
	require.Equal(t, whole+"/a", events.ChildID(whole, "a", "", 1), "254 bytes")
	long := events.ChildID(whole, "a", "", 2)
	require.NoError(t, events.CheckTaskID(long))
	require.Equal(t, strings.Repeat("ü", 111)+"~", long[:223], "222 bytes of it, and a hash of all")
	require.Len(t, long, 255)
	require.NotEqual(t, long, events.ChildID(whole, "a", "", 3))
}

// The children of all tries of a step undo themselves, the latest first, unless they have had no effect. Each of them has its own attempt.
func TestTheChildrenOfAllTriesAreUndone(t *testing.T) {
	t.Parallel()
	w := family{owned(t)}
	w.submit("p")
	for n, effect := range []events.Effect{events.EffectDoneUnknown, events.EffectNone, events.EffectDoneUnknown, events.EffectNone} {
		w.try("p", "a", events.ChildCall{Workflow: "w"})
		b := failure("a", n+1, retryAt(w.now.Add(1e9)))
		if b.Effect = effect; n == 3 {
			b.Verdict = undo("used up")
		}
		w.write("p", b)
	}
	require.Equal(t, "p/a~3", w.task("p").Step("a").ChildToUndo())
	w.undoes("p", "a")
	w.write("p", &events.CompensationFailed{Step: "a", Attempt: 1, Verdict: retryAt(w.now), Error: events.Error{Class: events.ClassRetryable}})
	third := w.undoes("p", "a")
	require.True(t, events.AwaitsChild(w.task("p"), "p/a~3", third))
	require.False(t, events.AwaitsChild(w.task("p"), "p/a", third))
	w.write("p", &events.Compensated{Step: "a", Attempt: 2})
	s := w.task("p").Step("a")
	require.Equal(t, events.StepStateUndoing, s.State)
	require.Equal(t, events.StepStateWaiting, s.Undo.State)
	require.Zero(t, s.Undo.Tries)
	require.Equal(t, "p/a", s.ChildToUndo())
	w.undoes("p", "a")
	w.write("p", &events.Compensated{Step: "a", Attempt: 3})
	require.Equal(t, events.StepStateUndone, w.task("p").Step("a").State)
	require.Len(t, events.ReleaseChildren(w.task("p")).Children, 4)
	w, _ = reopened(t)
	w.write("p", &events.CompensationFailed{Step: "a", Attempt: 1, Verdict: retryAt(w.now), Error: events.Error{Class: events.ClassRetryable}})
	w.refused("p", &events.CompensationStarted{Step: "a", Attempt: 2, Child: &events.ChildCall{Task: "p/a~2"}})
}

// twice returns a log with a task whose step has two tries that may have had an effect. It is being undone, and the child of the second try refuses that.
func twice(t *testing.T) family {
	w := family{owned(t)}
	w.submit("p")
	for n := 1; n <= 2; n++ {
		w.try("p", "a", events.ChildCall{Workflow: "w"})
		b := failure("a", n, retryAt(w.now))
		if b.Effect = events.EffectDoneUnknown; n == 2 {
			b.Verdict = undo("used up")
		}
		w.write("p", b)
	}
	w.undoes("p", "a")
	w.write("p", &events.CompensationFailed{Step: "a", Attempt: 1, Verdict: park("it refuses"), Error: events.Error{Class: events.ClassPermanent}})
	w.write("p", &events.TaskParked{Step: "a", Reason: "it refuses"})
	return w
}

// An operator decides about the undo of the child that was asked. Those of earlier tries are still asked to undo themselves.
func TestAnOperatorDecidesAboutTheChildThatWasAsked(t *testing.T) {
	t.Parallel()
	q := events.Operator{Request: "q"}
	complete := &events.Compensated{Step: "a", Attempt: 1, Child: "p/a~2", Operator: q}
	skip := &events.StepSkipped{Step: "a", Why: events.SkipOperator, Left: true, Child: "p/a~2", Operator: q}
	for _, b := range []events.Body{complete, skip} {
		w := twice(t)
		require.Equal(t, "p/a~2", w.task("p").Step("a").ChildToDecide())
		w.write("p", b)
		s := w.task("p").Step("a")
		require.Equal(t, events.TaskStateUndoing, w.task("p").State, "nothing that failed is left to decide")
		require.Equal(t, events.StepStateUndoing, s.State)
		require.Equal(t, events.StepStateWaiting, s.Undo.State)
		require.Nil(t, s.Undo.Error)
		require.Equal(t, "p/a", s.ChildToUndo())
		require.Equal(t, b == skip, s.Left)
		w.undoes("p", "a")
		w.write("p", &events.Compensated{Step: "a", Attempt: 2})
		require.Equal(t, events.StepStateUndone, w.task("p").Step("a").State)
		require.Equal(t, b == skip, w.task("p").Step("a").Left)
		w = twice(t)
		w.write("p", b)
		w.refused("p", &events.Compensated{Step: "a", Attempt: 1, Child: "p/a", Operator: events.Operator{Request: "r"}}) // it has not refused
	}
	for _, child := range []string{"p/a", "p/a~3"} {
		twice(t).refused("p", &events.Compensated{Step: "a", Attempt: 1, Child: child, Operator: q})
		twice(t).refused("p", &events.StepSkipped{Step: "a", Why: events.SkipOperator, Left: true, Child: child, Operator: q})
	}
	w := twice(t)
	w.write("p", &events.Compensated{Step: "a", Attempt: 1, Operator: q}) // about all of them
	require.Equal(t, events.StepStateUndone, w.task("p").Step("a").State)
	require.True(t, w.task("p").Step("a").Settled())
	w.refused("p", &events.Compensated{Step: "a", Attempt: 2, Child: "p/a"})
	w, _ = reopened(t)
	w.refused("p", &events.Compensated{Step: "a", Attempt: 1, Left: true, Operator: q})
}

// A step whose child undid itself but for what an operator left is not undone either: it is named as left.
func TestAStepIsLeftIfItsChildIs(t *testing.T) {
	t.Parallel()
	w, _ := reopened(t)
	w.write("p", &events.Compensated{Step: "a", Attempt: 1, Left: true})
	require.Equal(t, events.StepStateUndone, w.task("p").Step("a").State)
	require.Equal(t, []string{"a"}, events.LeftOf(w.task("p")))
}

// What parent and child repeat to each other does not count as facts of their tasks, of which there is a limit.
func TestRepeatsDoNotCount(t *testing.T) {
	t.Parallel()
	w := family{owned(t)}
	w.submit("p")
	link := w.try("p", "a", events.ChildCall{Workflow: "w", Detach: true})
	w.born("p/a", link)
	before, child := w.task("p").Facts, w.task("p/a").Facts
	w.write("p", events.AskChild(w.task("p"), w.task("p").Step("a"), events.Do, "", false))
	again, _ := events.AnswerAgain(w.task("p/a"), link.Link)
	w.write("p/a", &events.ChildAnswered{Answer: again})
	require.Equal(t, before, w.task("p").Facts)
	require.Equal(t, child, w.task("p/a").Facts)
	w.write("p", events.AskChild(w.task("p"), w.task("p").Step("a"), events.Do, "turn back", false))
	require.Equal(t, before+1, w.task("p").Facts)
}

// A child that is undoing for a rerun begins no run any more when its parent turns back, and goes on if an operator held it.
func TestAParentThatTurnsBackEndsTheRerunOfItsChild(t *testing.T) {
	t.Parallel()
	for _, undo := range []bool{false, true} {
		w := family{owned(t)}
		w.submit("p")
		link := w.try("p", "a", events.ChildCall{Workflow: "w"})
		w.born("p/a", link)
		w.start("p/a", "only", 1)
		w.fail("p/a", "only", 1, park("no"))
		w.write("p/a", &events.TaskParked{Step: "only", Reason: "no"})
		w.write("p/a", &events.TaskRerun{Request: "r", Steps: []string{"only"}})
		w.write("p/a", &events.TaskPaused{Request: "s"})
		asks := link.Link
		asks.Operation = events.Undo
		var body events.Body = &events.CancelRequested{Reason: "back", By: "p"}
		if undo {
			body = &events.ChildUndoRequested{Link: asks, Reason: "back"}
		}
		w.write("p/a", body)
		child := w.task("p/a")
		require.Nil(t, child.Rerun)
		require.Nil(t, child.Paused)
		require.Zero(t, child.HaltedAt)
		require.Equal(t, events.TaskStateUndoing, child.State)
		require.Equal(t, "back", child.Reason)
	}
}
