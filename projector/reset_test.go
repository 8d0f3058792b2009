package projector

import (
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/stretchr/testify/require"

	"github.com/sagalog/sagalog/events"
)

func TestOpenFinishesAReset(t *testing.T) {
	t.Parallel()
	fs := vfs.NewMem()
	o := Options{Namespace: "n", FS: fs}
	s, err := Open("state", o)
	require.NoError(t, err)
	for partition := range int32(2) {
		d := &events.Delta{Partition: partition, Next: 1}
		for _, id := range []string{"a", "b"} {
			d.Tasks = append(d.Tasks, events.TaskRow{
				ID: id, Encoding: []byte(`{"id":"` + id + `","state":"pending"}`), Keys: events.Keys{State: events.TaskStatePending, Due: 4},
			})
		}
		require.NoError(t, s.Commit(Batch{Deltas: []*events.Delta{d}}))
	}
	require.NoError(t, s.CheckIndexes())
	require.NoError(t, s.beginReset(1))
	require.ErrorIs(t, s.CheckIndexes(), ErrIndexes, "the lists still hold the partition's tasks")
	tasks, _, err := s.List(Filter{})
	require.NoError(t, err)
	require.Len(t, tasks, 2, "a list skips rows whose task is gone")
	require.NoError(t, s.Close())

	s, err = Open("state", o)
	require.NoError(t, err)
	require.NoError(t, s.CheckIndexes())
	require.Equal(t, []int32{0}, s.Partitions())
	marker, err := s.get(resetKey(1))
	require.NoError(t, err)
	require.Nil(t, marker)
	require.NoError(t, s.Close())
}
