package projector

import (
	"errors"
	"math/rand/v2"
	"testing"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/stretchr/testify/require"

	"github.com/sagalog/sagalog/events"
)

// otherKeys returns the keys of all rows of tasks that are not heads.
func otherKeys(t *testing.T, s *Store) (keys [][]byte) {
	t.Helper()
	require.NoError(t, eachOf(s.db, []byte{spacePartition}, func(key, _ []byte) error {
		if _, kind, _, err := otherOf(key[rowPrefix:]); key[rowPrefix-1] == rowTask && (kind != "" || err != nil) {
			keys = append(keys, append([]byte(nil), key...))
		}
		return nil
	}))
	return keys
}

// A task with a row missing, with one too many, or with a row that cannot be read, is damage to whoever needs the whole task. A brief list
// reads only its head.
func TestATaskWithoutAllOfItsRowsIsDamage(t *testing.T) {
	t.Parallel()
	base := storeOfOneTask(t)
	reopen := func() *Store {
		fs := base.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: 100, RNG: rand.New(rand.NewPCG(1, 2))})
		s, err := Open("state", Options{Namespace: "n", FS: fs, CacheBytes: 1 << 20, MemTableBytes: 64 << 10})
		require.NoError(t, err)
		return s
	}
	s := reopen()
	keys := otherKeys(t, s)
	require.Len(t, keys, 5)
	task, ok, err := s.Partition(3).Task("t")
	require.NoError(t, err)
	require.True(t, ok)
	require.Equal(t, []string{"p", "a"}, []string{task.Steps[0].Path, task.Steps[1].Path})
	require.True(t, task.HasRequest("q"))
	require.Equal(t, "r", task.Held[0].ID)
	require.NoError(t, s.Close())

	for _, key := range keys {
		for name, change := range map[string]func(s *Store) error{
			"missing": func(s *Store) error { return s.db.Delete(key, pebble.NoSync) },
			"surplus": func(s *Store) error {
				return s.db.Set(append(key[:len(key):len(key)], 'x'), []byte(`{}`), pebble.NoSync)
			},
			"unreadable": func(s *Store) error { return s.db.Set(key, []byte(`{`), pebble.NoSync) },
			"bad key": func(s *Store) error {
				return errors.Join(s.db.Delete(key, pebble.NoSync), s.db.Set(append(taskKey(nil, 3, "t"), 0, 'x'), []byte(`{}`), pebble.NoSync))
			},
		} {
			s := reopen()
			require.NoError(t, change(s))
			p := s.Partition(3)
			_, _, err := p.Task("t")
			require.ErrorIs(t, err, ErrDamaged, "%s: %q", name, key)
			stored, err := p.Loader()("t")
			if name == "unreadable" {
				require.NoError(t, err)
				_, err = events.DecodeTask(stored.Encoding, stored.Rows)
				require.Error(t, err)
			} else {
				require.ErrorIs(t, err, ErrDamaged, "%s: %q", name, key)
			}
			_, _, err = s.List(Filter{})
			require.ErrorIs(t, err, ErrDamaged)
			list, _, err := s.List(Filter{Brief: true})
			require.NoError(t, err)
			require.Len(t, list, 3)
			require.ErrorIs(t, s.CheckIndexes(), ErrIndexes, "%s: %q", name, key)
			require.NoError(t, s.Close())
		}
	}
}

// Rows of a task whose head is missing are found, and hidden from everybody else.
func TestRowsWithoutATaskAreFound(t *testing.T) {
	t.Parallel()
	s, err := Open("state", Options{Namespace: "n", FS: vfs.NewMem(), CacheBytes: 1 << 20, MemTableBytes: 64 << 10})
	require.NoError(t, err)
	require.NoError(t, s.Commit(Batch{Deltas: []*events.Delta{{Partition: 3, Next: 1}}}))
	require.NoError(t, s.CheckIndexes())
	require.NoError(t, s.db.Set(appendOther(taskKey(nil, 3, "t"), string(events.KindStep), "a"), []byte(`{}`), pebble.NoSync))
	_, ok, err := s.Partition(3).Task("t")
	require.NoError(t, err)
	require.False(t, ok)
	require.ErrorIs(t, s.CheckIndexes(), ErrIndexes)
	require.NoError(t, s.Close())
}

// An owner's lookups share an iterator only until the next commit, and it does not keep the store from closing.
func TestAnOwnerFindsWhatWasCommittedSinceItsLastLookup(t *testing.T) {
	t.Parallel()
	s, err := Open("state", Options{Namespace: "n", FS: vfs.NewMem(), CacheBytes: 1 << 20, MemTableBytes: 64 << 10})
	require.NoError(t, err)
	load := s.Partition(3).Loader()
	stored, err := load("t")
	require.NoError(t, err)
	require.Nil(t, stored.Encoding)
	state := events.NewState(3, load)
	fact := events.Fact{Time: 1, Body: &events.PartitionClaimed{ID: "a0"}}
	_, err = state.Apply(&fact, state.Next)
	require.NoError(t, err)
	_, err = state.Apply(&events.Fact{Time: 1, Epoch: state.Partition.Epoch, Task: "t", Body: &events.Submitted{Workflow: "w"}}, state.Next)
	require.NoError(t, err)
	d, err := state.Flush(nil)
	require.NoError(t, err)
	require.NoError(t, s.Commit(Batch{Deltas: []*events.Delta{d}}))
	stored, err = load("t")
	require.NoError(t, err)
	require.NotNil(t, stored.Encoding)
	require.NoError(t, s.Close())
	_, err = load("t")
	require.ErrorIs(t, err, ErrClosed)
}

// The fold of a log leaves no row of a task that was swept.
func TestASweptTaskHasNoRowsInTheStore(t *testing.T) {
	t.Parallel()
	s, err := Open("state", Options{Namespace: "n", FS: vfs.NewMem(), CacheBytes: 1 << 20, MemTableBytes: 64 << 10})
	require.NoError(t, err)
	defer func() { require.NoError(t, s.Close()) }()
	state := events.NewState(3, s.Partition(3).Loader())
	fact := events.Fact{Time: 1, Body: &events.PartitionClaimed{ID: "a0"}}
	apply := func(task string, body events.Body) {
		fact.Task, fact.Body = task, body
		_, err := state.Apply(&fact, state.Next)
		require.NoError(t, err)
		if fact.Epoch.N > 0 {
			fact.Sequence++
		}
		fact.Epoch = state.Partition.Epoch
	}
	flush := func() {
		d, err := state.Flush(nil)
		require.NoError(t, err)
		require.NoError(t, s.Commit(Batch{Deltas: []*events.Delta{d}}))
		require.NoError(t, s.CheckIndexes())
		state.Evict("t")
		require.Zero(t, state.InMemory())
	}
	large := make([]byte, 5000)
	for i := range large {
		large[i] = '1'
	}
	apply("", fact.Body)
	for range 2 {
		apply("t", &events.Submitted{Workflow: "w", Input: large})
		apply("t", &events.TaskReopened{Request: "q"})
		apply("t", &events.StepStarted{Step: "a", Attempt: 1, Input: large})
		flush()
		apply("t", &events.StepCompleted{Step: "a", Attempt: 1, Output: large})
		apply("t", &events.TaskProcessed{Output: large})
		flush()
		require.Len(t, otherKeys(t, s), 4)
		apply("", &events.TasksSwept{Tasks: []string{"t"}})
		flush()
		require.Empty(t, otherKeys(t, s))
	}
}
