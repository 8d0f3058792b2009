package events_test

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sagalog/sagalog/events"
)

// Undos come first, then the higher priority, then the older task. No two attempts compare equal, so the queue has the same
// order everywhere.
func TestUndosThenPriorityThenAgeOrderTheQueue(t *testing.T) {
	t.Parallel()
	want := []events.Ready{
		{Task: "z", Operation: events.Undo, Priority: -5, Since: 9},
		{Task: "b", Operation: events.Do, Priority: 5, Since: 8},
		{Task: "b", Operation: events.Do, Priority: 1, Since: 2},
		{Task: "a", Operation: events.Do, Priority: 1, Since: 3, Path: "p"},
		{Task: "a", Operation: events.Do, Priority: 1, Since: 3, Path: "q"},
		{Task: "c", Operation: events.Do, Priority: 1, Since: 3, Path: "p"},
	}
	got := slices.Clone(want)
	slices.Reverse(got)
	slices.SortFunc(got, func(a, b events.Ready) int {
		if a.Before(b) {
			return -1
		}
		return 1
	})
	require.Equal(t, want, got)
	require.False(t, want[0].Before(want[0]))
}

// INV5: a plan with only starts is quiet.
func TestAPlanThatOnlyStartsIsQuiet(t *testing.T) {
	t.Parallel()
	require.True(t, (&events.Plan{Ready: []events.Ready{{}}}).Quiet())
	require.False(t, (&events.Plan{Broken: []events.Broken{{}}}).Quiet())
	require.False(t, (&events.Plan{Facts: []events.Body{&events.TaskProcessed{}}}).Quiet())
}
