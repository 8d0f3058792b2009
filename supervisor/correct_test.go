package supervisor_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sagalog/sagalog/events"
)

// A node with a clock eight days ahead owns the partition for a while. The next one, whose clock is that of the brokers and nodes, brings
// the time back; what was begun goes on with its real durations.
func TestTheTimeGoesBackWhenTheClocksAgree(t *testing.T) {
	t.Parallel()
	b := newBench(t, oneStep)
	right := b.now
	b.now = right.Add(8 * 24 * time.Hour)
	a := b.candidate("A").own()
	b.submit("t1", "one", "")
	a.run()
	require.Equal(t, events.StepStateRunning, b.task("t1").Step("only").State)
	wrong := b.task("t1").Step("only")
	within := wrong.CompleteBy.Sub(wrong.StartedAt)

	b.now = right.Add(time.Minute)
	next := b.candidate("B").own()
	next.pass(time.Second)
	require.Zero(t, count[*events.TimeCorrected](b), "nobody knows whether its clock is right")
	next.o.Suspend(b.now, false, true)
	for range 20 {
		next.pass(100 * time.Millisecond)
	}
	require.Equal(t, 3, count[*events.TimeCorrected](b), "of the partition, of the task, and settled")
	require.NoError(t, next.stopped)
	s := b.task("t1").Step("only")
	require.Equal(t, within, s.CompleteBy.Sub(s.StartedAt))
	require.Less(t, s.CompleteBy, right.Add(2*time.Minute))
	b.submit("t2", "one", "")
	next.run()
	require.Less(t, b.task("t2").SubmittedAt, right.Add(2*time.Minute))
	next.pass(within + 10*time.Second)
	next.pass(time.Second)
	require.NotZero(t, b.task("t1").FailureCount, "its attempt timed out")
	sameEverywhere(t, b, next)

	// A, which owned it before, owns it again with the right clock, and does not bring its old time back.
	a.o.Revoke(b.now)
	a.run()
	a.o.Suspend(b.now, false, true)
	a.own()
	a.pass(time.Second)
	require.Equal(t, 3, count[*events.TimeCorrected](b))
}

// The process whose clock was wrong owns the partition when the time goes back. What it decides from then on is in its store as soon as before.
func TestTheStoreIsWrittenAfterTheTimeWentBack(t *testing.T) {
	t.Parallel()
	b := newBench(t, oneStep)
	right := b.now
	b.now = right.Add(8 * 24 * time.Hour)
	a := b.candidate("A", func(c *candidate) { c.cfg.FlushEvery = time.Second }).own()
	b.submit("t1", "one", "")
	a.run()
	a.pass(2 * time.Second)

	b.now = right.Add(time.Minute)
	a.o.Suspend(b.now, false, true)
	for range 100 {
		a.pass(100 * time.Millisecond)
	}
	require.Equal(t, 3, count[*events.TimeCorrected](b))
	for _, id := range []string{"t2", "t3", "t4", "t5", "t6", "t7", "t8", "t9", "t10", "t11"} {
		b.submit(id, "one", "")
		a.run()
	}
	a.pass(5 * time.Second)
	a.pass(5 * time.Second)
	sameEverywhere(t, b, a)
}
