package node_test

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/sagalog/sagalog/agent"
	"github.com/sagalog/sagalog/events"
	"github.com/sagalog/sagalog/internal/api"
	"github.com/sagalog/sagalog/internal/node"
	"github.com/sagalog/sagalog/scheduler"
	"github.com/stretchr/testify/require"
)

// Two builds: the newer one understands level 2, where a definition may have a description.
const (
	olderBuild = events.FirstLevel
	newerBuild = 2
)

// build makes a node one of a cluster, of the given build.
func (w *world) build(level int, change ...func(*node.Config)) *process {
	w.t.Helper()
	n := w.node(w.t.TempDir(), append(change, together, node.MaxLevel(level))...)
	n.SetKeyLevels(scheduler.Levels{"description": newerBuild})
	return n
}

// barriers returns the barrier of each partition.
func (w *world) barriers() (list []int) {
	w.watch.mu.Lock()
	defer w.watch.mu.Unlock()
	for _, s := range w.watch.states {
		list = append(list, s.Partition.Reader)
	}
	return list
}

func (w *world) applyFaults(p *process, source string) []api.Fault {
	w.t.Helper()
	_, faults, err := p.ApplyFile(context.Background(), "test.yaml", []byte(source), nil)
	require.NoError(w.t, err)
	return faults
}

// soon waits for something that a node does by itself.
func (w *world) soon(what string, is func() bool) {
	w.t.Helper()
	for begun := time.Now(); !is(); <-time.After(20 * time.Millisecond) {
		require.Less(w.t, time.Since(begun), patience, what)
	}
}

// inOrder is a submission to the workflow single(name, ...).
func inOrder(id, name string) events.Record {
	return events.Record{Key: []byte(id), Value: []byte(`{"id":"` + id + `","workflow":"` + name + `"}`)}
}

// A rolling upgrade: while a node of the older build lives, the level stays, and a definition that needs it is refused. Then the level is
// raised, each partition gets its barrier, and a node of the older build that starts again owns nothing, rejects nothing, and says why.
func TestARollingUpgrade(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w := setup(t, 4)
		registry := prometheus.NewRegistry()
		old := w.build(olderBuild)
		fresh := w.build(newerBuild)
		w.shared("node-1", "node-2")
		w.apply(fresh, order)
		w.hire(nil)

		needs := []api.Fault{{Pointer: "/description", Message: "needs level 2; the namespace has level 1: run `sagalog namespace upgrade`", Line: 2, Column: 1}}
		require.Equal(t, needs, w.applyFaults(fresh, single("newer", 1)))
		<-time.After(5 * time.Second)
		now, changed, err := fresh.Upgrade(t.Context(), 0)
		require.NoError(t, err)
		require.False(t, changed, "the older node understands no more")
		require.Equal(t, []api.NodeLevel{{Node: "node-1", Level: 1}, {Node: "node-2", Level: 2}}, now.Nodes)
		_, _, err = fresh.Upgrade(t.Context(), 2)
		require.EqualError(t, err, `level 2 is not possible: node "node-1" understands level 1; upgrade that node first`)
		_, _, err = fresh.Upgrade(t.Context(), 3)
		require.ErrorContains(t, err, "level 3 is not possible")
		require.Equal(t, []int{0, 0, 0, 0}, w.barriers())

		require.NoError(t, old.stop())
		w.shared("node-2")
		<-time.After(5 * time.Second)
		now, changed, err = fresh.Upgrade(t.Context(), 0)
		require.NoError(t, err)
		require.True(t, changed)
		require.Equal(t, 2, now.Level)
		require.Equal(t, "anna", now.LevelSet.By)
		w.watch.await("each partition has its barrier", func() bool {
			for _, s := range w.watch.states {
				if s.Partition.Reader != newerBuild {
					return false
				}
			}
			return true
		})
		require.Empty(t, w.applyFaults(fresh, single("newer", 1)))

		back := w.build(olderBuild, func(c *node.Config) { c.Registry = registry })
		list := ids("t", 8)
		var records []events.Record
		for _, id := range list {
			records = append(records, inOrder(id, "newer"))
		}
		w.produce(w.topics.Submissions(), -1, records...)
		w.watch.ended(list...)
		for _, id := range list {
			require.Equal(t, events.TaskStateProcessed, w.found(id).State)
		}
		require.Equal(t, map[string]int{"node-2": 4}, w.owners())
		require.ErrorIs(t, back.Ready(), events.ErrReaderTooOld)
		require.ErrorContains(t, back.Ready(), "this takes level 2, and this build understands level 1: upgrade this node")
		require.Equal(t, 4, stoppedFor(t, registry, "level"))
		w.soon("the older node says so", func() bool { return len(w.logs.find("this node owns no partition any more")) == 1 })
		require.NoError(t, fresh.Ready())
		require.NoError(t, back.stop())
		require.Len(t, w.logs.find("this node has given up its partitions and left the group"), 1, "node-1; the other never joined")
		require.NoError(t, fresh.stop())
		w.watch.verify()
	})
}

// stoppedFor counts the partitions that are stopped for a reason.
func stoppedFor(t *testing.T, r *prometheus.Registry, reason string) (n int) {
	t.Helper()
	families, err := r.Gather()
	require.NoError(t, err)
	for _, f := range families {
		if f.GetName() != "sagalog_partition_stopped" {
			continue
		}
		for _, m := range f.GetMetric() {
			for _, l := range m.GetLabel() {
				if l.GetName() == "reason" && l.GetValue() == reason && m.GetGauge().GetValue() == 1 {
					n++
				}
			}
		}
	}
	return n
}

// An older node lives while the level is raised, because nobody heard it. It gives its partitions to the newer one, with tasks under way,
// and neither rejects what it does not understand nor parks a task.
func TestAnOlderNodeGivesItsPartitionsUp(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w := setup(t, 4)
		old := w.build(olderBuild)
		fresh := w.build(newerBuild)
		w.shared("node-1", "node-2")
		w.apply(old, order)
		w.apply(old, "workflow: newer\nsteps:\n  only: {agent: stock}\n") // its topics
		w.hire(func(ctx context.Context, _ agent.Attempt) error {
			w.pause(ctx, "work")
			return nil
		})
		list := ids("t", 12)
		w.submit(list...)

		r, err := scheduler.EncodeSettings(events.SettingsChange{Settings: map[string]json.RawMessage{}, Level: newerBuild}, events.Subject{ID: "1", Source: "/test"})
		require.NoError(t, err)
		src, faults := scheduler.Parse("w.yaml", []byte(single("newer", 1)), nil)
		require.Empty(t, faults)
		src.Level = newerBuild
		d, err := scheduler.EncodeDefinition(src, events.Subject{ID: "2", Source: "/test", Time: events.At(time.Now())}, "")
		require.NoError(t, err)
		w.produce(w.topics.Definitions(), 0, r, d)
		for _, id := range ids("n", 12) {
			w.produce(w.topics.Submissions(), -1, inOrder(id, "newer"))
			list = append(list, id)
		}
		w.shared("node-2")
		w.watch.ended(list...)
		for _, id := range list {
			require.Equal(t, events.TaskStateProcessed, w.found(id).State, id)
		}
		require.Equal(t, []int{2, 2, 2, 2}, w.barriers())
		require.ErrorIs(t, old.Ready(), events.ErrReaderTooOld)
		w.soon("the newer node is ready", func() bool { return fresh.Ready() == nil })
		require.NoError(t, fresh.stop())
		<-time.After(10 * time.Second)
		require.Equal(t, map[string]int{"node-2": 4}, w.owners(), "the older node claims nothing, even with nobody else alive")
		require.NoError(t, old.stop())
		w.watch.verify()
	})
}

// A definition above the level of the namespace, which no apply writes, is rejected with the reason, even by a build that does not know
// its keys.
func TestADefinitionOfALaterBuildIsNamed(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w := setup(t, 1)
		n := w.node(t.TempDir())
		body := []byte(`{"later":1,"steps":{"only":{"agent":"stock"}},"workflow":"newer"}`)
		sum := sha256.Sum256(body)
		w.produce(w.topics.Definitions(), 0, events.Record{Key: []byte("newer/" + hex.EncodeToString(sum[:])), Value: body, Headers: []events.Header{
			{Key: events.HeaderSpecVersion, Value: []byte("1.0")}, {Key: events.HeaderID, Value: []byte("1")}, {Key: events.HeaderSource, Value: []byte("/test")},
			{Key: events.HeaderType, Value: []byte(events.TypeDefinition)}, {Key: events.HeaderLevel, Value: []byte("2")},
		}})
		w.produce(w.topics.Submissions(), -1, inOrder("t", "newer"))
		rejected := &events.InputRejected{}
		w.watch.await("the submission is rejected", func() bool {
			for _, s := range w.watch.facts {
				if b, ok := s.fact.Body.(*events.InputRejected); ok {
					rejected = b
					return true
				}
			}
			return false
		})
		require.Equal(t, `version 1 of workflow "newer" needs level 2; the namespace has level 1`, rejected.Detail)
		require.NoError(t, n.stop())
	})
}
