package supervisor_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/sagalog/sagalog/events"
	"github.com/sagalog/sagalog/supervisor"
	"github.com/stretchr/testify/require"
)

func TestAlertsThatNobodyTakesStopNothing(t *testing.T) {
	t.Parallel()
	b := newBench(t, oneStep)
	a := b.candidate("A", func(c *candidate) { c.cfg.Unacknowledged = 8 }).own()
	a.silent = func(s supervisor.Send) bool { return s.Kind == events.EffectAlert }
	for i := range 40 {
		id := fmt.Sprintf("t%02d", i)
		b.submit(id, "one", "")
		a.run()
		b.failed(id, "only", 1, events.ClassPermanent, events.EffectNone)
		a.run()
		require.Equal(t, events.TaskStateError, b.task(id).State, id)
	}
	require.Zero(t, count[*events.EffectFailed](b), "nothing is given up")
	require.Equal(t, "alerts", a.o.Status().Oldest.Topic)
	s, _, _ := b.read()
	require.Contains(t, s.Partition.Delayed, "alerts")
	require.False(t, s.Partition.Watermark.IsZero())

	// The next owner sends them all.
	c := b.candidate("C").own()
	require.Len(t, c.sentTo("alerts"), 2*40) // each task raises two: one for the failure, one for parking
	s, _, _ = b.read()
	require.Empty(t, s.Partition.Delayed)
	watermarkBehind(t, b, c)
}

func TestWorkThatNobodyTakesHoldsBackNoOtherAgent(t *testing.T) {
	t.Parallel()
	b := newBench(t, oneStep, `
workflow: other
defaults: {complete_by: 1h}
steps:
  only: {agent: beta}
`)
	a := b.candidate("A", func(c *candidate) { c.cfg.Unacknowledged = 8 }).own()
	a.silent = func(s supervisor.Send) bool { return s.Topic == "work.alpha" }
	b.submit("stuck", "one", "")
	a.run()
	for i := range 200 {
		id := fmt.Sprintf("t%03d", i)
		b.submit(id, "other", "")
		a.run()
		b.done(id, "only", 1)
		a.run()
		require.Equal(t, events.TaskStateProcessed, b.task(id).State, id)
	}
	require.Equal(t, 1, a.o.Status().Unsent)
	require.Equal(t, supervisor.Unanswered{Topic: "work.alpha", Since: start.Add(time.Millisecond)}, a.o.Status().Oldest)
	began := b.task("stuck").Last
	s, _, _ := b.read()
	require.True(t, s.Partition.Watermark.Before(began), "a next owner still has to send it")

	// Nobody needs the request of an attempt that timed out.
	a.pass(1100 * time.Millisecond)
	a.silent = nil
	b.submit("last", "other", "")
	a.run()
	watermarkBehind(t, b, a)
	s, _, _ = b.read()
	require.False(t, s.Partition.Watermark.Before(began))
	require.NotContains(t, a.work(), "stuck.only do#1")
}
