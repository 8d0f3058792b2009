package supervisor_test

import (
	"fmt"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sagalog/sagalog/events"
	"github.com/sagalog/sagalog/scheduler"
	"github.com/sagalog/sagalog/supervisor"
)

// mortal is a candidate whose process ends while it judges a submission with the word "lethal". Its marks outlive it.
type mortal struct {
	*scheduler.Scheduler
	*candidate
	mark supervisor.Mark
	// kept counts the marks that were written, dead says that this process has ended, and deaths counts those that did.
	kept   int
	dead   bool
	deaths int
}

func newMortal(b *bench) *mortal {
	m := &mortal{Scheduler: scheduler.New()}
	m.candidate = b.candidate("A", func(c *candidate) {
		c.sched = m
		c.cfg.Mark = func(mark supervisor.Mark) {
			if !m.dead {
				m.mark = mark
				m.kept++
			}
		}
	})
	return m
}

// Accept implements supervisor.Scheduler.
func (m *mortal) Accept(hash string, sub *events.Submission, version int) (events.Acceptance, string) {
	if strings.Contains(string(sub.Input), "lethal") {
		m.dead = true
		runtime.Goexit() // cannot be recovered
	}
	return m.Scheduler.Accept(hash, sub, version)
}

// process starts a process with the mark of the one before, and returns false if it ends.
func (m *mortal) process() bool {
	m.dead, m.cfg.Marked = false, m.mark
	m.restart()
	over := make(chan struct{})
	go func() {
		defer close(over)
		m.own()
		m.pass(time.Second)
	}()
	<-over
	if m.dead {
		m.deaths++
	}
	return !m.dead
}

// settle starts processes until one stays.
func (m *mortal) settle() {
	for !m.process() {
		require.Less(m.b.t, m.deaths, 20, "every process ends")
	}
}

func (b *bench) submitLethal(id string) { b.submit(id, "one", `,"input":{"it":"is lethal"}`) }

func (b *bench) rejected() (list []string) {
	_, accepted, _ := b.read()
	for _, f := range accepted {
		if r, ok := f.Body.(*events.InputRejected); ok {
			list = append(list, fmt.Sprint(f.Cause, " ", r.Reason))
		}
	}
	return list
}

func TestAnInputThatEndsTheProcessIsRejectedUnseen(t *testing.T) {
	t.Parallel()
	b := newBench(t, oneStep)
	m := newMortal(b)
	for i := range 3 {
		b.submit(fmt.Sprint("before", i), "one", "")
	}
	b.submitLethal("lethal")
	b.submit("after", "one", "")
	m.settle()
	require.Equal(t, 4, m.deaths, "once among others, and three times alone")
	require.Equal(t, 4, count[*events.Submitted](b))
	require.Equal(t, []string{"s/0/3 " + events.RejectEnded}, b.rejected())
	require.Len(t, m.sentTo("dlq.submissions"), 1)
	require.Equal(t, `{"id":"lethal","workflow":"one","input":{"it":"is lethal"}}`, string(m.sentTo("dlq.submissions")[0].Value))
	m.settle()
	require.Equal(t, supervisor.Mark{Owning: true}, m.mark, "what is below the resume point is forgotten")
	m.o.Revoke(b.now)
	require.True(t, m.mark.IsZero())
}

// The second one ends processes before it is durable that the first one was rejected.
func TestTwoInputsThatEndTheProcessAreRejected(t *testing.T) {
	t.Parallel()
	b := newBench(t, oneStep)
	m := newMortal(b)
	b.submitLethal("one")
	b.submitLethal("two")
	b.submit("after", "one", "")
	m.settle()
	require.Equal(t, 7, m.deaths)
	require.Equal(t, 1, count[*events.Submitted](b))
	require.Len(t, b.rejected(), 2)
}

// Whatever ends a process may do so while it judges a good input.
func TestTwoEndsOfTheProcessDoNotRejectAGoodInput(t *testing.T) {
	t.Parallel()
	b := newBench(t, oneStep)
	m := newMortal(b)
	b.submit("good", "one", "")
	hash := events.HashInput(&b.inputs[events.Submissions][0])
	m.mark = supervisor.Mark{Owning: true, Judging: supervisor.Suspect{Input: "s/0/0", Hash: hash},
		Suspects: []supervisor.Suspect{{Input: "s/0/0", Hash: hash, Ended: 1}}}
	require.True(t, m.process())
	require.Equal(t, 1, count[*events.Submitted](b))
	require.Equal(t, supervisor.Mark{Owning: true}, m.mark)
}

func TestARecordWithTheCoordinatesOfASuspectIsJudged(t *testing.T) {
	t.Parallel()
	b := newBench(t, oneStep)
	m := newMortal(b)
	b.submit("good", "one", "")
	m.mark = supervisor.Mark{Suspects: []supervisor.Suspect{{Input: "s/0/0", Hash: "of another record", Ended: 3}}}
	require.True(t, m.process())
	require.Equal(t, 1, count[*events.Submitted](b))
}

// A panic ends no process: the mark is lifted.
func TestAPanicLeavesNoMarkOfItsInput(t *testing.T) {
	t.Parallel()
	b := newBench(t, oneStep)
	m, p := newMortal(b), poison()
	p.check = func(*events.Task) bool { return true }
	m.sched, m.mark = p, supervisor.Mark{Owning: true}
	b.submit("toxic", "one", "")
	require.True(t, m.process())
	require.Equal(t, []string{"s/0/0 " + events.RejectInternal}, b.rejected())
	require.Empty(t, m.mark.Judging)
}

// A process that begins after a clean end keeps one mark, however many inputs it judges.
func TestAHealthyOwnerKeepsOneMark(t *testing.T) {
	t.Parallel()
	b := newBench(t, oneStep)
	m := newMortal(b)
	require.True(t, m.process())
	for i := range 3000 {
		b.submit(fmt.Sprint("t", i), "one", "")
	}
	m.run()
	require.Equal(t, 3000, count[*events.Submitted](b))
	require.Equal(t, 1, m.kept)
	m.o.Revoke(b.now)
	require.Equal(t, 2, m.kept)
	require.True(t, m.mark.IsZero())
}

// After an unclean end only the inputs that were there then are judged alone.
func TestOnlyTheInputsOfTheProcessBeforeAreJudgedAlone(t *testing.T) {
	t.Parallel()
	b := newBench(t, oneStep)
	m := newMortal(b)
	m.mark = supervisor.Mark{Owning: true}
	for i := range 100 {
		b.submit(fmt.Sprint("t", i), "one", "")
	}
	require.True(t, m.process())
	require.Equal(t, 100, count[*events.Submitted](b))
	require.GreaterOrEqual(t, m.kept, 100)
	was := m.kept
	for i := range 100 {
		b.submit(fmt.Sprint("u", i), "one", "")
	}
	m.run()
	require.Equal(t, 200, count[*events.Submitted](b))
	require.Equal(t, was, m.kept)
}
