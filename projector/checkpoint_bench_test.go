package projector

import (
	"cmp"
	"context"
	"os"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sagalog/sagalog/events"
)

// BenchmarkCheckpoint measures what a checkpoint costs and what it saves, on a store of CHECKPOINT_TASKS ended tasks that are remembered (default
// 16,000; BENCHMARKS.md has a million): the fold that made the store, the first checkpoint, a second one after a hundredth of the
// tasks more, and a start from it. The facts are made between the folds; the time of making them is left out of fold-s.
func BenchmarkCheckpoint(b *testing.B) {
	tasks, err := strconv.Atoi(cmp.Or(os.Getenv("CHECKPOINT_TASKS"), "16000"))
	require.NoError(b, err)
	each := tasks / benchPartitions
	for b.Loop() {
		dir := b.TempDir()
		s, err := Open(filepath.Join(dir, "state"), Options{Namespace: "bench"})
		require.NoError(b, err)
		var logs [benchPartitions]*fiveStepLog
		making := time.Duration(0)
		grow := func(from, to int) float64 {
			begun, made := time.Now(), making
			for p := range logs {
				if logs[p] == nil {
					logs[p] = &fiveStepLog{tb: b, partition: int32(p)}
				}
				foldMade(b, s, logs[p], [2]int{from, to}, &making)
			}
			return (time.Since(begun) - (making - made)).Seconds()
		}
		copyTo := func(name string) (Checkpoint, float64) {
			begun := time.Now()
			c, err := MakeCheckpoint(b.Context(), s, filepath.Join(dir, name), About{NamespaceID: "bench"})
			require.NoError(b, err)
			return c, time.Since(begun).Seconds()
		}
		fold := grow(0, each)
		_, first := copyTo("first")
		_, again := copyTo("again")
		grow(each, each+each/100)
		c, second := copyTo("second")
		require.NoError(b, s.Close())
		begun := time.Now()
		require.NoError(b, c.Restore(OnDisk(), filepath.Join(dir, "second"), filepath.Join(dir, "other")))
		restored := time.Since(begun).Seconds()
		r, err := Open(filepath.Join(dir, "other"), Options{Namespace: "bench"})
		require.NoError(b, err)
		b.ReportMetric(time.Since(begun).Seconds(), "start-s")
		require.Equal(b, int64(benchPartitions*(each+each/100)), r.States()[events.TaskStateProcessed])
		require.NoError(b, r.Close())
		b.ReportMetric(fold, "fold-s")
		b.ReportMetric(first, "first-s")
		b.ReportMetric(again, "unchanged-s")
		b.ReportMetric(second, "second-s")
		b.ReportMetric(restored, "restore-s")
		b.ReportMetric(float64(c.Bytes())/1e6, "MB")
		b.ReportMetric(float64(c.Records()), "records")
	}
}

// foldMade makes and folds the facts of some tasks, and adds the time of making them to making.
func foldMade(b *testing.B, s *Store, l *fiveStepLog, tasks [2]int, making *time.Duration) {
	const atOnce = 100
	state := events.NewState(l.partition, s.Partition(l.partition).Loader())
	if l.next() > 0 {
		snap, _, _, err := s.Partition(l.partition).Snapshot()
		require.NoError(b, err)
		state, err = events.OpenState(l.partition, snap, s.Partition(l.partition).Loader())
		require.NoError(b, err)
	}
	timed := func(do func()) {
		begun := time.Now()
		do()
		*making += time.Since(begun)
	}
	require.NoError(b, Fold(context.Background(), Folding{
		State: state, Evict: true,
		Read: func(yield func(events.Record) error) error {
			for from := tasks[0]; from < tasks[1]; from += atOnce {
				timed(func() {
					l.dropped, l.records = l.next(), nil
					if l.dropped == 0 {
						l.begin()
					}
					l.group(from, min(from+atOnce, tasks[1]))
				})
				for i := range l.records {
					if err := yield(l.records[i]); err != nil {
						return err
					}
				}
			}
			return nil
		},
		Commit: func(d *events.Delta, a Anchor) error {
			return s.Commit(Batch{Deltas: []*events.Delta{d}, Anchors: map[int32]Anchor{l.partition: a}})
		},
	}))
}
