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

// requests returns the work requests that were sent, in order.
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

// forgetful makes a candidate remember finished tasks for only a minute.
func forgetful(c *candidate) { c.cfg.Settings.RememberFor = events.Duration(time.Minute) }

// completed returns the report of an agent that completed the attempt.
func completed(w events.Work) events.Report {
	return events.Report{
		Task: w.Task, Run: w.Run, Step: w.Step, Operation: w.Operation, Attempt: w.Attempt, Ticket: w.Ticket,
		Result: events.ResultCompleted, Output: json.RawMessage(`{"v":1}`),
	}
}

// forget lets time pass until the finished task is forgotten.
func (c *candidate) forget(id string) {
	for range 100 {
		c.pass(time.Second)
	}
	s, _, _ := c.b.read()
	x, err := s.Task(id)
	require.NoError(c.b.t, err)
	require.Nil(c.b.t, x, "the task is forgotten")
}

// If the keys were the same, a service that keeps keys longer than the engine keeps tasks would answer the new task with the
// old task's result, or refuse it because of the old task's undo.
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

// All attempts of a do have the same key, even after retries, take-overs and a rebuild of the store from the log. The undo has a
// different key.
func TestRetriesAndTakeOversKeepTheKey(t *testing.T) {
	t.Parallel()
	b := newBench(t, `
workflow: w
defaults: {complete_within: 1s, retry: {attempts: 3, backoff: 100ms, then: undo}}
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

// A report about an earlier task with the same ID arrives late, because an agent was cut off for a week or because another
// partition forwarded a copy. It must not count for the current task.
func TestALateReportAboutAnEarlierTaskChangesNothing(t *testing.T) {
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

// A report without a ticket could be about any task that ever had the ID. It becomes a dead letter and is not dropped silently,
// because the author of an agent that omits the ticket would otherwise see only timeouts.
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
