package projector_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sagalog/sagalog/events"
	"github.com/sagalog/sagalog/projector"
)

func received(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

// A watch receives when its own task is committed, once for several commits, and when the partition is emptied. After it was stopped it does not.
func TestAWatchReceivesTheCommitsOfItsTask(t *testing.T) {
	t.Parallel()
	s, err := projector.Open(t.TempDir(), projector.Options{Namespace: "ns"})
	require.NoError(t, err)
	defer s.Close()
	p := s.Partition(0)
	mine, stop := p.Watch("mine", nil)
	also, stopAlso := p.Watch("mine", nil)
	other, stopOther := p.Watch("other", nil)
	defer stopOther()
	next := int64(0)
	write := func(id string) {
		next++
		commit(t, s, &events.Delta{Next: next, Tasks: []events.TaskRow{row(t, pending(id, events.Instant(next)), events.Keys{Due: 1}, nil)}})
	}
	write("other")
	require.True(t, received(other))
	require.False(t, received(mine))
	write("mine")
	require.True(t, received(mine))
	require.True(t, received(also))
	require.False(t, received(mine))
	require.False(t, received(other))
	require.NoError(t, s.Reset(0))
	require.True(t, received(mine))
	require.True(t, received(other))

	ended, stopEnded := p.Watch("mine", events.TaskState.Ended)
	defer stopEnded()
	next = 0
	write("mine")
	require.True(t, received(mine))
	require.False(t, received(ended))
	done := pending("mine", 1)
	done.State, done.EndedAt = events.TaskStateProcessed, 2
	next++
	commit(t, s, &events.Delta{Next: next, Tasks: []events.TaskRow{row(t, done, events.Keys{}, &events.Keys{State: events.TaskStatePending, Workflow: "ship", SubmittedAt: 1, Due: 1})}})
	require.True(t, received(mine))
	require.True(t, received(ended))
	require.NoError(t, s.Reset(0))
	require.True(t, received(ended))
	require.True(t, received(mine))
	require.True(t, received(also))
	require.True(t, received(other))

	stop()
	stop()
	next = 0
	write("mine")
	require.False(t, received(mine))
	require.True(t, received(also))
	stopAlso()
	write("other")
	require.False(t, received(also))
	require.True(t, received(other))
	require.False(t, received(ended))

	daily, end := p.Watch(events.ScheduleKey("daily"), events.TaskState.Ended)
	defer end()
	encoded, err := events.Marshal(events.Schedule{Name: "daily"})
	require.NoError(t, err)
	next++
	commit(t, s, &events.Delta{Next: next, Parts: []events.PartRow{{Kind: events.KindSchedule, ID: "daily", Encoding: encoded}}})
	require.True(t, received(daily))
}

// A fact may belong to a task without changing it, such as the rejection of other content under its ID. A follower of its history needs it; whoever
// waits for its end does not.
func TestAWatchReceivesFactsThatDoNotChangeTheTask(t *testing.T) {
	t.Parallel()
	s, err := projector.Open(t.TempDir(), projector.Options{Namespace: "ns"})
	require.NoError(t, err)
	defer s.Close()
	all, stopAll := s.Partition(0).Watch("mine", nil)
	defer stopAll()
	chosen, stopChosen := s.Partition(0).Watch("mine", func(events.TaskState) bool { return true })
	defer stopChosen()
	commit(t, s, &events.Delta{Next: 1, History: []events.History{{Task: "mine", Offset: 0}}})
	require.True(t, received(all))
	require.False(t, received(chosen))
}
