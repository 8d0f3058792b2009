//go:build synctests

package node_test

import (
	"path/filepath"
	"testing"
	"time"

	"github.com/sagalog/sagalog/events"
	"github.com/sagalog/sagalog/internal/kafka"
	"github.com/sagalog/sagalog/internal/kafka/kafkatest"
	"github.com/sagalog/sagalog/internal/node"
	"github.com/sagalog/sagalog/projector/projectortest"
	"github.com/sagalog/sagalog/supervisor"
	"github.com/stretchr/testify/require"
)

// An older state goes on from where it stands, and one that power was cut from too; all come to the same.
func TestFaultF25AnOlderStateUnderANewerLog(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w := setup(t, 2)
		f := begin(w, 1)
		f.watch.ended(f.work("a", 10)...)
		old := f.disks[0].Copy()
		f.watch.ended(f.work("b", 10)...)
		f.nodes[0].kill()
		f.disks = []*projectortest.Disk{old}
		f.nodes = []*process{w.node(memory, together, on(old))}
		f.quick("c", 10*time.Second)
		require.Empty(t, w.logs.find("rebuilt"), "it goes on and begins nothing anew")
		f.prove()
	})
}

// trimmed is a world whose node has stopped, with a copy of its disk from before the last tasks.
func trimmed(t *testing.T) (*faulty, *projectortest.Disk) {
	w := setup(t, 1)
	f := begin(w, 1)
	f.watch.ended(f.work("a", 10)...)
	old := f.disks[0].Copy()
	f.watch.ended(f.work("b", 10)...)
	<-time.After(5 * time.Second) // effects settle
	require.NoError(t, f.nodes[0].stop())
	return f, old
}

// What lies before the state's end was deleted: the state has all of it, and goes on.
func TestFaultF27ALogTrimmedBelowTheStateIsGoneOnWith(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f, _ := trimmed(t)
		kafkatest.DeleteRecords(t, f.broker, f.topics.Events(), 0, 20)
		f.nodes = []*process{f.node(memory, together, on(f.disks[0]))}
		f.quick("c", 10*time.Second)
		task, err := f.nodes[0].Tasks().Task(t.Context(), "a-0003")
		require.NoError(t, err)
		require.Equal(t, events.Processed, task.State)
		require.NoError(t, f.nodes[0].stop())
	})
}

// What was deleted was never folded here: an older state and an empty one are refused, and nothing is changed.
func TestFaultF27ALogTrimmedPastTheStateIsRefused(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f, old := trimmed(t)
		kafkatest.DeleteRecords(t, f.broker, f.topics.Events(), 0, f.end(0)-2)
		for _, d := range []*projectortest.Disk{old, projectortest.NewDisk()} {
			for range 2 {
				p, err := f.open(memory, together, on(d))
				if err == nil {
					require.NoError(t, p.Close())
				}
				require.ErrorIs(t, err, node.ErrGap, "refused, at every start")
				t.Log(err)
			}
		}
		require.Equal(t, f.tasks, f.submissionsOf(t), "the inputs are as they were")
	})
}

// submissionsOf returns the IDs of the submissions in partition 0.
func (w *world) submissionsOf(t *testing.T) (list []string) {
	for _, r := range w.read(w.topics.Submissions(), 0) {
		list = append(list, string(r.Key))
	}
	return list
}

// A log is trimmed while nodes run: who has folded it goes on, and a new node, which could fold nothing, says so and
// takes nothing over.
func TestFaultF27ARunningNodeGoesOnAndANewOneIsRefused(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w := setup(t, 1)
		f := begin(w, 1)
		f.watch.ended(f.work("a", 10)...)
		kafkatest.DeleteRecords(t, w.broker, w.topics.Events(), 0, 30)
		f.quick("b", 5*time.Second)
		_, err := w.open(memory, together, on(projectortest.NewDisk()))
		require.ErrorIs(t, err, node.ErrGap)
		f.quick("c", 5*time.Second)
		require.NoError(t, f.nodes[0].stop())
	})
}

// Submissions that were not judged were deleted: the partition stops and says which.
func TestFaultF27AnInputTrimmedPastTheResumePointIsRefused(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f, _ := trimmed(t)
		f.submit(ids("lost", 5)...)
		kafkatest.DeleteRecords(t, f.broker, f.topics.Submissions(), 0, 23)
		p := f.node(memory, on(f.disks[0]))
		f.stopped(p)
		require.ErrorIs(t, p.Ready(), supervisor.ErrInputLost)
		require.NotEmpty(t, f.logs.find("ERROR the partition stopped"))
		t.Log(p.Ready())
	})
}

// Brokers say that an offset is out of range which is not: nobody jumps anywhere. The owner stops its partition, says so,
// and the next start goes on.
func TestFaultF28OffsetOutOfRangeMovesNobody(t *testing.T) {
	for _, topic := range []string{"sagalog.events", "sagalog.submissions", "sagalog.reports"} {
		t.Run(topic, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				w, brokers := setupFake(t, 1, 1)
				f := begin(w, 1)
				f.watch.ended(f.work("a", 5)...)
				f.watch.pauseErrors()
				fault := brokers.Fault(kafkatest.Fault{Request: "Fetch", Topic: topic, Code: "OFFSET_OUT_OF_RANGE", Count: 3})
				f.submit(ids("b", 5)...)
				w.hits(t, fault.Hits, 1)
				fault.Remove()
				<-time.After(10 * time.Second)
				stopped := len(w.logs.find("the partition stopped"))
				t.Logf("%d times stopped, ready: %v", stopped, f.nodes[0].Ready())
				require.NoError(t, f.nodes[0].stop())
				w.watch = observe(w)
				f.nodes = []*process{w.node(memory, together, on(f.disks[0]))}
				f.tasks = append(f.tasks, ids("b", 5)...)
				f.quick("c", 10*time.Second)
				f.prove()
			})
		})
	}
}

// Settings that lose facts, and a number of partitions that was raised, are refused at the start, and said by a node that
// runs within the hour.
func TestFaultF29F31TopicsThatWereAltered(t *testing.T) {
	for name, c := range map[string]struct {
		alter func(t *testing.T, w *world)
		want  string
	}{
		"compaction of events": {func(t *testing.T, w *world) {
			kafkatest.AlterTopic(t, w.broker, w.topics.Events(), "cleanup.policy", "compact")
		}, "cleanup.policy is compact, must be delete"},
		"compaction of submissions": {func(t *testing.T, w *world) {
			kafkatest.AlterTopic(t, w.broker, w.topics.Submissions(), "cleanup.policy", "compact,delete")
		}, "cleanup.policy is compact,delete, must be delete"},
		"more partitions of events": {func(t *testing.T, w *world) {
			kafkatest.AddPartitions(t, w.broker, w.topics.Events(), 2)
		}, "partitions is 3, must be 1"},
		"more partitions of reports": {func(t *testing.T, w *world) {
			kafkatest.AddPartitions(t, w.broker, w.topics.Reports(), 1)
		}, "partitions is 2, must be 1"},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				w := setup(t, 1)
				f := begin(w, 1, func(c *node.Config) { c.Tick = 10 * time.Second })
				c.alter(t, w)
				f.quick("a", time.Minute)
				<-time.After(90 * time.Second) // the clients hear of it
				f.quick("b", time.Minute)
				if name == "more partitions of events" { // an hour of virtual time is dear
					f.crew.leave()
					<-time.After(61 * time.Minute)
					require.ErrorContains(t, f.nodes[0].Ready(), c.want)
				}
				require.NoError(t, f.nodes[0].stop())
				_, err := w.open(memory, together, on(f.disks[0]))
				require.ErrorContains(t, err, c.want)
				t.Log(err)
			})
		})
	}
}

// The events topic was compacted: facts are missing from its middle. Nobody folds what is left.
func TestFaultF29ACompactedLogIsNotFolded(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w, brokers := setupFake(t, 1, 1)
		f := begin(w, 1)
		f.watch.ended(f.work("a", 10)...)
		require.NoError(t, f.nodes[0].stop())
		f.watch.pauseErrors()
		kafkatest.AlterTopic(t, w.broker, w.topics.Events(), "cleanup.policy", "compact")
		brokers.Compact()
		kafkatest.AlterTopic(t, w.broker, w.topics.Events(), "cleanup.policy", "delete") // nothing shows any more what happened
		start, err := w.cluster.StartOffset(t.Context(), w.topics.Events(), 0)
		require.NoError(t, err)
		require.Positive(t, start, "facts were deleted, the first one too")
		p, err := w.open(memory, together, on(projectortest.NewDisk()))
		if err == nil {
			p.run()
			for p.Ready() != nil && len(w.logs.find("ERROR")) == 0 {
				w.pause(t.Context(), "the node to say that the log cannot be folded")
			}
			<-time.After(5 * time.Second)
			err = p.Ready()
			_ = p.stop()
		}
		require.Error(t, err)
		t.Log(err)
	})
}

// A topic of which nothing may be lost was deleted and made anew, empty.
func TestFaultF30ATopicThatWasMadeAnewIsRefused(t *testing.T) {
	for _, topic := range []string{"sagalog.events", "sagalog.submissions", "sagalog.reports"} {
		t.Run(topic, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				f, _ := trimmed(t)
				f.watch.pauseErrors()
				kafkatest.DeleteTopic(t, f.broker, topic)
				for _, s := range f.topics.Base(1) {
					if s.Name == topic {
						kafkatest.Create(t, f.cluster, s)
					}
				}
				p, err := f.open(memory, on(f.disks[0]))
				if err == nil {
					p.run()
					f.stopped(p)
					err = p.Ready()
					_ = p.stop()
				}
				require.Error(t, err)
				t.Log(err)
			})
		})
	}
}

// The broker loses acknowledged facts under a node that runs, as after an unclean election: the partition stops loudly
// and writes nothing more; the next start folds what there is.
func TestFaultF32AnAcknowledgedTailIsDroppedUnderARunningNode(t *testing.T) {
	bubble(t, func(t *testing.T) {
		disk, copy := t.TempDir(), filepath.Join(t.TempDir(), "copy")
		w := setupOn(t, 1, disk)
		f := begin(w, 1)
		f.watch.ended(f.work("a", 5)...)
		w.restart(disk, func() { copied(t, disk, copy) })
		f.watch.ended(f.work("b", 5)...)
		<-time.After(2 * time.Second) // the state is written behind the log: it holds what the broker is to lose
		f.watch.pauseErrors()
		was := f.end(0)
		w.restart(disk, func() { copied(t, copy, disk) })
		require.Less(t, f.end(0), was, "acknowledged facts are gone")
		f.submit("c")
		f.stopped(f.nodes[0])
		require.NotEmpty(t, w.logs.find("ERROR the partition stopped"))
		t.Log(f.nodes[0].Ready())
		require.Regexp(t, "^the (input topic no longer holds|log of the partition cannot be folded)", f.nodes[0].ClusterView().Route(0).Stopped, "who asks is told why")
		require.NoError(t, f.nodes[0].stop())
		w.watch = observe(w)
		f.nodes = []*process{w.node(memory, together, on(f.disks[0]))}
		f.watch.ended("c")
		f.tasks = []string{"c"}
		f.quick("d", 10*time.Second)
		require.Len(t, w.logs.find("rebuilt from the log"), 1)
		require.NotEmpty(t, w.logs.find("work requests were lost"), "the agents have lost theirs too, and go on with what there is")
		require.NoError(t, f.nodes[0].stop())
		f.watch.verify()
		f.proveDisks(f.disks...)
		f.observerAgrees()
	})
}

// After days without a record every client still appends, reads and is a member at once. (Days of a whole node would be
// millions of beats; its clients are what can expire.)
func TestFaultF43AfterEightIdleDays(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w, _ := setupFake(t, 1, 1)
		kafkatest.Create(t, w.cluster, w.topics.Base(1)...)
		owner, err := kafka.NewOwnerProducer(w.cluster, w.topics.Events(), 0)
		require.NoError(t, err)
		defer owner.Close()
		appended := func() {
			begun, done := time.Now(), make(chan error, 1)
			owner.Append([]events.Record{{Key: []byte("k"), Value: []byte("v")}}, func(_ []int64, err error) { done <- err })
			require.NoError(t, <-done)
			require.Less(t, time.Since(begun), time.Second)
			begun = time.Now()
			w.produce(w.topics.Submissions(), 0, events.Record{Key: []byte("k")})
			require.Less(t, time.Since(begun), time.Second)
		}
		r, err := kafka.NewReader(w.cluster, kafka.ReaderConfig{MaxWait: 10 * time.Minute})
		require.NoError(t, err)
		defer r.Close()
		r.Add(w.topics.Events(), 0, 0, -1)
		read := func() {
			begun := time.Now()
			got, err := r.Poll(t.Context())
			require.NoError(t, err)
			require.Len(t, got[0].Records, 1)
			require.Less(t, time.Since(begun), time.Second)
		}
		appended()
		read()
		<-time.After(8 * 24 * time.Hour)
		appended()
		read()
	})
}

// A node that was idle for longer than connections last does the next task at once.
func TestFaultF43ATaskBehindIdleMinutesIsQuick(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w := setup(t, 1)
		f := begin(w, 1)
		<-time.After(12 * time.Minute)
		took := f.quick("a", time.Second)
		t.Logf("it took %s", took)
		f.prove()
	})
}
