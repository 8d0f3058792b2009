package events_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sagalog/sagalog/events"
)

func at(n uint64, id string, sequence uint64) events.Position {
	return events.Position{Epoch: events.Epoch{N: n, ID: id}, Sequence: sequence}
}

// passedWith writes a fact with that watermark.
func (w *scribe) passedWith(p events.Position) {
	w.t.Helper()
	w.write("", &events.InputsPassed{}, func(f *events.Fact) { f.Watermark = p })
}

// A later owner uses runs of contiguous offsets to find the facts whose effects are not acknowledged. A claim or a void record
// ends a run.
func TestAClaimAndAVoidRecordEndARunOfFacts(t *testing.T) {
	t.Parallel()
	w := owned(t) // offset 0
	for range 3 {
		w.passedWith(events.Position{}) // 1-a0/0 to 2 at 1 to 3
	}
	w.put(w.log[1].fact, events.FateVoid) // a duplicate, at 4
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

	w.passedWith(at(1, "a0", 1)) // of the previous epoch; at 8
	require.Equal(t, at(1, "a0", 1), w.state.Partition.Watermark)
	require.Equal(t, []events.Run{
		{Epoch: one, Sequence: 1, Offset: 2, Count: 2}, {Epoch: one, Sequence: 3, Offset: 5, Count: 1}, {Epoch: two, Sequence: 0, Offset: 7, Count: 2},
	}, w.state.Runs(), "the fact at the watermark is kept, because reading resumes there")
	w.passedWith(at(1, "a0", 3)) // the last of its epoch
	require.Len(t, w.state.Runs(), 2)
	w.passedWith(at(2, "b1", 1))
	require.Equal(t, []events.Run{{Epoch: two, Sequence: 1, Offset: 8, Count: 3}}, w.state.Runs())
	w.passedWith(at(1, "a0", 0)) // the watermark never falls
	require.Equal(t, at(2, "b1", 1), w.state.Partition.Watermark)
}

// A watermark that covers the effects of the fact that carries it, or of later ones, would lose them.
func TestAWatermarkIsBeforeItsFact(t *testing.T) {
	t.Parallel()
	for name, p := range map[string]events.Position{
		"the fact itself":                   at(2, "b1", 1),
		"a fact in flight":                  at(2, "b1", 2),
		"a later epoch":                     at(3, "c", 0),
		"another epoch of the same ordinal": at(2, "x", 0),
	} {
		w := owned(t)
		w.claim("b1", "a0")
		w.passedWith(events.Position{})
		_, err := w.state.Apply(w.fact("", &events.InputsPassed{}, func(f *events.Fact) { f.Watermark = p }), w.state.Next)
		require.ErrorIs(t, err, events.ErrImpossible, name)
	}
}

func TestTheWatermarkOfAVoidRecordIsVoid(t *testing.T) {
	t.Parallel()
	w := owned(t)
	w.passedWith(events.Position{})
	w.passedWith(events.Position{})
	f := w.fact("", &events.InputsPassed{})
	f.Sequence, f.Watermark = 0, at(1, "a0", 1)
	w.put(f, events.FateVoid)
	require.True(t, w.state.Partition.Watermark.IsZero())
}
