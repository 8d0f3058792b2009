package export

import (
	"context"
	"flag"
	"fmt"
	"os"
	"regexp"
	"runtime"
	"runtime/debug"
	"strconv"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sagalog/sagalog/events"
	"github.com/sagalog/sagalog/internal/verify"
)

var (
	memoryFacts = flag.Int64("export.facts", 0, "TestMemoryIsFlat exports a quarter of these facts to Parquet, half of them, and all, and measures the process")
	memoryTable = flag.String("export.table", "facts", "the table of -export.facts: facts, attempts, tasks, steps, xes or ocel")
)

// endless is a log of any length, made while it is read: of tasks that have twelve facts, or four if they are undone, which every tenth is. The tasks of a group are
// under way side by side.
type endless struct {
	partitions int
	// groups is how many a partition has.
	groups int64
	// sweeps says that the log forgets the tasks of each group a few groups later.
	sweeps bool
	// sample, unless it is nil, is called between two groups.
	sample func()
	facts  atomic.Int64
}

const (
	endlessGroup = 100
	endlessSteps = 5
	// endlessFacts are those of a group.
	endlessFacts = endlessGroup / 10 * (9*(2*endlessSteps+2) + 4)
	// endlessAlike is how many groups later the fold, which commits every 8000 facts, has as much left to commit.
	endlessAlike = 100
	// endlessBack is how many groups later tasks are swept.
	endlessBack = 20
)

func (l *endless) Bounds(context.Context, string) (list []verify.Bounds, err error) {
	for range l.partitions {
		list = append(list, verify.Bounds{End: 3 + l.groups*(endlessFacts+1)}) // no record is behind the end, and not each offset has one
	}
	return list, nil
}

func (l *endless) Read(_ context.Context, s verify.Span, yield func(events.Record) error) error {
	w := &endlessWriter{partition: s.Partition, yield: yield}
	w.begin()
	for group := range l.groups {
		for stage := range endlessSteps + 1 {
			for n := range endlessGroup {
				w.stage(endlessTask(s.Partition, group, n), stage, n%10 == 0)
			}
		}
		if l.sweeps && group >= endlessBack {
			swept := &events.TasksSwept{EndedBefore: w.now()}
			for n := range endlessGroup {
				swept.Tasks = append(swept.Tasks, endlessTask(s.Partition, group-endlessBack, n))
			}
			w.add("", swept)
		}
		if w.err != nil {
			return w.err
		}
		if l.sample != nil {
			l.sample()
		}
	}
	l.facts.Add(w.offset)
	return nil
}

func endlessTask(partition int32, group int64, n int) string {
	return fmt.Sprintf("order-%d-%07d-%03d", partition, group, n)
}

type endlessWriter struct {
	partition int32
	yield     func(events.Record) error
	epoch     events.Epoch
	sequence  uint64
	offset    int64
	err       error
}

func (w *endlessWriter) now() events.Instant {
	return events.Instant(1_800_000_000_000 + w.offset/100)
}

func (w *endlessWriter) add(task string, body events.Body) {
	if w.err != nil {
		return
	}
	f := &events.Fact{Epoch: w.epoch, Sequence: w.sequence, Time: w.now(), Task: task, Body: body, Cause: events.CauseInput(events.Reports, w.partition, w.offset)}
	if _, ok := body.(*events.PartitionClaimed); ok {
		f.Epoch, f.Cause = events.Epoch{}, ""
	} else {
		w.sequence++
	}
	r, err := events.EncodeFact(f, w.partition, "/memory")
	if err != nil {
		w.err = err
		return
	}
	r.Offset = w.offset
	w.offset++
	w.err = w.yield(r)
}

func (w *endlessWriter) begin() {
	w.add("", &events.PartitionClaimed{ID: "0123456789abcdef", Owner: "memory", Reader: 1})
	w.epoch, w.sequence = events.Epoch{N: 1, ID: "0123456789abcdef"}, 0
	w.add("", &events.SettingsAdopted{Settings: events.DefaultSettings()})
	w.add("", &events.DefinitionAdopted{Workflow: "five", Hash: "h", Version: 1, Body: []byte(`{"steps":[{"id":"step0"},{"id":"step1"},{"id":"step2"},{"id":"step3"},{"id":"step4"}]}`)})
}

// stage writes the two facts of one stage of a task.
func (w *endlessWriter) stage(id string, stage int, undone bool) {
	at := w.now()
	outcome := events.Outcome{Instance: "agent-1", ReadyAt: at, StartedAt: at, FinishedAt: at}
	switch {
	case stage == 0:
		w.add(id, &events.Submitted{Workflow: "five", Version: 1, Hash: "h", Input: []byte(`{"order":"` + id + `","amount":1250}`), Content: "0123456789abcdef"})
	case undone && stage == 1:
		w.add(id, &events.StepFailed{Step: "step0", Attempt: 1, Error: events.Error{Class: events.ClassPermanent, Code: "refused", Message: "no " + id}, Effect: events.EffectNone, Verdict: events.Verdict{Action: events.ActionUndo, Reason: "refused"}, Outcome: outcome})
		w.add(id, &events.TaskUndone{Reason: "refused"})
		return
	case undone:
		return
	default:
		w.add(id, &events.StepCompleted{Step: fmt.Sprint("step", stage-1), Attempt: 1, Output: []byte(`{"id":"r-` + id + `"}`), Outcome: outcome})
	}
	if stage < endlessSteps {
		w.add(id, &events.StepStarted{Step: fmt.Sprint("step", stage), Agent: fmt.Sprint("agent", stage), Attempt: 1, CompleteBy: at + 30_000, Input: []byte(`{"order":"` + id + `"}`), Undoable: true})
	} else {
		w.add(id, &events.TaskProcessed{Output: []byte(`{"id":"r-` + id + `"}`)})
	}
}

var allTables = map[string]func(context.Context, Config) (Result, error){"facts": Facts, "attempts": Attempts, "tasks": Tasks, "steps": Steps, "xes": XES, "ocel": OCEL}

// Memory does not grow with the log. Unless -export.facts asks for more, what is alive in the heap is measured of the tables that do not fold tasks, which no load of the
// machine changes, where they put aside almost all that they know. One more map with a place for each task takes 5 bytes a fact. (The others have a state store, whose caches
// fill and empty as they like: -export.table measures them.)
func TestMemoryIsFlat(t *testing.T) {
	if *memoryFacts > 0 {
		memoryOfTheProcess(t, *memoryTable)
		return
	}
	if testing.Short() {
		t.Skip("it folds logs of 336,000 facts")
	}
	for _, name := range []string{"facts", "attempts"} {
		t.Run(name, func(t *testing.T) {
			var alive []int64
			n, l := 0, &endless{partitions: 1, groups: 3 * endlessAlike}
			l.sample = func() {
				if n++; n%endlessAlike == 0 {
					alive = append(alive, liveHeap())
				}
			}
			cfg := configOf(nil, t.TempDir(), CSV)
			cfg.Log, cfg.fileRows, cfg.shelfTasks = l, 0, 100
			res, err := allTables[name](t.Context(), cfg)
			require.NoError(t, err)
			require.Positive(t, res.Rows)
			more := float64(alive[2]-alive[0]) / (2 * endlessAlike * endlessFacts)
			t.Logf("bytes alive: %d; %.2f for each further fact", alive, more)
			require.Less(t, more, mostAlive)
		})
	}
}

func liveHeap() int64 {
	runtime.GC()
	runtime.GC() // what had a finalizer or a cleanup
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// The bounds of an export: mostMemory whatever its length, and mostPerFact for each further fact, since a peak is measured and peaks differ by some MiB.
const (
	mostMemory  = 300 << 20
	mostPerFact = 2.0
	// mostAlive is for what is alive in the heap.
	mostAlive = 4.0
)

// memoryOfTheProcess exports with the memory limit of the command. All partitions are under way at the same time, so a log of eight that are as long has four times the
// facts on two processors, and takes no more memory.
func memoryOfTheProcess(t *testing.T, table string) {
	defer debug.SetMemoryLimit(debug.SetMemoryLimit(HeapLimit))
	defer debug.SetGCPercent(debug.SetGCPercent(400))
	type measured struct{ facts, peak int64 }
	var all []measured
	partitions := runtime.GOMAXPROCS(0)
	for _, facts := range []int64{*memoryFacts / 4, *memoryFacts / 2, *memoryFacts} {
		debug.FreeOSMemory()
		if err := os.WriteFile("/proc/self/clear_refs", []byte("5"), 0); err != nil {
			t.Skip("only Linux says how much memory a process used, and since when:", err)
		}
		cfg := configOf(nil, t.TempDir(), Parquet)
		l := &endless{partitions: partitions, groups: facts / int64(partitions) / endlessFacts, sweeps: table == "xes"}
		cfg.Log, cfg.fileRows = l, 0
		_, err := allTables[table](t.Context(), cfg)
		require.NoError(t, err)
		peak := peakMemory(t)
		t.Logf("%s: %d facts in %d partitions, peak %d MiB", table, l.facts.Load(), partitions, peak>>20)
		require.Less(t, peak, int64(mostMemory))
		all = append(all, measured{l.facts.Load(), peak})
		require.NoError(t, os.RemoveAll(cfg.Dir))
	}
	slope := float64(all[2].peak-all[0].peak) / float64(all[2].facts-all[0].facts)
	t.Logf("%s: %.2f bytes more for each further fact", table, slope)
	require.Less(t, slope, mostPerFact)
}

// peakMemory is the highest resident memory of this process since it was last cleared, in bytes.
func peakMemory(t *testing.T) int64 {
	b, err := os.ReadFile("/proc/self/status")
	require.NoError(t, err)
	found := regexp.MustCompile(`VmHWM:\s+(\d+) kB`).FindSubmatch(b)
	require.NotNil(t, found)
	n, err := strconv.ParseInt(string(found[1]), 10, 64)
	require.NoError(t, err)
	return n << 10
}
