package node_test

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sagalog/sagalog/agent"
	"github.com/sagalog/sagalog/events"
)

// A copy is made while one task waits for the permit of another, an undo is under way, and the task of a schedule has not ended. All of them go on
// in partitions that have other numbers: the second task gets the permit only when the first gives it back, the undo has its key and its input, and the
// schedule learns of the end.
func TestWhatWaitsGoesOnInACopy(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w := setup(t, 3)
		w.kinds = []string{"stock", "bank", "carrier"}
		n := w.node(t.TempDir())
		w.apply(n, "workflow: turns\nconcurrency: {key: k, max: 1}\nsteps:\n  only: {agent: stock, complete_within: 10m}\n")
		w.apply(n, `
workflow: back
steps:
  book: {agent: bank, with: {id: "${ task.id }"}, undo: {with: {undoes: "${ task.id }"}, complete_within: 10m}}
  send: {needs: [book], agent: carrier, retry: {attempts: 1, then: undo}}
`)
		w.apply(n, "workflow: report\nsteps:\n  make: {sleep: 40s}\n")
		w.schedule(n, "often", "schedule: often\nworkflow: report\nevery: 1m\noverlap: skip\n")
		first := w.hire(func(ctx context.Context, a agent.Attempt) error {
			if a.Agent == "carrier" {
				return errRefused
			}
			if a.Agent == "stock" || a.Operation == events.Undo {
				<-ctx.Done()
			}
			return nil
		})
		w.produce(w.topics.Submissions(), -1, bare("turns", "turns-1"), bare("turns", "turns-2"), bare("back", "back-1"))
		waiting := func(o *observer, id string) bool {
			task := o.task(id)
			return task != nil && task.Permit.State == events.PermitStateAsked
		}
		w.watch.await("one task waits for the other, and the undo is under way", func() bool {
			task := w.watch.task("back-1")
			return len(first.all()) == 4 && task != nil && task.State == events.TaskStateUndoing && (waiting(w.watch, "turns-1") != waiting(w.watch, "turns-2"))
		})
		task := w.running(n, "often")
		require.NoError(t, n.stop())
		first.net.cut()
		first.leave()

		to := setup(t, 7)
		to.kinds = w.kinds
		r, err := w.copyTo(to)
		require.NoError(t, err)
		require.EqualValues(t, 2, r.Work, "the step of turns, and the undo")
		m := to.node(t.TempDir())
		var turns atomic.Int32
		second := to.hire(func(ctx context.Context, a agent.Attempt) error {
			if a.Agent == "stock" {
				require.EqualValues(t, 1, turns.Add(1), "one task at a time has the permit")
				<-time.After(time.Second)
				turns.Add(-1)
			}
			return nil
		})
		to.watch.ended("turns-1", "turns-2", "back-1", task)
		to.watch.await("the task is undone", func() bool { return to.watch.task("back-1").State == events.TaskStateUndone })
		undo, again := first.of("back-1", "book", events.Undo), second.of("back-1", "book", events.Undo)
		require.Len(t, again, 1)
		require.Equal(t, undo[0].IdempotencyKey, again[0].IdempotencyKey)
		require.Equal(t, undo[0].Attempt, again[0].Attempt)
		require.Len(t, append(first.of("turns-1", "only", events.Do), second.of("turns-1", "only", events.Do)...), 1+len(first.of("turns-1", "only", events.Do)))
		to.scheduled(m, "often", func(x *events.Schedule) bool { return x.IsOver(task) && x.Fired >= 2 && len(x.Running) == 0 })
		require.NoError(t, m.stop())
		to.watch.verify()
		to.proveCopied()
	})
}

// bare is a submission without an input.
func bare(workflow, id string) events.Record {
	return events.Record{Key: []byte(id), Value: []byte(`{"id":"` + id + `","workflow":"` + workflow + `"}`)}
}
