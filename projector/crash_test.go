package projector_test

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"
	"github.com/stretchr/testify/require"

	"github.com/sagalog/sagalog/events"
	"github.com/sagalog/sagalog/projector"
)

const (
	crashSteps = 60
	syncedStep = 20
	resetStep  = 40
)

// smallTables makes Pebble flush and compact within a short script.
func smallTables(fs vfs.FS) projector.Options {
	return projector.Options{Namespace: namespace, FS: fs, MemTableBytes: 16 << 10}
}

// script commits one step after another, each to partitions 0 and 1 in one batch. The next offset of partition 0 is the number
// of the step.
type script struct {
	t     *testing.T
	store *projector.Store
	keys  map[string]*events.Keys

	mu sync.Mutex
	// allowed holds the permitted content of the store after each step.
	allowed map[int64][]string
	synced  int64
}

func (s *script) run() {
	for step := int64(1); step <= crashSteps; step++ {
		b := projector.Batch{
			Deltas:  []*events.Delta{s.delta(0, step), s.delta(1, step)},
			Anchors: map[int32]projector.Anchor{0: {TopicID: topic, Offset: step - 1, Hash: fmt.Sprint(step)}},
		}
		s.allow(step, s.expect(step))
		require.NoError(s.t, s.store.Commit(b))
		switch step {
		case syncedStep:
			require.NoError(s.t, s.store.Sync())
			s.mu.Lock()
			s.synced = step
			s.mu.Unlock()
		case resetStep:
			for key := range s.keys {
				if strings.HasPrefix(key, "1/") {
					delete(s.keys, key)
				}
			}
			s.allow(step, s.expect(step))
			require.NoError(s.t, s.store.Reset(1))
		}
	}
}

// delta changes one task, forgets another, and moves a third from the ready queue to the due queue.
func (s *script) delta(partition int32, step int64) *events.Delta {
	d := &events.Delta{Partition: partition, Next: step, Sum: events.Hash{Lo: uint64(step)}}
	id := fmt.Sprintf("t%d", step%7)
	key := fmt.Sprintf("%d/%s", partition, id)
	d.History = []events.History{{Task: id, Offset: step - 1}}
	if was := s.keys[key]; was != nil && step%3 == 0 {
		d.Tasks = []events.TaskRow{{ID: id, Was: was}}
		delete(s.keys, key)
		return d
	}
	task := pending(id, events.Instant(step))
	task.Facts, task.Content = int(step), strings.Repeat("z", 2500)
	task.Labels = map[string]string{"step": fmt.Sprint(step)}
	k := events.Keys{Due: events.Instant(step % 2 * step)}
	if k.Due == 0 {
		k.Ready = []events.ReadyKey{{Agent: "drone", Path: "p", Operation: events.Do}}
	}
	r := row(s.t, task, k, s.keys[key])
	s.keys[key] = &r.Keys
	d.Tasks = []events.TaskRow{r}
	return d
}

// expect returns what picture must return after the step. It is computed by the script and not read from a store.
func (s *script) expect(step int64) string {
	lines := fmt.Sprintf("next %d\n", step)
	for partition := range 2 {
		for i := range 7 {
			if k := s.keys[fmt.Sprintf("%d/t%d", partition, i)]; k != nil {
				lines += fmt.Sprintf("%d/t%d at %d due %d ready %d\n", partition, i, k.SubmittedAt, k.Due, len(k.Ready))
			}
		}
	}
	return lines
}

func (s *script) allow(step int64, picture string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.allowed[step] = append(s.allowed[step], picture)
}

func picture(t *testing.T, s *projector.Store) (next int64, lines string) {
	t.Helper()
	info, err := s.PartitionInfo(0)
	require.NoError(t, err)
	require.Equal(t, info.Next, int64(info.StateHash.Lo))
	if info.Exists {
		require.Equal(t, info.Next-1, info.Anchor.Offset)
	}
	lines = fmt.Sprintf("next %d\n", info.Next)
	for partition := range int32(2) {
		v := s.Partition(partition)
		due, err := v.Running(projector.DueRow{}, 100)
		require.NoError(t, err)
		ready, err := v.Ready(events.Line{Queue: "drone", Operation: events.Do}, 100)
		require.NoError(t, err)
		for i := range 7 {
			id := fmt.Sprintf("t%d", i)
			task, ok, err := s.Get(partition, id)
			require.NoError(t, err)
			if !ok {
				continue
			}
			n, at := 0, events.Instant(0)
			for _, r := range ready {
				if r.Task == id {
					n++
				}
			}
			for _, r := range due {
				if r.Task == id {
					at = r.Due
				}
			}
			lines += fmt.Sprintf("%d/%s at %d due %d ready %d\n", partition, id, task.SubmittedAt, at, n)
		}
	}
	return info.Next, lines
}

// crash holds the files that a crash left, and the steps that must have survived it.
type crash struct {
	fs     *vfs.MemFS
	before string
	synced int64
	// made says that the store had been opened once.
	made bool
	// kill says that the process was killed while the machine kept running, so nothing that was written to a file is
	// lost.
	kill bool
}

// INV3: after a crash the store is as one of the steps left it, and nothing that was synced is lost.
func TestCrashAtEachWrite(t *testing.T) {
	if testing.Short() {
		t.Skip("large, and the race detector has nothing to find: step test runs it")
	}
	t.Parallel()
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	mem := vfs.NewCrashableMem()
	s := &script{t: t, keys: map[string]*events.Keys{}, allowed: map[int64][]string{0: {"next 0\n"}}}
	var mu sync.Mutex
	var crashes []crash
	fs := errorfs.Wrap(mem, errorfs.InjectorFunc(func(op errorfs.Op) error {
		if op.Kind.ReadOrWrite() != errorfs.OpIsWrite {
			return nil
		}
		s.mu.Lock()
		synced, made := s.synced, s.store != nil
		s.mu.Unlock()
		mu.Lock()
		defer mu.Unlock()
		n := len(crashes)
		percent := n % 5 * 25
		clone := mem.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: percent, RNG: rand.New(rand.NewPCG(seed, uint64(n)))})
		crashes = append(crashes, crash{
			fs: clone, before: fmt.Sprintf("operation %d on %s", op.Kind, op.Path), synced: synced, made: made, kill: percent == 100,
		})
		return nil
	}))
	store, err := projector.Open(directory, smallTables(fs))
	require.NoError(t, err)
	s.mu.Lock()
	s.store = store
	s.mu.Unlock()
	s.run()
	require.NoError(t, s.store.Close())
	t.Logf("%d crashes", len(crashes))
	seen := map[int64]bool{}
	for i, c := range crashes {
		seen[s.examine(i, c)] = true
	}
	require.Greater(t, len(seen), 10, "the crashes hit too few steps to prove anything")
}

func (s *script) examine(i int, c crash) int64 {
	t := s.t
	store, err := projector.Open(directory, smallTables(c.fs))
	if err != nil && !c.made && !c.kill { // the power cut came while Pebble was creating its first files
		require.ErrorIs(t, err, projector.ErrDamaged, "crash %d before %s", i, c.before)
		return 0
	}
	require.NoError(t, err, "crash %d before %s", i, c.before)
	require.NoError(t, store.CheckIndexes(), "crash %d before %s", i, c.before)
	next, lines := picture(t, store)
	require.Contains(t, s.allowed[next], lines, "crash %d before %s", i, c.before)
	require.GreaterOrEqual(t, next, c.synced)
	require.NoError(t, store.Close())
	return next
}

// A power cut loses only the latest commits, and commits after the restart survive the next power cut.
func TestPowerCuts(t *testing.T) {
	t.Parallel()
	for percent := 0; percent <= 100; percent += 20 {
		t.Run(fmt.Sprintf("%d percent of what is unsynced survives", percent), func(t *testing.T) {
			t.Parallel()
			rng := rand.New(rand.NewPCG(uint64(percent), 7))
			fs := vfs.NewCrashableMem()
			next := int64(0)
			for round := range 4 {
				s, err := projector.Open(directory, smallTables(fs))
				require.NoError(t, err)
				require.NoError(t, s.CheckIndexes())
				info, err := s.PartitionInfo(0)
				require.NoError(t, err)
				require.LessOrEqual(t, info.Next, next)
				for _, id := range []string{"a", "b"} {
					offsets, err := s.HistoryOffsets(0, id, -1, 1000)
					require.NoError(t, err)
					require.Len(t, offsets, int((info.Next+1-int64(id[0]-'a'))/2), "round %d", round)
				}
				var was [2]*events.Keys
				for i, id := range []string{"a", "b"} {
					if task, ok, err := s.Get(0, id); ok {
						require.NoError(t, err)
						r := row(t, task, events.Keys{}, nil)
						was[i] = &r.Keys
					}
				}
				for next = info.Next; next < info.Next+50; {
					i := next % 2
					task := pending([]string{"a", "b"}[i], 7)
					task.Content = strings.Repeat("z", 500)
					r := row(t, task, events.Keys{}, was[i])
					was[i] = &r.Keys
					next++
					commit(t, s, &events.Delta{Next: next, Tasks: []events.TaskRow{r}, History: []events.History{{Task: task.ID, Offset: next - 1}}})
				}
				cut := fs.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: percent, RNG: rng})
				require.NoError(t, s.Close())
				fs = cut
			}
		})
	}
}
