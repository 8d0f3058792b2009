package scheduler_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sagalog/sagalog/events"
	"github.com/sagalog/sagalog/scheduler"
)

// fanned is a task with items and the state that holds it.
type fanned struct {
	b     *testing.B
	sched *scheduler.Scheduler
	state *events.State
	task  *events.Task
	at    int64
}

func newFanned(b *testing.B, items int) *fanned {
	src, faults := scheduler.Parse("f.yaml", []byte(`{workflow: w, steps: {send: {agent: mailer, complete_within: 5s, for: {each: "${ input }", collect: none}, with: {id: "${ item }"}, undo: {}}}}`), nil)
	require.Empty(b, faults)
	def, err := scheduler.Complete(src.Body)
	require.NoError(b, err)
	body, err := events.Marshal(def)
	require.NoError(b, err)
	x := &fanned{b: b, sched: scheduler.New(), state: events.NewState(0, nil)}
	require.NoError(b, x.sched.Prepare(src.Hash, body))
	x.fold(&events.PartitionClaimed{ID: "c", Owner: "n", Reader: 1}, "")
	input := `["` + strings.Join(strings.Fields(strings.Repeat("customer-1 ", items)), `","`) + `"]`
	x.fold(&events.Submitted{Workflow: "w", Version: 1, Hash: src.Hash, Input: []byte(input)}, "t")
	x.task, err = x.state.Task("t")
	require.NoError(b, err)
	return x
}

func (x *fanned) fold(body events.Body, task string) {
	f := &events.Fact{Epoch: events.Epoch{N: 1, ID: "c"}, Time: events.Instant(1_800_000_000_000 + x.at), Task: task, Body: body}
	if x.at > 0 {
		f.Sequence = uint64(x.at - 1)
	}
	_, err := x.state.Apply(f, x.at)
	require.NoError(x.b, err)
	x.at++
}

// step carries out one plan, and flushes.
func (x *fanned) step() {
	plan, err := x.sched.Plan(x.task)
	require.NoError(x.b, err)
	for _, body := range plan.Facts {
		x.fold(body, "t")
	}
	for _, r := range plan.Ready {
		start, err := x.sched.Start(x.task, r.Path, r.Operation)
		require.NoError(x.b, err)
		if r.Operation == events.Undo {
			x.fold(&events.CompensationStarted{Step: r.Path, Agent: r.Agent, Attempt: 1, Input: start.Input}, "t")
			x.fold(&events.Compensated{Step: r.Path, Attempt: 1}, "t")
			continue
		}
		x.fold(&events.StepStarted{Step: r.Path, Agent: r.Agent, Attempt: 1, Input: start.Input, Undoable: true}, "t")
		x.fold(&events.StepCompleted{Step: r.Path, Attempt: 1, Output: []byte(`{"sent":true}`)}, "t")
	}
	_, err = x.state.Flush(nil)
	require.NoError(x.b, err)
}

// BenchmarkItems measures what an item costs to be done, and to be undone: plan, fold, flush. It must not depend on how many there are.
func BenchmarkItems(b *testing.B) {
	for _, items := range []int{10, 100, 1_000, 10_000} {
		b.Run(fmt.Sprint(items), func(b *testing.B) {
			for range b.N {
				x := newFanned(b, items)
				for x.task.State != events.TaskStateProcessed && x.task.Completions < items {
					x.step()
				}
				x.fold(&events.CancelRequested{Request: "q"}, "t")
				for !x.task.State.Ended() {
					x.step()
				}
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*items), "ns/item")
		})
	}
}
