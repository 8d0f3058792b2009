package node

import (
	"fmt"
	"runtime"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sagalog/sagalog/events"
	"github.com/sagalog/sagalog/internal/api"
	"github.com/stretchr/testify/require"
)

func TestStatsCountTasksAndAttempts(t *testing.T) {
	t.Parallel()
	begun := time.Now().Truncate(time.Minute)
	at := func(d time.Duration) events.Instant { return events.At(begun.Add(d)) }
	s := newStats(nil, begun)
	task := &events.Task{ID: "t", Workflow: "order", SubmittedAt: at(0)}
	fact := func(d time.Duration, b events.Body) { s.count(task, &events.Fact{Time: at(d), Body: b}) }
	fact(0, &events.Submitted{})
	task.Steps = []*events.Step{{Path: "ship[0]", Attempt: 1, StartedAt: at(time.Second)}}
	fact(time.Second, &events.StepStarted{Step: "ship[0]", Attempt: 1})
	fact(3*time.Second, &events.StepFailed{Step: "ship[0]", Attempt: 1})
	fact(3*time.Second, &events.StepFailed{Step: "ship[0]"}) // no attempt had started
	fact(4*time.Second, &events.TaskParked{})
	fact(70*time.Second, &events.TaskUndone{})
	q := api.StatsQuery{Since: begun, Until: begun.Add(2 * time.Minute), Every: time.Minute}
	rows, since := s.Stats(q)
	require.Len(t, rows, 2)
	require.Equal(t, events.At(begun), since)
	counts := map[events.Instant][]int64{}
	for _, r := range rows {
		counts[r.At] = []int64{r.Started, r.Parked, r.Undone}
	}
	require.Equal(t, map[events.Instant][]int64{at(0): {1, 1, 0}, at(time.Minute): {0, 0, 1}}, counts)
	q.Step = "*"
	rows, _ = s.Stats(q)
	require.Len(t, rows, 1)
	require.Equal(t, "ship", rows[0].Step)
	require.Equal(t, []int64{1, 1}, []int64{rows[0].Started, rows[0].Failed})
}

func TestStatsForgetWhatIsOldAndBoundNames(t *testing.T) {
	t.Parallel()
	begun := time.Now().Add(-statMinutes * time.Minute).Truncate(time.Minute)
	s := newStats(nil, begun)
	for i := range 2 * statPairs {
		s.count(&events.Task{Workflow: fmt.Sprint("w", i)}, &events.Fact{Time: events.At(begun), Body: &events.TaskParked{}})
	}
	q := api.StatsQuery{Since: begun, Until: begun.Add(24 * time.Hour), Every: time.Minute}
	rows, _ := s.Stats(q)
	require.Len(t, rows, statPairs+1)
	s.count(&events.Task{Workflow: "w0"}, &events.Fact{Time: events.At(begun.Add(statMinutes * time.Minute)), Body: &events.TaskParked{}})
	s.count(&events.Task{Workflow: "w0"}, &events.Fact{Time: events.At(begun), Body: &events.TaskParked{}})
	q.Workflow = "w0"
	rows, since := s.Stats(q)
	require.Len(t, rows, 1, "a minute takes the place of the one six hours before")
	require.Equal(t, int64(1), rows[0].Parked)
	require.Greater(t, since, events.At(begun)-1)
}

// An owner that waits while somebody reads all pairs goes on between two of them. A fact of a node whose clock is before 1970 is counted, too.
func TestReadingStatsDoesNotHoldUpOwners(t *testing.T) {
	t.Parallel()
	begun := time.Now().Add(-statMinutes * time.Minute).Truncate(time.Minute)
	s := newStats(nil, begun)
	s.count(&events.Task{Workflow: "old"}, &events.Fact{Time: -1e6, Body: &events.TaskParked{}})
	for i := range statPairs {
		for m := range statMinutes {
			at := events.At(begun.Add(time.Duration(m) * time.Minute))
			s.count(&events.Task{Workflow: fmt.Sprint("w", i), SubmittedAt: at}, &events.Fact{Time: at, Body: &events.TaskProcessed{}})
		}
	}
	var step atomic.Int64 // odd while somebody reads
	stop, over := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(over)
		for {
			select {
			case <-stop:
				return
			default:
			}
			step.Add(1)
			s.Stats(api.StatsQuery{Since: begun, Until: begun.Add(24 * time.Hour), Every: time.Minute})
			step.Add(1)
		}
	}()
	between := false
	for step.Load() < 100 && !between {
		before := step.Load()
		if s.mu.TryLock() {
			s.mu.Unlock()
			runtime.Gosched()
			continue
		}
		s.mu.Lock()
		between = before%2 == 1 && step.Load() == before
		s.mu.Unlock()
	}
	close(stop)
	<-over
	require.True(t, between, "nobody could count while somebody read")
}
