package events_test

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/sagalog/sagalog/events"
)

// copied is a partition of a copy, as its readers fold it.
type copied struct {
	t     tester
	state *events.State
	next  uint64
}

func (c *copied) add(f *events.Fact) {
	r, err := events.EncodeFact(f, c.state.Partition.Partition, testSource)
	require.NoError(c.t, err)
	read, err := events.DecodeFact(&r)
	require.NoError(c.t, err)
	fate, err := c.state.Apply(read, c.state.Next)
	require.NoError(c.t, err, "%s", f.Body.Name())
	require.Equal(c.t, events.FateAccepted, fate)
	c.next++
}

func (c *copied) carry(task string, records []events.EntityCarried) {
	for i := range records {
		p := &c.state.Partition
		c.add(&events.Fact{Epoch: p.Epoch, Sequence: c.next, Time: p.Time, Task: task, Body: &records[i]})
	}
}

// copyOf writes a partition of a copy, which has that many.
func copyOf(t tester, from *events.State, ids []string, number, partitions int32) *events.State {
	p, err := events.CopiedPartition([]*events.PartitionState{&from.Partition}, events.CopyTarget{Partition: number, Partitions: partitions, Epoch: "copy"})
	require.NoError(t, err)
	entities, err := events.CopiedEntities(from)
	require.NoError(t, err)
	entities = slices.DeleteFunc(events.SortCopied(entities), func(e events.CopiedEntity) bool { return e.Home != "" && events.Home(e.Home, partitions) != number })
	ids = slices.DeleteFunc(slices.Clone(ids), func(id string) bool { return events.Home(id, partitions) != number })
	p.Tasks = int64(len(ids))
	c := &copied{t: t, state: events.NewState(number, nil)}
	f, err := events.BeginCopied(&p, len(entities))
	require.NoError(t, err)
	c.add(f)
	for _, e := range entities {
		c.carry("", e.Records)
	}
	for _, id := range ids {
		records, err := events.CopiedTask(from, id)
		require.NoError(t, err)
		c.carry(id, records)
	}
	end, err := events.EndCopied(c.state)
	require.NoError(t, err)
	c.add(&events.Fact{Epoch: p.Epoch, Sequence: c.next, Time: p.Time, Body: end})
	require.False(t, c.state.Partition.Loading())
	return c.state
}

// Whatever the state of a partition is, the partitions of its copy together have the same entities, each where it lives, and can be claimed. No position
// in them is later than the copy.
func TestACopyHasAllThatThePartitionHad(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		d := newDriver(rt)
		for range rapid.IntRange(0, 80).Draw(rt, "facts") {
			d.step()
		}
		var ids []string
		for _, id := range driverTasks {
			if task, err := d.state.Task(id); err == nil && task != nil {
				ids = append(ids, id)
			}
		}
		slices.Sort(ids)
		const partitions = 3
		entities := 0
		for n := range int32(partitions) {
			s := copyOf(rt, d.state, ids, n, partitions)
			for _, id := range ids {
				had, err := events.CopiedTask(d.state, id)
				require.NoError(rt, err)
				has, err := events.CopiedTask(s, id)
				require.NoError(rt, err)
				if events.Home(id, partitions) != n {
					had = nil
				} else {
					task, err := s.Task(id)
					require.NoError(rt, err)
					accepted, err := events.ParsePosition(task.Incarnation)
					require.NoError(rt, err)
					require.True(rt, accepted.Before(s.Partition.Watermark) && task.Last.Before(s.Partition.Watermark))
				}
				require.Equal(rt, had, has, id)
			}
			list, err := events.CopiedEntities(s)
			require.NoError(rt, err)
			for _, e := range list {
				if entities++; e.Home == "" && n > 0 {
					entities-- // a definition is in each partition
				}
			}
			claim := &events.Fact{Time: s.Partition.Time, Body: &events.PartitionClaimed{ID: "n", Prev: "copy", Owner: "n", Reader: 1}}
			fate, err := s.Apply(claim, s.Next)
			require.NoError(rt, err)
			require.Equal(rt, events.FateAccepted, fate)
		}
		list, err := events.CopiedEntities(d.state)
		require.NoError(rt, err)
		require.Len(rt, list, entities)
	})
}

// A log that begins with a carry at offset 0 is that of a copy, or a record that is void.
func TestOnlyACopyBeginsWithACarry(t *testing.T) {
	t.Parallel()
	from := events.NewState(testPartition, nil)
	p, err := events.CopiedPartition([]*events.PartitionState{&from.Partition}, events.CopyTarget{Partitions: 1, Epoch: "copy"})
	require.NoError(t, err)
	f, err := events.BeginCopied(&p, 0)
	require.NoError(t, err)
	f.Body.(*events.CarryBegun).Copied = false
	fate, err := events.NewState(0, nil).Apply(f, 0)
	require.NoError(t, err)
	require.Equal(t, events.FateVoid, fate)
}

// A partition of a copy has forgotten what the partitions from which its tasks can come have forgotten. With as many partitions as before, that is one.
func TestACopyKnowsWhatItsTasksHomesForgot(t *testing.T) {
	t.Parallel()
	var from []*events.PartitionState
	for n := range int32(4) {
		at := events.Instant(100 * (n + 1))
		from = append(from, &events.PartitionState{Partition: n, Time: 1000, ForgottenBefore: at, ScheduledForgottenBefore: at + 1})
	}
	for partitions, forgotten := range map[int32][]events.Instant{
		1: {400}, 2: {300, 400}, 3: {400, 400, 400}, 4: {100, 200, 300, 400}, 6: {300, 400, 300, 400, 300, 400}, 8: {100, 200, 300, 400, 100, 200, 300, 400},
	} {
		for n, at := range forgotten {
			p, err := events.CopiedPartition(from, events.CopyTarget{Partition: int32(n), Partitions: partitions, Epoch: "copy"})
			require.NoError(t, err)
			require.Equal(t, at, p.ForgottenBefore, "partition %d of %d", n, partitions)
			require.Equal(t, at+1, p.ScheduledForgottenBefore, "partition %d of %d", n, partitions)
		}
	}
}
