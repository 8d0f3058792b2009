package scheduler_test

import (
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sagalog/sagalog/events"
	"github.com/sagalog/sagalog/scheduler"
)

// world is a prepared definition and a task of it.
type world struct {
	sched *scheduler.Scheduler
	hash  string
	body  []byte
	task  *events.Task
}

// openWorld reads a definition of the repository. The files that its $refs name are in the same
// directory.
func openWorld(tb testing.TB, dir, name, input string) *world {
	tb.Helper()
	read := func(ref string) ([]byte, error) { return os.ReadFile(dir + "/" + ref) }
	text, err := read(name)
	require.NoError(tb, err)
	src, faults := scheduler.Parse(name, text, read)
	require.NotNil(tb, src, lines(faults))
	d, err := scheduler.Complete(src.Body)
	require.NoError(tb, err)
	w := &world{sched: scheduler.New(), hash: src.Hash}
	w.body, err = events.Marshal(d)
	require.NoError(tb, err)
	require.NoError(tb, w.sched.Prepare(w.hash, w.body))
	w.task = &events.Task{
		ID: "order-4711", Run: 1, Workflow: src.Workflow, Version: 1, Definition: src.Hash, State: events.TaskStateProcessing,
		Input: json.RawMessage(input), SubmittedAt: 1_800_000_000_000,
	}
	_, wrong := w.sched.Accept(w.hash, &events.Submission{ID: w.task.ID, Input: w.task.Input}, 1)
	require.Empty(tb, wrong)
	return w
}

func fiveSteps(tb testing.TB) *world {
	return openWorld(tb, "../internal/bench", "five.yaml", `{"customer":"customer-4711","amount":12.5}`)
}

func droneDelivery(tb testing.TB) *world {
	return openWorld(tb, "../internal/dronedelivery/files", "workflow.yaml",
		`{"ownerId":"owner-1","packageInfo":{"size":"small","weight":1.10},"pickup":{"region":"north","address":"1 Main Street"},`+
			`"dropoff":{"region":"south","address":"2 Side Street"},"confirmationRequired":"picture","expedited":false}`)
}

// stage is called with the name of each stage of a task, and the task.
type stage func(name string, t *events.Task)

// walk runs the task to its end as an owner would, with all ready steps at once, and calls show at each stage.
func (w *world) walk(tb testing.TB, at stage) {
	tb.Helper()
	for n := 1; ; n++ {
		plan, err := w.sched.Plan(w.task)
		require.NoError(tb, err)
		require.Empty(tb, plan.Broken)
		at(fmt.Sprintf("%d-ready-%d-facts-%d", n, len(plan.Ready), len(plan.Facts)), w.task)
		for _, f := range plan.Facts {
			if skipped, ok := f.(*events.StepSkipped); ok {
				w.task.Steps = append(w.task.Steps, &events.Step{Path: skipped.Step, State: events.StepStateSkipped})
				continue
			}
			require.IsType(tb, &events.TaskProcessed{}, f)
			return
		}
		var paths []string
		for _, r := range plan.Ready {
			s, err := w.sched.Start(w.task, r.Path, r.Operation)
			require.NoError(tb, err)
			w.task.Steps = append(w.task.Steps, &events.Step{Path: r.Path, Agent: r.Agent, State: events.StepStateRunning, Attempt: 1, Input: s.Input, Pivot: s.Pivot, Undoable: s.Undoable})
			paths = append(paths, r.Path)
		}
		at(fmt.Sprintf("%d-running-%s", n, strings.Join(paths, "-")), w.task)
		for _, p := range paths {
			step := w.task.Step(p)
			step.State, step.Touched, step.Output = events.StepStateCompleted, true, json.RawMessage(`{"id":"r-`+p+`-4711","drone":"d-7","eta":"2027-01-15T08:00:00.000Z"}`)
		}
	}
}

var worlds = map[string]func(testing.TB) *world{"five": fiveSteps, "drone": droneDelivery}

func BenchmarkPlan(b *testing.B) {
	for _, name := range []string{"five", "drone"} {
		w := worlds[name](b)
		w.walk(b, func(stage string, t *events.Task) {
			b.Run(name+"/"+stage, func(b *testing.B) {
				b.ReportAllocs()
				for b.Loop() {
					if _, err := w.sched.Plan(t); err != nil {
						b.Fatal(err)
					}
				}
			})
		})
	}
}

func BenchmarkStart(b *testing.B) {
	for _, name := range []string{"five", "drone"} {
		w := worlds[name](b)
		w.walk(b, func(stage string, t *events.Task) {
			plan, err := w.sched.Plan(t)
			require.NoError(b, err)
			for _, r := range plan.Ready {
				b.Run(name+"/"+r.Path, func(b *testing.B) {
					b.ReportAllocs()
					for b.Loop() {
						if _, err := w.sched.Start(t, r.Path, r.Operation); err != nil {
							b.Fatal(err)
						}
					}
				})
			}
		})
	}
}

func BenchmarkUndo(b *testing.B) {
	w := fiveSteps(b)
	w.walk(b, func(string, *events.Task) {})
	w.task.State = events.TaskStateUndoing
	plan, err := w.sched.Plan(w.task)
	require.NoError(b, err)
	require.Len(b, plan.Ready, 1)
	b.Run("plan", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if _, err := w.sched.Plan(w.task); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("start", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if _, err := w.sched.Start(w.task, plan.Ready[0].Path, events.Undo); err != nil {
				b.Fatal(err)
			}
		}
	})
}

func BenchmarkAccept(b *testing.B) {
	for _, name := range []string{"five", "drone"} {
		w := worlds[name](b)
		sub := &events.Submission{ID: w.task.ID, Input: w.task.Input}
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if _, wrong := w.sched.Accept(w.hash, sub, 1); wrong != "" {
					b.Fatal("refused")
				}
			}
		})
	}
}

func BenchmarkPolicy(b *testing.B) {
	w := fiveSteps(b)
	b.ReportAllocs()
	for b.Loop() {
		w.sched.Policy(w.task, "pay", events.Do)
	}
}

func BenchmarkPrepare(b *testing.B) {
	w := fiveSteps(b)
	b.ReportAllocs()
	for b.Loop() {
		if err := w.sched.Prepare(w.hash, w.body); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkAdmit(b *testing.B) {
	w := fiveSteps(b)
	room, ready := map[string]int{}, make([]events.Ready, 8)
	b.ReportAllocs()
	for b.Loop() {
		room["pay"] = 4
		for i := range ready {
			ready[i] = events.Ready{Task: w.task.ID, Path: "pay", Operation: events.Do, Agent: "pay", Since: events.Instant(-i)}
		}
		w.sched.Admit(ready, room, 0)
	}
}

// A workflow of a thousand steps in a row, half of them done, is the most that one plan looks through.
func BenchmarkPlanOfAThousandSteps(b *testing.B) {
	var text strings.Builder
	text.WriteString("workflow: w\nsteps:\n  s0: {agent: a}\n")
	for i := 1; i < 1000; i++ {
		fmt.Fprintf(&text, "  s%d: {agent: a, needs: [s%d]}\n", i, i-1)
	}
	src, faults := scheduler.Parse("f", []byte(text.String()), nil)
	require.NotNil(b, src, lines(faults))
	d, err := scheduler.Complete(src.Body)
	require.NoError(b, err)
	body, err := events.Marshal(d)
	require.NoError(b, err)
	s := scheduler.New()
	require.NoError(b, s.Prepare(src.Hash, body))
	t := &events.Task{ID: "t", Definition: src.Hash, State: events.TaskStateProcessing}
	for i := range 500 {
		t.Steps = append(t.Steps, &events.Step{Path: fmt.Sprintf("s%d", i), State: events.StepStateCompleted})
	}
	b.ReportAllocs()
	for b.Loop() {
		if plan, err := s.Plan(t); err != nil || len(plan.Ready) != 1 {
			b.Fatal(err)
		}
	}
}
