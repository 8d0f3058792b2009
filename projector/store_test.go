package projector_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"

	"github.com/sagalog/sagalog/events"
	"github.com/sagalog/sagalog/projector"
)

func TestOpenOnDiskKeepsCommits(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "data", "state")
	o := projector.Options{Namespace: namespace}
	s, err := projector.Open(dir, o)
	require.NoError(t, err)
	stat, err := os.Stat(dir)
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o700), stat.Mode().Perm())
	commit(t, s, &events.Delta{Partition: 5, Next: 3, Tasks: []events.TaskRow{row(t, pending("a", 1), events.Keys{Due: 4}, nil)}})
	require.NoError(t, s.Close())
	require.NoError(t, s.Close(), "a second Close does nothing")

	s, err = projector.Open(dir, o)
	require.NoError(t, err)
	defer func() { require.NoError(t, s.Close()) }()
	require.Equal(t, []int32{5}, s.Partitions())
	snap, anchor, exists, err := s.Partition(5).Snapshot()
	require.NoError(t, err)
	require.True(t, exists)
	require.Equal(t, int64(3), snap.Next)
	require.Equal(t, int64(2), anchor.Offset)
	require.NoError(t, s.CheckIndexes())
}

func TestOpenRefuses(t *testing.T) {
	t.Parallel()
	t.Run("no namespace", func(t *testing.T) {
		t.Parallel()
		_, err := projector.Open(directory, projector.Options{FS: vfs.NewMem()})
		require.ErrorContains(t, err, "Namespace is required")
	})
	t.Run("another namespace", func(t *testing.T) {
		t.Parallel()
		fs := vfs.NewMem()
		require.NoError(t, open(t, fs).Close())
		_, err := projector.Open(directory, projector.Options{Namespace: "other", FS: fs})
		require.ErrorIs(t, err, projector.ErrNamespace)
		require.ErrorContains(t, err, namespace)
		require.NoError(t, open(t, fs).Close(), "the refusal leaves the lock free")
	})
	t.Run("another format", func(t *testing.T) {
		t.Parallel()
		for format, kind := range map[string]error{"0": projector.ErrFormat, "1": projector.ErrFormat, "3": projector.ErrFormat, "5": projector.ErrFormat, "6": projector.ErrFormat, "7": projector.ErrFormat, "8": projector.ErrFormat, "": projector.ErrFormat, "10": projector.ErrNewer} {
			fs := vfs.NewMem()
			db, err := pebble.Open(directory, &pebble.Options{FS: fs, Logger: quiet{}})
			require.NoError(t, err)
			key := "sf"
			if format == "" {
				key = "somebody else's"
			}
			require.NoError(t, db.Set([]byte(key), []byte(format), pebble.Sync))
			require.NoError(t, db.Close())
			_, err = projector.Open(directory, projector.Options{Namespace: namespace, FS: fs})
			require.ErrorIs(t, err, kind)
			if kind == projector.ErrFormat {
				require.ErrorContains(t, err, "delete that directory")
				continue
			}
			require.NotErrorIs(t, err, projector.ErrFormat, "a node deletes a state with ErrFormat, and must not delete that of a newer version")
			require.ErrorContains(t, err, "run the newer version")
		}
	})
	t.Run("a second process", func(t *testing.T) {
		t.Parallel()
		dir := t.TempDir()
		s, err := projector.Open(dir, projector.Options{Namespace: namespace})
		require.NoError(t, err)
		_, err = projector.Open(dir, projector.Options{Namespace: namespace})
		require.ErrorIs(t, err, projector.ErrLocked)
		require.NoError(t, s.Close())
	})
	t.Run("a directory that cannot be created", func(t *testing.T) {
		t.Parallel()
		file := filepath.Join(t.TempDir(), "file")
		require.NoError(t, os.WriteFile(file, nil, 0o600))
		_, err := projector.Open(filepath.Join(file, "state"), projector.Options{Namespace: namespace})
		require.ErrorContains(t, err, "create the state store")
	})
	t.Run("a missing file", func(t *testing.T) {
		t.Parallel()
		dir := t.TempDir()
		s, err := projector.Open(dir, projector.Options{Namespace: namespace})
		require.NoError(t, err)
		require.NoError(t, s.Close())
		files, err := filepath.Glob(filepath.Join(dir, "MANIFEST-*"))
		require.NoError(t, err)
		for _, f := range files {
			require.NoError(t, os.Remove(f))
		}
		_, err = projector.Open(dir, projector.Options{Namespace: namespace})
		require.ErrorIs(t, err, projector.ErrDamaged)
		require.ErrorContains(t, err, "rebuilt from the log")
	})
}

type quiet struct{}

func (quiet) Infof(string, ...any)         {}
func (quiet) Errorf(string, ...any)        {}
func (quiet) Fatalf(f string, args ...any) { panic(fmt.Sprintf(f, args...)) }

func TestCommitRefusesDeltasThatDoNotFollow(t *testing.T) {
	t.Parallel()
	s := setup(t)
	a := row(t, pending("a", 1), events.Keys{}, nil)
	commit(t, s, &events.Delta{Next: 5, Tasks: []events.TaskRow{a}})
	for name, b := range map[string]projector.Batch{
		"an offset that moves back":      {Deltas: []*events.Delta{{Next: 4}}},
		"a negative partition":           {Deltas: []*events.Delta{{Partition: -1, Next: 9}}},
		"forgetting without former keys": {Deltas: []*events.Delta{{Next: 6, Tasks: []events.TaskRow{{ID: "a"}}}}},
		"an anchor without a delta":      {Deltas: []*events.Delta{{Next: 6}}, Anchors: map[int32]projector.Anchor{1: {}}},
		"an anchor that is not folded":   {Deltas: []*events.Delta{{Next: 6}}, Anchors: map[int32]projector.Anchor{0: {Offset: 6}}},
		"one good and one bad delta":     {Deltas: []*events.Delta{{Partition: 1, Next: 6}, {Next: 1}}},
	} {
		require.ErrorIs(t, s.Commit(b), projector.ErrDelta, name)
	}
	require.NoError(t, s.Commit(projector.Batch{}), "an empty batch is allowed")
	require.NoError(t, s.CheckIndexes())
	require.Equal(t, []int32{0}, s.Partitions())
	info, err := s.PartitionInfo(0)
	require.NoError(t, err)
	require.Equal(t, int64(5), info.Next)
	// A task that was accepted and swept between two flushes leaves nothing in the store.
	commit(t, s, &events.Delta{Next: 7, Tasks: []events.TaskRow{{ID: "b"}}, History: []events.History{{Task: "b", Offset: 6}}})
	offsets, err := s.HistoryOffsets(0, "b", -1, 10)
	require.NoError(t, err)
	require.Empty(t, offsets)
}

func TestCheckIndexesFindsFaults(t *testing.T) {
	t.Parallel()
	task := pending("a", 1)
	task.Labels = map[string]string{"k": "v"}
	keys := events.Keys{Due: 4, Ready: []events.ReadyKey{{Agent: "x", Path: "p", Operation: events.Do}}}
	good := row(t, task, keys, nil)
	for name, change := range map[string]func(s *projector.Store){
		"an extra row": func(s *projector.Store) {
			moved := good
			moved.Keys.Due, moved.Was = 5, &events.Keys{} // the old rows stay
			commit(t, s, &events.Delta{Next: 2, Tasks: []events.TaskRow{moved}})
		},
		"a missing row": func(s *projector.Store) {
			moved := good
			moved.Was = &events.Keys{Labels: map[string]string{"k": "v"}, Due: 4, SubmittedAt: 1}
			moved.Keys.Due = 0
			commit(t, s, &events.Delta{Next: 2, Tasks: []events.TaskRow{moved}})
			moved.Keys.Due, moved.Was = 9, &events.Keys{Due: 9}
			commit(t, s, &events.Delta{Next: 3, Tasks: []events.TaskRow{moved}})
		},
		"keys of another state": func(s *projector.Store) {
			other := good
			other.Was, other.Keys.State = &good.Keys, events.TaskStateError
			commit(t, s, &events.Delta{Next: 2, Tasks: []events.TaskRow{other}})
		},
		"history beyond the offset": func(s *projector.Store) {
			commit(t, s, &events.Delta{Next: 2, History: []events.History{{Task: "a", Offset: 2}}})
		},
		"a broken encoding": func(s *projector.Store) {
			other := good
			other.Was, other.Encoding = &good.Keys, []byte("{")
			commit(t, s, &events.Delta{Next: 2, Tasks: []events.TaskRow{other}})
		},
	} {
		s := setup(t)
		commit(t, s, &events.Delta{Next: 1, Tasks: []events.TaskRow{good}})
		require.NoError(t, s.CheckIndexes())
		change(s)
		err := s.CheckIndexes()
		require.ErrorIs(t, err, projector.ErrIndexes, name)
		t.Log(name, err)
	}
}

func TestWaitReturnsWithTheCommitItWaitsFor(t *testing.T) {
	t.Parallel()
	s := setup(t)
	info, err := s.Wait(t.Context(), 3, func(i projector.Info) bool { return !i.Exists })
	require.NoError(t, err, "a condition that already holds returns at once")
	require.Equal(t, int32(3), info.Partition)

	looked := make(chan int64)
	var wg sync.WaitGroup
	wg.Go(func() {
		info, err := s.Wait(t.Context(), 3, func(i projector.Info) bool {
			looked <- i.Next
			return i.Inputs[events.Submissions].Next > 7
		})
		require.NoError(t, err)
		require.Equal(t, "n1", info.Owner)
		require.Equal(t, int64(8), info.Inputs[events.Submissions].Next)
	})
	require.Equal(t, int64(0), <-looked)
	commit(t, s, &events.Delta{Partition: 3, Next: 1})
	require.Equal(t, int64(1), <-looked)
	entity := events.PartitionState{Owner: "n1", Inputs: map[events.Input]events.Passed{events.Submissions: {Next: 8}}}
	commit(t, s, &events.Delta{Partition: 3, Next: 2, Parts: []events.PartRow{partitionRow(t, entity)}})
	require.Equal(t, int64(2), <-looked)
	wg.Wait()
	commit(t, s, &events.Delta{Partition: 3, Next: 3})
	info, err = s.PartitionInfo(3)
	require.NoError(t, err)
	require.Equal(t, "n1", info.Owner, "a commit without an owner keeps the previous one")
}

func TestWaitEnds(t *testing.T) {
	t.Parallel()
	s := open(t, vfs.NewMem())
	ctx, cancel := context.WithCancel(t.Context())
	never := func(looked chan<- bool) func(projector.Info) bool {
		return func(projector.Info) bool { looked <- true; return false }
	}
	var wg sync.WaitGroup
	looked := make(chan bool)
	wg.Go(func() {
		_, err := s.Wait(ctx, 0, never(looked))
		require.ErrorIs(t, err, context.Canceled)
	})
	<-looked
	cancel()
	wg.Wait()
	wg.Go(func() {
		_, err := s.Wait(t.Context(), 0, never(looked))
		require.ErrorIs(t, err, projector.ErrClosed)
	})
	<-looked
	require.NoError(t, s.Close())
	wg.Wait()
}

func TestMetricsOfAStore(t *testing.T) {
	t.Parallel()
	r := prometheus.NewPedanticRegistry()
	o := projector.Options{Namespace: namespace, FS: vfs.NewMem(), Registerer: r}
	s, err := projector.Open(directory, o)
	require.NoError(t, err)
	keys := events.Keys{Due: 4, Ready: []events.ReadyKey{{Agent: "x", Path: "p", Operation: events.Do}}}
	commit(t, s, &events.Delta{Partition: 2, Next: 4, Tasks: []events.TaskRow{row(t, pending("a", 1), keys, nil)}})
	got := gather(t, r)
	for name, want := range map[string]float64{
		"sagalog_projector_commits_total": 1, "sagalog_projector_committed_tasks_total": 1,
		"sagalog_projector_live_tasks": 1, "sagalog_projector_due_tasks": 1, "sagalog_projector_next_offset": 4,
	} {
		require.InDelta(t, want, got[name], 0, name)
	}
	require.Contains(t, got, "sagalog_checkpoint_age_seconds")
	require.NoError(t, s.Close())
	require.Empty(t, gather(t, r), "a closed store removes its metrics")
	s, err = projector.Open(directory, o)
	require.NoError(t, err, "so that it can be opened again")
	require.NotContains(t, gather(t, r), "sagalog_checkpoint_age_seconds", "this process has not written the partition")
	other := projector.Options{Namespace: namespace, FS: vfs.NewMem(), Registerer: r}
	_, err = projector.Open(directory, other)
	require.ErrorContains(t, err, "register metrics")
	require.NotEmpty(t, gather(t, r), "a failed Open does not remove another store's metrics")
	require.NoError(t, s.Close())
}

func gather(t *testing.T, r *prometheus.Registry) map[string]float64 {
	t.Helper()
	families, err := r.Gather()
	require.NoError(t, err)
	values := map[string]float64{}
	for _, f := range families {
		for _, m := range f.GetMetric() {
			values[f.GetName()] += m.GetGauge().GetValue() + m.GetCounter().GetValue()
		}
	}
	return values
}

// A reader that reads the front of a queue while rows are added there must not hide a row from later readers.
func TestReadersRaceWithCommits(t *testing.T) {
	t.Parallel()
	s := setup(t)
	const tasks = 400
	done := make(chan struct{})
	var wg sync.WaitGroup
	stop := sync.OnceFunc(func() {
		close(done)
		wg.Wait()
	})
	defer stop()
	for range 2 {
		wg.Go(func() {
			for {
				select {
				case <-done:
					return
				default:
				}
				_, err := s.Partition(0).Ready(events.Line{Queue: "x", Operation: events.Do}, 1)
				require.NoError(t, err)
				_, _, err = s.Partition(0).NextDue()
				require.NoError(t, err)
			}
		})
	}
	for i := range tasks { // each row sorts before the previous one
		id := fmt.Sprintf("t%03d", tasks-i)
		k := events.Keys{Due: events.Instant(tasks - i), Ready: []events.ReadyKey{{Agent: "x", Path: "p", Operation: events.Do, Priority: i}}}
		commit(t, s, &events.Delta{Next: int64(i + 1), Tasks: []events.TaskRow{row(t, pending(id, 1), k, nil)}})
		rows, err := s.Partition(0).Ready(events.Line{Queue: "x", Operation: events.Do}, 1)
		require.NoError(t, err)
		require.Equal(t, id, rows[0].Task)
		due, ok, err := s.Partition(0).NextDue()
		require.NoError(t, err)
		require.True(t, ok)
		require.Equal(t, events.Instant(tasks-i), due)
	}
	stop()
	rows, err := s.Partition(0).Ready(events.Line{Queue: "x", Operation: events.Do}, 2*tasks)
	require.NoError(t, err)
	require.Len(t, rows, tasks)
}

// Pebble's own log is not used. Each Open creates an empty one, and these must not accumulate. Commits before a Close are still
// present after the next Open.
func TestStoreKeepsNoWriteAheadLog(t *testing.T) {
	t.Parallel()
	fs := vfs.NewMem()
	for i := range int64(12) {
		s := open(t, fs)
		info, err := s.PartitionInfo(0)
		require.NoError(t, err)
		require.Equal(t, i, info.Next)
		commit(t, s, &events.Delta{Next: i + 1, Tasks: []events.TaskRow{row(t, pending(fmt.Sprint(i), 1), events.Keys{Due: 4}, nil)}})
		require.NoError(t, s.Close())
		logs := filesOf(t, fs, "log")
		require.LessOrEqual(t, len(logs), 2)
		for _, name := range logs {
			stat, err := fs.Stat(directory + "/" + name)
			require.NoError(t, err)
			require.Less(t, stat.Size(), int64(100))
		}
	}
}

// A store that is killed before a flush restarts from the state of an earlier commit, and folds the rest of the log again.
func TestAKilledStoreLosesATailOfItsCommits(t *testing.T) {
	t.Parallel()
	fs := vfs.NewCrashableMem()
	s := open(t, fs)
	for i := range int64(9) {
		commit(t, s, &events.Delta{Next: i + 1, Tasks: []events.TaskRow{row(t, pending(fmt.Sprint(i), 1), events.Keys{Due: 4}, nil)}})
		if i == 4 {
			require.NoError(t, s.Sync())
		}
	}
	killed := fs.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: 100, RNG: rand.New(rand.NewPCG(1, 1))})
	require.NoError(t, s.Close())
	s = open(t, killed)
	defer func() { require.NoError(t, s.Close()) }()
	info, err := s.PartitionInfo(0)
	require.NoError(t, err)
	require.Equal(t, int64(5), info.Next)
	require.Equal(t, map[events.TaskState]int64{events.TaskStatePending: 5}, s.States())
	require.NoError(t, s.CheckIndexes())
}
