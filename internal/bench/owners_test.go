package bench

import (
	"testing"
	"time"

	"github.com/sagalog/sagalog/events"
	"github.com/stretchr/testify/require"
)

func written(partition int32, node, kind string) *events.Record {
	return &events.Record{Partition: partition, Headers: []events.Header{
		{Key: events.HeaderType, Value: []byte("sagalog." + kind)}, {Key: events.HeaderSource, Value: []byte("sagalog/" + node)},
	}}
}

// world has two nodes, with two partitions each since time 10: 0 and 1 belong to a, 2 and 3 to b.
func world() *owners {
	o := &owners{of: make([]owner, 4)}
	for p, node := range []string{"a", "a", "b", "b"} {
		o.see(written(int32(p), node, "PartitionClaimed"), 10)
	}
	return o
}

func TestATakeOverLastsFromTheKillToTheFirstNewFact(t *testing.T) {
	t.Parallel()
	o := world()
	o.submitted(0, 20)
	require.Equal(t, []int32{0, 1}, o.await("a", 100))
	o.see(written(0, "a", "StepStarted"), 105) // it was in flight when a died
	for p := range int32(2) {
		o.submitted(p, 110)
		require.False(t, o.taken())
		o.see(written(p, "b", "PartitionClaimed"), 150+int64(p))
		o.see(written(p, "a", "StepStarted"), 155) // void
		require.False(t, o.taken())
		o.see(written(p, "b", "Submitted"), 170+int64(p))
	}
	require.True(t, o.taken())
	claim, fact := o.times()
	require.Equal(t, []time.Duration{50, 51}, claim)
	require.Equal(t, []time.Duration{70, 71}, fact)
}

// If a partition has no work, its first new fact only shows when the next task was due.
func TestAPartitionWithoutWorkIsNotCountedToItsFirstFact(t *testing.T) {
	t.Parallel()
	o := world()
	o.submitted(0, 20)
	o.await("a", 100)
	o.submitted(1, 110)
	o.see(written(0, "b", "PartitionClaimed"), 150)
	o.see(written(1, "b", "PartitionClaimed"), 150)
	require.False(t, o.taken(), "partition 1 has work")
	o.see(written(1, "b", "Submitted"), 160)
	require.True(t, o.taken(), "partition 0 has none")
	o.submitted(0, 9000)
	o.see(written(0, "b", "Submitted"), 9001)
	claim, fact := o.times()
	require.Len(t, claim, 2)
	require.Equal(t, []time.Duration{60}, fact)
	require.Equal(t, []int32{0, 1, 2, 3}, o.await("b", 9100))
	require.False(t, o.taken(), "a new kill begins a new handover")
}

func TestPartitionsAreSharedWhenAllWorkAndNoneMoves(t *testing.T) {
	t.Parallel()
	nodes, late := []string{"a", "b"}, int64(time.Hour)
	require.False(t, (&owners{of: make([]owner, 4)}).shared(nodes, late, never), "no node has a partition")
	require.True(t, world().shared(nodes, late, 10), "there was nothing to do for an hour")
	require.False(t, world().shared(nodes, late, 9), "the partitions moved at 10")
	require.False(t, world().shared([]string{"a", "b", "c"}, late, never), "c has no partition")

	stands := world()
	stands.submitted(2, 20)
	require.True(t, stands.shared(nodes, 10+int64(freshWithin), 10))
	require.False(t, stands.shared(nodes, 11+int64(freshWithin), 10), "partition 2 does not process its tasks")

	moved := world()
	moved.see(written(1, "b", "PartitionClaimed"), 50)
	require.True(t, moved.shared(nodes, late, 50))
	require.False(t, moved.shared(nodes, late, 49))
}

func TestFewKillsHaveNoP99(t *testing.T) {
	t.Parallel()
	for samples, want := range map[int]float64{0: 0, 8: 0, leastForP99 - 1: 0, leastForP99: 100, 200: 199} {
		k := &takeover{bench: new(bench), kills: 2}
		for i := range samples {
			k.toFact = append(k.toFact, time.Duration(i+1)*time.Millisecond)
		}
		k.fill(4)
		require.InDelta(t, want, k.result.TakeoverP99, 0, samples)
		m := members(t, &k.result)
		require.Equal(t, want != 0, m["takeover_p99_ms"] != nil)
		require.EqualValues(t, 2, m["kills"])
		require.EqualValues(t, 4, m["kills_asked"])
	}
}
