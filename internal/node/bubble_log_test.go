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

// A node that starts with an older copy of its state, or with the state after a power cut, resumes where that state
// ends. All of them reach the same state.
func TestFaultAnOlderStateFoldsANewerLog(t *testing.T) {
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
		require.Empty(t, w.logs.find("rebuilt"), "it continues and rebuilds nothing")
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

// The deleted records are older than the end of the state, so the state contains all of them and the node continues.
func TestFaultALogTrimmedBelowTheStateGoesOn(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f, _ := trimmed(t)
		kafkatest.DeleteRecords(t, f.broker, f.topics.Events(), 0, 20)
		f.nodes = []*process{f.node(memory, together, on(f.disks[0]))}
		f.quick("c", 10*time.Second)
		task, err := f.nodes[0].Tasks().Task(t.Context(), "a-0003")
		require.NoError(t, err)
		require.Equal(t, events.TaskStateProcessed, task.State)
		require.NoError(t, f.nodes[0].stop())
	})
}

// The state does not contain the deleted records. An older copy and an empty state are refused, and nothing is changed.
func TestFaultALogTrimmedPastTheStateIsRefused(t *testing.T) {
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
		require.Equal(t, f.tasks, f.submissionsOf(t), "the inputs are unchanged")
	})
}

// submissionsOf returns the IDs of the submissions in partition 0.
func (w *world) submissionsOf(t *testing.T) (list []string) {
	for _, r := range w.read(w.topics.Submissions(), 0) {
		list = append(list, string(r.Key))
	}
	return list
}

// A log is trimmed while nodes run. A node that has folded the trimmed records continues. A new node cannot fold the
// log: it reports that and takes over no partition.
func TestFaultATrimmedLogIsRefusedByNewNodesOnly(t *testing.T) {
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

// Submissions were deleted before an owner judged them. The partition stops and the error names them.
func TestFaultAnInputTrimmedTooFarIsRefused(t *testing.T) {
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

// Brokers wrongly say that an offset is out of range. No reader jumps to another offset. The owner stops its partition
// with an error, and the next start continues.
func TestFaultOffsetOutOfRangeMovesNoPosition(t *testing.T) {
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
				t.Logf("stopped %d times, ready: %v", stopped, f.nodes[0].Ready())
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

// Settings that could lose facts, and a larger number of partitions, are refused at the start. A running node reports
// them within an hour.
func TestFaultAlteredTopicsAreFound(t *testing.T) {
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
				<-time.After(90 * time.Second) // until the clients notice
				f.quick("b", time.Minute)
				if name == "more partitions of events" { // an hour of virtual time takes long
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

// The events topic was compacted, so facts are missing from the middle of it. No node folds what is left.
func TestFaultACompactedLogIsNotFolded(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w, brokers := setupFake(t, 1, 1)
		f := begin(w, 1)
		f.watch.ended(f.work("a", 10)...)
		require.NoError(t, f.nodes[0].stop())
		f.watch.pauseErrors()
		kafkatest.AlterTopic(t, w.broker, w.topics.Events(), "cleanup.policy", "compact")
		brokers.Compact()
		kafkatest.AlterTopic(t, w.broker, w.topics.Events(), "cleanup.policy", "delete") // the topic's settings no longer show that it was compacted
		start, err := w.cluster.StartOffset(t.Context(), w.topics.Events(), 0)
		require.NoError(t, err)
		require.Positive(t, start, "facts were deleted, including the first")
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

// A topic that must not lose records was deleted and recreated empty.
func TestFaultARecreatedTopicIsRefused(t *testing.T) {
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

// The broker loses acknowledged facts under a running node, as in an unclean election. The node folds the log as it then is.
func TestFaultADroppedTailIsFoldedAgain(t *testing.T) {
	bubble(t, func(t *testing.T) {
		disk, copy := t.TempDir(), filepath.Join(t.TempDir(), "copy")
		w := setupOn(t, 1, disk)
		f := begin(w, 1)
		f.watch.ended(f.work("a", 5)...)
		w.restart(disk, func() { copied(t, disk, copy) })
		f.watch.ended(f.work("b", 5)...)
		<-time.After(2 * time.Second) // the state is written after the log, so it now holds the facts that the broker will lose
		f.watch.pauseErrors()
		was := f.end(0)
		w.restart(disk, func() { copied(t, copy, disk) })
		require.Less(t, f.end(0), was, "acknowledged facts are gone")
		f.submit("c")
		w.watch = observe(w)
		f.watch.ended("c")
		f.tasks = []string{"c"}
		f.quick("d", 10*time.Second)
		require.Len(t, w.logs.find("it is removed and rebuilt from the log"), 1)
		require.NotEmpty(t, w.logs.find("the broker lost work requests"), "the agents' requests were lost too, and they do the rest")
		require.NoError(t, f.nodes[0].stop())
		f.watch.verify()
		f.proveDisks(f.disks...)
		f.observerAgrees()
	})
}

// After days without a record, every client can still append, read and be a member at once. (A whole node would send
// millions of heartbeats in that time, and only its clients can expire, so the test runs the clients alone.)
func TestFaultTheFirstTaskAfterIdleDaysIsQuick(t *testing.T) {
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

// A node that was idle for longer than connections stay open runs the next task at once.
func TestFaultATaskAfterIdleMinutesIsQuick(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w := setup(t, 1)
		f := begin(w, 1)
		<-time.After(12 * time.Minute)
		took := f.quick("a", time.Second)
		t.Logf("it took %s", took)
		f.prove()
	})
}
