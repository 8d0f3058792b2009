package node_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/sagalog/sagalog/events"
	"github.com/sagalog/sagalog/internal/api"
	"github.com/sagalog/sagalog/internal/node"
	"github.com/sagalog/sagalog/projector"
	"github.com/sagalog/sagalog/supervisor"
	"github.com/stretchr/testify/require"
)

func TestARejectedInputIsADeadLetterAndWaitSaysWhy(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w, n, _ := ready(t, nil)
		tooLong := make([]byte, events.DefaultSettings().SubmissionBytes+1)
		for name, c := range map[string]struct {
			value  []byte
			reason string
		}{
			"garbage":  {[]byte("\x00\xff"), events.RejectUnreadable},
			"faults":   {[]byte(`{"workflow":5}`), events.RejectInvalid},
			"unknown":  {[]byte(`{"workflow":"other"}`), events.RejectUnknownWorkflow},
			"version":  {[]byte(`{"workflow":"order","version":9}`), events.RejectUnknownWorkflow},
			"too long": {tooLong, events.RejectTooLarge},
		} {
			r := events.Record{Key: []byte("t-" + name), Value: c.value, Headers: []events.Header{{Key: "mine", Value: []byte("kept")}}}
			home := events.Home("t-"+name, w.parts)
			at := w.produce(w.topics.Submissions(), home, r)[0]
			require.NoError(t, n.Inputs().WaitPassed(t.Context(), events.Submissions, home, at), name)
			why, err := n.Refusals().Rejection(t.Context(), events.Submissions, home, at)
			require.NoError(t, err)
			require.NotNil(t, why, name)
			require.Equal(t, c.reason, why.Reason, name)
			letter := w.letter(n, home, at)
			require.Equal(t, c.value, letter.Value, name)
			require.Equal(t, "kept", letter.Header("mine"))
			require.Equal(t, c.reason, letter.Header(supervisor.DeadReason))
		}
		w.submit("t-good")
		w.watch.ended("t-good")
	})
}

// letter waits for the dead letter of the input at this topic, partition and offset.
func (w *world) letter(n *process, partition int32, offset int64) events.Record {
	w.t.Helper()
	for {
		ranges, err := n.Letters().Ranges(w.t.Context())
		require.NoError(w.t, err)
		for _, r := range ranges {
			if r.Input != events.Submissions || r.Partition != partition || r.End == r.Start {
				continue
			}
			list, err := n.Letters().Read(w.t.Context(), r.Input, r.Partition, r.Start, r.End)
			require.NoError(w.t, err)
			for _, l := range list {
				if l.Header(supervisor.DeadOffset) == fmt.Sprint(offset) {
					return l
				}
			}
		}
		w.pause(w.t.Context(), "the dead letter")
	}
}

// A client that waits for its token under load looks when many other inputs have been judged.
func TestARejectionIsFoundBehindManyFacts(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w := setup(t, 1)
		n := w.node(t.TempDir())
		w.apply(n, single("w", 1))
		w.hire(nil)
		list := make([]events.Record, 20_500)
		for i := range list {
			list[i] = events.Record{Key: []byte("bad"), Value: []byte("{")}
		}
		bad := w.produce(w.topics.Submissions(), 0, list...)
		good := w.produce(w.topics.Submissions(), 0, events.Record{Key: []byte("t"), Value: []byte(`{"workflow":"w"}`)})
		require.NoError(t, n.Inputs().WaitPassed(t.Context(), events.Submissions, 0, good[0]))
		for _, at := range []int64{bad[0], bad[len(bad)-1]} {
			why, err := n.Refusals().Rejection(t.Context(), events.Submissions, 0, at)
			require.NoError(t, err)
			require.NotNil(t, why, at)
			require.Equal(t, events.RejectUnreadable, why.Reason)
		}
		why, err := n.Refusals().Rejection(t.Context(), events.Submissions, 0, good[0])
		require.NoError(t, err)
		require.Nil(t, why)
	})
}

func TestTheHistoryIsTheAcceptedFactsOfATask(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w, n, _ := ready(t, nil)
		tasks := ids("t", 30)
		w.submit(tasks...)
		w.watch.ended(tasks...)
		for _, id := range tasks[:3] {
			_, err := n.Store().Wait(t.Context(), events.Home(id, w.parts), func(i projector.Info) bool { return i.Live == 0 })
			require.NoError(t, err)
			var names []string
			for from := int64(0); ; {
				page, err := n.Facts().History(t.Context(), id, from, 5)
				require.NoError(t, err)
				require.LessOrEqual(t, len(page), 5)
				if len(page) == 0 {
					break
				}
				for _, f := range page {
					fact, err := events.DecodeFact(&f.Record)
					require.NoError(t, err)
					require.Equal(t, id, fact.Task)
					require.Equal(t, "node-1", f.Owner)
					names = append(names, tell(fact))
					from = f.Record.Offset + 1
				}
			}
			require.Equal(t, w.watch.story(id), names)
		}
		none, err := n.Facts().History(t.Context(), "nobody", 0, 5)
		require.NoError(t, err)
		require.Empty(t, none)
	})
}

// No index serves the filter: the only task that matches is older than the others, and its page is not empty.
func TestASmallPageOfAFilterIsNotEmptyIfATaskMatches(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w, n, _ := ready(t, nil)
		end := func(tasks ...string) {
			w.submit(tasks...)
			w.watch.ended(tasks...)
			for p := range w.parts {
				_, err := n.Store().Wait(t.Context(), p, func(i projector.Info) bool { return i.Live == 0 })
				require.NoError(t, err)
			}
		}
		end("old")
		by := events.At(time.Now())
		w.pause(t.Context(), "a later instant")
		end(ids("new", 20)...)
		page, err := n.Lists().List(t.Context(), api.Query{Limit: 1, Match: events.TaskMatch{ChangedBy: by}})
		require.NoError(t, err)
		require.Len(t, page.Tasks, 1)
		require.Equal(t, "old", page.Tasks[0].ID)
		page, err = n.Lists().List(t.Context(), api.Query{Limit: 2, Match: events.TaskMatch{ChangedBy: by}})
		require.NoError(t, err)
		require.Len(t, page.Tasks, 1)
		require.Empty(t, page.Next)
	})
}

func TestWaitingForADuplicateEnds(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w, n, _ := ready(t, nil)
		w.submit("t-1")
		w.watch.ended("t-1")
		home := events.Home("t-1", w.parts)
		at := w.produce(w.topics.Submissions(), home, submission("t-1", map[string]any{"n": 1}))
		begin := time.Now()
		require.NoError(t, n.Inputs().WaitPassed(t.Context(), events.Submissions, home, at[0]))
		require.Less(t, time.Since(begin), time.Second)
		require.NoError(t, n.Inputs().CatchUp(t.Context(), events.Submissions, home))
		at = w.produce(w.topics.Submissions(), home, submission("t-1", map[string]any{"n": 2}))
		require.NoError(t, n.Inputs().WaitPassed(t.Context(), events.Submissions, home, at[0]))
		why, err := n.Refusals().Rejection(t.Context(), events.Submissions, home, at[0])
		require.NoError(t, err)
		require.Equal(t, events.RejectConflict, why.Reason)
	})
}

func TestReadyMeansThatEveryPartitionIsOwned(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w := setup(t, 3)
		p, err := w.open(t.TempDir())
		require.NoError(t, err)
		require.ErrorContains(t, p.Ready(), "partition 2 is ")
		p.run()
		t.Cleanup(func() { _ = p.stop() })
		for p.Ready() != nil {
			w.pause(t.Context(), "the node to be ready")
		}
		view, err := p.ClusterView().Partitions(t.Context())
		require.NoError(t, err)
		require.Len(t, view, 3)
		for _, part := range view {
			require.Equal(t, "node-1", part.Owner)
			require.Equal(t, part.EndOffset, part.AppliedOffset)
		}
		require.Equal(t, "node-1", p.ClusterView().Owner(1))
		list, err := p.Lists().List(t.Context(), api.Query{Limit: 10})
		require.NoError(t, err)
		require.Empty(t, list.Tasks)
		_, err = p.Lists().List(t.Context(), api.Query{Limit: 10, Cursor: "foreign"})
		require.ErrorIs(t, err, api.ErrBadCursor)
		w.cutOff(p)
	})
}

// cutOff closes the broker: the node must still stop cleanly.
func (w *world) cutOff(p *process) {
	w.t.Helper()
	require.NoError(w.t, w.broker.Close())
	begin := time.Now()
	require.NoError(w.t, p.stop())
	require.Less(w.t, time.Since(begin), 3*time.Second)
}

func TestANamespaceKeepsItsPartitions(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w := setup(t, 2)
		n := w.node(t.TempDir())
		require.NoError(t, n.stop())
		_, err := w.open(t.TempDir(), func(c *node.Config) { c.Partitions, c.PartitionsSet = 5, true })
		require.ErrorContains(t, err, "has 2 partitions")
		p, err := w.open(t.TempDir(), func(c *node.Config) { c.Partitions = 5 })
		require.NoError(t, err)
		require.Equal(t, int32(2), p.Partitions())
		require.NoError(t, p.Close())
		p.cluster.Close()
		p.net.cut()
	})
}
