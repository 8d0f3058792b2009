package projector_test

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/stretchr/testify/require"

	"github.com/sagalog/sagalog/events"
	"github.com/sagalog/sagalog/projector"
)

// ledger writes a log of facts as an owner would.
type ledger struct {
	t       *testing.T
	epoch   events.Epoch
	next    uint64
	records []events.Record
}

const partition = 3

func (l *ledger) add(task string, body events.Body) {
	l.t.Helper()
	f := &events.Fact{Epoch: l.epoch, Sequence: l.next, Time: events.Instant(1000 + len(l.records)), Task: task, Body: body}
	if _, ok := body.(*events.PartitionClaimed); ok {
		f.Epoch = events.Epoch{}
	} else {
		l.next++
	}
	r, err := events.EncodeFact(f, partition, "/test")
	require.NoError(l.t, err)
	r.Offset = int64(len(l.records))
	l.records = append(l.records, r)
}

func (l *ledger) claim(owner string) {
	id := fmt.Sprintf("claim%d", len(l.records))
	l.add("", &events.PartitionClaimed{ID: id, Prev: l.epoch.ID, Owner: owner, Reader: 1})
	l.epoch, l.next = events.Epoch{N: l.epoch.N + 1, ID: id}, 0
}

// someLog has tasks at every stage, a takeover, a void fact, a transaction's marker, held requests and a sweep.
func someLog(t *testing.T) []events.Record {
	t.Helper()
	l := &ledger{t: t}
	l.claim("n1")
	l.add("", &events.SettingsAdopted{Settings: events.DefaultSettings()})
	l.add("", &events.DefinitionAdopted{Workflow: "ship", Hash: "h", Version: 1, Body: []byte(`{"steps":{}}`)})
	for i := range 40 {
		id := fmt.Sprintf("task/%d", i)
		if i%10 == 0 {
			l.add(id, &events.RequestHeld{Request: events.Request{ID: "r", Task: id, Kind: "cancel"}, ExpiresAt: 9999})
		}
		l.add(id, &events.Submitted{Workflow: "ship", Version: 1, Hash: "h", Input: []byte(fmt.Sprintf(`{"i":%d,"x":"<ü>"}`, i)),
			Labels: map[string]string{"n": fmt.Sprint(i % 4)}, Content: "c"})
		if i%5 == 0 {
			continue
		}
		l.add(id, &events.StepStarted{Step: "pack", Agent: "package", Attempt: 1, CompleteBy: events.Instant(5000 + i)})
		if i%5 == 1 {
			continue
		}
		l.add(id, &events.StepCompleted{Step: "pack", Attempt: 1, Output: []byte(`{"ok":true}`)})
		if i%5 == 2 {
			continue
		}
		l.add(id, &events.TaskProcessed{Output: []byte(`1`)})
		switch i {
		case 13:
			stale := l.epoch
			l.claim("n2")
			live := l.epoch
			l.epoch, l.next = stale, l.next+1
			l.add(id, &events.TaskUndone{Reason: "void"})
			l.epoch, l.next = live, 0
		case 23:
			l.records = append(l.records, events.Record{Offset: int64(len(l.records)), Control: true})
		case 28:
			l.add("", &events.TasksSwept{Tasks: []string{"task/3", "task/4"}, EndedBefore: 99})
		}
	}
	return l.records
}

func reading(records []events.Record) func(func(events.Record) error) error {
	return func(yield func(events.Record) error) error {
		for _, r := range records {
			if err := yield(r); err != nil {
				return err
			}
		}
		return nil
	}
}

// committing commits to the store as an owner or a follower would.
func committing(s *projector.Store) func(*events.Delta, projector.Anchor) error {
	return func(d *events.Delta, a projector.Anchor) error {
		return s.Commit(projector.Batch{Deltas: []*events.Delta{d}, Anchors: map[int32]projector.Anchor{d.Partition: a}})
	}
}

func stored(t *testing.T, s *projector.Store) *events.State {
	t.Helper()
	snap, _, _, err := s.Partition(partition).Snapshot()
	require.NoError(t, err)
	state, err := events.OpenState(partition, snap, s.Partition(partition).Loader())
	require.NoError(t, err)
	return state
}

// sums returns the state hash after each record, computed by a fold in memory.
func sums(t *testing.T, records []events.Record) []events.Hash {
	t.Helper()
	list := []events.Hash{{}}
	require.NoError(t, projector.Fold(t.Context(), projector.Folding{
		State: events.NewState(partition, nil), Read: reading(records), Every: 1,
		Commit: func(d *events.Delta, _ projector.Anchor) error {
			list = append(list, d.Sum)
			return nil
		},
	}))
	require.Len(t, list, len(records)+1)
	return list
}

// INV2: the store reaches the same state however the log is divided into portions, and with restarts in between.
func TestFoldInPortionsReachesTheSameState(t *testing.T) {
	t.Parallel()
	records := someLog(t)
	want := sums(t, records)
	for _, every := range []int{1, 3, 7, 50, 0} {
		fs := vfs.NewMem()
		s := open(t, fs)
		for from := 0; from < len(records); {
			to := min(from+2*max(every, 20), len(records))
			state := stored(t, s)
			require.Equal(t, int64(from), state.Next)
			require.Equal(t, want[from], state.Sum())
			require.NoError(t, projector.Fold(t.Context(), projector.Folding{
				State: state, TopicID: topic, Read: reading(records[from:to]), Commit: committing(s), Every: every, Evict: true,
			}))
			state.Loaded(func(task *events.Task) bool {
				require.False(t, task.State.Ended(), "a task that has ended and was committed does not stay in memory")
				return true
			})
			require.Equal(t, want[to], state.Sum())
			require.NoError(t, s.CheckIndexes())
			require.NoError(t, s.Close())
			s = open(t, fs)
			from = to
		}
		_, anchor, _, err := s.Partition(partition).Snapshot()
		require.NoError(t, err)
		require.NoError(t, projector.Check(anchor, topic, func(offset int64) (events.Record, bool, error) {
			return records[offset], true, nil
		}))
		checkSomeLog(t, s, records)
		require.NoError(t, s.Close())
	}
}

func checkSomeLog(t *testing.T, s *projector.Store, records []events.Record) {
	t.Helper()
	v := s.Partition(partition)
	info, err := v.Info()
	require.NoError(t, err)
	require.Equal(t, "n2", info.Owner)
	require.Equal(t, uint64(2), info.Epoch.N)
	require.Equal(t, int64(24), info.Live)
	require.Equal(t, map[events.TaskState]int64{events.TaskStatePending: 8, events.TaskStateProcessing: 16, events.TaskStateProcessed: 14}, s.States())
	require.Equal(t, int64(8), info.Due)
	unplanned, err := v.Unplanned(100)
	require.NoError(t, err)
	require.Len(t, unplanned, 24, "no owner has planned them yet")
	due, ok, err := v.NextDue()
	require.NoError(t, err)
	require.True(t, ok)
	require.Equal(t, events.Instant(5001), due)
	_, ok, err = s.Get(partition, "task/3")
	require.NoError(t, err)
	require.False(t, ok, "it was swept")
	for id, want := range map[string]int{"task/3": 0, "task/4": 0, "task/8": 4, "task/10": 2, "task/11": 2, "task/13": 4} {
		offsets, err := s.HistoryOffsets(partition, id, -1, 100)
		require.NoError(t, err)
		require.Len(t, offsets, want, id)
		for _, o := range offsets {
			require.Equal(t, id, string(records[o].Key))
		}
	}
	tasks, _, err := s.List(projector.Filter{Labels: map[string]string{"n": "1"}, States: []events.TaskState{events.TaskStatePending}})
	require.NoError(t, err)
	require.Equal(t, []string{"task/25", "task/5"}, ids(tasks))
}

// The owner's flush stores what each task waits for. After a takeover the new owner plans the other tasks.
func TestAnOwnersFlushMovesTasksFromUnplannedToTheQueue(t *testing.T) {
	t.Parallel()
	s := setup(t)
	state := events.NewState(partition, s.Partition(partition).Loader())
	require.NoError(t, projector.Fold(t.Context(), projector.Folding{
		State: state, TopicID: topic, Read: reading(someLog(t)), Commit: committing(s),
	}))
	state = stored(t, s)
	for {
		page, err := s.Partition(partition).Unplanned(5)
		require.NoError(t, err)
		for _, id := range page {
			_, err := state.Task(id)
			require.NoError(t, err)
			state.Touch(id)
		}
		if len(page) == 0 {
			break
		}
		d, err := state.Flush(func(task *events.Task) events.Planned {
			return events.Planned{
				Due: task.Due(), Wake: task.Due() + 1, Ready: []events.ReadyKey{{Agent: "package", Path: "next", Operation: events.Do, Since: task.SubmittedAt}},
				Waits: []events.WaitCount{{Kind: events.WaitingSleep, N: 2}},
			}
		})
		require.NoError(t, err)
		require.NoError(t, s.Commit(projector.Batch{Deltas: []*events.Delta{d}}))
	}
	require.NoError(t, s.CheckIndexes())
	require.Equal(t, map[string]int64{"package": 24}, s.Partition(partition).Queues())
	require.Equal(t, []projector.QueueLength{{Call: events.Call{Agent: "package", Operation: events.Do}, Steps: 24}}, s.Partition(partition).QueueLengths())
	require.Equal(t, map[events.Waiting]int64{events.WaitingSleep: 48}, s.Partition(partition).Waits())
	rows, err := s.Partition(partition).Ready(events.Line{Queue: "package", Operation: events.Do}, 100)
	require.NoError(t, err)
	require.Len(t, rows, 24)
	_, anchor, _, err := s.Partition(partition).Snapshot()
	require.NoError(t, err)
	require.NotZero(t, anchor, "a commit without an anchor keeps the previous anchor")
}

func TestFoldStops(t *testing.T) {
	t.Parallel()
	records := someLog(t)
	broken := errors.New("broken")
	fold := func(ctx context.Context, f projector.Folding) error {
		f.State = events.NewState(partition, nil)
		return projector.Fold(ctx, f)
	}
	cancelled, cancel := context.WithCancel(t.Context())
	cancel()
	require.ErrorIs(t, fold(cancelled, projector.Folding{Read: reading(records)}), context.Canceled)
	require.ErrorIs(t, fold(t.Context(), projector.Folding{Read: func(func(events.Record) error) error { return broken }}), broken)
	commits := 0
	failing := func(*events.Delta, projector.Anchor) error { commits++; return broken }
	require.ErrorIs(t, fold(t.Context(), projector.Folding{Read: reading(records), Commit: failing, Every: 5}), broken)
	require.Equal(t, 1, commits)
	foreign := append(records[:1:1], events.Record{Offset: 1, Value: []byte("?")})
	require.ErrorIs(t, fold(t.Context(), projector.Folding{Read: reading(foreign)}), events.ErrUnknownFact)
	twice := append(records[:2:2], records[1])
	require.ErrorIs(t, fold(t.Context(), projector.Folding{Read: reading(twice)}), events.ErrImpossible)
	require.NoError(t, fold(t.Context(), projector.Folding{Read: reading(nil), Commit: failing}), "nothing read, nothing committed")
	require.Equal(t, 1, commits)
}

func TestResetMakesRoomForARebuild(t *testing.T) {
	t.Parallel()
	s := setup(t)
	records := someLog(t)
	want := sums(t, records)
	commit(t, s, &events.Delta{Partition: 1, Next: 9, Tasks: []events.TaskRow{row(t, pending("other", 1), events.Keys{Due: 1}, nil)}})
	for range 2 {
		require.NoError(t, projector.Fold(t.Context(), projector.Folding{
			State: stored(t, s), TopicID: topic, Read: reading(records), Commit: committing(s), Every: 9, Evict: true,
		}))
		v := s.Partition(partition)
		info, err := v.Info()
		require.NoError(t, err)
		require.Equal(t, want[len(records)], info.StateHash)
		changed, stop := v.Watch("any", nil)
		require.NoError(t, s.Reset(partition))
		<-changed
		stop()
		require.NoError(t, s.CheckIndexes())
		require.Equal(t, []int32{1}, s.Partitions())
		tasks, _, err := s.List(projector.Filter{})
		require.NoError(t, err)
		require.Equal(t, []string{"other"}, ids(tasks))
	}
}

// A log with more live tasks than fit in memory is folded within the memory bound, and reaches the same state.
func TestFoldKeepsFewTasksInMemory(t *testing.T) {
	if testing.Short() {
		t.Skip("large, and the race detector has nothing to find: step test runs it")
	}
	t.Parallel()
	s := setup(t)
	l := &ledger{t: t}
	l.claim("n1")
	const tasks = 2*projector.FoldTasks + 100
	for i := range tasks {
		l.add(fmt.Sprintf("task/%d", i), &events.Submitted{Workflow: "ship", Version: 1, Hash: "h", Content: "c"})
	}
	for i := range 100 {
		l.add(fmt.Sprintf("task/%d", i), &events.StepStarted{Step: "pack", Agent: "package", Attempt: 1, CompleteBy: 5000})
	}
	state := events.NewState(partition, s.Partition(partition).Loader())
	most := 0
	f := projector.NewFolder(projector.Folding{State: state, TopicID: topic, Evict: true, Commit: committing(s)})
	for i := range l.records {
		require.NoError(t, f.Take(&l.records[i]))
		most = max(most, state.InMemory())
		if f.Pending() == projector.FoldTasks/2 {
			require.NoError(t, f.Flush())
			require.LessOrEqual(t, state.InMemory(), projector.FoldTasks)
		}
	}
	require.NoError(t, f.Flush())
	require.Zero(t, f.Pending())
	require.LessOrEqual(t, most, 2*projector.FoldTasks)
	whole := events.NewState(partition, nil)
	require.NoError(t, projector.Fold(t.Context(), projector.Folding{State: whole, Read: reading(l.records)}))
	require.Equal(t, whole.Sum(), state.Sum())
	require.Equal(t, map[events.TaskState]int64{events.TaskStatePending: tasks - 100, events.TaskStateProcessing: 100}, s.States())
}
