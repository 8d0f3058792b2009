package node_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/sagalog/sagalog/events"
	"github.com/sagalog/sagalog/internal/api"
	"github.com/sagalog/sagalog/internal/kafka"
	"github.com/sagalog/sagalog/internal/kafka/kafkatest"
	"github.com/sagalog/sagalog/internal/node"
	"github.com/sagalog/sagalog/projector"
	"github.com/sagalog/sagalog/supervisor"
	"github.com/stretchr/testify/require"
)

// several are brokers that clients do not take for the one in their own process.
type several struct{ *kafkatest.Fake }

func (s several) ClusterConfig() kafka.ClusterConfig {
	cfg := s.Fake.ClusterConfig()
	cfg.Embedded = false
	return cfg
}

// farBroker starts two nodes on three brokers and returns a broker that leads the log of one of node-1's partitions, and nothing else.
func farBroker(t *testing.T) (w *world, one, two *process, far int32, partition int32) {
	t.Helper()
	w, brokers := fencing(t)
	w.broker = several{brokers}
	one = w.node(t.TempDir(), together)
	w.apply(one, order)
	w.hire(nil)
	two = w.node(t.TempDir(), together)
	w.shared("node-1", "node-2")
	far = (brokers.Coordinator("sagalog.owners") + 1) % 3
	for _, topic := range append(kafka.TopicNames(w.topics.Base(w.parts)), "sagalog.work.stock", "sagalog.work.bank", "sagalog.work.carrier", "sagalog.work.mail") {
		for p := range w.parts {
			if topic != w.topics.Events() && topic != w.topics.Submissions() && topic != w.topics.Reports() && p > 0 {
				break
			}
			brokers.Move(topic, p, (far+1)%3)
		}
	}
	w.watch.mu.Lock()
	for _, state := range w.watch.states {
		if state.Partition.Owner == "node-1" {
			partition = state.Partition.Partition
		}
	}
	w.watch.mu.Unlock()
	brokers.Move(w.topics.Events(), partition, far)
	<-time.After(5 * time.Second)
	return w, one, two, far, partition
}

// inPartition returns IDs of tasks of a partition.
func (w *world) inPartition(partition int32, prefix string, n int) (list []string) {
	for _, id := range ids(prefix, 100*n) {
		if events.Home(id, w.parts) == partition && len(list) < n {
			list = append(list, id)
		}
	}
	return list
}

func TestANodeThatReachesNoLeaderGivesItsPartitionsUp(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w, one, two, far, partition := farBroker(t)
		find := one.net.lose(w.broker.(several).Addr(far))
		tasks := w.inPartition(partition, "cut", 5)
		w.submit(tasks...)
		took := w.shared("node-2")
		t.Logf("others own everything after %s", took)
		require.Less(t, took, 20*time.Second)
		w.watch.ended(tasks...)
		list, err := two.ClusterView().Partitions(t.Context())
		require.NoError(t, err)
		over := list[partition].TakenOver
		require.NotNil(t, over, "two says how it came by the partition")
		require.Equal(t, "node-1", over.From)
		require.Contains(t, []string{"fault", "stopped"}, over.Cause, "node-1 lives")
		require.NotZero(t, over.At)
		require.ErrorContains(t, one.Ready(), "gives its partitions to others")
		require.NoError(t, two.Ready())
		find()
		w.shared("node-1", "node-2")
		require.Empty(t, one.ended)
		require.NoError(t, one.stop())
		require.NoError(t, two.stop())
		w.watch.verify()
	})
}

// What a node knows can be read all the time: of the partition whose leader it does not reach, too, and while it gives its partitions up.
func TestReadsGoOnWhileALeaderIsNotReached(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w, one, two, far, _ := farBroker(t)
		tasks := ids("before", 20)
		w.submit(tasks...)
		w.watch.ended(tasks...)
		<-time.After(2 * time.Second)
		defer one.net.lose(w.broker.(several).Addr(far))()
		w.submit(ids("during", 20)...)
		for range 100 {
			<-time.After(200 * time.Millisecond)
			for _, n := range []*process{one, two} {
				page, err := n.Lists().List(t.Context(), api.Query{Limit: 100})
				require.NoError(t, err)
				require.GreaterOrEqual(t, len(page.Tasks), len(tasks))
				require.Len(t, page.AsOf, int(w.parts))
				for p := range w.parts {
					route := n.ClusterView().Route(p)
					require.True(t, route.Here || route.Stale, "partition %d at %s: %+v", p, n.name, route)
				}
				for _, id := range tasks[:3] {
					task, err := n.Tasks().Task(t.Context(), id)
					require.NoError(t, err)
					require.NotNil(t, task)
				}
			}
		}
		require.NotEmpty(t, w.logs.find("gives its partitions to others"))
	})
}

// Partitions do not move while no other node reaches their leaders either.
func TestNodesThatAreEquallyCutOffKeepTheirPartitions(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w, one, two, far, partition := farBroker(t)
		at := w.broker.(several).Addr(far)
		find, found := one.net.lose(at), two.net.lose(at)
		tasks := w.inPartition(partition, "cut", 5)
		w.submit(tasks...)
		<-time.After(40 * time.Second)
		require.Empty(t, w.logs.find("gives its partitions to others"))
		find()
		found()
		w.watch.ended(tasks...)
		w.shared("node-1", "node-2")
		require.NoError(t, one.stop())
		require.NoError(t, two.stop())
		w.watch.verify()
	})
}

// No node of this build can fold the record, so it is of no use to give the partition to another.
func TestAPartitionThatNobodyCanFoldStaysWhereItIs(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w := setup(t, 4)
		one, two := w.node(t.TempDir(), together), w.node(t.TempDir(), together)
		w.apply(one, order)
		w.hire(nil)
		w.shared("node-1", "node-2")
		w.watch.pauseErrors()
		w.produce(w.topics.Events(), 0, events.Record{Value: []byte(`{}`), Headers: []events.Header{
			{Key: "ce_type", Value: []byte("sagalog.fact.NeverHeardOf")}, {Key: "ce_id", Value: []byte("1")}, {Key: "ce_source", Value: []byte("/x")},
		}})
		<-time.After(time.Minute)
		require.Empty(t, w.logs.find("gives its partitions to others"))
		require.Len(t, w.logs.find("ERROR the partition stopped"), 1)
		require.Empty(t, one.ended)
		require.Empty(t, two.ended)
		for p := int32(1); p < w.parts; p++ {
			tasks := w.inPartition(p, "good", 3)
			w.submit(tasks...)
			w.soon("the tasks of the other partitions to end", func() bool {
				for _, id := range tasks {
					if task, err := one.Tasks().Task(t.Context(), id); err != nil || task == nil || !task.State.Ended() {
						return false
					}
				}
				return true
			})
		}
		require.NoError(t, one.stop())
		require.NoError(t, two.stop())
	})
}

// The node may be free of its fault by then. If it is not, it gives the partitions up again, each time for longer.
func TestANodeThatSteppedAsideTriesAgain(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w := setup(t, 4)
		one := w.node(t.TempDir(), together)
		w.apply(one, order)
		w.hire(nil)
		two := w.node(t.TempDir(), together)
		w.shared("node-1", "node-2")
		for p := range w.parts {
			one.Outdate(p)
		}
		w.shared("node-2")
		w.submit(ids("t", 20)...)
		w.watch.ended(ids("t", 20)...)
		for n, pause := range []time.Duration{8 * time.Second, 16 * time.Second, 32 * time.Second} {
			w.soon("it to give them up", func() bool { return len(w.logs.find("gives its partitions to others")) > n })
			begun := time.Now()
			w.soon("it to try again", func() bool { return len(w.logs.find("this node takes its share of the partitions back")) > n })
			require.InDelta(t, pause.Seconds(), time.Since(begun).Seconds(), 2)
			require.Empty(t, one.Unable())
		}
		require.Empty(t, one.ended)
		require.NoError(t, one.stop())
		require.NoError(t, two.stop())
		w.watch.verify()
	})
}

// Each of two nodes has a fault. They do not pass the partitions to and fro: each try is twice as long after the one before.
func TestNodesThatBothHaveAFaultPassPartitionsRarely(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w := setup(t, 1)
		one, two := w.node(t.TempDir(), together), w.node(t.TempDir(), together)
		w.shared("node-1", "node-2")
		one.Outdate(0)
		two.Outdate(0)
		<-time.After(2 * time.Minute)
		times := len(w.logs.find("gives its partitions to others"))
		require.Greater(t, times, 2)
		require.LessOrEqual(t, times, 10)
		require.NoError(t, one.stop())
		require.NoError(t, two.stop())
	})
}

// An input was deleted before the log said that its dead letter was taken. No node can send that.
func TestAPartitionWhoseInputIsGoneStaysWhereItIs(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w := setup(t, 1)
		n := w.node(t.TempDir())
		w.apply(n, order)
		dead, err := w.cluster.TopicID(t.Context(), w.topics.DeadSubmissions())
		require.NoError(t, err)
		n.net.inject([][]byte{dead[:], []byte(w.topics.DeadSubmissions())}, func(int) fate { return fate{cutBefore: true} })
		w.produce(w.topics.Submissions(), 0, events.Record{Value: []byte("garbage")}, submission("t1", nil))
		passed(t, n.Inputs().WaitPassed, 1) // the next owner has to send the dead letter
		n.kill()
		kafkatest.DeleteRecords(t, w.broker, w.topics.Submissions(), 0, 1)
		one, two := w.node(t.TempDir(), together), w.node(t.TempDir(), together)
		w.soon("the partition to stop", func() bool { return len(w.logs.find("ERROR the partition stopped")) > 0 })
		_, first := one.Status(0)
		_, second := two.Status(0)
		require.ErrorIs(t, errors.Join(first, second), supervisor.ErrPosition)
		<-time.After(time.Minute)
		require.Empty(t, w.logs.find("gives its partitions to others"))
		require.Len(t, w.logs.find("ERROR the partition stopped"), 1)
		require.NoError(t, one.stop())
		require.NoError(t, two.stop())
	})
}

func TestFaultsOfANodeAndFaultsOfTheLog(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		err        error
		everywhere bool
	}{
		"a fact that nobody can decode":   {errors.Join(supervisor.ErrFold, events.ErrUnknownFact), true},
		"an input that is gone":           {fmt.Errorf("partition 0: %w", supervisor.ErrPosition), true},
		"an input that lost records":      {supervisor.ErrInputLost, true},
		"a log that contradicts itself":   {fmt.Errorf("%w: %w", node.ErrLog, events.ErrStateHash), true},
		"a log that lost facts":           {fmt.Errorf("%w: %w", supervisor.ErrPosition, node.ErrGap), true},
		"a log of a newer build":          {errors.Join(supervisor.ErrFold, events.TooOld(3, 2)), false},
		"a damaged store and a short log": {fmt.Errorf("%w: %w", projector.ErrDamaged, node.ErrGap), false},
		"a store that cannot be read":     {errors.Join(supervisor.ErrFold, projector.ErrRead), false},
		"anything else":                   {errors.New("a defect"), false},
	} {
		require.Equal(t, c.everywhere, node.IsEverywhere(c.err), name)
	}
}

// A state that a newer build has folded does not keep the process of an older one from answering.
func TestANodeWithAStateAboveItsLevelServesUnready(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w := setup(t, 1)
		dir := t.TempDir()
		p := w.node(dir, together, node.MaxLevel(events.FormatVersion+1))
		w.apply(p, order)
		w.hire(nil)
		w.shared(p.name)
		<-time.After(5 * time.Second)
		_, changed, err := p.Upgrade(t.Context(), 0)
		require.NoError(t, err)
		require.True(t, changed)
		w.submit("one")
		w.watch.ended("one")
		<-time.After(time.Second)
		require.NoError(t, p.stop())

		p = w.node(dir, together)
		<-time.After(5 * time.Second)
		require.Empty(t, p.ended)
		require.ErrorContains(t, p.Ready(), "level")
		require.NoError(t, p.stop())
	})
}
