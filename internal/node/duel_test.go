package node_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/sagalog/sagalog/events"
	"github.com/stretchr/testify/require"
)

// Two nodes hold every partition at once, as if a group had failed to keep them apart.
func TestTwoOwnersAtOnceWithoutAGroup(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w := setup(t, 2)
		dirs := []string{t.TempDir(), t.TempDir()}
		one := w.node(dirs[0])
		w.apply(one, order)
		crew := w.hire(nil)
		two := w.node(dirs[1])
		// Some appends arrive late, as after a pause of the process, and the other node has claimed meanwhile.
		for i, p := range []*process{one, two} {
			w.disturb(p, func(n int) fate {
				if n%9 == 5+i {
					return fate{late: 300 * time.Millisecond}
				}
				return fate{}
			})
		}
		var tasks []string
		enough := rounds(t, 3, 100)
		for round := 0; round < enough || voidFacts(w.watch.log()) == 0; round++ {
			require.Less(t, round, 200, "no void fact came")
			more := ids(fmt.Sprintf("t-%d", round), 20)
			for _, id := range more {
				w.submit(id)
				w.submit(id) // a repeat
			}
			w.watch.ended(more...)
			tasks = append(tasks, more...)
		}
		require.NoError(t, one.stop())
		require.NoError(t, two.stop())

		w.watch.verify() // each epoch has one owner and no gap, and no task is accepted twice
		all := w.watch.log()
		t.Logf("%d records, %d void facts, %d epochs", len(all), voidFacts(all), epochs(all))
		require.Greater(t, epochs(all), 4, "both nodes have owned partitions")
		w.everyCallIsInTheLog(crew)
		for _, id := range tasks {
			require.Equal(t, events.TaskStateProcessed, w.watch.state(id, events.TaskStateProcessed).State)
		}
		w.proveHashes(dirs...)
		w.observerAgrees()
	})
}

// voidFacts counts the void records, without claims.
func voidFacts(list []seen) (n int) {
	for _, s := range list {
		if _, claim := s.fact.Body.(*events.PartitionClaimed); !claim && s.fate == events.FateVoid {
			n++
		}
	}
	return n
}

func epochs(list []seen) (n int) {
	for _, s := range list {
		if _, claim := s.fact.Body.(*events.PartitionClaimed); claim && s.fate == events.FateAccepted {
			n++
		}
	}
	return n
}

// everyCallIsInTheLog checks INV8: no agent runs an attempt that is not in the log.
func (w *world) everyCallIsInTheLog(c *crew) {
	w.t.Helper()
	started := map[string]bool{}
	for _, s := range w.watch.log() {
		if s.fate != events.FateAccepted {
			continue
		}
		switch b := s.fact.Body.(type) {
		case *events.StepStarted:
			started[fmt.Sprint(s.fact.Task, b.Step, events.Do, b.Attempt)] = true
		case *events.CompensationStarted:
			started[fmt.Sprint(s.fact.Task, b.Step, events.Undo, b.Attempt)] = true
		}
	}
	require.NotEmpty(w.t, c.all())
	for _, a := range c.all() {
		require.True(w.t, started[fmt.Sprint(a.Task, a.Step, a.Operation, a.Attempt)], "%+v is not in the log", a)
	}
}

// observerAgrees compares the observer's fold, which never used a store, with a fold of the same log into a store.
func (w *world) observerAgrees() {
	w.t.Helper()
	for p := range w.parts {
		w.watch.mu.Lock()
		hash, err := w.watch.states[p].Hash()
		next := w.watch.states[p].Next
		w.watch.mu.Unlock()
		require.NoError(w.t, err)
		require.Equal(w.t, w.foldTo(p, next), hash, "partition %d at %d", p, next)
	}
}
