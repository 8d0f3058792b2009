package supervisor_test

import (
	"fmt"
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

// The workflow says how long its tasks are remembered, in place of the settings: for a shorter time, or for longer.
func TestAWorkflowSaysHowLongItsTasksAreRemembered(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		own, usual time.Duration
		forgotten  bool
	}{
		"shorter": {time.Minute, time.Hour, true},
		"longer":  {time.Hour, time.Minute, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t, oneStep, "workflow: own\nremember_for: "+c.own.String()+"\nsteps:\n  only: {agent: alpha}\n")
			a := b.candidate("A", knows(3, c.usual)).own()
			for _, id := range []string{"one", "own"} { // the ID is the name of the workflow
				b.submit(id, id, "")
				a.run()
				b.done(id, "only", 1)
				a.run()
			}
			require.Equal(t, events.Duration(c.own), b.task("own").RememberFor)
			for range 100 {
				a.pass(time.Second)
			}
			s, _, _ := b.read()
			for id, gone := range map[string]bool{"own": c.forgotten, "one": !c.forgotten} {
				x, err := s.Task(id)
				require.NoError(t, err)
				require.Equal(t, gone, x == nil, id)
			}
			require.Equal(t, c.forgotten, s.Partition.ForgottenBefore != 0)
			sameEverywhere(t, b, a)
			b.submit("own", "own", "")
			a.run()
			require.Equal(t, c.forgotten, !b.task("own").State.Ended(), "a duplicate while the task is remembered")
		})
	}
}

// A misplaced submission is sent home twice. The task of the first copy is forgotten after the time that its workflow gives. The second
// copy is young enough for the settings, but nobody can say any more that it is a duplicate.
func TestACopyOfAForgottenTaskIsRefusedWhateverTheSettingsSay(t *testing.T) {
	t.Parallel()
	b := newBench(t, oneStep, "workflow: own\nremember_for: 1m\nsteps:\n  only: {agent: alpha}\n")
	a := b.candidate("A").own()
	forwarded := events.Record{Value: []byte(`{"id":"t1","workflow":"own"}`), Headers: []events.Header{
		{Key: events.HeaderForwardedFrom, Value: []byte("9/4")}, {Key: events.HeaderForwardedAt, Value: []byte(b.now.String())},
	}}
	b.put(events.Submissions, forwarded)
	a.run()
	b.report(completed(a.requests()[0]))
	a.run()
	a.forget("t1")
	b.put(events.Submissions, forwarded)
	a.run()
	require.Equal(t, 1, count[*events.Submitted](b))
	require.Equal(t, []string{"s/0/1 " + events.RejectMisplaced}, b.rejected())
}

// What is forgotten is read for that. Of large tasks only some are read at once.
func TestLargeTasksAreForgottenAFewAtATime(t *testing.T) {
	t.Parallel()
	const many, size = 60, 400 << 10
	b := newBench(t, "workflow: one\nsteps: {only: {agent: alpha, with: 1}}\n")
	a := b.candidate("A", func(c *candidate) { c.cfg.Settings.RememberFor = events.Duration(time.Minute) }).own()
	for i := range many {
		b.submit(fmt.Sprint("t", i), "one", fmt.Sprintf(`,"input":{"text":%s}`, pad(size)))
	}
	a.run()
	for i := range many {
		b.done(fmt.Sprint("t", i), "only", 1)
	}
	a.run()
	a.restart()
	a.own()
	most := 0
	for range 30 {
		a.pass(10 * time.Second)
		most = max(most, a.o.Status().InMemory)
	}
	require.Less(t, most, many)
	require.Greater(t, count[*events.TasksSwept](b), 1)
	swept := 0
	_, accepted, _ := b.read()
	for _, f := range accepted {
		if s, ok := f.Body.(*events.TasksSwept); ok {
			swept += len(s.Tasks)
		}
	}
	require.Equal(t, many, swept)
}
