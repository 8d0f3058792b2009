package supervisor_test

import (
	"testing"
	"time"

	"github.com/sagalog/sagalog/events"
	"github.com/sagalog/sagalog/supervisor"
	"github.com/stretchr/testify/require"
)

// A step whose agent has no instance waits as long as it takes, and uses up no attempt.
func TestStepsWaitForAMissingAgent(t *testing.T) {
	t.Parallel()
	b := newBench(t, oneStep)
	a := b.candidate("A").own()
	a.o.SetOffers(b.now, map[string]supervisor.Offer{"beta": {Window: 8, Do: true, Undo: true}})
	b.submit("t0", "one", "")
	a.run()
	since := b.now
	for range 60 {
		a.pass(10 * time.Second)
	}
	require.Empty(t, a.sentTo("work.alpha"))
	require.Nil(t, b.task("t0").Step("only"), "it has not begun")
	require.Equal(t, []events.Missing{{Agent: "alpha", Operation: events.Do, Since: since}}, a.o.Status().Missing)
	a.o.SetOffers(b.now, offers(8))
	a.run()
	require.Len(t, a.sentTo("work.alpha"), 1)
	require.Equal(t, 1, b.task("t0").Step("only").Attempt)
	require.Empty(t, a.o.Status().Missing)
	b.done("t0", "only", 1)
	a.run()
	require.Equal(t, events.TaskStateProcessed, b.task("t0").State)
}

// Agents wait independently of each other, and so do the two operations of an agent.
func TestAMissingAgentHoldsBackNoOther(t *testing.T) {
	t.Parallel()
	b := newBench(t, `
workflow: two
defaults: {complete_within: 1h, retry: {attempts: 1, then: undo}}
steps:
  first: {agent: alpha, undo: {}}
  second: {agent: beta, needs: [first]}
`)
	a := b.candidate("A", func(c *candidate) { c.cfg.Queue = 2 }).own()
	beta := supervisor.Offer{Window: 64, Do: true}
	a.o.SetOffers(b.now, map[string]supervisor.Offer{"alpha": {Window: 64, Do: true}, "beta": beta})
	undos := []string{"u0", "u1", "u2", "u3", "u4", "u5", "u6", "u7"}
	for _, id := range undos {
		b.submit(id, "two", "")
	}
	a.run()
	for _, id := range undos {
		b.done(id, "first", 1)
	}
	a.run()
	for _, id := range undos { // more undos wait than the queue holds in memory
		b.failed(id, "second", 1, events.ClassPermanent, events.EffectNone)
	}
	a.run()
	a.pass(time.Minute)
	require.Nil(t, b.task("u0").Step("first").Undo, "nobody offers the undo")
	b.submit("d0", "two", "")
	a.run()
	require.Equal(t, events.StepStateRunning, b.task("d0").Step("first").State, "the do does not wait behind undos that cannot start")
	a.o.SetOffers(b.now, map[string]supervisor.Offer{"alpha": {Window: 64, Undo: true}, "beta": beta})
	b.submit("d1", "two", "")
	a.run()
	for _, id := range undos {
		require.Equal(t, events.StepStateRunning, b.task(id).Step("first").Undo.State)
	}
	require.Nil(t, b.task("d1").Step("first"))
}

// A task does not wait for an agent beyond its deadline.
func TestTheDeadlineCountsForAMissingAgent(t *testing.T) {
	t.Parallel()
	b := newBench(t, oneStep)
	a := b.candidate("A").own()
	a.o.SetOffers(b.now, map[string]supervisor.Offer{})
	b.submit("t0", "one", `,"deadline":"1m"`)
	a.run()
	for range 9 {
		a.pass(10 * time.Second)
	}
	require.Equal(t, events.TaskStateUndone, b.task("t0").State)
}

// A task that ended waits for nothing, so its agent is not missing.
func TestATaskThatEndedWaitsForNoAgent(t *testing.T) {
	t.Parallel()
	b := newBench(t, oneStep)
	a := b.candidate("A").own()
	a.o.SetOffers(b.now, map[string]supervisor.Offer{})
	b.submit("t0", "one", "")
	a.run()
	a.pass(time.Second)
	require.Len(t, a.o.Status().Missing, 1)
	b.request(events.RequestCancel, "c0", "t0")
	a.run()
	require.Equal(t, events.TaskStateUndone, b.task("t0").State)
	for range 60 {
		a.pass(time.Minute)
	}
	require.Empty(t, a.o.Status().Missing, "no step waits any more, and an alert would be false")
}

// An owner that has just started has not heard of the agents yet. That is no reason to forgive a timeout.
func TestATimeoutAfterARestartCounts(t *testing.T) {
	t.Parallel()
	b := newBench(t, `
workflow: once
defaults: {complete_within: 1s, retry: {attempts: 1, then: park}}
steps:
  only: {agent: alpha}
`)
	a := b.candidate("A")
	a.o.SetOffers(b.now, offers(8))
	a.own()
	b.submit("t0", "once", "")
	a.run()
	require.Len(t, a.work(), 1)
	c := b.candidate("C")
	c.o.SetOffers(b.now, map[string]supervisor.Offer{}) // what a node knows before it has read a heartbeat
	c.own()
	c.pass(2 * time.Second)
	c.o.SetOffers(b.now, offers(8)) // the next heartbeat of the agent, which was there all the time
	c.pass(time.Minute)
	require.NotContains(t, c.work(), "t0.only do#2", "the workflow allows one attempt")
	require.Equal(t, events.TaskStateError, b.task("t0").State)
}

// Nothing starts at a paused agent, neither of a step nor of an undo. What runs goes on, and no alert calls the agent missing.
func TestNothingStartsAtAPausedAgent(t *testing.T) {
	t.Parallel()
	b := newBench(t, `
workflow: two
defaults: {complete_within: 1h, retry: {attempts: 2, backoff: 1s, then: undo}}
steps:
  first: {agent: alpha, undo: {}}
  second: {agent: beta, needs: [first]}
`)
	a := b.candidate("A").own()
	beta := supervisor.Offer{Window: 64, Do: true}
	pause := func(yes bool) {
		a.o.SetOffers(b.now, map[string]supervisor.Offer{"alpha": {Window: 64, Do: true, Undo: true, Paused: yes}, "beta": beta})
		a.run()
	}
	pause(false)
	b.submit("runs", "two", "")
	a.run()
	pause(true)
	b.submit("waits", "two", "")
	b.done("runs", "first", 1)
	a.run()
	b.failed("runs", "second", 1, events.ClassPermanent, events.EffectNone)
	a.run()
	for range 60 {
		a.pass(10 * time.Second)
	}
	require.Nil(t, b.task("runs").Step("first").Undo, "its undo waits")
	require.Nil(t, b.task("waits").Step("first"), "its step waits")
	require.Empty(t, a.o.Status().Missing)
	a.o.SetOffers(b.now, map[string]supervisor.Offer{"alpha": {Paused: true}, "beta": beta}) // its last instance has gone
	a.pass(time.Minute)
	require.Empty(t, a.o.Status().Missing)
	pause(false)
	require.Equal(t, events.StepStateRunning, b.task("runs").Step("first").Undo.State)
	require.Equal(t, events.StepStateRunning, b.task("waits").Step("first").State)
}
