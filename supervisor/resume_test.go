package supervisor_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sagalog/sagalog/events"
	"github.com/sagalog/sagalog/supervisor"
)

// The placeholders for an unreadable batch begin at its first offset, even if the resume point is in the middle of it.
func TestResumeInsideABatchThatUnpacksToTooMuch(t *testing.T) {
	b := newBench(t, oneStep)
	a := b.candidate("A").own()
	for range 3 { // one batch of three records, offsets 0..2
		b.put(events.Submissions, events.Record{Headers: []events.Header{{Key: supervisor.HeaderUnpacked}}})
	}
	a.run()
	require.Len(t, a.sentTo("dlq.submissions"), 3)
	a.restart()
	a.hold["Input"] = true
	a.own()
	from := a.read[events.Submissions]
	require.EqualValues(t, 2, from) // one before the resume point
	// like partitionLog.skip, which gets the batch's FIRST offset from TooLargeError.Offset
	a.o.Input(b.now, a.gen, events.Submissions, append([]events.Record(nil), b.inputs[events.Submissions]...), 3)
	a.drain()
	require.NoError(t, a.stopped)
}

// Tasks folded at a take-over are planned even if a steady load keeps appends in flight all the time (INV10).
func TestASteadyLoadDoesNotStarveTheTasksOfATakeOver(t *testing.T) {
	const n = 450
	b := newBench(t, oneStep)
	a := b.candidate("A", func(c *candidate) { c.cfg.BatchFacts = 1000 }).own()
	a.hold["Append"] = true
	for i := range n {
		b.submit(fmt.Sprintf("t%03d", i), "one", "")
	}
	a.run()
	first := held[supervisor.Append](a)[0]
	keep := first.Records[:0:0]
	for _, r := range first.Records {
		if r.Header(events.HeaderType) != events.TypePrefix+string(events.NameStepStarted) {
			keep = append(keep, r)
		}
	}
	b.land(keep...)
	c := b.candidate("C", func(c *candidate) { c.cfg.Window = 100000; c.cfg.BatchFacts = 50 })
	c.hold["Append"] = true
	c.o.Assign(b.now)
	c.run()
	require.True(t, c.o.Status().Owning)
	k := 0
	for range 1200 { // 300 batches: inputs keep coming, and the oldest append is answered once three are in flight
		for range 60 {
			k++
			b.submit(fmt.Sprintf("z%06d", k), "one", "")
		}
		c.run()
		list := held[supervisor.Append](c)
		if len(list) == 0 {
			continue
		}
		x := list[0]
		for i, td := range c.todo {
			if ap, ok := td.(supervisor.Append); ok && ap.Batch == x.Batch {
				c.todo = append(c.todo[:i:i], c.todo[i+1:]...)
				break
			}
		}
		c.o.Appended(b.now, x.Generation, x.Batch, b.land(x.Records...), nil)
	}
	c.run()
	old, young := 0, 0
	for _, w := range c.work() {
		if w[0] == 't' {
			old++
		} else {
			young++
		}
	}
	un, _ := c.store.Unplanned(1000)
	t.Logf("started: %d old of %d, %d new; still unplanned %d", old, n, young, len(un))
	require.Equal(t, n, old)
}
