package supervisor_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sagalog/sagalog/events"
	"github.com/sagalog/sagalog/supervisor"
)

// A batch that cannot be unpacked is one rejection with one dead letter, whatever it holds. The next owner goes on behind it.
func TestABatchThatUnpacksToTooMuchIsOneRejection(t *testing.T) {
	t.Parallel()
	const batch = 1_300_000
	b := newBench(t, oneStep)
	a := b.candidate("A").own()
	b.put(events.Submissions, events.Record{Unread: batch})
	a.run()
	require.Equal(t, []string{"InputRejected"}, b.names())
	require.EqualValues(t, batch-1, last[*events.InputRejected](b).Last)
	letters := a.sentTo("dlq.submissions")
	require.Len(t, letters, 1)
	require.Equal(t, "0", letters[0].Header(supervisor.DeadOffset))
	require.Equal(t, "1299999", letters[0].Header(events.HeaderLast))
	a.restart()
	a.hold["Input"] = true
	a.own()
	require.EqualValues(t, batch, a.read[events.Submissions])
	require.NoError(t, a.stopped)
	sameEverywhere(t, b, a)
}

// A later build reads the record that this one could not, and finds another hash than this one would have written.
func TestARecordThatNobodyReadIsNotComparedLater(t *testing.T) {
	t.Parallel()
	b := newBench(t, oneStep)
	a := b.candidate("A").own()
	b.put(events.Submissions, events.Record{Unread: 1})
	a.run()
	require.Equal(t, []string{"InputRejected"}, b.names())
	b.inputs[events.Submissions][0] = events.Record{Value: pad(100)}
	b.submit("t1", "one", "")
	c := b.candidate("C").own()
	require.Equal(t, "t1", b.task("t1").ID)
	sameEverywhere(t, b, c)
}

// An operator gave up the inputs up to the middle of a batch that cannot be unpacked. A reader may show the batch from its beginning.
func TestARestOfABatchThatUnpacksToTooMuch(t *testing.T) {
	t.Parallel()
	b := newBench(t, oneStep)
	a := b.candidate("A").own()
	b.put(events.Submissions, events.Record{Value: []byte("{")})
	a.run()
	a.hold["Input"] = true
	a.o.Input(b.now, a.gen, events.Submissions, []events.Record{{Offset: 0, Unread: 3}}, 3)
	a.run()
	_, accepted, _ := b.read()
	f := accepted[len(accepted)-1]
	require.Equal(t, events.CauseInput(events.Submissions, 0, 1), f.Cause)
	require.EqualValues(t, 2, f.Body.(*events.InputRejected).Last)
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
	k, old, seen := 0, 0, 0
	for round := 0; round < 1200 && old < n; round++ { // inputs keep coming, and the oldest append is answered once three are in flight
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
		for ; seen < len(c.sent); seen++ {
			if strings.HasPrefix(string(c.sent[seen].Record.Key), "t") {
				old++
			}
		}
	}
	un, _ := c.store.Unplanned(1000)
	t.Logf("started: %d old of %d among %d new; still unplanned %d", old, n, k, len(un))
	require.Equal(t, n, old)
}
