package events_test

import (
	"testing"

	"github.com/sagalog/sagalog/events"
	"github.com/stretchr/testify/require"
)

// A loss that is accepted moves the resume point forward from where it is, and nothing else does.
func TestAnAcceptedLossBeginsAtTheResumePoint(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		from, to int64
		ok       bool
	}{
		"from the resume point": {5, 9, true}, "no record": {5, 5, true},
		"below it": {4, 9, false}, "above it": {6, 9, false}, "backwards": {5, 4, false},
	} {
		s := events.NewState(0, nil)
		apply := func(epoch events.Epoch, n uint64, b events.Body) error {
			_, err := s.Apply(&events.Fact{Epoch: epoch, Sequence: n, Body: b}, s.Next)
			return err
		}
		require.NoError(t, apply(events.Epoch{}, 0, &events.PartitionClaimed{ID: "a"}))
		a := events.Epoch{N: 1, ID: "a"}
		require.NoError(t, apply(a, 0, &events.InputsPassed{Inputs: map[events.Input]events.Passed{events.Reports: {Next: 5, Hash: "x"}, events.Submissions: {Next: 7, Hash: "y"}}}))
		err := apply(a, 1, &events.InputLossAccepted{Input: events.Reports, From: c.from, To: c.to})
		if !c.ok {
			require.ErrorIs(t, err, events.ErrImpossible, name)
			continue
		}
		require.NoError(t, err, name)
		require.Equal(t, map[events.Input]events.Passed{events.Reports: {Next: c.to}, events.Submissions: {Next: 7, Hash: "y"}}, s.Partition.Inputs, name)
	}
}
