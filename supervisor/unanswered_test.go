package supervisor_test

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
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
		if i == 2 {
			a.pass(time.Second) // the alerts are delayed from here on
		}
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

// Dead letters are never given up, and more of them than fit in memory wait in the log until their topic takes them again.
func TestDeadLettersThatNobodyTakesStopNothing(t *testing.T) {
	t.Parallel()
	b := newBench(t, oneStep)
	a := b.candidate("A", func(c *candidate) { c.cfg.Unacknowledged = 100 }).own()
	a.silent = func(s supervisor.Send) bool { return s.Kind == events.EffectDeadLetter }
	const many = 3000
	for i := range many {
		b.put(events.Submissions, events.Record{Value: []byte("garbage")})
		if i == 100 {
			a.run()
			a.pass(time.Second) // the dead letters are delayed from here on
		}
		if i%100 == 0 {
			b.submit(fmt.Sprintf("t%04d", i), "one", "")
			a.run()
			b.done(fmt.Sprintf("t%04d", i), "only", 1)
		}
	}
	a.run()
	require.Equal(t, many, count[*events.InputRejected](b))
	require.Equal(t, many/100, count[*events.TaskProcessed](b))
	require.Less(t, a.o.Status().Unsent, 1200, "the others are in the log")

	// The next owner sends them all, in their order. (The first one got no answer.)
	c := b.candidate("C").own()
	require.Equal(t, supervisor.Unanswered{}, c.o.Status().Oldest)
	var offsets []string
	for _, s := range c.sentTo("dlq.submissions") {
		offsets = append(offsets, s.Header(supervisor.DeadOffset))
	}
	require.Len(t, offsets, many)
	require.True(t, slices.IsSortedFunc(offsets, func(a, b string) int { return cmp.Or(len(a)-len(b), strings.Compare(a, b)) }))
	s, _, _ := b.read()
	require.Empty(t, s.Partition.Delayed)
	watermarkBehind(t, b, c)
}

// A node goes on sending to a topic that takes records again.
func TestADelayedDestinationCatchesUp(t *testing.T) {
	t.Parallel()
	b := newBench(t, oneStep)
	a := b.candidate("A", func(c *candidate) { c.cfg.Unacknowledged = 100 }).own()
	var waiting []supervisor.Send
	a.silent = func(s supervisor.Send) bool {
		if s.Kind == events.EffectDeadLetter {
			waiting = append(waiting, s)
			return true
		}
		return false
	}
	const many = 2500
	for range many {
		b.put(events.Submissions, events.Record{Value: []byte("garbage")})
	}
	a.run()
	a.pass(time.Second)
	s, _, _ := b.read()
	require.Contains(t, s.Partition.Delayed, "dlq.submissions")
	for rounds := 0; len(waiting) > 0; rounds++ {
		require.Less(t, rounds, 10)
		list := waiting
		waiting = nil
		for _, y := range list {
			a.o.Sent(b.now, y.Generation, y.ID, nil)
			a.run()
		}
	}
	require.Zero(t, a.o.Status().Unsent)
	s, _, _ = b.read()
	require.Empty(t, s.Partition.Delayed)
	require.Positive(t, count[*events.EffectsCaughtUp](b))
	watermarkBehind(t, b, a)
}

// The starts of an earlier task with the same ID are in front of the position from which a delayed agent is read again.
func TestWorkOfAnEarlierTaskIsNotSentAgain(t *testing.T) {
	t.Parallel()
	b := newBench(t, oneStep, `
workflow: long
defaults: {complete_within: 1h}
steps:
  only: {agent: alpha}
`)
	a := b.candidate("A", func(c *candidate) {
		c.cfg.Settings.RememberFor = events.Duration(time.Minute)
		c.cfg.SlowAfter = 24 * time.Hour // or else nothing would start for the agent
	}).own()
	a.silent = func(s supervisor.Send) bool {
		return s.Topic == "work.alpha" && string(s.Record.Key) == "stuck"
	}
	b.submit("stuck", "long", "")
	a.run()
	a.pass(11 * time.Second) // the agent is delayed from here on
	b.submit("t1", "one", "")
	a.run()
	b.done("t1", "only", 1)
	a.run()
	for range 10 {
		a.pass(15 * time.Second)
	}
	require.Equal(t, 1, count[*events.TasksSwept](b))
	b.submit("t1", "one", "") // a new task, whose first attempt has the same name
	a.run()
	require.NotNil(t, b.task("t1"))
	c := b.candidate("C").own()
	require.Equal(t, []string{"stuck.only do#1", "t1.only do#1"}, c.work())
}

func TestWorkThatNobodyTakesHoldsBackNoOtherAgent(t *testing.T) {
	t.Parallel()
	b := newBench(t, oneStep, `
workflow: other
defaults: {complete_within: 1h}
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
		if i%20 == 0 { // folding the log each time would take most of the test
			require.Equal(t, events.TaskStateProcessed, b.task(id).State, id)
		}
	}
	require.Equal(t, 200, count[*events.TaskProcessed](b))
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

// A burst fills the room for unacknowledged effects. Its destination takes them, only not at once.
func TestADestinationThatTakesABurstIsNotDelayed(t *testing.T) {
	t.Parallel()
	b := newBench(t, oneStep)
	a := b.candidate("A", func(c *candidate) { c.cfg.Unacknowledged = 100 }).own()
	a.hold["Send"] = true
	const many = 2500
	for range many {
		b.put(events.Submissions, events.Record{Value: []byte("garbage")})
	}
	for range 10 * many / 100 {
		a.run()
		a.pass(900 * time.Millisecond) // the broker answers
		a.hold["Send"] = false
		a.run()
		a.hold["Send"] = true
	}
	require.Len(t, a.sentTo("dlq.submissions"), many)
	require.Zero(t, count[*events.EffectsDelayed](b))
}

// A destination takes nothing, and is not delayed yet. Meanwhile inputs wait for it.
func TestInputsThatWaitForEffectsAreNotToBeJudgedNow(t *testing.T) {
	t.Parallel()
	b := newBench(t, oneStep)
	a := b.candidate("A", func(c *candidate) { c.cfg.Unacknowledged, c.cfg.InFlight = 8, 1 }).own()
	a.hold["Append"] = true
	for range 50 {
		b.put(events.Submissions, events.Record{Value: []byte("garbage")})
		a.run()
	}
	require.Positive(t, a.o.Status().Waiting)
	a.hold["Append"] = false
	a.silent = func(supervisor.Send) bool { return true }
	a.run()
	for range 20 {
		b.put(events.Submissions, events.Record{Value: []byte("garbage")})
	}
	a.run()
	require.GreaterOrEqual(t, a.o.Status().Unsent, 8)
	require.Zero(t, a.o.Status().Waiting)
}
