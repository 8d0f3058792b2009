package projector

import (
	"fmt"
	"os"
	"runtime"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sagalog/sagalog/events"
)

// fill commits many task rows without folding anything. All rows have the same content, because it does not matter here.
type fill struct {
	tb    testing.TB
	store *Store
	next  [benchPartitions]int64
	made  int
}

// fillBatch is how many tasks one commit creates. More would not fit in half a memtable, and Pebble would sort the batch
// instead.
const fillBatch = 2000

func (f *fill) make(n int, encoding []byte, keys func(i int) events.Keys) {
	for n > 0 {
		p := int32(f.made / fillBatch % benchPartitions)
		f.next[p]++
		d := &events.Delta{Partition: p, Next: f.next[p]}
		for range min(n, fillBatch) {
			// The IDs are in no order, like IDs that people choose.
			id := fmt.Sprintf("order-%016x", uint64(f.made)*0x9e3779b97f4a7c15)
			d.Tasks = append(d.Tasks, events.TaskRow{ID: id, Encoding: encoding, Keys: keys(f.made)})
			d.History = append(d.History, events.History{Task: id, Offset: f.next[p] - 1})
			f.made++
		}
		n -= min(n, fillBatch)
		require.NoError(f.tb, f.store.Commit(Batch{Deltas: []*events.Delta{d}}))
	}
}

// settle waits for the compactions. Rows are created here faster than any engine ends tasks, so the compaction of ten million
// rows is minutes behind. That delay must not count as a cost of reading.
func (f *fill) settle() {
	require.NoError(f.tb, f.store.Sync())
	ticks := time.NewTicker(50 * time.Millisecond)
	defer ticks.Stop()
	for calm := 0; calm < 20; calm++ {
		<-ticks.C
		if m := f.store.db.Metrics(); m.Compact.NumInProgress > 0 {
			calm = -1
		}
	}
}

const fillEpoch = events.Instant(1_800_000_000_000)

func (f *fill) finished(n int) {
	f.make(n, fiveStepEncoding(f.tb, benchSteps), func(i int) events.Keys {
		return events.Keys{State: events.TaskStateProcessed, Workflow: "five", SubmittedAt: fillEpoch + events.Instant(i), EndedAt: fillEpoch + events.Instant(i) + 90}
	})
}

func (f *fill) running(n int) {
	f.make(n, fiveStepEncoding(f.tb, 2), func(i int) events.Keys {
		return events.Keys{State: events.TaskStateProcessing, Workflow: "five", SubmittedAt: fillEpoch + events.Instant(i), Due: fillEpoch + 1e10 + events.Instant(i)}
	})
}

func (f *fill) pending(n int) {
	f.make(n, fiveStepEncoding(f.tb, 0), func(i int) events.Keys {
		at := fillEpoch + events.Instant(i)
		return events.Keys{State: events.TaskStatePending, Workflow: "five", SubmittedAt: at, Ready: []events.ReadyKey{{Agent: "agent0", Path: "step0", Operation: events.Do, Since: at}}}
	})
}

// look makes the reads for one partition that an owner makes every second and at every tick when there is nothing to do.
func look(tb testing.TB, s *Store, partition int32, now events.Instant) {
	p := s.Partition(partition)
	due, ok, err := p.NextDue()
	require.NoError(tb, err)
	require.True(tb, ok)
	require.Greater(tb, due, now)
	rows, err := p.Due(now, 100)
	require.NoError(tb, err)
	require.Empty(tb, rows)
	ended, err := p.EndedBefore(fillEpoch, 100)
	require.NoError(tb, err)
	require.Empty(tb, ended)
	ids, err := p.Unplanned(100)
	require.NoError(tb, err)
	require.Empty(tb, ids)
	ready, err := p.Ready(events.Line{Queue: "agent0", Operation: events.Do}, 100)
	require.NoError(tb, err)
	require.Empty(tb, ready)
}

// BenchmarkLook measures a supervisor's sweep of one partition when nothing is due: with 100,000 running tasks in eight
// partitions, with as many finished ones, and right after 10,000 tasks ended, whose rows have just left the front of the
// queues.
func BenchmarkLook(b *testing.B) {
	for _, finished := range []int{0, 100_000, 1_000_000, 10_000_000} {
		b.Run(fmt.Sprintf("finished=%d", finished), func(b *testing.B) {
			if finished >= 1_000_000 && os.Getenv("SAGALOG_BENCH") != "full" {
				b.Skip("it writes up to 10 GB and takes minutes: SAGALOG_BENCH=full runs it")
			}
			s, err := Open(b.TempDir(), Options{Namespace: "bench"})
			require.NoError(b, err)
			defer func() { require.NoError(b, s.Close()) }()
			f := &fill{tb: b, store: s}
			f.finished(finished)
			f.running(100_000)
			f.settle()
			b.Run("quiet", func(b *testing.B) { looks(b, s) })
			f.endSome(10_000)
			b.Run("tombstones", func(b *testing.B) { looks(b, s) })
		})
	}
}

func looks(b *testing.B, s *Store) {
	b.ReportAllocs()
	// The first look at each partition steps over the rows that have just left the front. The median is not affected by other
	// load on the machine.
	var first, all []time.Duration
	for p := range int32(benchPartitions) {
		begun := time.Now()
		look(b, s, p, fillEpoch)
		first = append(first, time.Since(begun))
	}
	for i := 0; b.Loop(); i++ {
		begun := time.Now()
		look(b, s, int32(i%benchPartitions), fillEpoch)
		all = append(all, time.Since(begun))
	}
	b.ReportMetric(median(first), "first-us")
	b.ReportMetric(median(all), "median-us")
}

func median(list []time.Duration) float64 {
	slices.Sort(list)
	return float64(list[len(list)/2].Nanoseconds()) / 1000
}

// endSome makes tasks wait, takes them from the front of their queues, ends them, and sweeps the same number.
func (f *fill) endSome(n int) {
	for p := range int32(benchPartitions) {
		var waiting, started, ended, swept events.Delta
		for i := range n / benchPartitions {
			id := fmt.Sprintf("some-%d-%d", p, i)
			at := fillEpoch + events.Instant(i)
			rows := []events.Keys{
				{State: events.TaskStatePending, SubmittedAt: at, Unplanned: true, Ready: []events.ReadyKey{{Agent: "agent0", Path: "step0", Operation: events.Do, Since: at}}},
				{State: events.TaskStateProcessing, SubmittedAt: at, Due: at + 5000},
				{State: events.TaskStateProcessed, SubmittedAt: at, EndedAt: at - 5000},
			}
			waiting.Tasks = append(waiting.Tasks, events.TaskRow{ID: id, Encoding: []byte(`{}`), Keys: rows[0]})
			started.Tasks = append(started.Tasks, events.TaskRow{ID: id, Encoding: []byte(`{}`), Keys: rows[1], Was: &rows[0]})
			ended.Tasks = append(ended.Tasks, events.TaskRow{ID: id, Encoding: []byte(`{}`), Keys: rows[2], Was: &rows[1]})
			swept.Tasks = append(swept.Tasks, events.TaskRow{ID: id, Was: &rows[2]})
		}
		for _, d := range []*events.Delta{&waiting, &started, &ended, &swept} {
			f.next[p]++
			d.Partition, d.Next = p, f.next[p]
			require.NoError(f.tb, f.store.Commit(Batch{Deltas: []*events.Delta{d}}))
		}
	}
}

// TestMemoryDoesNotGrowWithRows fills a store and measures the memory of the process. The store's own memory is its memtables
// and its cache, whatever is stored. So if both are small, more rows must not take more memory.
func TestMemoryDoesNotGrowWithRows(t *testing.T) {
	if testing.Short() {
		t.Skip("large, and the race detector has nothing to find: step test runs it")
	}
	pending, finished := 20_000, 10_000
	o := Options{Namespace: "bench", CacheBytes: 4 << 20, MemTableBytes: 2 << 20}
	full := os.Getenv("SAGALOG_BENCH") == "full"
	if full { // the default size
		pending, finished, o = 5_000_000, 1_000_000, Options{Namespace: "bench"}
	} else {
		t.Log("SAGALOG_BENCH=full makes 5,000,000 pending and 1,000,000 finished tasks instead")
	}
	s, err := Open(t.TempDir(), o)
	require.NoError(t, err)
	defer func() { require.NoError(t, s.Close()) }()
	f := &fill{tb: t, store: s}
	var held []uint64
	for range 5 {
		f.pending(pending / 5)
		f.finished(finished / 5)
		look := func(agent string) {
			rows, err := s.Partition(0).Ready(events.Line{Queue: agent, Operation: events.Do}, 100)
			require.NoError(t, err)
			require.Len(t, rows, 100)
		}
		look("agent0")
		_, err := s.Partition(0).EndedBefore(fillEpoch, 10)
		require.NoError(t, err)
		require.NoError(t, s.Sync())
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		held = append(held, m.HeapAlloc)
		t.Logf("%d tasks: heap %d MiB, from the system %d MiB, rows %d MiB", f.made, m.HeapAlloc>>20, (m.Sys-m.HeapReleased)>>20, s.db.Metrics().DiskSpaceUsage()>>20)
		if full {
			require.Less(t, m.Sys-m.HeapReleased, uint64(400<<20))
		}
	}
	// The first fifth also fills caches and pools.
	grown := (float64(held[4]) - float64(held[1])) / float64(3*(pending+finished)/5)
	t.Logf("%.1f B a task", grown)
	// Compactions and pools change it by some hundred bytes per row here. If something kept the rows in memory, it would be
	// more than a thousand per row.
	require.Less(t, grown, 500.0, "bytes held in memory for a stored task")
}

// Each new submission looks up an ID that does not exist. The filters answer this lookup, and it reads no block.
func TestUnknownTasksAreNotReadFromTheDisk(t *testing.T) {
	if testing.Short() {
		t.Skip("large, and the race detector has nothing to find: step test runs it")
	}
	s, err := Open(t.TempDir(), Options{Namespace: "bench", MemTableBytes: 1 << 20})
	require.NoError(t, err)
	defer func() { require.NoError(t, s.Close()) }()
	f := &fill{tb: t, store: s}
	f.finished(20_000)
	require.NoError(t, s.Sync())
	require.NoError(t, s.db.Compact(t.Context(), []byte{spacePartition}, []byte{spacePartition + 1}, false)) // otherwise a compaction would read blocks during the lookups
	lookups := func(n, from int) {
		for i := range n {
			_, ok, err := s.Get(int32(i%benchPartitions), fmt.Sprintf("order-%016x", uint64(from+i)*0x9e3779b97f4a7c15))
			require.NoError(t, err)
			require.False(t, ok)
		}
	}
	lookups(1000, 30_000_000) // the filters themselves are read only once
	before := s.db.Metrics()
	lookups(1000, 60_000_000)
	after := s.db.Metrics()
	require.Greater(t, after.Filter.Hits-before.Filter.Hits, int64(900))
	// One in a hundred is a false positive, and reads an index block and a row.
	t.Logf("%d filter hits, %d blocks read", after.Filter.Hits-before.Filter.Hits, after.BlockCache.Misses-before.BlockCache.Misses)
	require.Less(t, after.BlockCache.Misses-before.BlockCache.Misses, int64(100))
}

// BenchmarkUnknownTask is the lookup that each submission makes.
func BenchmarkUnknownTask(b *testing.B) {
	s, err := Open(b.TempDir(), Options{Namespace: "bench"})
	require.NoError(b, err)
	defer func() { require.NoError(b, s.Close()) }()
	f := &fill{tb: b, store: s}
	f.finished(50_000)
	require.NoError(b, s.Sync())
	require.NoError(b, s.db.Compact(b.Context(), []byte{spacePartition}, []byte{spacePartition + 1}, false))
	b.ReportAllocs()
	begun := cpuTime()
	for i := 0; b.Loop(); i++ {
		if _, ok, err := s.Get(int32(i%benchPartitions), fmt.Sprintf("order-%016x", uint64(90_000_000+i)*0x9e3779b97f4a7c15)); ok || err != nil {
			b.Fatal(ok, err)
		}
	}
	b.ReportMetric(float64((cpuTime()-begun).Nanoseconds())/float64(b.N), "cpu-ns/op")
}
