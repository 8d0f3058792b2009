package node_test

import (
	"fmt"
	"path/filepath"
	"testing"
	"time"

	"github.com/sagalog/sagalog/events"
	"github.com/sagalog/sagalog/internal/api"
	"github.com/sagalog/sagalog/internal/kafka/kafkatest"
	"github.com/sagalog/sagalog/internal/node"
	"github.com/sagalog/sagalog/scheduler"
	"github.com/sagalog/sagalog/supervisor"
	"github.com/stretchr/testify/require"
)

// judged20 starts a node that has judged 20 submissions, and waits until their effects have settled.
func (w *world) judged20(dir string) *process {
	n := w.node(dir)
	w.apply(n, order)
	w.hire(nil)
	w.submit(ids("a", 20)...)
	w.watch.ended(ids("a", 20)...)
	<-time.After(5 * time.Second)
	return n
}

// Submissions are deleted before they are judged. The partition stops and prints the command that gives them up. When an operator does, the
// running node goes on behind them.
func TestALostInputIsGivenUp(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w := setup(t, 1)
		dir := t.TempDir()
		n := w.judged20(dir)
		require.NoError(t, n.stop())
		w.submit(ids("lost", 6)...)
		kafkatest.DeleteRecords(t, w.broker, w.topics.Submissions(), 0, 23)

		p, err := w.open(dir)
		require.NoError(t, err)
		p.run()
		w.stopped(p)
		require.ErrorIs(t, p.Ready(), supervisor.ErrInputLost)
		require.ErrorContains(t, p.Ready(), "or give up what is lost: sagalog namespace accept-loss --input submissions --partition 0 --from 20 --to 23")
		require.Len(t, w.logs.find("ERROR the partition stopped"), 1)

		for _, wrong := range []events.AcceptedLoss{
			{Input: events.Submissions, From: 20, To: 24}, {Input: events.Submissions, From: 19, To: 23},
			{Input: events.Submissions, From: 20, To: 22}, {Input: events.Reports, From: 20, To: 23},
		} {
			offset, now, err := p.Losses().AcceptLoss(t.Context(), wrong)
			require.NoError(t, err)
			require.Zero(t, offset, "%+v", wrong)
			require.Len(t, now, 1)
			require.Equal(t, "sagalog namespace accept-loss --input submissions --partition 0 --from 20 --to 23", now[0].Command())
		}
		require.Len(t, w.read(w.topics.Definitions(), 0), 2, "the namespace and the workflow: nothing was written")

		// More is deleted before an acceptance arrives: the partition tries again, and stops again.
		kafkatest.DeleteRecords(t, w.broker, w.topics.Submissions(), 0, 24)
		loss := events.AcceptedLoss{Input: events.Submissions, Partition: 0, From: 20, To: 23, Reason: "retention was too short", By: "ada"}
		subject := events.Subject{ID: "1", Source: "/test"}
		r, err := scheduler.EncodeLoss(&loss, subject)
		require.NoError(t, err)
		w.produce(w.topics.Definitions(), 0, r)
		<-time.After(5 * time.Second)
		w.stopped(p)
		require.ErrorContains(t, p.Ready(), "(the accepted loss of the offsets from 20 to before 23 does not cover it)")
		require.ErrorContains(t, p.Ready(), "--from 20 --to 24")
		// An acceptance for another topic of that name does not count.
		other := events.AcceptedLoss{Input: events.Submissions, Partition: 0, From: 20, To: 24, TopicID: "00000000000000000000000000000007"}
		r, err = scheduler.EncodeLoss(&other, subject)
		require.NoError(t, err)
		w.produce(w.topics.Definitions(), 0, r)
		<-time.After(5 * time.Second)
		w.stopped(p)
		require.Len(t, w.logs.find("ERROR the partition stopped"), 3)

		loss.To = 24
		offset, _, err := p.Losses().AcceptLoss(t.Context(), loss)
		require.NoError(t, err)
		w.submit("b-0001")
		w.watch.ended("b-0001", "lost-0004", "lost-0005")
		require.NoError(t, p.Ready())
		again, _, err := p.Losses().AcceptLoss(t.Context(), loss)
		require.NoError(t, err)
		require.Equal(t, offset, again, "a repeat is answered alike when the partition has gone on")
		loss.To = 23
		again, _, err = p.Losses().AcceptLoss(t.Context(), loss)
		require.NoError(t, err)
		require.Zero(t, again, "it is not lost any more")
		require.Equal(t, []events.InputLossAccepted{{Input: events.Submissions, From: 20, To: 24, Offset: offset, Reason: "retention was too short", By: "ada"}}, w.givenUp())
		require.NoError(t, p.stop())
		w.watch.verify()
	})
}

func (w *world) givenUp() (list []events.InputLossAccepted) {
	for _, r := range w.read(w.topics.Events(), 0) {
		f, err := events.DecodeFact(&r)
		require.NoError(w.t, err)
		if b, ok := f.Body.(*events.InputLossAccepted); ok {
			list = append(list, *b)
		}
	}
	return list
}

// The stored state is older than the log, as after a crash. Inputs that were judged meanwhile are not lost.
func TestAnInputThatTheLogHasJudgedIsNotLost(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w := setup(t, 1)
		dir, old := t.TempDir(), filepath.Join(t.TempDir(), "old")
		n := w.judged20(dir)
		require.NoError(t, n.stop())
		copied(t, dir, old)
		n = w.node(dir)
		w.submit(ids("b", 10)...)
		w.watch.ended(ids("b", 10)...)
		<-time.After(5 * time.Second)
		require.NoError(t, n.stop())
		kafkatest.DeleteRecords(t, w.broker, w.topics.Submissions(), 0, 25)
		w.state(old, func(p *process) {
			list, err := p.Losses().Losses(t.Context())
			require.NoError(t, err)
			require.Empty(t, list)
		})
	})
}

// A node of a build before levels would stop at the fact.
func TestALossIsNotAcceptedWhileAnOlderNodeLives(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w := setup(t, 1)
		n := w.judged20(t.TempDir())
		kafkatest.DeleteRecords(t, w.broker, w.topics.Submissions(), 0, 20)
		r, err := events.EncodePresence(events.Presence{Kind: events.PresenceNode, Instance: "old", SeenAt: events.At(time.Now())}, events.Subject{ID: "1", Source: "/old"})
		require.NoError(t, err)
		w.produce(w.topics.Presence(), 0, r)
		<-time.After(time.Second)
		loss := events.AcceptedLoss{Input: events.Submissions, From: 20, To: 20}
		_, _, err = n.Losses().AcceptLoss(t.Context(), loss)
		require.EqualError(t, err, `node "old" runs a build that stops at the fact InputLossAccepted; upgrade that node first`)
		<-time.After(5 * time.Second)
		offset, _, err := n.Losses().AcceptLoss(t.Context(), loss)
		require.NoError(t, err)
		require.Positive(t, offset)
		require.NoError(t, n.stop())
	})
}

// Only the last judged record is deleted, and with it the proof that the topic is the same; and the acceptance is there before a node starts.
func TestALossThatWasAcceptedStopsNoStart(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w := setup(t, 1)
		dir := t.TempDir()
		n := w.judged20(dir)
		kafkatest.DeleteRecords(t, w.broker, w.topics.Submissions(), 0, 20)
		loss := events.AcceptedLoss{Input: events.Submissions, From: 20, To: 20}
		offset, _, err := n.Losses().AcceptLoss(t.Context(), loss)
		require.NoError(t, err)
		require.Positive(t, offset)
		<-time.After(time.Second)
		require.NoError(t, n.Ready(), "a partition that runs does not look at what it has judged")
		require.NoError(t, n.stop())
		n = w.node(dir)
		w.submit("b-0001")
		w.watch.ended("b-0001")
		require.Empty(t, w.logs.find("ERROR the partition stopped"))
		require.Equal(t, []events.InputLossAccepted{{Input: events.Submissions, From: 20, To: 20, Offset: offset}}, w.givenUp())
		require.NoError(t, n.stop())
		w.watch.verify()
	})
}

// The resume points are folded from the store while the owner writes there.
func TestTheResumePointsAreFoldedWhileTheOwnerWrites(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w := setup(t, 1)
		w.latency = 15 * time.Millisecond
		n := w.node(t.TempDir())
		w.apply(n, order)
		w.hire(nil)
		w.submit("first")
		w.watch.ended("first")
		var next int64
		for i := range 50 {
			w.submit(ids(fmt.Sprint("t", i), 20)...)
			passed, err := n.Passed(t.Context(), 0)
			require.NoError(t, err)
			require.GreaterOrEqual(t, passed[events.Submissions].Next, next)
			next = passed[events.Submissions].Next
		}
		require.Positive(t, next)
		require.NoError(t, n.stop())
	})
}

// A partition that stopped is named with its reason by each node, also by one that has it not.
func TestEachNodeNamesAStoppedPartition(t *testing.T) {
	t.Parallel()
	w := setup(t, 2)
	dir := t.TempDir()
	one := w.node(dir, answering)
	a := w.site(one)
	require.Equal(t, 200, s200(a.call("PUT", "/v1/workflows/order", "application/yaml", order, nil)))
	w.hire(nil)
	w.submit(ids("a", 20)...)
	w.watch.ended(ids("a", 20)...)
	require.NoError(t, one.stop())
	for p := range w.parts { // nobody has judged what is deleted
		end := w.produce(w.topics.Submissions(), p, submission(fmt.Sprint("lost-", p), nil), submission(fmt.Sprint("lost-", p), nil))
		kafkatest.DeleteRecords(t, w.broker, w.topics.Submissions(), p, end[1])
	}
	p, err := w.open(dir, answering)
	require.NoError(t, err)
	p.run()
	q, err := w.open(t.TempDir(), answering, func(c *node.Config) { c.Roles.Owner = false })
	require.NoError(t, err)
	q.run()
	for _, s := range []*site{w.site(p), w.site(q)} {
		for {
			var counts api.CountsDocument
			var nodes struct{ Nodes []api.NodeDocument }
			var parts []api.PartitionDocument
			require.Equal(t, 200, s.call("GET", "/v1/counts", "", "", &counts))
			require.Equal(t, 200, s.call("GET", "/v1/nodes", "", "", &nodes))
			require.Equal(t, 200, s.call("GET", "/v1/partitions", "", "", &parts))
			if len(counts.Missing) == 2 && counts.Missing[0].Reason == "stopped" && counts.Missing[1].Reason == "stopped" && len(nodes.Nodes) == 2 && len(nodes.Nodes[0].Stopped) == 2 {
				require.Contains(t, counts.Missing[0].Detail, supervisor.ErrInputLost.Error())
				require.Equal(t, events.StoppedInputLost, nodes.Nodes[0].Stopped[0].Reason)
				require.Equal(t, p.name, parts[0].Stopped.Node)
				require.Equal(t, events.StoppedInputLost, parts[1].Stopped.Reason)
				break
			}
			w.pause(t.Context(), "both partitions to be named")
		}
	}
	require.NoError(t, p.stop())
	require.NoError(t, q.stop())
}
