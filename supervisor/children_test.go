package supervisor_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sagalog/sagalog/events"
	"github.com/sagalog/sagalog/supervisor"
)

const family = `
workflow: parent
defaults: {complete_within: 5s, retry: {attempts: 1, backoff: 100ms, then: undo}}
steps:
  trip: {child: {workflow: child}, with: {n: 1}, undo: {}}
  pay: {needs: [trip], agent: alpha, with: {v: "${ steps.trip.output.v }"}}
`

const offspring = `
workflow: child
defaults: {complete_within: 5s, retry: {attempts: 1, backoff: 100ms, then: undo}}
steps:
  only: {agent: beta, undo: {}}
output: {v: 7}
`

// toOthers says whether an effect is for another task.
func toOthers(s supervisor.Send) bool {
	return slices.Contains([]string{events.EffectStart, events.EffectChild, events.EffectEnd}, s.Kind)
}

// relay delivers what parents and children say to each other, until nobody says anything.
func (c *candidate) relay() {
	c.run()
	for range 100 {
		list := c.sent
		c.sent = slices.DeleteFunc(slices.Clone(list), toOthers)
		none := true
		for _, s := range list {
			if toOthers(s) {
				c.b.put(events.Input(s.Topic), s.Record)
				none = false
			}
		}
		if none {
			return
		}
		c.run()
	}
	require.Fail(c.b.t, "parents and children never stop talking", "%v", c.b.names())
}

func TestAChildDoesAStep(t *testing.T) {
	t.Parallel()
	b := newBench(t, family, offspring)
	a := b.candidate("A").own()
	b.submit("p", "parent", "")
	a.relay()
	require.Equal(t, "child", b.task("p/trip").Workflow)
	require.JSONEq(t, `{"n":1}`, string(b.task("p/trip").Input))
	require.Equal(t, []string{"p/trip.only do#1"}, a.work())
	b.done("p/trip", "only", 1)
	a.relay()
	require.Equal(t, events.TaskStateProcessed, b.task("p/trip").State)
	require.JSONEq(t, `{"v":7}`, string(b.task("p").Step("trip").Output))
	require.JSONEq(t, `{"v":7}`, string(b.task("p").Step("pay").Input))
	b.done("p", "pay", 1)
	a.relay()
	require.Equal(t, events.TaskStateProcessed, b.task("p").State)
	sameEverywhere(t, b, a)
}

func TestAParentThatTurnsBackUndoesItsChild(t *testing.T) {
	t.Parallel()
	b := newBench(t, family, offspring)
	a := b.candidate("A").own()
	b.submit("p", "parent", "")
	a.relay()
	b.done("p/trip", "only", 1)
	a.relay()
	b.failed("p", "pay", 1, events.ClassPermanent, events.EffectNone)
	a.relay()
	require.Equal(t, events.TaskStateUndoing, b.task("p/trip").State)
	require.Equal(t, events.TaskStateUndoing, b.task("p").State)
	b.undone("p/trip", "only", 1)
	a.relay()
	require.Equal(t, events.TaskStateUndone, b.task("p/trip").State)
	require.Equal(t, events.TaskStateUndone, b.task("p").State)
	sameEverywhere(t, b, a)
}

// The limit of submissions is not for what a parent says about its child.
func TestAChildHearsItsParentWhateverTheLimitOfSubmissions(t *testing.T) {
	t.Parallel()
	b := newBench(t, family, offspring)
	a := b.candidate("A", func(c *candidate) { c.cfg.Settings.SubmissionBytes = 400 }).own()
	b.submit("p", "parent", "")
	a.relay()
	q := events.Request{ID: "c", Kind: events.RequestCancel, Task: "p", Reason: strings.Repeat("x", 500)}
	r, err := events.EncodeRequest(q, events.Subject{ID: q.ID, Source: "/op", Time: b.now})
	require.NoError(t, err)
	b.put(events.Reports, r)
	a.relay()
	require.Equal(t, events.TaskStateUndoing, b.task("p/trip").State)
	require.Equal(t, q.Reason, b.task("p/trip").Reason)
	sameEverywhere(t, b, a)
}

func TestAChildThatRunsTurnsBackWithItsParent(t *testing.T) {
	t.Parallel()
	b := newBench(t, family, offspring)
	a := b.candidate("A").own()
	b.submit("p", "parent", "")
	a.relay()
	b.request(events.RequestCancel, "c", "p")
	a.relay()
	require.Equal(t, events.TaskStateUndoing, b.task("p/trip").State)
	b.done("p/trip", "only", 1)
	a.relay()
	b.undone("p/trip", "only", 1)
	a.relay()
	require.Equal(t, events.TaskStateUndone, b.task("p/trip").State)
	require.Equal(t, events.TaskStateUndone, b.task("p").State)
	require.Equal(t, "child_undone", b.task("p").Step("trip").Error.Code)
	sameEverywhere(t, b, a)
}

// What a parent says to its child is sent only when the broker has taken the child's submission. If it overtook that, the child would count as lost.
// The limit of submissions is not one of what else a parent says.
func TestNothingIsSaidToAChildBeforeItsSubmission(t *testing.T) {
	t.Parallel()
	b := newBench(t, family, offspring)
	a := b.candidate("A", func(c *candidate) { c.cfg.Settings.SubmissionBytes = 200 })
	a.silent = func(s supervisor.Send) bool { return s.Kind == events.EffectStart }
	a.own()
	b.submit("p", "parent", "")
	a.run()
	require.Len(t, a.unanswered, 1)
	q, err := events.EncodeRequest(events.Request{ID: "c", Kind: events.RequestCancel, Task: "p", Reason: strings.Repeat("x", 3000)}, events.Subject{ID: "c", Source: "/op", Time: b.now})
	require.NoError(t, err)
	b.put(events.Reports, q)
	a.relay()
	require.Equal(t, 1, count[*events.ChildAsked](b))
	require.Empty(t, a.sent)
	start := a.unanswered[0]
	a.silent = nil
	a.o.Sent(b.now, start.Generation, start.ID, nil)
	a.run()
	require.Len(t, a.sent, 1)
	require.Greater(t, len(a.sent[0].Record.Value), 3000)
	b.put(events.Submissions, start.Record)
	a.relay()
	require.Equal(t, events.TaskStateUndoing, b.task("p/trip").State)
	b.done("p/trip", "only", 1)
	a.relay()
	b.undone("p/trip", "only", 1)
	a.relay()
	require.Equal(t, events.TaskStateUndone, b.task("p/trip").State)
	require.Equal(t, events.TaskStateUndone, b.task("p").State)
	sameEverywhere(t, b, a)
}

// A child that has done its work, but with a result that means no, is undone too when the step is undone after a later try.
func TestTheChildrenOfAllTriesUndoThemselves(t *testing.T) {
	t.Parallel()
	b := newBench(t, `
workflow: parent
defaults: {retry: {attempts: 1, backoff: 100ms, then: park}}
steps:
  trip: {child: {workflow: child}, fail_if: "${ output.v == 7 }", undo: {}}
`, offspring)
	a := b.candidate("A").own()
	b.submit("p", "parent", "")
	a.relay()
	b.done("p/trip", "only", 1)
	a.relay()
	require.Equal(t, events.TaskStateError, b.task("p").State)
	b.request(events.RequestRetry, "r", "p")
	a.relay()
	b.done("p/trip~2", "only", 1)
	a.relay()
	b.request(events.RequestCancel, "c", "p")
	a.relay()
	require.Equal(t, events.TaskStateUndoing, b.task("p/trip~2").State)
	require.Equal(t, events.TaskStateProcessed, b.task("p/trip").State)
	b.undone("p/trip~2", "only", 1)
	a.relay()
	require.Equal(t, events.TaskStateUndoing, b.task("p/trip").State)
	b.undone("p/trip", "only", 1)
	a.relay()
	require.Equal(t, events.TaskStateUndone, b.task("p/trip").State)
	require.Equal(t, events.TaskStateUndone, b.task("p").State)
	require.Equal(t, 2, b.task("p").Step("trip").Undo.Attempt)
	sameEverywhere(t, b, a)
}

// firm is a workflow whose tasks are past their pivot if they are the second try of a step.
const firm = `
workflow: child
defaults: {complete_within: 5s, retry: {attempts: 1, backoff: 100ms, then: undo}}
steps:
  only: {agent: beta, undo: {}}
  seal: {needs: [only], agent: gamma, if: "${ task.id endsWith '~2' }", pivot: true}
output: {v: 7}
`

// An operator who says that a child that refuses to undo itself is undone says nothing about the child of an earlier try.
func TestAnOperatorWhoDecidesAboutAChildLeavesThoseOfEarlierTries(t *testing.T) {
	t.Parallel()
	for _, verb := range []events.Verb{events.RequestComplete, events.RequestSkip} {
		b := newBench(t, `
workflow: parent
defaults: {retry: {attempts: 1, backoff: 100ms, then: park}}
steps:
  trip: {child: {workflow: child}, fail_if: "${ output.v == 7 }", undo: {}}
`, firm)
		a := b.candidate("A").own()
		b.submit("p", "parent", "")
		a.relay()
		b.done("p/trip", "only", 1)
		a.relay()
		b.request(events.RequestRetry, "r", "p")
		a.relay()
		b.done("p/trip~2", "only", 1)
		a.run()
		b.done("p/trip~2", "seal", 1)
		a.relay()
		b.request(events.RequestCancel, "c", "p")
		a.relay()
		require.Equal(t, events.TaskStateError, b.task("p").State, "the second child refuses")
		require.Equal(t, events.TaskStateProcessed, b.task("p/trip").State)
		b.request(events.RequestPause, "z", "p")
		b.about(verb, "d", "p", "trip")
		b.about(verb, "e", "p", "trip")
		a.relay()
		answer, known := b.task("p").Request("e")
		require.True(t, known)
		require.Contains(t, answer.Refused, `is about to ask task "p/trip"`)
		require.Equal(t, events.TaskStateProcessed, b.task("p/trip").State)
		b.request(events.RequestResume, "y", "p")
		a.relay()
		require.Equal(t, events.TaskStateUndoing, b.task("p/trip").State)
		require.Equal(t, events.TaskStateUndoing, b.task("p").State)
		b.undone("p/trip", "only", 1)
		a.relay()
		require.Equal(t, events.TaskStateUndone, b.task("p/trip").State)
		require.Equal(t, events.TaskStateUndone, b.task("p").State)
		require.Equal(t, verb == events.RequestSkip, b.task("p").Step("trip").Left)
		sameEverywhere(t, b, a)
	}
}

// about sends a request about a step.
func (b *bench) about(verb events.Verb, id, task, step string) {
	r, err := events.EncodeRequest(events.Request{ID: id, Kind: verb, Task: task, Step: step}, events.Subject{ID: id, Source: "/op", Time: b.now})
	require.NoError(b.t, err)
	b.put(events.Reports, r)
}

// What an operator did in place of a child that had undone itself is not undone by that child: only an operator can say that it is.
func TestAStepThatWasCompletedByHandIsUndoneByHand(t *testing.T) {
	t.Parallel()
	b := newBench(t, `
workflow: parent
defaults: {retry: {attempts: 1, backoff: 100ms, then: park}}
steps:
  trip: {child: {workflow: child}, undo: {}}
  hold: {needs: [trip], wait: {signal: go}, complete_within: 10m}
`, offspring)
	a := b.candidate("A").own()
	b.submit("p", "parent", "")
	a.relay()
	b.failed("p/trip", "only", 1, events.ClassPermanent, events.EffectNone)
	a.relay()
	require.Equal(t, events.TaskStateUndone, b.task("p/trip").State)
	require.Equal(t, events.TaskStateError, b.task("p").State)
	b.about(events.RequestComplete, "d", "p", "trip")
	a.relay()
	require.Equal(t, events.StepStateCompleted, b.task("p").Step("trip").State)
	b.request(events.RequestCancel, "c", "p")
	a.relay()
	require.Equal(t, events.TaskStateError, b.task("p").State)
	require.Contains(t, b.task("p").Step("trip").Undo.Error.Message, "undo by hand what the operator did")
	b.about(events.RequestComplete, "e", "p", "trip")
	a.relay()
	require.Equal(t, events.TaskStateUndone, b.task("p").State)
	sameEverywhere(t, b, a)
}

// A child of which an operator left something is left in its parent, too, whether it turned back by itself or was asked to.
func TestAParentNamesAsLeftWhatAnOperatorLeftInItsChild(t *testing.T) {
	t.Parallel()
	for _, ended := range []bool{false, true} {
		b := newBench(t, `
workflow: parent
defaults: {retry: {attempts: 1, backoff: 100ms, then: undo}}
steps:
  trip: {child: {workflow: child}, undo: {}}
  hold: {needs: [trip], wait: {signal: go}, complete_within: 10m}
`, `
workflow: child
defaults: {complete_within: 5s, retry: {attempts: 1, backoff: 100ms, then: undo}}
steps:
  only: {agent: beta, undo: {retry: {attempts: 1, then: park}}}
  next: {needs: [only], agent: gamma}
`)
		a := b.candidate("A").own()
		b.submit("p", "parent", "")
		a.relay()
		b.done("p/trip", "only", 1)
		a.run()
		if ended {
			b.done("p/trip", "next", 1)
			a.relay()
			b.request(events.RequestCancel, "c", "p")
		} else {
			b.failed("p/trip", "next", 1, events.ClassPermanent, events.EffectNone)
		}
		a.relay()
		b.report(events.Report{Task: "p/trip", Run: 1, Step: "only", Operation: events.Undo, Attempt: 1, Result: events.ResultFailed, Effect: events.EffectNone, Error: &events.Error{Class: events.ClassPermanent, Message: "no"}})
		a.relay()
		require.Equal(t, events.TaskStateError, b.task("p/trip").State)
		b.about(events.RequestSkip, "d", "p/trip", "only")
		a.relay()
		require.Equal(t, events.TaskStateUndone, b.task("p/trip").State)
		require.Equal(t, events.TaskStateUndone, b.task("p").State)
		require.Equal(t, []string{"trip"}, events.LeftOf(b.task("p")))
		require.Equal(t, []string{"trip"}, last[*events.TaskUndone](b).Left)
		sameEverywhere(t, b, a)
	}
}

// A copy that is made of a checkpoint has no submissions: it submits a child that it does not know once more.
func TestACopySubmitsALostChildAgain(t *testing.T) {
	t.Parallel()
	b := newBench(t, family, offspring)
	a := b.candidate("A").own()
	b.submit("p", "parent", "")
	a.run()
	lost := slices.IndexFunc(a.sent, toOthers)
	require.GreaterOrEqual(t, lost, 0)
	submission := a.sent[lost].Record
	state, _, _ := b.read()
	c, err := supervisor.NewCopying(a.cfg, a.sched, state)
	require.NoError(t, err)
	none := func(string, events.Operation, int) bool { return false }
	again := func() []supervisor.Send {
		p, err := state.Task("p")
		require.NoError(t, err)
		list, err := c.OfTask(p, none, state.Task)
		require.NoError(t, err)
		return list
	}
	list := again()
	require.Len(t, list, 1)
	require.Equal(t, string(events.Submissions), list[0].Topic)
	require.Equal(t, submission.Key, list[0].Record.Key)
	require.JSONEq(t, string(submission.Value), string(list[0].Record.Value))

	b.put(events.Submissions, list[0].Record)
	a.relay()
	b.done("p/trip", "only", 1)
	a.relay()
	require.Equal(t, events.StepStateCompleted, b.task("p").Step("trip").State)
	state, _, _ = b.read()
	c, err = supervisor.NewCopying(a.cfg, a.sched, state)
	require.NoError(t, err)
	sends := again()
	require.Len(t, sends, 1)
	require.Equal(t, "work.alpha", sends[0].Topic)
}

// A child is remembered as long as its parent, however long that is, and says each day how it ended. When the parent is due to be forgotten it
// releases its children first.
func TestAChildIsForgottenAfterItsParent(t *testing.T) {
	t.Parallel()
	b := newBench(t, `
workflow: parent
remember_for: 24h
steps:
  trip: {child: {workflow: child}, undo: {}}
  stay: {needs: [trip], wait: {signal: go}}
`, `
workflow: child
remember_for: 1h
steps:
  nap: {sleep: 1s}
`)
	a := b.candidate("A").own()
	b.submit("p", "parent", "")
	a.relay()
	days := func(n int) {
		for range n * 48 {
			a.pass(30 * time.Minute)
			a.relay()
		}
	}
	days(4)
	require.Equal(t, events.TaskStateProcessed, b.task("p/trip").State)
	require.Equal(t, 3, count[*events.ChildAnswered](b))
	require.Zero(t, count[*events.ChildrenReleased](b))
	q, err := events.EncodeRequest(events.Request{ID: "s", Kind: events.RequestSignal, Task: "p", Signal: "go"}, events.Subject{ID: "s", Source: "/op", Time: b.now})
	require.NoError(t, err)
	b.put(events.Submissions, q)
	a.relay()
	require.Equal(t, events.TaskStateProcessed, b.task("p").State)
	days(2)
	require.Equal(t, 1, count[*events.ChildrenReleased](b))
	require.Equal(t, 1, count[*events.ChildReleased](b))
	s, _, _ := b.read()
	for _, id := range []string{"p", "p/trip"} {
		gone, err := s.Task(id)
		require.NoError(t, err)
		require.Nil(t, gone)
	}
	sameEverywhere(t, b, a)
}

// A child that is never accepted is a task of its partition as well. If it were not counted, the next carry of the partition would find more tasks than
// it expects, and stop.
func TestARefusedChildCountsAsATask(t *testing.T) {
	t.Parallel()
	b := newBench(t, `
workflow: parent
steps:
  trip: {child: {workflow: nobody}, retry: {then: park}}
`)
	a := b.candidate("A").own()
	b.submit("p", "parent", "")
	a.relay()
	require.Equal(t, events.TaskStateRejected, b.task("p/trip").State)
	require.Equal(t, events.TaskStateError, b.task("p").State)
	s, _, _ := b.read()
	require.EqualValues(t, 2, s.Partition.Tasks)
	sameEverywhere(t, b, a)
}
