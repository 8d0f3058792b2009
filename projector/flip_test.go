package projector_test

import (
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/stretchr/testify/require"

	"github.com/sagalog/sagalog/events"
	"github.com/sagalog/sagalog/projector"
)

// flipsEach is how many bytes of each kind of file are flipped, each in a separate store.
const flipsEach = 100

// If a byte rots in any file of the database, the store notices it, or no read is affected, or the latest commits are lost,
// which the log restores. No read ever returns data that no commit wrote.
func TestAFlippedByteIsNeverAWrongValue(t *testing.T) {
	if testing.Short() {
		t.Skip("large, and the race detector has nothing to find: step test runs it")
	}
	t.Parallel()
	const seed = 20
	disk := vfs.NewCrashableMem()
	s := &script{t: t, store: openSmall(t, disk), keys: map[string]*events.Keys{}, allowed: map[int64][]string{}}
	s.allow(0, "next 0\n")
	s.run()
	// The copy is as kill -9 would leave the files: without the last commits. It is taken at one instant, because Pebble
	// deletes files meanwhile.
	killed := disk.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: 100, RNG: rand.New(rand.NewPCG(seed, 1))})
	require.NoError(t, s.store.Close())
	again := vfs.NewMem()
	copyAll(t, killed, again)
	intact := openSmall(t, again)
	whole, _ := picture(t, intact)
	require.NoError(t, intact.Close())
	require.Greater(t, whole, int64(crashSteps/2))

	r := rand.New(rand.NewPCG(seed, seed))
	outcome := map[string]map[string]int{}
	for _, kind := range []string{"sst", "log", "MANIFEST", "OPTIONS", "marker"} {
		names := filesOf(t, killed, kind)
		require.NotEmpty(t, names, "the store has no %s", kind)
		outcome[kind] = map[string]int{}
		for range flipsEach {
			name := names[r.IntN(len(names))]
			fs := vfs.NewMem()
			copyAll(t, killed, fs)
			what := flip(t, fs, name, r)
			if what == "" {
				continue
			}
			outcome[kind][s.judgeFlip(fs, what, whole)]++
		}
		t.Logf("seed %d, %s: %v of %d files", seed, kind, outcome[kind], len(names))
	}
	require.Positive(t, outcome["sst"]["noticed"]+outcome["sst"]["refused"], "no flip reached what is read")
	require.Zero(t, outcome["log"]["shorter"], "Pebble's WAL is unused")
}

// judgeFlip opens the store and reads everything.
func (s *script) judgeFlip(fs vfs.FS, what string, whole int64) string {
	s.t.Helper()
	store, err := projector.Open(directory, smallTables(fs))
	if err != nil {
		if errors.Is(err, projector.ErrNewer) { // the flip changed the number in the file name; the data must not be deleted
			return "refused, for an operator"
		}
		if !errors.Is(err, projector.ErrDamaged) && !errors.Is(err, projector.ErrFormat) { // a node recovers from these two errors by itself
			require.ErrorContains(s.t, err, "delete "+directory, what)
			return "refused, for an operator"
		}
		return "refused"
	}
	defer store.Close()
	// CheckIndexes reads everything. If it succeeds, the reads of picture cannot fail.
	if err := store.CheckIndexes(); err != nil {
		require.ErrorIs(s.t, err, projector.ErrDamaged, what)
		// The next Open refuses at once, before it reads the damaged byte.
		require.NoError(s.t, store.Close())
		_, err := projector.Open(directory, smallTables(fs))
		require.ErrorIs(s.t, err, projector.ErrDamaged, what)
		return "noticed"
	}
	next, lines := picture(s.t, store)
	require.Contains(s.t, s.allowed[next], lines, what)
	if next < whole {
		return "shorter"
	}
	return "equal"
}

func openSmall(t *testing.T, fs vfs.FS) *projector.Store {
	t.Helper()
	s, err := projector.Open(directory, smallTables(fs))
	require.NoError(t, err)
	return s
}

func copyAll(t *testing.T, from, to vfs.FS) {
	t.Helper()
	_, err := vfs.Clone(from, to, directory, directory)
	require.NoError(t, err)
}

// filesOf lists the database's files of a kind, recognized by the suffix or the prefix of the name.
func filesOf(t *testing.T, fs vfs.FS, kind string) []string {
	t.Helper()
	list, err := fs.List(directory)
	require.NoError(t, err)
	var names []string
	for _, name := range list {
		if strings.HasSuffix(name, "."+kind) || strings.HasPrefix(name, kind) {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// flip inverts one bit or all bits of one byte of a file, or of its name if the file is empty. It returns a description of the
// change, or "" if there is nothing to flip.
func flip(t *testing.T, fs vfs.FS, name string, r *rand.Rand) string {
	t.Helper()
	at := directory + "/" + name
	f, err := fs.Open(at)
	require.NoError(t, err)
	raw, err := io.ReadAll(f)
	require.NoError(t, err)
	require.NoError(t, f.Close())
	mask := byte(0xff)
	if r.IntN(2) == 0 {
		mask = 1 << r.IntN(8)
	}
	if len(raw) == 0 {
		other := []byte(name)
		i := r.IntN(len(other))
		if other[i] ^= mask & 0x1f; strings.ContainsAny(string(other[i]), "/\x00") || string(other) == name {
			return ""
		}
		require.NoError(t, fs.Rename(at, directory+"/"+string(other)))
		return fmt.Sprintf("%s renamed to %q", name, other)
	}
	i := r.IntN(len(raw))
	raw[i] ^= mask
	f, err = fs.Create(at, vfs.WriteCategoryUnspecified)
	require.NoError(t, err)
	_, err = f.Write(raw)
	require.NoError(t, err)
	require.NoError(t, f.Close())
	return fmt.Sprintf("%s byte %d of %d by %#x", name, i, len(raw), mask)
}
