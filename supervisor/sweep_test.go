package supervisor_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sagalog/sagalog/events"
)

// A node takes over with a clock that is days ahead, and then another one with the right clock. Nothing was forgotten, so a producer's
// repeat of the last minute is a duplicate.
func TestANodeWithAClockAheadForgetsNothingAtOnce(t *testing.T) {
	t.Parallel()
	b := newBench(t, oneStep)
	a := b.candidate("A").own()
	b.submit("t1", "one", "")
	a.run()
	b.done("t1", "only", 1)
	a.run()
	right := b.now
	b.now = right.Add(8 * 24 * time.Hour)
	c := b.candidate("C").own()
	for range 50 {
		c.pass(10 * time.Second)
	}
	c.restart() // its next epoch finds a log whose time is as wrong as its clock
	c.own()
	c.pass(10 * time.Second)
	require.Zero(t, count[*events.TasksSwept](b))
	b.now = right.Add(time.Minute)
	d := b.candidate("D").own()
	b.submit("t1", "one", "")
	d.run()
	require.Equal(t, 1, count[*events.Submitted](b), "one ID takes effect once within 7 days")
}

// In a partition in which nothing happened for days, a fact says since when its time goes on.
func TestAQuietPartitionForgetsTenMinutesLater(t *testing.T) {
	t.Parallel()
	b := newBench(t, oneStep)
	a := b.candidate("A").own()
	b.submit("t1", "one", "")
	a.run()
	b.done("t1", "only", 1)
	a.run()
	b.now = b.now.Add(8 * 24 * time.Hour)
	a.pass(10 * time.Second)
	end := len(b.log)
	for range 50 {
		a.pass(10 * time.Second)
	}
	require.Len(t, b.log, end, "one fact is enough")
	require.Zero(t, count[*events.TasksSwept](b))
	for range 15 {
		a.pass(10 * time.Second)
	}
	require.Equal(t, 1, count[*events.TasksSwept](b))
	sameEverywhere(t, b, a)
}
