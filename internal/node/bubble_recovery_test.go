//go:build synctests

package node_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/sagalog/sagalog/events"
	"github.com/sagalog/sagalog/internal/node"
	"github.com/sagalog/sagalog/projector/projectortest"
	"github.com/stretchr/testify/require"
)

// faulty is a world for one fault: nodes with disks in memory, the workflow order, and a crew.
type faulty struct {
	*world
	nodes []*process
	disks []*projectortest.Disk
	crew  *crew
	tasks []string
}

// begin starts nodes that share a world's partitions, applies the workflow and hires a crew.
func begin(w *world, nodes int, change ...func(*node.Config)) *faulty {
	w.t.Helper()
	f := &faulty{world: w}
	var names []string
	for range nodes {
		names = append(names, f.join(change...).name)
	}
	w.apply(f.nodes[0], order)
	f.crew = w.hire(nil)
	w.shared(names...)
	return f
}

// join starts another node on a separate disk.
func (f *faulty) join(change ...func(*node.Config)) *process {
	f.t.Helper()
	d := projectortest.NewDisk()
	f.disks = append(f.disks, d)
	p := f.node(memory, append([]func(*node.Config){together, on(d)}, change...)...)
	f.nodes = append(f.nodes, p)
	return p
}

// work submits n tasks.
func (f *faulty) work(name string, n int) []string {
	f.t.Helper()
	more := ids(name, n)
	f.submit(more...)
	f.tasks = append(f.tasks, more...)
	return more
}

// quick shows that the engine has recovered: a task that is submitted now ends within the bound. It returns the time
// that the task took.
func (f *faulty) quick(name string, bound time.Duration) time.Duration {
	f.t.Helper()
	begun := time.Now()
	f.watch.ended(f.work(name, 1)...)
	took := time.Since(begun)
	require.Less(f.t, took, bound, "the engine has recovered")
	return took
}

// during submits tasks while a fault happens several times, with a pause after each occurrence.
func (f *faulty) during(name string, times int, pause time.Duration, fault func(i int)) {
	f.t.Helper()
	for i := range times {
		fault(i)
		f.work(fmt.Sprintf("%s-%d", name, i), 3)
		<-time.After(pause)
	}
}

// prove waits until all tasks have ended, stops the nodes, and checks the invariants that every healed world must
// satisfy.
func (f *faulty) prove() {
	f.t.Helper()
	f.watch.ended(f.tasks...)
	for _, p := range f.nodes {
		require.NoError(f.t, p.stop())
	}
	for _, id := range f.tasks {
		require.Equal(f.t, events.TaskStateProcessed, f.watch.state(id, events.TaskStateProcessed).State)
	}
	f.watch.verify()
	f.oneOutcome()
	f.everyCallIsInTheLog(f.crew)
	f.everyStepWasDone(f.crew)
	f.proveDisks(f.disks...)
	f.observerAgrees()
}

// oneOutcome checks INV7: an attempt has at most one accepted outcome.
func (w *world) oneOutcome() {
	w.t.Helper()
	outcomes := map[string]string{}
	for _, s := range w.watch.log() {
		if s.fate != events.FateAccepted {
			continue
		}
		key := ""
		switch b := s.fact.Body.(type) {
		case *events.StepCompleted:
			key = fmt.Sprint(s.fact.Task, b.Step, events.Do, b.Attempt)
		case *events.StepFailed:
			key = fmt.Sprint(s.fact.Task, b.Step, events.Do, b.Attempt)
		case *events.Timeout:
			key = fmt.Sprint(s.fact.Task, b.Step, b.Operation, b.Attempt)
		case *events.Compensated:
			key = fmt.Sprint(s.fact.Task, b.Step, events.Undo, b.Attempt)
		case *events.CompensationFailed:
			key = fmt.Sprint(s.fact.Task, b.Step, events.Undo, b.Attempt)
		default:
			continue
		}
		require.NotContains(w.t, outcomes, key, "an attempt has more than one outcome")
		outcomes[key] = tell(s.fact)
	}
}

// byTasks are the steps that no agent does, but their items or a child.
var byTasks = []string{"seats", "child"}

// everyStepWasDone compares the log with what the agents did: a completed step was done, an undone one was undone.
func (w *world) everyStepWasDone(c *crew) {
	w.t.Helper()
	did := map[string]bool{}
	for _, a := range c.all() {
		did[fmt.Sprint(a.Task, a.Step, a.Operation)] = true
	}
	for _, s := range w.watch.log() {
		if s.fate != events.FateAccepted {
			continue
		}
		switch b := s.fact.Body.(type) {
		case *events.StepCompleted:
			require.True(w.t, slices.Contains(byTasks, b.Step) || did[fmt.Sprint(s.fact.Task, b.Step, events.Do)], "%s of %s was not done", b.Step, s.fact.Task)
		case *events.Compensated:
			require.True(w.t, slices.Contains(byTasks, b.Step) || did[fmt.Sprint(s.fact.Task, b.Step, events.Undo)], "%s of %s was not undone", b.Step, s.fact.Task)
		}
	}
}

// claims returns the claims of a partition and whether they were accepted, in the order of the log.
func (w *world) claims(partition int32) (list []string) {
	for _, s := range w.watch.log() {
		if c, ok := s.fact.Body.(*events.PartitionClaimed); ok && s.partition == partition {
			list = append(list, fmt.Sprintf("%s %v", c.Owner, s.fate == events.FateAccepted))
		}
	}
	return list
}

// repeats counts the calls that the crew received beyond the first of each attempt.
func (c *crew) repeats() int {
	first := map[string]bool{}
	for _, a := range c.all() {
		first[fmt.Sprint(a.Task, a.Step, a.Operation, a.Attempt)] = true
	}
	return len(c.all()) - len(first)
}

// hits waits until a fault has occurred at least this many times.
func (w *world) hits(t *testing.T, met func() int, least int) {
	t.Helper()
	for met() < least {
		w.pause(t.Context(), "the fault to occur")
	}
}
