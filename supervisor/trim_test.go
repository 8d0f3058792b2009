package supervisor_test

import (
	"testing"
	"time"

	"github.com/sagalog/sagalog/events"
	"github.com/sagalog/sagalog/supervisor"
	"github.com/stretchr/testify/require"
)

// trims asks the owner what can be trimmed. It returns nil if there is no answer yet.
func (c *candidate) trims() map[events.Input]int64 {
	c.todo = nil
	supervisor.Trim(c.o, c.b.now)
	return c.trimmed()
}

func (c *candidate) trimmed() (below map[events.Input]int64) {
	for _, a := range held[supervisor.TrimInputs](c) {
		below = a.Below
	}
	return below
}

// docs/protocol.md, "Inputs are trimmed".
func TestTheLastPassedInputIsKept(t *testing.T) {
	t.Parallel()
	b := newBench(t, oneStep)
	a := b.candidate("A")
	require.Nil(t, a.trims(), "it owns nothing")
	a.own()
	require.Nil(t, a.trims(), "nothing is passed")
	for _, id := range []string{"t1", "t2", "t3"} {
		b.submit(id, "one", "")
	}
	a.run()
	require.Equal(t, map[events.Input]int64{events.Submissions: 2}, a.trims())
	a.o.Suspend(b.now, true, false)
	require.Nil(t, a.trims(), "its clock is suspect")
	a.o.Suspend(b.now, false, false)
	require.NotNil(t, a.trims())
}

// A fact in flight may never land: the next owner would judge the input again.
func TestAnInputIsTrimmedOnceItsFactIsDurable(t *testing.T) {
	t.Parallel()
	b := newBench(t, oneStep)
	a := b.candidate("A").own()
	b.submit("t1", "one", "")
	a.run()
	a.hold["Append"] = true
	b.submit("t2", "one", "")
	a.run()
	appends := a.todo
	require.Nil(t, a.trims())
	a.todo, a.hold["Append"] = appends, false
	a.hold["TrimInputs"] = true
	a.run()
	require.Equal(t, map[events.Input]int64{events.Submissions: 1}, a.trimmed())
}

// The next owner may have to send the dead letter again, until the log says that it is there.
func TestTheInputOfADeadLetterIsKept(t *testing.T) {
	t.Parallel()
	b := newBench(t, oneStep)
	a := b.candidate("A").own()
	silent := true
	a.silent = func(s supervisor.Send) bool { return silent && s.Kind == events.EffectDeadLetter }
	b.submit("t1", "one", "")
	b.submit("t2", "nobody-knows", "")
	b.submit("t3", "one", "")
	b.submit("t4", "one", "")
	a.run()
	require.Equal(t, map[events.Input]int64{events.Submissions: 1}, a.trims())
	for _, s := range a.unanswered {
		a.o.Sent(b.now, s.Generation, s.ID, nil)
	}
	silent = false
	a.run()
	require.Equal(t, map[events.Input]int64{events.Submissions: 1}, a.trims(), "the log does not say so yet")
	a.pass(1100 * time.Millisecond)
	a.pass(1100 * time.Millisecond)
	require.Equal(t, int64(3), a.trims()[events.Submissions])
}

// An owner that was deposed without knowing it looks for a record that the next owner has trimmed.
func TestADeposedOwnerDoesNotStopForATrimmedInput(t *testing.T) {
	t.Parallel()
	b, a := losing(t)
	b.candidate("B").own()
	a.hold["LogRecords"] = true
	a.loseOnce(supervisor.Loss{Start: 3})
	a.hold["LogRecords"], a.hold["submissions"] = false, false
	a.run()
	require.NoError(t, a.stopped)
}

// While dead letters are delayed they do not hold the watermark back. Once they have caught up, the watermark counts for them again, and
// it may still be in front of them.
func TestTheInputOfADeadLetterThatWasDelayedIsKept(t *testing.T) {
	t.Parallel()
	b := newBench(t, oneStep)
	a := b.candidate("A", func(c *candidate) { c.cfg.DelayAfter = time.Second }).own()
	a.silent = func(s supervisor.Send) bool { return s.Kind == events.EffectDeadLetter || s.Kind == events.EffectWork }
	b.submit("t1", "nobody-knows", "")
	a.run()
	a.pass(2 * time.Second)
	require.Equal(t, 1, count[*events.EffectsDelayed](b))
	b.submit("t2", "one", "")
	a.run()
	b.submit("t3", "nobody-knows", "")
	b.submit("t4", "one", "")
	a.run()
	require.Zero(t, a.trims()[events.Submissions], "nobody knows what is owed")
	for _, s := range a.unanswered {
		if s.Kind == events.EffectDeadLetter {
			a.o.Sent(b.now, s.Generation, s.ID, nil)
		}
	}
	a.run()
	a.pass(10 * time.Millisecond)
	require.Equal(t, 1, count[*events.EffectsCaughtUp](b))
	require.Equal(t, int64(2), a.trims()[events.Submissions], "the watermark waits for the work of t2")
}
