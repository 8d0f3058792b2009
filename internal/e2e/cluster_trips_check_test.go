package e2e

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/sagalog/sagalog/events"
	"github.com/sagalog/sagalog/internal/dronedelivery"
	"github.com/stretchr/testify/require"
)

// undoableServices are the services of the children. What they did for an undone trip must be undone.
var undoableServices = []string{"transport", "package", "drone"}

// compare folds the log, and requires that trips, children and ledgers agree. It also shows that a lie in a ledger would be found.
func (c *trips) compare() {
	t := c.t
	t.Helper()
	tasks := c.folded()
	calls := map[string][]dronedelivery.Line{}
	for _, s := range append(undoableServices, "delivery") {
		calls[s] = c.fleet.ledger(t, s, "")
	}
	require.Empty(t, firstOf(c.familyFaults(tasks)))
	require.Empty(t, firstOf(c.effectFaults(tasks, calls)))

	ends, undoneLater := map[string]int{}, 0
	for _, x := range tasks {
		if x.Parent == nil {
			ends[string(x.State)]++
		} else if x.Parent.Undo > 0 {
			undoneLater++
		}
	}
	t.Logf("%d trips ended %v, with %d children, of which %d were processed and then undone", c.count, ends, len(tasks)-c.count, undoneLater)
	require.Positive(t, ends["processed"])
	require.Positive(t, ends["undone"])
	require.Positive(t, undoneLater, "no child was undone after it had been processed")

	for _, s := range undoableServices {
		lines := calls[s]
		undone := slices.IndexFunc(lines, func(l dronedelivery.Line) bool { return l.Applied && l.Method == "DELETE" })
		require.NotEqual(t, -1, undone, s)
		calls[s] = slices.Delete(slices.Clone(lines), undone, undone+1)
		require.Len(t, c.effectFaults(tasks, calls), 1, "an undo that %s did not make", s)
		done := slices.IndexFunc(lines, func(l dronedelivery.Line) bool { return l.Applied && l.Method == "PUT" })
		calls[s] = append(slices.Clone(lines), lines[done])
		require.NotEmpty(t, c.effectFaults(tasks, calls), "an effect that %s made twice", s)
		calls[s] = lines
	}
}

// folded returns all trips and their children, by the log of events alone.
func (c *trips) folded() map[string]*events.Task {
	t := c.t
	t.Helper()
	require.NoError(t, c.log.look(t.Context()))
	var states []*events.State
	for p, part := range c.log.parts {
		s := events.NewState(int32(p), nil)
		require.NoError(t, c.conn.ReadRange(t.Context(), topics.Events(), int32(p), 0, part.next, func(r events.Record) error {
			if r.Control {
				return nil
			}
			f, err := events.DecodeFact(&r)
			if err == nil {
				_, err = s.Apply(f, r.Offset)
			}
			return err
		}))
		states = append(states, s)
	}
	tasks := map[string]*events.Task{}
	for id := range c.log.tasks {
		if strings.HasPrefix(id, "t-") {
			x, err := states[events.Home(id, int32(len(states)))].Task(id)
			require.NoError(t, err)
			require.NotNil(t, x, id)
			tasks[id] = x
		}
	}
	return tasks
}

// familyFaults says where a trip and its children contradict each other.
func (c *trips) familyFaults(tasks map[string]*events.Task) (faults []string) {
	wrong := func(format string, args ...any) { faults = append(faults, fmt.Sprintf(format, args...)) }
	known := map[string]bool{}
	for i := range c.count {
		trip := tasks[tripID(i)]
		if trip == nil || trip.Parent != nil || trip.State != events.TaskStateProcessed && trip.State != events.TaskStateUndone {
			wrong("%s did not end as a trip", tripID(i))
			continue
		}
		known[trip.ID] = true
		if i%suspendedEvery == 0 && trip.State != events.TaskStateUndone {
			wrong("%s is %s, and its owner is suspended", trip.ID, trip.State)
		}
		for leg := range legs {
			child := tasks[trip.Step(leg).Child()]
			switch {
			case child == nil:
				wrong("%s has no child for step %s", trip.ID, leg)
				continue
			case child.Parent == nil || child.Parent.Link.Task != trip.ID || child.Parent.Link.Incarnation != trip.Incarnation || child.Parent.Link.Path != leg:
				wrong("%s does not name step %s of %s as its parent", child.ID, leg, trip.ID)
			case child.State != trip.State:
				wrong("%s is %s, and %s is %s", trip.ID, trip.State, child.ID, child.State)
			case !child.Parent.Kept():
				wrong("%s is released, and %s is remembered", child.ID, trip.ID)
			}
			known[child.ID] = true
		}
	}
	for id := range tasks {
		if !known[id] {
			wrong("%s is no trip, and no child of one", id)
		}
	}
	return faults
}

// effectFaults says where the ledgers of the services contradict the ends of the tasks: what is in force must be what the tasks that were
// processed did, and each key has had one effect.
func (c *trips) effectFaults(tasks map[string]*events.Task, calls map[string][]dronedelivery.Line) (faults []string) {
	for service, lines := range calls {
		inForce, keys := map[string]int{}, map[string]bool{}
		for _, l := range lines {
			switch {
			case !l.Applied:
			case l.Method == "DELETE":
				inForce[l.Task]--
			case keys[l.IdempotencyKey]:
				faults = append(faults, fmt.Sprintf("%s: key %s of %s had two effects", service, l.IdempotencyKey, l.Task))
			default:
				keys[l.IdempotencyKey] = true
				inForce[l.Task]++
			}
		}
		maps.DeleteFunc(inForce, func(_ string, n int) bool { return n == 0 })
		want := map[string]int{}
		for _, x := range tasks {
			if x.State == events.TaskStateProcessed && (x.Parent == nil && service == "delivery" || x.Parent != nil && slices.Contains(legs[x.Parent.Link.Path], service)) {
				want[x.ID] = 1
			}
		}
		for id := range maps.Keys(union(inForce, want)) {
			if inForce[id] != want[id] {
				faults = append(faults, fmt.Sprintf("%s: %d in force for %s, which must be %d", service, inForce[id], id, want[id]))
			}
		}
	}
	return faults
}

func union(a, b map[string]int) map[string]int {
	both := maps.Clone(a)
	maps.Copy(both, b)
	return both
}

// firstOf returns as many faults as a person reads.
func firstOf(faults []string) []string { return faults[:min(len(faults), 20)] }
