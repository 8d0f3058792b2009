package supervisor_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sagalog/sagalog/events"
	"github.com/sagalog/sagalog/supervisor"
)

const undoable = `
workflow: w
defaults: {complete_within: 30s, retry: {attempts: 1, then: undo}}
steps:
  only: {agent: alpha, undo: {}}
  next: {agent: alpha, needs: [only]}
`

// An owner that slept sends no work of a task that its successor has brought to its end in the meantime, whether it fell asleep before it
// sent the work or before it heard that the fact is durable.
func TestAnOwnerThatSleptSendsNothingThatIsOver(t *testing.T) {
	t.Parallel()
	for _, asleepBefore := range []string{"Send", "Append"} {
		t.Run(asleepBefore, func(t *testing.T) {
			t.Parallel()
			b := newBench(t, undoable)
			a := b.candidate("A").own()
			a.hold[asleepBefore], a.hold["LogRecords"] = true, true
			b.submit("t1", "w", "")
			a.run()
			answer := func() {}
			if asleepBefore == "Append" { // its facts are durable before another node claims, and it has not heard of it
				for _, x := range held[supervisor.Append](a) {
					at, tell := b.land(x.Records...), answer
					answer = func() { tell(); a.o.Appended(b.now, x.Generation, x.Batch, at, nil) }
				}
				a.todo = nil
			}
			require.Equal(t, events.StepStateRunning, b.task("t1").Step("only").State)

			b.now = b.now.Add(3 * time.Second)
			c := b.candidate("C").own()
			c.pass(100 * time.Millisecond)
			require.Equal(t, []string{"t1.only do#1"}, c.work())
			b.done("t1", "only", 1)
			c.run()
			b.done("t1", "next", 1)
			c.run()
			require.Equal(t, events.TaskStateProcessed, b.task("t1").State)

			b.now = b.now.Add(time.Second)
			a.wake()
			answer()
			clear(a.hold)
			a.run()
			require.Empty(t, a.work())
			require.False(t, a.o.Status().Owning)
		})
	}
}

// If nobody has taken the partition over, an owner that slept sends what it has, once.
func TestAnOwnerThatSleptGoesOn(t *testing.T) {
	t.Parallel()
	b := newBench(t, undoable)
	a := b.candidate("A").own()
	a.hold["Send"] = true
	b.submit("t1", "w", "")
	a.run()
	a.hold["AskEnd"], a.hold["Send"] = true, false
	a.wake()
	a.pass(50 * time.Millisecond)
	require.Empty(t, a.work(), "the answer is missing")
	a.wake() // it falls asleep again: the answer to the first question says nothing about the time since
	asked := held[supervisor.AskEnd](a)
	require.Len(t, asked, 2)
	a.o.LogEnd(b.now, asked[0].Generation, asked[0].Question, int64(len(b.log)), nil)
	a.pass(50 * time.Millisecond)
	require.Empty(t, a.work())
	a.hold["AskEnd"] = false
	a.run()
	require.Equal(t, []string{"t1.only do#1"}, a.work())
	require.True(t, a.o.Status().Owning)
	epoch := a.o.Status().Epoch
	b.done("t1", "only", 1)
	a.run()
	b.done("t1", "next", 1)
	a.run()
	require.Equal(t, events.TaskStateProcessed, b.task("t1").State)
	require.Equal(t, epoch, a.o.Status().Epoch)
}

// While appends are in flight, their answers show whether what lies below the end is the owner's.
func TestAnOwnerThatSleptWaitsForItsAppends(t *testing.T) {
	t.Parallel()
	b := newBench(t, undoable)
	a := b.candidate("A").own()
	a.hold["Append"], a.hold["LogRecords"] = true, true
	b.submit("t1", "w", "")
	a.run()
	var answers []func()
	for _, x := range held[supervisor.Append](a) {
		at := b.land(x.Records...)
		answers = append(answers, func() { a.o.Appended(b.now, x.Generation, x.Batch, at, nil) })
	}
	require.NotEmpty(t, answers)
	a.todo = nil
	a.wake()
	a.pass(50 * time.Millisecond)
	require.Empty(t, a.work())
	require.True(t, a.o.Status().Owning, "its own facts lie behind what it knows to be durable")
	a.hold["Append"] = false
	for _, f := range answers {
		f()
	}
	a.run()
	require.Equal(t, []string{"t1.only do#1"}, a.work())
}

// An owner falls asleep after its claim has landed, and reads it back when it wakes up. Another one has taken the partition over in the meantime.
func TestAnOwnerThatSleptWhileItClaimedSendsNothing(t *testing.T) {
	t.Parallel()
	for name, taken := range map[string]bool{"another one has taken over": true, "nobody has": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t, oneStep)
			first := b.candidate("first").own()
			first.hold["Send"] = true
			b.submit("t1", "one", "")
			first.run()
			a := b.candidate("A")
			a.hold["Claim"] = true
			a.o.Assign(b.now)
			for range 20 {
				if a.pass(time.Second); len(held[supervisor.Claim](a)) > 0 {
					break
				}
			}
			a.hold["Claim"], a.hold["LogRecords"] = false, true
			a.run()
			claimed := int64(len(b.log))
			if taken {
				b.candidate("C").own()
			}
			a.wake()
			a.o.LogRecords(b.now, a.gen, b.log[a.tail:claimed], claimed)
			a.tail = claimed
			a.run()
			require.Equal(t, !taken, len(a.sent) > 0)
			require.Equal(t, !taken, a.o.Status().Owning)
		})
	}
}
