package supervisor_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sagalog/sagalog/events"
	"github.com/sagalog/sagalog/supervisor"
)

// carriedLog is a log with a complete carry, behind a number of void records.
func carriedLog(t *testing.T, void int) *bench {
	b := newBench(t, oneStep)
	stranger, err := events.EncodeFact(&events.Fact{Epoch: events.Epoch{N: 9, ID: "z"}, Time: b.now, Body: &events.InputsPassed{}}, b.partition, "/test")
	require.NoError(t, err)
	for range void {
		b.land(stranger)
	}
	a := b.candidate("A", func(c *candidate) { c.cfg.Settings.KeepLog = events.Duration(time.Hour) }).own()
	for i := range 5 {
		b.submit(fmt.Sprint("t", i), "one", "")
	}
	a.run()
	for range 20 {
		a.pass(time.Minute)
	}
	require.Positive(t, count[*events.CarryEnded](b))
	return b
}

// A long log is committed while it is folded, but not between the records of one entity: a store that ends there has only a part of it.
func TestNoCommitIsBetweenTheRecordsOfAnEntity(t *testing.T) {
	t.Parallel()
	const every = 5000
	b := carriedLog(t, 0)
	half := 0
	s := events.NewState(b.partition, nil)
	for i := range b.log {
		f, err := events.DecodeFact(&b.log[i])
		require.NoError(t, err)
		_, err = s.Apply(f, int64(i))
		require.NoError(t, err)
		if !s.Partition.HalfCarried() {
			continue
		}
		half++
		again := carriedLog(t, every-i-1)
		commits := 0
		c := again.candidate("C", func(c *candidate) {
			c.committed = func(x supervisor.Commit) {
				commits++
				snap, err := c.store.Snapshot()
				require.NoError(t, err)
				state, err := events.OpenState(c.cfg.Partition, snap, c.store.Load)
				require.NoError(t, err)
				require.False(t, state.Partition.HalfCarried(), "at %d", x.Delta.Next)
				require.GreaterOrEqual(t, x.Delta.Next, int64(every))
			}
		})
		c.own()
		require.Positive(t, commits)
		sameEverywhere(t, again, c)
	}
	require.Positive(t, half)
}
