package node_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/sagalog/sagalog/events"
	"github.com/sagalog/sagalog/internal/api"
	"github.com/sagalog/sagalog/internal/node"
	"github.com/sagalog/sagalog/internal/proxy"
	"github.com/sagalog/sagalog/projector"
	"github.com/stretchr/testify/require"
)

// together makes a node share the partitions with others.
func together(c *node.Config) { c.Alone = false }

// owners returns how many partitions each node owns, according to the log.
func (w *world) owners() map[string]int {
	w.watch.mu.Lock()
	defer w.watch.mu.Unlock()
	return w.ownersNow()
}

// ownersNow is called with the observer's mu held.
func (w *world) ownersNow() map[string]int {
	of := map[int32]string{}
	for _, s := range w.watch.facts {
		if c, ok := s.fact.Body.(*events.PartitionClaimed); ok && s.fate == events.FateAccepted {
			of[s.partition] = c.Owner
		}
	}
	count := map[string]int{}
	for _, name := range of {
		count[name]++
	}
	return count
}

// shared waits until the partitions are spread over the nodes as evenly as their number allows.
func (w *world) shared(names ...string) time.Duration {
	w.t.Helper()
	begun := time.Now()
	w.watch.await(fmt.Sprintf("%v share %d partitions", names, w.parts), func() bool {
		now := w.ownersNow()
		sum := 0
		for _, name := range names {
			if n := now[name]; n < int(w.parts)/len(names) || n > (int(w.parts)+len(names)-1)/len(names) {
				return false
			}
			sum += now[name]
		}
		return sum == int(w.parts)
	})
	return time.Since(begun)
}

func TestNodesShareThePartitions(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w := setup(t, 4)
		dirs := []string{t.TempDir(), t.TempDir(), t.TempDir()}
		one := w.node(dirs[0], together)
		w.apply(one, order)
		crew := w.hire(nil)
		t.Logf("the first node owns all partitions after %s", w.shared("node-1"))
		var tasks []string
		work := func(name string) {
			more := ids(name, 20)
			w.submit(more...)
			tasks = append(tasks, more...)
		}
		work("one")
		two := w.node(dirs[1], together)
		t.Logf("two nodes share after %s", w.shared("node-1", "node-2"))
		work("two")
		three := w.node(dirs[2], together)
		t.Logf("three nodes share after %s", w.shared("node-1", "node-2", "node-3"))
		work("three")

		begun := time.Now()
		require.NoError(t, three.stop())
		took := w.shared("node-1", "node-2")
		t.Logf("the partitions have owners again %s after a clean stop began", time.Since(begun))
		require.Less(t, took, 2*time.Second, "a leaving node is replaced without waiting for silence")
		work("stopped")

		two.kill()
		took = w.shared("node-1")
		t.Logf("a dead node is replaced after %s", took)
		require.Less(t, took, 5*time.Second, "the others do not wait for the session timeout")
		work("killed")

		w.watch.ended(tasks...)
		<-time.After(6 * time.Second) // offsets are committed every five seconds
		w.noLag()
		require.NoError(t, one.stop())
		w.watch.verify()
		w.everyCallIsInTheLog(crew)
		for _, id := range tasks {
			require.Equal(t, events.TaskStateProcessed, w.watch.state(id, events.TaskStateProcessed).State)
		}
		w.proveHashes(dirs[0])
		w.observerAgrees()
	})
}

// A node with the role projector has already folded the partitions of other nodes, so reads and take-overs need no
// further folding.
func TestAReplicaFollowsPartitionsOfOthers(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w := setup(t, 4)
		dirs := []string{t.TempDir(), t.TempDir()}
		one := w.node(dirs[0], together)
		w.apply(one, order)
		w.hire(nil)
		w.shared("node-1")
		tasks := ids("t", 40)
		w.submit(tasks...)
		watcher := w.node(dirs[1], together, func(c *node.Config) { c.Roles = node.Roles{Projector: true} })
		w.watch.ended(tasks...)
		require.Equal(t, map[string]int{"node-1": 4}, w.owners(), "a projector owns nothing")
		for p := range w.parts {
			want, err := one.Store().PartitionInfo(p)
			require.NoError(t, err)
			_, err = watcher.Store().Wait(t.Context(), p, func(i projector.Info) bool { return i.Next >= want.Next })
			require.NoError(t, err)
		}
		<-time.After(2 * time.Second) // until it has heard the owner's heartbeats
		require.NoError(t, watcher.Ready())
		require.NoError(t, one.stop())
		require.NoError(t, watcher.stop())
		w.proveHashes(dirs...)
	})
}

// A node is paused in the middle of its work, replaced, and resumed. The facts that it had decided land behind its
// successor's claim: they are void for every reader and have no effect, and the node becomes a member again.
func TestAPausedNodeIsReplacedAndWakes(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w := setup(t, 4)
		dirs := []string{t.TempDir(), t.TempDir()}
		one := w.node(dirs[0], together)
		w.apply(one, order)
		crew := w.hire(nil)
		two := w.node(dirs[1], together)
		w.shared("node-1", "node-2")
		var tasks []string
		for round := 0; voidFacts(w.watch.log()) == 0; round++ {
			require.Less(t, round, 50, "no void fact came")
			more := ids(fmt.Sprintf("t-%d", round), 40)
			tasks = append(tasks, more...)
			// Appends are in flight when the pause begins.
			w.disturb(one, func(int) fate { return fate{late: 100 * time.Millisecond} })
			w.submit(more[:20]...)
			<-time.After(50 * time.Millisecond)
			one.net.freeze()
			w.disturb(one, nil)
			w.submit(more[20:]...)
			took := w.shared("node-2")
			require.Less(t, took, 5*time.Second)
			w.watch.ended(more...)
			one.net.thaw()
			w.shared("node-1", "node-2")
		}
		t.Logf("%d epochs, %d void facts", epochs(w.watch.log()), voidFacts(w.watch.log()))
		require.NoError(t, one.stop())
		require.NoError(t, two.stop())
		w.watch.verify()
		w.everyCallIsInTheLog(crew)
		for _, id := range tasks {
			require.Equal(t, events.TaskStateProcessed, w.watch.state(id, events.TaskStateProcessed).State)
		}
		w.proveHashes(dirs...)
		w.observerAgrees()
	})
}

// noLag checks that lag tools show every input as judged.
func (w *world) noLag() {
	w.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	committed, err := w.cluster.CommittedOffsets(ctx, w.topics.Namespace+".owners")
	require.NoError(w.t, err)
	for _, topic := range []string{w.topics.Submissions(), w.topics.Events()} {
		for p := range w.parts {
			end, err := w.cluster.EndOffset(ctx, topic, p)
			require.NoError(w.t, err)
			require.Equal(w.t, end, committed[topic][p], "%s/%d", topic, p)
		}
	}
}

// A node that stops leaves its group, so the others need no missing heartbeat, and no final one, to notice.
func TestACleanStopLeavesTheGroup(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w := setup(t, 4)
		one := w.node(t.TempDir(), together)
		two := w.node(t.TempDir(), together)
		w.shared("node-1", "node-2")
		members := func() []string {
			list, err := w.cluster.StaticMembers(t.Context(), w.topics.Namespace+".owners")
			require.NoError(t, err)
			return list
		}
		require.Equal(t, []string{"node-1", "node-2"}, members())
		require.NoError(t, two.stop())
		require.Equal(t, []string{"node-1"}, members(), "it left the group before it ended")
		w.shared("node-1")
		require.NoError(t, one.stop())
		require.Empty(t, members())
	})
}

// A node follows a partition again after it has given it up. Only one of its shell and its replica writes the state at
// a time, so after each hand-over the state is the fold of the log.
func TestAGivenUpPartitionIsFollowed(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w := setup(t, 4)
		dirs := []string{t.TempDir(), t.TempDir()}
		one := w.node(dirs[0], together)
		w.apply(one, order)
		w.hire(nil)
		w.shared("node-1")
		for round := range 3 {
			two := w.node(dirs[1], together, func(c *node.Config) { c.Name = "node-2" })
			more := ids(fmt.Sprintf("t-%d", round), 60)
			w.submit(more...)
			w.shared("node-1", "node-2")
			w.watch.ended(more...)
			for p := range w.parts {
				for _, n := range []*process{one, two} {
					want := w.end(p)
					info, err := n.Store().Wait(t.Context(), p, func(i projector.Info) bool { return i.Next >= want })
					require.NoError(t, err)
					require.Equal(t, w.foldTo(p, info.Next), info.StateHash, "partition %d", p)
				}
			}
			require.NoError(t, two.stop())
			w.shared("node-1")
		}
		require.NotEmpty(t, w.logs.find("this node has taken the partition over"))
		require.NotEmpty(t, w.logs.find("before=node-2"))
		require.NoError(t, one.stop())
		w.proveHashes(dirs...)
	})
}

// Between an owner and the next one, a partition is read as it was. Giving it up may take as long as a broker is away.
func TestAPartitionWithoutAnOwnerIsReadAsItWas(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w := setup(t, 1)
		n := w.node(t.TempDir(), together)
		w.apply(n, order)
		w.hire(nil)
		w.shared("node-1")
		w.submit("t-1")
		w.watch.ended("t-1")
		require.True(t, n.ClusterView().Route(0).Here)
		end := w.end(0)
		_, err := n.Store().Wait(t.Context(), 0, func(i projector.Info) bool { return i.Next >= end })
		require.NoError(t, err)
		n.GiveUp(0)
		require.Equal(t, proxy.Route{Stale: true}, n.ClusterView().Route(0))
		task, err := n.Tasks().Task(t.Context(), "t-1")
		require.NoError(t, err)
		require.NotNil(t, task)
		page, err := n.Lists().List(t.Context(), api.Query{Limit: 10})
		require.NoError(t, err)
		require.Len(t, page.Tasks, 1)
		require.Len(t, page.AsOf, 1)
		require.GreaterOrEqual(t, page.AsOf[0].Offset, end)
	})
}

// end returns the end offset of a partition of events.
func (w *world) end(p int32) int64 {
	w.t.Helper()
	end, err := w.cluster.EndOffset(context.Background(), w.topics.Events(), p)
	require.NoError(w.t, err)
	return end
}

// A node is not ready while no broker answers, and becomes ready again when one does.
func TestANodeWithoutBrokersIsNotReady(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w := setup(t, 2)
		n := w.node(t.TempDir(), together)
		w.shared("node-1")
		<-time.After(2 * time.Second) // until it has read its heartbeat back
		require.NoError(t, n.Ready())
		n.net.freeze()
		<-time.After(7 * time.Second)
		require.ErrorContains(t, n.Ready(), "the brokers have not answered for")
		n.net.thaw()
		<-time.After(20 * time.Second)
		require.NoError(t, n.Ready())
		require.NoError(t, n.stop())
	})
}
