package export

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// A shelf is a map, however few of its values are in memory.
func TestAShelfIsAMap(t *testing.T) {
	t.Parallel()
	type value struct {
		n    uint64
		more uint32
	}
	for seed := range uint64(5) {
		dice, dir := rand.New(rand.NewPCG(seed, 0)), t.TempDir()
		s, want := newShelf[value](room{dir, 1 + dice.IntN(50)}, "values"), map[taskKey]value{}
		for n := range 60_000 {
			key := keyOf(fmt.Sprint(dice.IntN(40_000)))
			switch dice.IntN(6) {
			case 0, 1, 2:
				v := value{uint64(n), uint32(seed)}
				want[key] = v
				require.NoError(t, s.put(key, v))
			case 3:
				delete(want, key)
				require.NoError(t, s.drop(key))
			default:
				get := s.get
				if dice.IntN(2) == 0 {
					get = s.look
				}
				v, ok, err := get(key)
				require.NoError(t, err)
				expected, has := want[key]
				require.Equal(t, has, ok, "seed %d, step %d", seed, n)
				require.Equal(t, expected, v, "seed %d, step %d", seed, n)
			}
			require.Less(t, len(s.young), s.room.tasks)
			require.LessOrEqual(t, len(s.old), s.room.tasks)
		}
		require.Greater(t, s.aside.bits, firstBits, "buckets were split")
		left, err := os.ReadDir(dir)
		require.NoError(t, err)
		require.Empty(t, left, "what is put aside has no name")
		require.NoError(t, s.close())
	}
}

// A shelf can say no more of a task than that it is there.
func TestASetIsAShelfToo(t *testing.T) {
	t.Parallel()
	s := newShelf[struct{}](room{t.TempDir(), 10}, "set")
	for n := range 2000 {
		require.NoError(t, s.put(keyOf(fmt.Sprint(n)), struct{}{}))
	}
	for n := range 4000 {
		_, ok, err := s.look(keyOf(fmt.Sprint(n)))
		require.NoError(t, err)
		require.Equal(t, n < 2000, ok)
	}
	require.NoError(t, s.close())
	_, _, err := s.look(keyOf("7"))
	require.ErrorContains(t, err, "read what was put aside of a task")
}

// Whether what is known of tasks is in memory or in a file makes no difference to what is exported.
func TestWhatIsPutAsideChangesNothing(t *testing.T) {
	t.Parallel()
	for name, table := range allTables {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for _, l := range runs(t, 3) {
				whole, aside := t.TempDir(), t.TempDir()
				cfg := configOf(l, whole, JSONL)
				_, err := table(t.Context(), cfg)
				require.NoError(t, err)
				cfg.Dir, cfg.shelfTasks = aside, 1
				_, err = table(t.Context(), cfg)
				require.NoError(t, err)
				require.Equal(t, filesOf(t, whole), filesOf(t, aside))
			}
		})
	}
}

// What an export that was killed left is gone at the end of the next one, whichever partitions that exports.
func TestWhatAKilledExportLeftIsRemoved(t *testing.T) {
	t.Parallel()
	l, want, dir := runs(t, 1)[0], t.TempDir(), t.TempDir()
	_, err := Tasks(t.Context(), configOf(l, want, CSV))
	require.NoError(t, err)
	_, err = Tasks(t.Context(), configOf(readable(l.partitions, 60), dir, CSV))
	require.ErrorIs(t, err, errBroken)
	for _, left := range []string{".fold-00000/000004.sst", ".aside-lives-123", ".begun-00001", ".events-00001"} {
		name := filepath.Join(dir, "tasks", left)
		require.NoError(t, os.MkdirAll(filepath.Dir(name), 0o755))
		require.NoError(t, os.WriteFile(name, nil, 0o600))
	}
	_, err = Tasks(t.Context(), configOf(l, dir, CSV))
	require.NoError(t, err)
	require.Equal(t, filesOf(t, want), filesOf(t, dir))
}
