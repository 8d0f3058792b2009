package projector

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sagalog/sagalog/events"
)

const (
	benchPartitions = 8
	// benchStages is the number of commits for a five-step task: the first accepts it and starts its first step, each outcome
	// is committed with the start of the next step, and the last outcome with the task's end.
	benchStages = 6
	benchSteps  = benchStages - 1
	benchID     = "order-0000000001"
	benchHash   = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdee"
)

// fiveSteps returns the deltas of one partition as an owner commits them. Each delta has the same number of tasks in each
// stage, so nearly all are in the middle.
type fiveSteps struct {
	partition int32
	next      int64
	round     int
	// each is how many tasks begin in each round.
	each int
	// inFlight holds the unfinished tasks of the previous rounds, by stage.
	inFlight  [benchStages][]*events.TaskRow
	encodings [benchStages][]byte
	random    *rand.Rand
}

func newFiveSteps(tb testing.TB, partition int32, batch int) *fiveSteps {
	f := &fiveSteps{partition: partition, each: max(batch/benchStages, 1), random: rand.New(rand.NewPCG(1, uint64(partition)))}
	for stage := range benchStages {
		f.encodings[stage] = fiveStepEncoding(tb, stage)
	}
	return f
}

// fiveStepEncoding returns an encoding with the size of a task in that stage. Its content does not matter here.
func fiveStepEncoding(tb testing.TB, stage int) []byte {
	at := events.Instant(1_800_000_000_000)
	t := &events.Task{
		ID: benchID, Run: 1, Workflow: "five", Version: 1, Definition: "sha256:0123456789abcdef0123456789abcdef", State: events.TaskStateProcessing,
		Input: []byte(`{"order":"order-0000000001","amount":1250}`), Content: benchHash,
		SubmittedAt: at, UpdatedAt: at, Facts: 2 * (stage + 1), Completions: stage,
		Last: events.Position{Epoch: events.Epoch{N: 1, ID: "0123456789abcdef"}, Sequence: 123456},
	}
	for i := range min(stage+1, benchSteps) {
		s := &events.Step{
			Path: fmt.Sprint("step", i), Agent: fmt.Sprint("agent", i), State: events.StepStateRunning, Attempt: 1, StartedAt: at, CompleteBy: at + 30_000,
			Input: []byte(`{"order":"order-0000000001"}`), Tries: 1, Undoable: true,
		}
		if i < stage {
			s.State, s.EndedAt, s.Output, s.Touched, s.Completion = events.StepStateCompleted, at, []byte(`{"id":"r-order-0000000001"}`), true, i+1
		}
		t.Steps = append(t.Steps, s)
	}
	b, err := events.Marshal(t)
	require.NoError(tb, err)
	return b
}

// encoding contains the ID and different hashes, so that rows do not compress better than real ones.
func (f *fiveSteps) encoding(stage int, id string) []byte {
	b := bytes.ReplaceAll(f.encodings[stage], []byte(benchID), []byte(id))
	at := bytes.Index(b, []byte(benchHash))
	for i := at; i < at+len(benchHash); i++ {
		b[i] = "0123456789abcdef"[f.random.Uint32()&15]
	}
	return b
}

func (f *fiveSteps) delta() *events.Delta {
	at := events.Instant(1_800_000_000_000 + 20*f.round)
	d := &events.Delta{Partition: f.partition, Sum: events.Hash{Hi: uint64(f.round), Lo: 7}, Runs: []events.Run{{Epoch: events.Epoch{N: 1, ID: "0123456789abcdef"}, Sequence: 9, Offset: f.next, Count: 1000}}}
	fresh := make([]*events.TaskRow, f.each)
	for i := range fresh {
		fresh[i] = &events.TaskRow{ID: fmt.Sprintf("order-%010d", f.random.Uint64N(1e10)), Keys: events.Keys{State: events.TaskStateProcessing, Workflow: "five", SubmittedAt: at}}
	}
	for stage := benchStages - 1; stage >= 0; stage-- {
		rows := fresh
		if stage > 0 {
			rows = f.inFlight[stage-1]
		}
		f.inFlight[stage] = make([]*events.TaskRow, len(rows))
		for i, r := range rows {
			now := &events.TaskRow{ID: r.ID, Encoding: f.encoding(stage, r.ID), Keys: r.Keys}
			if stage > 0 {
				now.Was = &r.Keys
			}
			now.Keys.Due = at + 30_000
			if stage == benchSteps {
				now.Keys.State, now.Keys.EndedAt, now.Keys.Due = events.TaskStateProcessed, at, 0
			}
			f.inFlight[stage][i] = now
			d.Tasks = append(d.Tasks, *now)
			d.History = append(d.History, events.History{Task: r.ID, Offset: f.next}, events.History{Task: r.ID, Offset: f.next + 1})
			f.next += 2
		}
	}
	d.Next = f.next
	d.Parts = []events.PartRow{{Kind: events.KindPartition, Encoding: []byte(fmt.Sprintf(`{"partition":%d,"epoch":"1-0123456789abcdef","owner":"bench","next_sequence":%d}`, f.partition, f.next))}}
	f.round++
	return d
}

func cpuTime() time.Duration {
	var u syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &u)
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// BenchmarkCommitFiveSteps commits the histories of five-step tasks in eight partitions. cpu-us/task is the CPU time of the
// whole process while it commits, including Pebble's work. A task is six committed rows.
func BenchmarkCommitFiveSteps(b *testing.B) {
	for _, batch := range []int{48, 480} {
		b.Run(fmt.Sprintf("batch=%d", batch), func(b *testing.B) {
			s, err := Open(b.TempDir(), Options{Namespace: "bench"})
			require.NoError(b, err)
			var of [benchPartitions]*fiveSteps
			for p := range of {
				of[p] = newFiveSteps(b, int32(p), batch)
			}
			var deltas []*events.Delta
			var cpu time.Duration
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				if len(deltas) == 0 {
					b.StopTimer()
					for range 20_000 / batch {
						for _, f := range of {
							deltas = append(deltas, f.delta())
						}
					}
					cpu -= cpuTime()
					b.StartTimer()
				}
				d := deltas[0]
				deltas = deltas[1:]
				batch := Batch{Deltas: []*events.Delta{d}, Anchors: map[int32]Anchor{d.Partition: {Offset: d.Next - 1, Hash: "0123456789abcdef"}}}
				if err := s.Commit(batch); err != nil {
					b.Fatal(err)
				}
				if len(deltas) == 0 {
					cpu += cpuTime()
				}
			}
			if len(deltas) > 0 {
				cpu += cpuTime()
			}
			begun := cpuTime()
			require.NoError(b, s.db.Flush())
			m := s.db.Metrics()
			require.NoError(b, s.Close())
			cpu += cpuTime() - begun
			tasks := float64(b.N*of[0].each*benchStages) / benchStages
			b.ReportMetric(float64(cpu.Microseconds())/tasks, "cpu-us/task")
			b.ReportMetric(float64(m.Levels[0].TableBytesFlushed)/tasks, "flushed-B/task")
			b.ReportMetric(float64(m.DiskSpaceUsage()-m.WAL.PhysicalSize)/tasks, "disk-B/task")
		})
	}
}
