package supervisor_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sagalog/sagalog/events"
	"github.com/sagalog/sagalog/supervisor"
)

// write puts a record about a permit into the reports, as anybody who may write there could.
func (a *speaker) write(kind string, m events.PermitMessage) {
	r, err := events.EncodePermit(kind, m, events.Subject{ID: "x", Source: "/x", Time: a.b.now})
	require.NoError(a.b.t, err)
	a.b.put(events.Reports, r)
	a.speak()
}

// A grant is of the limit that the attempt has asked. One of another limit goes back there, and the partition goes on.
func TestAGrantOfAnotherLimitIsReturned(t *testing.T) {
	t.Parallel()
	b, a := bankers(t, 1, "t1", "t2")
	x := b.task("t2").StepPermits[0]
	link := events.Link{Task: "t2", Incarnation: b.task("t2").Incarnation, Run: x.Run, Path: x.Path, Operation: x.Operation, N: x.N}
	a.write(events.TypePermitGrant, events.PermitMessage{Limit: events.LimitKey("other"), Link: link})
	require.Equal(t, []string{"t1"}, inside(b))
	require.Equal(t, events.LimitKey("other"), last[*events.PermitReturned](b).Limit)
	b.done("t1", "s", 1)
	a.speak()
	require.Equal(t, []string{"t2"}, inside(b))
	sameEverywhere(t, b, a.candidate)
}

// No record brings a limit into the state whose name no limit can have.
func TestALimitWithAnImpossibleNameIsRefused(t *testing.T) {
	t.Parallel()
	b, a := bankers(t, 1, "t1")
	for _, name := range []string{"a\x00b", "a\nb", "a/b", "", strings.Repeat("x", 300), ".."} {
		before := len(b.rejected())
		a.write(events.TypePermitAsk, events.PermitMessage{
			Limit: events.LimitKey(name), Link: events.Link{Task: "t9", Incarnation: "i", Run: 1, Path: "s", Operation: events.Do, N: 1},
		})
		require.Len(t, b.rejected(), before+1, "%q", name)
	}
	sameEverywhere(t, b, a.candidate)
}

// An attempt that cannot use its permit, because an operator has paused its agent, does not keep it from the attempts of other agents.
func TestAnUnusedPermitGoesBackWhileTheAgentIsPaused(t *testing.T) {
	t.Parallel()
	b := newBench(t, callsTheBank, strings.Replace(strings.Replace(callsTheBank, "alpha", "beta", 1), "pay", "other", 1))
	a := &speaker{candidate: b.candidate("A").own()}
	a.limit(1, 1)
	for _, id := range []string{"t1", "t2"} {
		b.submit(id, "pay", "")
		a.speak()
	}
	b.submit("t3", "other", "")
	a.speak()
	there := supervisor.Offer{Window: 10, Do: true, Undo: true}
	paused := supervisor.Offer{Window: 10, Do: true, Undo: true, Paused: true}
	a.o.SetOffers(b.now, map[string]supervisor.Offer{"alpha": paused, "beta": there})
	b.done("t1", "s", 1)
	a.speak()
	require.Equal(t, []string{"t3"}, inside(b))
	b.done("t3", "s", 1)
	a.speak()
	require.Empty(t, inside(b))
	a.o.SetOffers(b.now, map[string]supervisor.Offer{"alpha": there, "beta": there})
	a.speak()
	require.Equal(t, []string{"t2"}, inside(b), "it asks again when its agent goes on")
	sameEverywhere(t, b, a.candidate)
}

// A permit that came before the pause goes back when the limit repeats its grant.
func TestAPermitFromBeforeThePauseGoesBackToo(t *testing.T) {
	t.Parallel()
	b := newBench(t, callsTheBank, strings.Replace(strings.Replace(callsTheBank, "alpha", "beta", 1), "pay", "other", 1))
	a := &speaker{candidate: b.candidate("A").own()}
	a.limit(1, 2)
	offer := func(window int, paused bool) {
		a.o.SetOffers(b.now, map[string]supervisor.Offer{"alpha": {Window: window, Do: true, Undo: true, Paused: paused}, "beta": {Window: 9, Do: true, Undo: true}})
	}
	offer(1, false)
	b.submit("t1", "pay", "")
	b.submit("t2", "pay", "")
	a.speak()
	require.Equal(t, []string{"t1"}, inside(b))
	require.Equal(t, events.PermitStateGranted, b.task("t2").StepPermits[0].State, "its agent has no room")
	offer(1, true)
	b.submit("t3", "other", "")
	a.speak()
	require.Equal(t, []string{"t1"}, inside(b))
	a.elapse(events.TellAfter)
	require.Equal(t, []string{"t3"}, inside(b))
	require.Empty(t, b.task("t2").StepPermits)
	sameEverywhere(t, b, a.candidate)
}
