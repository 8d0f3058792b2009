package supervisor_test

import (
	"testing"
	"time"

	"github.com/sagalog/sagalog/events"
	"github.com/sagalog/sagalog/supervisor"
	"github.com/stretchr/testify/require"
)

// marked claims the partition, as a copy of the namespace does, and records that it is closed, or open again.
func (b *bench) marked(id string, body events.NamespaceClosed) {
	b.t.Helper()
	s, _, _ := b.read()
	claim := &events.Fact{Time: b.now, Body: &events.PartitionClaimed{ID: id, Prev: s.Partition.Epoch.ID, Owner: events.CopyOwner, Reader: events.FormatVersion}}
	closed := &events.Fact{Epoch: events.Epoch{N: s.Partition.Epoch.N + 1, ID: id}, Time: b.now, Body: &body}
	for _, f := range []*events.Fact{claim, closed} {
		r, err := events.EncodeFact(f, s.Partition.Partition, "/sagalog/copy")
		require.NoError(b.t, err)
		b.land(r)
	}
}

// A namespace is copied while an owner sleeps. When it wakes it decides nothing, and nobody claims the partition until it is open again.
func TestAClosedPartitionIsNotClaimed(t *testing.T) {
	t.Parallel()
	b := newBench(t, oneStep)
	a := b.candidate("A").own()
	b.submit("t1", "one", "")
	a.run()
	work := a.requests()[0]
	b.marked("copy", events.NamespaceClosed{To: "sagalog on new:9092"})
	b.report(completed(work))
	for range 20 {
		a.pass(time.Second)
	}
	require.ErrorIs(t, a.stopped, supervisor.ErrClosed)
	require.ErrorContains(t, a.stopped, "it was copied to sagalog on new:9092 at")
	require.Equal(t, events.TaskStateProcessing, b.task("t1").State)
	other := b.candidate("B")
	other.o.Assign(b.now)
	other.run()
	require.ErrorIs(t, other.stopped, supervisor.ErrClosed)
	b.marked("back", events.NamespaceClosed{Over: true})
	b.candidate("C").own().run()
	require.Equal(t, events.TaskStateProcessed, b.task("t1").State)
}

// An owner reads the claim of a copy and claims at once, before it reads that the partition is closed. It finds that in front of the claim that it wrote.
func TestAnOwnerOfAClosedPartitionStops(t *testing.T) {
	t.Parallel()
	b := newBench(t, oneStep)
	b.candidate("A").own()
	b.marked("copy", events.NamespaceClosed{To: "sagalog on new:9092"})
	records := b.log
	closed := records[len(records)-1]
	other := b.candidate("B")
	other.o.Assign(b.now)
	load := other.o.TakeActions()[0].(supervisor.Load)
	other.o.LogEnd(b.now, load.Generation, 0, closed.Offset, nil)
	other.o.LogRecords(b.now, load.Generation, records[:len(records)-1], closed.Offset)
	claim := other.o.TakeActions()[0].(supervisor.Claim).Record
	claim.Offset = closed.Offset + 1
	other.o.LogRecords(b.now, load.Generation, []events.Record{closed, claim}, claim.Offset+1)
	require.False(t, other.o.Status().Owning)
	actions := other.o.TakeActions()
	require.ErrorIs(t, actions[len(actions)-1].(supervisor.Stop).Err, supervisor.ErrClosed)
}
