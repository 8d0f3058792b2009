package supervisor_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sagalog/sagalog/events"
	"github.com/sagalog/sagalog/supervisor"
)

// Whoever waits for a task reads the store. One task after another must not use up what the owner may write: each change is in the store at once.
func TestAPartitionWithLittleToDoIsWrittenAtOnce(t *testing.T) {
	t.Parallel()
	b := newBench(t, oneStep)
	a := b.candidate("A", func(c *candidate) { c.cfg.FlushEvery, c.cfg.Awaited = 50*time.Millisecond, func() bool { return true } }).own()
	stored := func(id string) events.TaskState {
		row, err := a.store.Load(id)
		require.NoError(t, err)
		if row.Encoding == nil {
			return ""
		}
		task, err := events.DecodeTask(row.Encoding, row.Rows)
		require.NoError(t, err)
		return task.State
	}
	for i := range 200 {
		id := fmt.Sprintf("t-%d", i)
		b.submit(id, "one", "")
		a.run()
		require.Equal(t, events.TaskStateProcessing, stored(id), id)
		b.now = b.now.Add(time.Millisecond)
		b.done(id, "only", 1)
		a.run()
		require.Equal(t, events.TaskStateProcessed, stored(id), id)
		b.now = b.now.Add(time.Millisecond)
	}
}

// Many tasks at once are written together: about once per FlushEvery, apart from what a quiet time has saved up.
func TestABusyPartitionIsWrittenSeldom(t *testing.T) {
	t.Parallel()
	const tick, ticks, due = 10 * time.Millisecond, 100, 20
	b := newBench(t, oneStep)
	n := 0
	a := b.candidate("A", func(c *candidate) {
		c.cfg.FlushEvery = 50 * time.Millisecond
		c.committed = func(supervisor.Commit) { n++ }
	}).own()
	n = 0
	for i := range ticks {
		for j := range 20 {
			b.submit(fmt.Sprintf("t-%d-%d", i, j), "one", "")
		}
		a.pass(tick)
	}
	require.GreaterOrEqual(t, n, due)
	require.LessOrEqual(t, n, due+10)
}
