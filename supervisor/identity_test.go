package supervisor_test

import (
	"encoding/json"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sagalog/sagalog/events"
	"github.com/sagalog/sagalog/supervisor"
)

// requests are the work requests that were sent, in their order.
func (c *candidate) requests() (list []events.Work) {
	for _, s := range c.sent {
		if s.Kind == events.EffectWork {
			w, _, err := events.DecodeWork(&s.Record)
			require.NoError(c.b.t, err)
			list = append(list, w)
		}
	}
	return list
}

// forgetful is a candidate that remembers a task for a minute only.
func forgetful(c *candidate) { c.cfg.Settings.RememberFor = events.Duration(time.Minute) }

// completed is the report of an agent that did what the request asked for.
func completed(w events.Work) events.Report {
	return events.Report{
		Task: w.Task, Run: w.Run, Step: w.Step, Operation: w.Operation, Attempt: w.Attempt, Ticket: w.Ticket,
		Result: events.ResultCompleted, Output: json.RawMessage(`{"v":1}`),
	}
}

// forget passes the time for which a finished task is remembered.
func (c *candidate) forget(id string) {
	for range 100 {
		c.pass(time.Second)
	}
	s, _, _ := c.b.read()
	x, err := s.Task(id)
	require.NoError(c.b.t, err)
	require.Nil(c.b.t, x, "the task is forgotten")
}

// A service that keeps keys longer than the engine keeps tasks would answer the new task with the result of the old one, or
// refuse it because of the old one's undo.
func TestATaskThatReusesAnIDHasNewKeys(t *testing.T) {
	t.Parallel()
	b := newBench(t, oneStep)
	a := b.candidate("A", forgetful).own()
	b.submit("t1", "one", "")
	a.run()
	b.report(completed(a.requests()[0]))
	a.run()
	a.forget("t1")
	b.submit("t1", "one", `,"input":{"another":"content"}`)
	a.run()
	list := a.requests()
	require.Len(t, list, 2)
	require.Equal(t, list[0].Attempt, list[1].Attempt)
	require.NotEqual(t, list[0].IdempotencyKey, list[1].IdempotencyKey)
}

// The key is the same over retries, take-overs and a store that is rebuilt from the log, and the undo has another one.
func TestOneLifeKeepsItsKeys(t *testing.T) {
	t.Parallel()
	b := newBench(t, `
workflow: w
defaults: {complete_by: 1s, retry: {attempts: 3, backoff: 100ms, then: undo}}
steps:
  first: {agent: alpha, undo: {}}
  second: {agent: beta, needs: [first]}
`)
	a := b.candidate("A").own()
	b.submit("t1", "w", "")
	a.run()
	b.failed("t1", "first", 1, events.ClassRetryable, events.EffectNone)
	a.run()
	a.pass(300 * time.Millisecond)
	c := b.candidate("C").own()
	b.failed("t1", "first", 2, events.ClassRetryable, events.EffectNone)
	c.run()
	c.pass(300 * time.Millisecond)
	b.done("t1", "first", 3)
	c.run()
	b.failed("t1", "second", 1, events.ClassPermanent, events.EffectNone)
	c.run()
	c.pass(10 * time.Second) // attempt 2 was sent twice, so it is in doubt
	keys, dos := map[events.Operation][]string{}, []int{}
	for _, w := range append(a.requests(), c.requests()...) {
		if w.Step == "first" {
			keys[w.Operation] = append(keys[w.Operation], w.IdempotencyKey)
			if w.Operation == events.Do {
				dos = append(dos, w.Attempt)
			}
		}
	}
	require.Equal(t, []int{1, 2, 2, 3}, dos, "C sends attempt 2 again: %v", b.names())
	require.Len(t, slices.Compact(keys[events.Do]), 1)
	require.Len(t, keys[events.Undo], 1)
	require.NotEqual(t, keys[events.Do][0], keys[events.Undo][0])
}

// A report of the task that had the ID before comes late: an agent that was cut off for a week, or a copy that another
// partition forwards. It says nothing about the task that has the ID now.
func TestALateReportOfAnEarlierLifeIsPassed(t *testing.T) {
	t.Parallel()
	b := newBench(t, oneStep)
	a := b.candidate("A", forgetful).own()
	b.submit("t1", "one", "")
	a.run()
	old := a.requests()[0]
	b.report(completed(old))
	a.run()
	a.forget("t1")
	b.submit("t1", "one", `,"input":{"another":"content"}`)
	a.run()
	b.report(completed(old))
	a.run()
	require.Equal(t, events.StepStateRunning, b.task("t1").Step("only").State, "%v", b.names())
	b.report(completed(a.requests()[1]))
	a.run()
	require.Equal(t, events.TaskStateProcessed, b.task("t1").State)
	require.Equal(t, 2, count[*events.StepCompleted](b))
	require.Empty(t, a.sentTo("dlq.reports"))
}

// A report without a ticket could be about any task that ever had the ID. It is not lost silently: an agent that forgets the
// ticket would otherwise see only timeouts.
func TestAReportWithoutATicketIsADeadLetter(t *testing.T) {
	t.Parallel()
	b := newBench(t, oneStep)
	a := b.candidate("A").own()
	b.submit("t1", "one", "")
	a.run()
	p := completed(a.requests()[0])
	p.Ticket = ""
	r, err := events.EncodeReport(p, events.Subject{ID: "r", Source: "/agents", Time: b.now})
	require.NoError(t, err)
	b.put(events.Reports, r)
	a.run()
	require.Equal(t, events.StepStateRunning, b.task("t1").Step("only").State)
	list := a.sentTo("dlq.reports")
	require.Len(t, list, 1)
	require.Contains(t, list[0].Header(supervisor.DeadMessage), "ticket")
}
