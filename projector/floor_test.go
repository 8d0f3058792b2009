package projector

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sagalog/sagalog/events"
)

// added is what a commit adds to the queue of due tasks.
func added(due ...events.Instant) *fronts {
	s, f := &keySet{}, &fronts{}
	for i := range due {
		s.timed(0, rowDue, due[i], "a")
		f.add(s.queue(i), s.at(i))
	}
	return f
}

func TestFloorsSurviveARaceOfAScanAndACommit(t *testing.T) {
	t.Parallel()
	prefix := appendRow(nil, 0, rowDue)
	low, high := added(3, 1, 2).list[0].key, added(9).list[0].key

	t.Run("a scan that began before the commit raises nothing", func(t *testing.T) {
		t.Parallel()
		var f floors
		_, version := f.from(prefix)
		f.lower(added(1))
		f.raise(prefix, high, version)
		at, _ := f.from(prefix)
		require.Equal(t, prefix, at)
	})
	t.Run("what a scan raised during the commit is lowered after it", func(t *testing.T) {
		t.Parallel()
		var f floors
		f.lower(added(1)) // before the batch is applied
		_, version := f.from(prefix)
		f.raise(prefix, high, version)
		f.lower(added(1)) // after
		at, _ := f.from(prefix)
		require.Equal(t, low, at)
		f.raise(prefix, high, version)
		at, _ = f.from(prefix)
		require.Equal(t, low, at, "that scan is too late now")
	})
	t.Run("a quiet queue starts where it was left", func(t *testing.T) {
		t.Parallel()
		var f floors
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
