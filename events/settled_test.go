package events_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sagalog/sagalog/events"
)

func at(n uint64, id string, sequence uint64) events.Position {
	return events.Position{Epoch: events.Epoch{N: n, ID: id}, Sequence: sequence}
}

// passedWith writes a fact with that settled header.
func (w *scribe) passedWith(p events.Position) {
	w.t.Helper()
	w.write("", &events.InputsPassed{}, func(f *events.Fact) { f.Settled = p })
}

// A later owner finds the facts whose effects are not settled by runs of contiguous offsets; a claim, and a void
// record, end a run.
func TestRunsOfUnsettledFacts(t *testing.T) {
	t.Parallel()
	w := owned(t) // offset 0
	for range 3 {
		w.passedWith(events.Position{}) // 1-a0/0 to 2 at 1 to 3
	}
	w.put(w.log[1].fact, events.FateVoid) // a double, at 4
	w.passedWith(events.Position{})       // 1-a0/3 at 5
	w.claim("b1", "a0")                   // 6
	w.passedWith(events.Position{})       // 2-b1/0 at 7
	one, two := events.Epoch{N: 1, ID: "a0"}, events.Epoch{N: 2, ID: "b1"}
	require.Equal(t, []events.Run{
		{Epoch: one, Sequence: 0, Offset: 1, Count: 3}, {Epoch: one, Sequence: 3, Offset: 5, Count: 1}, {Epoch: two, Sequence: 0, Offset: 7, Count: 1},
	}, w.state.Runs())
	for offset, accepted := range []bool{false, true, true, true, false, true, false, true, false} {
		require.Equal(t, accepted, w.state.Accepted(int64(offset)), "offset %d", offset)
	}
	require.EqualValues(t, 2, w.state.Offset(at(1, "a0", 1)))
	require.EqualValues(t, 5, w.state.Offset(at(1, "a0", 3)))
	require.EqualValues(t, 7, w.state.Offset(at(2, "b1", 0)))
	require.EqualValues(t, -1, w.state.Offset(at(1, "a0", 4)))
	require.EqualValues(t, -1, w.state.Offset(at(2, "a0", 0)))

	w.passedWith(at(1, "a0", 1)) // of the epoch before; at 8
	require.Equal(t, at(1, "a0", 1), w.state.Partition.Settled)
	require.Equal(t, []events.Run{
		{Epoch: one, Sequence: 1, Offset: 2, Count: 2}, {Epoch: one, Sequence: 3, Offset: 5, Count: 1}, {Epoch: two, Sequence: 0, Offset: 7, Count: 2},
	}, w.state.Runs(), "the settled fact itself stays: it is where to read on from")
	w.passedWith(at(1, "a0", 3)) // the last of its epoch
	require.EqualValues(t, 5, w.state.Offset(w.state.Partition.Settled))
	require.Len(t, w.state.Runs(), 2)
	w.passedWith(at(2, "b1", 1))
	require.Equal(t, []events.Run{{Epoch: two, Sequence: 1, Offset: 8, Count: 3}}, w.state.Runs())
	w.passedWith(at(1, "a0", 0)) // it never falls
	require.Equal(t, at(2, "b1", 1), w.state.Partition.Settled)
}

// Cm1: a fact that says its own effects, or later ones, are settled would lose them.
func TestSettledIsBehindTheFact(t *testing.T) {
	t.Parallel()
	for name, p := range map[string]events.Position{
		"the fact itself":           at(2, "b1", 1),
		"a fact in flight":          at(2, "b1", 2),
		"an epoch to come":          at(3, "c", 0),
		"another epoch of its rank": at(2, "x", 0),
	} {
		w := owned(t)
		w.claim("b1", "a0")
		w.passedWith(events.Position{})
		_, err := w.state.Apply(w.fact("", &events.InputsPassed{}, func(f *events.Fact) { f.Settled = p }), w.state.Next)
		require.ErrorIs(t, err, events.ErrImpossible, name)
	}
}

// The settled header of a void record is void with it (DESIGN 4).
func TestSettledIsVoidWithItsFact(t *testing.T) {
	t.Parallel()
	w := owned(t)
	w.passedWith(events.Position{})
	w.passedWith(events.Position{})
	f := w.fact("", &events.InputsPassed{})
	f.Sequence, f.Settled = 0, at(1, "a0", 1)
	w.put(f, events.FateVoid)
	require.True(t, w.state.Partition.Settled.IsZero())
}
