//go:build synctests

package node_test

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/sagalog/sagalog/events"
	"github.com/sagalog/sagalog/internal/api"
	"github.com/sagalog/sagalog/internal/kafka/kafkatest"
	"github.com/stretchr/testify/require"
)

// A node's claim arrives so late that another node has already claimed and is working. Its place in the log makes the
// late claim void: it deposes no owner, and its node does not claim again.
func TestFaultALateClaimDeposesNoOwner(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w := setup(t, 1)
		f := begin(w, 1)
		two := f.join()
		one := f.nodes[0]
		// The partition moves to node-2 and back to node-1, and node-1's new claim is late.
		one.net.freeze()
		w.shared("node-2")
		one.net.thaw()
		// Until the group answers it, node-1 believes that it has the partition, and claims it. That claim is not the late one.
		<-time.After(5 * time.Second)
		w.shared("node-2")
		sent := make(chan struct{}, 100)
		w.disturb(one, func(int) fate {
			sent <- struct{}{}
			return fate{late: time.Minute}
		})
		two.net.freeze()
		<-sent // the claim is under way
		one.net.freeze()
		<-time.After(20 * time.Second) // node-2 notices that the group gave its partition away, and claims it again
		two.net.thaw()
		w.disturb(one, nil)
		before := len(w.claims(0))
		f.work("t", 5)
		f.watch.ended(f.tasks...)
		one.net.thaw()
		w.watch.await("the late claim has landed", func() bool {
			return slices.ContainsFunc(w.watch.facts, func(s seen) bool {
				c, ok := s.fact.Body.(*events.PartitionClaimed)
				return ok && c.Owner == "node-1" && s.fate == events.FateVoid
			})
		})
		f.quick("after", 10*time.Second)
		<-time.After(20 * time.Second)
		t.Log(w.claims(0))
		require.Contains(t, w.claims(0)[before:], "node-1 false")
		require.Equal(t, map[string]int{"node-2": 1}, w.owners(), "the owner is the node that the group chose")
		require.Less(t, len(w.claims(0))-before, 5, "the nodes do not keep deposing each other")
		f.prove()
	})
}

// For a while the coordinator moves, heartbeats are refused, and members come and go.
func TestFaultAStormOfRebalancesPasses(t *testing.T) {
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
		require.Less(t, f.crew.repeats(), len(f.crew.all())/2, "few calls are repeated")
		f.prove()
	})
}

// The groups are deleted while they are empty, so their generations start at 1 again. No epoch depends on them.
func TestFaultADeletedGroupFencesNoOwner(t *testing.T) {
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
		require.Less(t, time.Since(begun), 15*time.Second, "the nodes recover without help")
		require.Equal(t, before+2, epochs(w.watch.log()), "one claim for each partition")
		f.crew.calls = append(f.crew.calls, old...)
		f.prove()
	})
}

// Every partition's leader moves again and again during appends and fetches.
func TestFaultMovingLeadersLoseNothing(t *testing.T) {
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

// Leaders move for longer than a question is repeated. What the API asks then is an error that passes, and it is answered once the leaders
// stand.
func TestFaultMovingLeadersAreErrorsThatPass(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w, brokers := setupFake(t, 2, 3)
		n := w.node(t.TempDir())
		w.apply(n, order)
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		defer cancel()
		calls := map[string]func() error{
			"catch up":     func() error { return n.Inputs().CatchUp(ctx, events.Submissions, 0) },
			"refresh":      func() error { return n.Definitions().Refresh(ctx) },
			"dead letters": func() error { _, err := n.Letters().Ranges(ctx); return err },
			"a workflow":   func() error { _, err := n.Definitions().Workflow(ctx, "other", 0); return err },
			"apply": func() error {
				_, _, err := n.Definitions().Apply(ctx, api.Draft{Name: "w", Source: []byte(single("w", 1))})
				return err
			},
		}
		var faults []*kafkatest.Faulty
		for _, topic := range []string{w.topics.Submissions(), w.topics.Definitions(), w.topics.DeadSubmissions(), w.topics.DeadReports()} {
			faults = append(faults, brokers.Fault(kafkatest.Fault{Request: "ListOffsets", Topic: topic, Code: "NOT_LEADER_FOR_PARTITION"}))
		}
		for name, call := range calls {
			require.ErrorIs(t, call(), api.ErrNoAnswer, name)
		}
		slices.Reverse(faults)
		for i, f := range faults {
			require.Positive(t, f.Hits())
			f.Remove()
			if i == 0 { // those of reports are answered, and not held up by the others
				ranges, err := n.Letters().Ranges(ctx)
				require.NoError(t, err)
				require.Equal(t, []api.DeadRange{{Input: events.Reports, Partition: 0}, {Input: events.Reports, Partition: 1}}, ranges)
			}
		}
		for name, call := range calls {
			require.NoError(t, call(), name)
		}
	})
}
