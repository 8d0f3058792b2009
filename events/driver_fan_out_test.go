package events_test

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/sagalog/sagalog/events"
)

// driverItems is how many items the driver's fan-out has: enough for an index of the steps, and rows outside the head.
const driverItems = 20

// fanOut returns facts of a step with items and of these.
func (d *driver) fanOut(t *events.Task, idle *bool) (list []events.Body) {
	const path = "f"
	fan := t.Step(path)
	if fan == nil || fan.State == events.StepStateWaiting && fan.Fan == nil {
		if t.Starts() && t.State != events.TaskStateUndoing {
			list = append(list, &events.FanOutStarted{Step: path, Count: driverItems, Tolerate: 2, Collect: events.CollectOutputs, RemindAfter: 7e9})
		}
		return list
	}
	if fan.Fan == nil {
		return nil
	}
	if fan.Fans() && fan.Fan.Over() {
		list = append(list, &events.StepCompleted{Step: path})
	}
	begun := fan.Fan.Begun
	for i := range min(begun+1, driverItems) {
		s := t.Step(events.ItemPath(path, i))
		if s == nil {
			s = &events.Step{Path: events.ItemPath(path, i), State: events.StepStateNotStarted}
		}
		*idle = *idle && s.State != events.StepStateRunning && (s.Undo == nil || s.Undo.State != events.StepStateRunning)
		if i == begun {
			if fan.Fans() {
				list = append(list, d.nextItem(t, s)...)
			}
			continue
		}
		list = append(list, d.doBodies(t, s)...)
		list = append(list, d.undoBodies(t, s)...)
		list = append(list, d.byChild(t, s)...)
	}
	return list
}

// nextItem returns facts that begin an item: often, so that there are many.
func (d *driver) nextItem(t *events.Task, s *events.Step) []events.Body {
	list := d.doBodies(t, s)
	for _, b := range list {
		if b.Name() == events.NameStepStarted {
			list = append(list, slices.Repeat([]events.Body{b}, 10)...)
		}
	}
	return list
}

// What a task with many steps remembers of them is what they are, after each fact and each Flush.
func TestTheIndexOfTheStepsIsRight(t *testing.T) {
	t.Parallel()
	indexed := 0
	rapid.Check(t, func(t *rapid.T) {
		d := newDriver(t)
		write := func(b events.Body) {
			d.fold(&events.Fact{Epoch: d.epoch, Sequence: d.next, Time: d.now, Task: "a", Body: b})
			d.next++
			d.now++
		}
		write(&events.Submitted{Workflow: "w", Version: 1, Hash: "d1", Content: "c"})
		task, err := d.state.Task("a")
		require.NoError(t, err)
		for range 120 {
			idle := true
			list := d.fanOut(task, &idle)
			if n := rapid.IntRange(0, 40).Draw(t, "another"); n == 0 && !task.Undoing() {
				list = []events.Body{&events.CancelRequested{Request: "q"}}
			} else if n > 38 || len(list) == 0 {
				list = d.bodies(task)
			}
			if on := goesOn(list); len(on) > 0 && rapid.IntRange(0, 9).Draw(t, "goes on") > 0 {
				list = on
			}
			b := list[rapid.IntRange(0, len(list)-1).Draw(t, "move")]
			if n := b.Name(); n == events.NameTaskUndone || n == events.NameTaskProcessed {
				break
			}
			write(b)
			if rapid.IntRange(0, 4).Draw(t, "flush") == 0 {
				_, err := d.state.Flush(nil)
				require.NoError(t, err)
			}
			if len(task.Live()) < len(task.Steps) {
				indexed++
			}
			require.NoError(t, events.CheckIndex(task), "%s", b.Name())
		}
	})
	if !testing.Short() { // with -short rapid draws a fifth of the tasks, which may all be small
		require.Greater(t, indexed, 20, "hardly any task had an index")
	}
}

// goesOn returns the facts that begin or complete an item.
func goesOn(list []events.Body) []events.Body {
	return slices.DeleteFunc(slices.Clone(list), func(b events.Body) bool {
		return b.Name() != events.NameStepStarted && b.Name() != events.NameStepCompleted && b.Name() != events.NameCompensationStarted
	})
}
