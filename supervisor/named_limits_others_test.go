package supervisor_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sagalog/sagalog/events"
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
