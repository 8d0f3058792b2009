package projector

import (
	"context"
	"fmt"
	"runtime"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"github.com/sagalog/sagalog/events"
)

// fiveStepLog writes the log of a partition in which the given number of tasks are under way at once, with twelve facts for
// each task.
type fiveStepLog struct {
	tb        testing.TB
	partition int32
	epoch     events.Epoch
	sequence  uint64
	records   []events.Record
	// dropped counts the records before these, which are no longer needed.
	dropped int
}

func (l *fiveStepLog) next() int { return l.dropped + len(l.records) }

func (l *fiveStepLog) add(task string, body events.Body) {
	at := events.Instant(1_800_000_000_000 + l.next()/100)
	f := &events.Fact{Epoch: l.epoch, Sequence: l.sequence, Time: at, Task: task, Body: body, Cause: events.CauseInput(events.Reports, l.partition, int64(l.next()))}
	if _, ok := body.(*events.PartitionClaimed); ok {
		f.Epoch, f.Cause = events.Epoch{}, ""
	} else {
		l.sequence++
	}
	r, err := events.EncodeFact(f, l.partition, "/bench")
	require.NoError(l.tb, err)
	r.Offset = int64(l.next())
	r.Headers, r.Key, r.Value = slices.Clone(r.Headers), slices.Clone(r.Key), slices.Clone(r.Value)
	l.records = append(l.records, r)
}

func newFiveStepLog(tb testing.TB, partition int32, tasks, atOnce int) []events.Record {
	l := &fiveStepLog{tb: tb, partition: partition}
	l.begin()
	for from := 0; from < tasks; from += atOnce {
		l.group(from, min(from+atOnce, tasks))
	}
	return l.records
}

func (l *fiveStepLog) begin() {
	l.add("", &events.PartitionClaimed{ID: "0123456789abcdef", Owner: "bench", Reader: 1})
	l.epoch, l.sequence = events.Epoch{N: 1, ID: "0123456789abcdef"}, 0
	l.add("", &events.SettingsAdopted{Settings: events.DefaultSettings()})
	l.add("", &events.DefinitionAdopted{Workflow: "five", Hash: "h", Version: 1, Body: []byte(`{"steps":{}}`)})
}

// group runs the tasks of some numbers side by side from their beginning to their end.
func (l *fiveStepLog) group(from, to int) {
	for stage := range benchStages {
		for i := from; i < to; i++ {
			l.stage(fmt.Sprintf("order-%d-%08d", l.partition, i), stage)
		}
	}
}

// stage writes the two facts of one stage of a task.
func (l *fiveStepLog) stage(id string, stage int) {
	at := events.Instant(1_800_000_000_000 + l.next()/100)
	if stage == 0 {
		l.add(id, &events.Submitted{Workflow: "five", Version: 1, Hash: "h", Input: []byte(`{"order":"` + id + `","amount":1250}`), Content: benchHash})
	} else {
		l.add(id, &events.StepCompleted{Step: fmt.Sprint("step", stage-1), Attempt: 1, Output: []byte(`{"id":"r-` + id + `"}`),
			Outcome: events.Outcome{Instance: "agent-1", ReadyAt: at, StartedAt: at, FinishedAt: at}})
	}
	if stage < benchSteps {
		l.add(id, &events.StepStarted{Step: fmt.Sprint("step", stage), Agent: fmt.Sprint("agent", stage), Attempt: 1, CompleteBy: at + 30_000, Input: []byte(`{"order":"` + id + `"}`), Undoable: true})
	} else {
		l.add(id, &events.TaskProcessed{Output: []byte(`{"id":"r-` + id + `"}`)})
	}
}

// BenchmarkFold rebuilds a store of eight partitions from a log in memory, with one partition per CPU at a time.
func BenchmarkFold(b *testing.B) {
	const tasks, atOnce = 1000, 100
	var logs [benchPartitions][]events.Record
	facts := 0
	for p := range logs {
		logs[p] = newFiveStepLog(b, int32(p), tasks, atOnce)
		facts += len(logs[p])
	}
	b.ReportAllocs()
	var cpu time.Duration
	for b.Loop() {
		b.StopTimer()
		s, err := Open(b.TempDir(), Options{Namespace: "bench"})
		require.NoError(b, err)
		cpu -= cpuTime()
		b.StartTimer()
		g, ctx := errgroup.WithContext(context.Background())
		g.SetLimit(runtime.GOMAXPROCS(0))
		for p := range logs {
			g.Go(func() error { return foldLog(ctx, s, int32(p), logs[p]) })
		}
		require.NoError(b, g.Wait())
		b.StopTimer()
		cpu += cpuTime()
		require.Equal(b, int64(tasks*benchPartitions), s.States()[events.TaskStateProcessed])
		require.NoError(b, s.Close())
		b.StartTimer()
	}
	b.ReportMetric(float64(cpu.Nanoseconds())/float64(b.N*facts), "cpu-ns/fact")
	b.ReportMetric(float64(b.N*facts)/b.Elapsed().Seconds(), "facts/s")
}

func foldLog(ctx context.Context, s *Store, partition int32, log []events.Record) error {
	return Fold(ctx, Folding{
		State: events.NewState(partition, s.Partition(partition).Loader()), Evict: true,
		Read: func(yield func(events.Record) error) error {
			for i := range log {
				if err := yield(log[i]); err != nil {
					return err
				}
			}
			return nil
		},
		Commit: func(d *events.Delta, a Anchor) error {
			return s.Commit(Batch{Deltas: []*events.Delta{d}, Anchors: map[int32]Anchor{partition: a}})
		},
	})
}
