//go:build synctests

package node_test

import (
	"testing"
	"time"

	"github.com/sagalog/sagalog/events"
	"github.com/sagalog/sagalog/internal/kafka/kafkatest"
	"github.com/stretchr/testify/require"
)

// The claim of a node travels for so long that another one has claimed and works when it lands: it is refused by its
// own position, deposes nobody, and its node does not begin a fight.
func TestFaultF8ALateClaimDeposesNobody(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w := setup(t, 1)
		f := begin(w, 1)
		two := f.join()
		one := f.nodes[0]
		// The partition goes to node-2, back to node-1, and what node-1 claims then is late.
		one.net.freeze()
		w.shared("node-2")
		one.net.thaw()
		sent := make(chan struct{}, 100)
		w.disturb(one, func(int) fate {
			sent <- struct{}{}
			return fate{late: 9 * time.Second}
		})
		two.net.freeze()
		<-sent // the claim is under way
		one.net.freeze()
		two.net.thaw()
		w.disturb(one, nil)
		before := len(w.claims(0))
		f.work("t", 5)
		f.watch.ended(f.tasks...)
		one.net.thaw()
		w.watch.await("the late claim has landed", func() bool {
			last := w.watch.facts[len(w.watch.facts)-1]
			c, ok := last.fact.Body.(*events.PartitionClaimed)
			return ok && c.Owner == "node-1" && last.fate == events.FateVoid
		})
		f.quick("after", 10*time.Second)
		<-time.After(20 * time.Second)
		t.Log(w.claims(0))
		require.Contains(t, w.claims(0)[before:], "node-1 false")
		require.Equal(t, map[string]int{"node-2": 1}, w.owners(), "the owner is the one whom the group chose")
		require.Less(t, len(w.claims(0))-before, 5, "there is no fight")
		f.prove()
	})
}

// Coordinators move, heartbeats are refused and members come and go for a while.
func TestFaultF9ARebalanceStormPasses(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w, brokers := setupFake(t, 4, 3)
		f := begin(w, 2)
		refused := brokers.Fault(kafkatest.Fault{Request: "Heartbeat", Group: "sagalog.owners", Code: "REBALANCE_IN_PROGRESS", Count: 40})
		f.during("t", 20, 200*time.Millisecond, func(i int) {
			brokers.MoveCoordinators()
			switch i {
			case 3, 11:
				f.join()
			case 7, 15:
				require.NoError(t, f.nodes[len(f.nodes)-1].stop())
			}
		})
		refused.Remove()
		require.Positive(t, refused.Hits())
		w.shared("node-1", "node-2")
		f.quick("after", 5*time.Second)
		f.watch.ended(f.tasks...)
		t.Logf("%d heartbeats were refused; %d epochs, %d repeated calls of %d", refused.Hits(), epochs(w.watch.log()), f.crew.repeats(), len(f.crew.all()))
		require.Less(t, f.crew.repeats(), len(f.crew.all())/2, "what is sent again is bounded")
		f.prove()
	})
}

// The groups are deleted while nobody is in them, so their generations begin anew: nobody's epoch depends on it.
func TestFaultF10AGroupThatBeginsAnewFencesNobody(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w, brokers := setupFake(t, 2, 1)
		f := begin(w, 1)
		f.watch.ended(f.work("before", 10)...)
		require.NoError(t, f.nodes[0].stop())
		f.crew.leave()
		for _, group := range []string{"sagalog.owners", "sagalog.agents.stock", "sagalog.agents.bank", "sagalog.agents.carrier", "sagalog.agents.mail"} {
			require.Contains(t, kafkatest.Groups(t, brokers), group)
			kafkatest.DeleteGroup(t, brokers, group)
		}
		require.Empty(t, kafkatest.Groups(t, brokers))
		before := epochs(w.watch.log())
		begun := time.Now()
		n := w.node(memory, together, on(f.disks[0]))
		old := f.crew.all()
		f.crew = w.hire(nil)
		f.nodes = []*process{n}
		f.watch.ended(f.work("after", 10)...)
		require.Less(t, time.Since(begun), 15*time.Second, "nobody has to lend a hand")
		require.Equal(t, before+2, epochs(w.watch.log()), "one claim for each partition")
		f.crew.calls = append(f.crew.calls, old...)
		f.prove()
	})
}

// Every partition's leader moves again and again, under appends and fetches.
func TestFaultF12LeadersThatMoveLoseNothing(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w, brokers := setupFake(t, 2, 3)
		f := begin(w, 2)
		moves := 0
		f.during("t", 40, 150*time.Millisecond, func(i int) {
			was := brokers.Leader(w.topics.Events(), 0)
			if i%4 == 0 {
				brokers.Shuffle()
			} else {
				brokers.Move(w.topics.Events(), 0, (was+1)%3)
			}
			if brokers.Leader(w.topics.Events(), 0) != was {
				moves++
			}
		})
		require.Greater(t, moves, 30)
		took := f.quick("after", 3*time.Second)
		f.watch.ended(f.tasks...)
		t.Logf("the leader moved %d times; %d epochs, %d void facts; a task behind it took %s", moves, epochs(w.watch.log()), voidFacts(w.watch.log()), took)
		f.prove()
	})
}
