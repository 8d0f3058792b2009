package projector

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sagalog/sagalog/events"
)

// added is a row that a commit adds to the queue of due tasks.
func added(due ...events.Instant) *fronts {
	s, f := &keySet{}, &fronts{}
	for i := range due {
		s.timed(0, rowDue, due[i], "a")
		f.add(s.queue(i), s.at(i))
	}
	return f
}

func TestLowerBoundsSurviveARaceOfAScanAndACommit(t *testing.T) {
	t.Parallel()
	prefix := appendRow(nil, 0, rowDue)
	low, high := added(3, 1, 2).list[0].key, added(9).list[0].key

	t.Run("a scan that began before the commit raises nothing", func(t *testing.T) {
		t.Parallel()
		var f lowerBounds
		_, version := f.from(prefix)
		f.lower(added(1))
		f.raise(prefix, high, version)
		at, _ := f.from(prefix)
		require.Equal(t, prefix, at)
	})
	t.Run("a bound that a scan raised during the commit is lowered afterwards", func(t *testing.T) {
		t.Parallel()
		var f lowerBounds
		f.lower(added(1)) // before the batch is applied
		_, version := f.from(prefix)
		f.raise(prefix, high, version)
		f.lower(added(1)) // after
		at, _ := f.from(prefix)
		require.Equal(t, low, at)
		f.raise(prefix, high, version)
		at, _ = f.from(prefix)
		require.Equal(t, low, at, "that scan is outdated now")
	})
	t.Run("a quiet queue starts where it was left", func(t *testing.T) {
		t.Parallel()
		var f lowerBounds
		_, version := f.from(prefix)
		f.raise(prefix, high, version)
		f.lower(&fronts{})
		at, _ := f.from(prefix)
		require.Equal(t, high, at)
		f.clear()
		at, _ = f.from(prefix)
		require.Equal(t, prefix, at)
	})
}
