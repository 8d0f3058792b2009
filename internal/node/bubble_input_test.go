//go:build synctests

package node_test

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/sagalog/sagalog/events"
	"github.com/sagalog/sagalog/internal/node"
	"github.com/stretchr/testify/require"
)

// garbage is a set of records that the engine cannot read.
func garbage() []events.Record {
	header := func(kv ...string) (list []events.Header) {
		for i := 0; i < len(kv); i += 2 {
			list = append(list, events.Header{Key: kv[i], Value: []byte(kv[i+1])})
		}
		return list
	}
	return []events.Record{
		{},
		{Key: []byte("k"), Value: []byte{0xff, 0xfe, 0x00}},
		{Key: []byte{0xff, 0x00}, Value: []byte(`{"workflow":"order"}`)},
		{Key: []byte("k"), Value: []byte(`{"workflow":`)},
		{Key: []byte("k"), Value: []byte(strings.Repeat("[", 20_000))},
		{Key: []byte("k"), Value: []byte(`{}`), Headers: header("ce_type", "io.sagalog.fact.Unheard", "ce_specversion", "1.0", "ce_id", "x", "ce_source", "/x")},
		{Key: []byte("k"), Value: []byte(`{}`), Headers: header("ce_specversion", "9.9", "ce_id", "x", "ce_source", "/x", "ce_type", "y")},
		{Key: []byte("k"), Value: []byte(`{}`), Headers: header("content-type", "application/cloudevents+json")},
		{Key: []byte("k"), Headers: header("ce_id", string([]byte{0xff}))},
	}
}

// Every topic but events contains garbage. It is rejected and, if it was an input, becomes a dead letter. It stops no
// partition.
func TestFaultPoisonOutsideEventsStopsNoPartition(t *testing.T) {
	for _, c := range []struct {
		topic string
		dead  func(w *world) int
	}{
		{"sagalog.submissions", func(w *world) int { return len(w.read(w.topics.DeadSubmissions(), 0)) }},
		{"sagalog.reports", func(w *world) int { return len(w.read(w.topics.DeadReports(), 0)) }},
		{"sagalog.definitions", nil}, {"sagalog.presence", nil}, {"sagalog.alerts", nil}, {"dlq.sagalog.reports", nil},
		{"sagalog.work.stock", nil},
	} {
		t.Run(c.topic, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				w := setup(t, 1)
				f := begin(w, 1)
				f.watch.ended(f.work("before", 2)...)
				for _, r := range garbage() {
					w.produce(c.topic, 0, r)
				}
				f.quick("after", 5*time.Second)
				if c.dead != nil {
					for want := len(garbage()); c.dead(w) < want; {
						w.pause(t.Context(), fmt.Sprintf("%d dead letters", want))
					}
				}
				require.NoError(t, f.nodes[0].stop()) // the next start reads the garbage too
				f.nodes = []*process{w.node(memory, together, on(f.disks[0]))}
				f.quick("again", 10*time.Second)
				require.Empty(t, w.logs.find("the partition stopped"))
				f.prove()
			})
		})
	}
}

// A fact that cannot be decoded stops its partition with an error, on every node and at every start. The other
// partitions continue.
func TestFaultPoisonInEventsStopsItsPartition(t *testing.T) {
	barrier, err := events.EncodeFact(&events.Fact{Time: 1, Body: &events.VersionBarrier{Reader: events.FormatVersion + 1}}, 0, "/sagalog/events/0/x")
	require.NoError(t, err)
	for name, r := range map[string]events.Record{
		"garbage": garbage()[1], "empty": garbage()[0], "an unknown kind": garbage()[5], "a version barrier of a newer program": barrier,
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				w := setup(t, 2)
				f := begin(w, 2)
				f.watch.ended(f.work("before", 4)...)
				if name == "a version barrier of a newer program" {
					r = w.ofTheEpoch(t, &events.VersionBarrier{Reader: events.FormatVersion + 1})
				}
				f.watch.pauseErrors()
				w.produce(w.topics.Events(), 0, r)
				for len(w.logs.find("the partition stopped")) == 0 {
					w.pause(t.Context(), "the partition to stop")
				}
				for _, n := range f.nodes {
					for n.Ready() == nil {
						w.pause(t.Context(), "each node to report that it cannot continue")
					}
				}
				t.Log(w.logs.find("the partition stopped")[0])
				other := home(1, w.parts, "other")
				w.submit(other)
				at := f.nodes
				for done := false; !done; {
					for _, n := range at {
						task, err := n.Tasks().Task(t.Context(), other)
						require.NoError(t, err)
						done = done || task != nil && task.State == events.TaskStateProcessed
					}
					w.pause(t.Context(), "the other partition to continue")
				}
				require.NoError(t, f.nodes[0].stop())
				again := w.node(memory, together, on(f.disks[0]))
				before := len(w.logs.find("ERROR"))
				<-time.After(15 * time.Second)
				require.Error(t, again.Ready())
				require.Less(t, len(w.logs.find("ERROR"))-before, 60, "no crash loop")
			})
		})
	}
}

// ofTheEpoch encodes a fact as the owner of partition 0 would, so that the fold accepts it as the
// next one.
func (w *world) ofTheEpoch(t *testing.T, body events.Body) events.Record {
	w.watch.mu.Lock()
	p := w.watch.states[0].Partition
	w.watch.mu.Unlock()
	r, err := events.EncodeFact(&events.Fact{Epoch: p.Epoch, Sequence: p.NextSequence, Time: p.Time, Body: body}, 0, "/sagalog/events/0/node-1")
	require.NoError(t, err)
	return r
}

// home returns a task ID whose home is the given partition.
func home(partition, parts int32, prefix string) string {
	for i := 0; ; i++ {
		if id := fmt.Sprintf("%s-%d", prefix, i); events.Home(id, parts) == partition {
			return id
		}
	}
}

// An input that is larger than its limit becomes a dead letter, and an output that is too large fails its attempt. (For
// a batch that is too large when decompressed, see TestARestartSkipsABatchThatUnpacksToTooMuch.)
func TestFaultOversizedInputIsRejected(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w := setup(t, 1)
		f := begin(w, 1)
		large := submission("large", map[string]string{"a": strings.Repeat("x", 600<<10)})
		report := events.Record{Key: []byte("large"), Value: bytes.Repeat([]byte("x"), 1900<<10)}
		w.produce(w.topics.Submissions(), 0, large)
		w.produce(w.topics.Reports(), 0, report)
		f.quick("after", 5*time.Second)
		require.Nil(t, w.found("large"))
		for len(w.read(w.topics.DeadSubmissions(), 0)) < 1 || len(w.read(w.topics.DeadReports(), 0)) < 1 {
			w.pause(t.Context(), "the dead letters")
		}
		require.Equal(t, large.Value, w.read(w.topics.DeadSubmissions(), 0)[0].Value)
		require.Equal(t, report.Value, w.read(w.topics.DeadReports(), 0)[0].Value)
		f.prove()
	})
}

// The clocks of two nodes differ by an hour or by ten years, and the partitions change hands. (By the clock that is ten years ahead, the
// tasks that have ended are to be forgotten. No owner does so right after such a jump.)
func TestFaultClocksThatDifferLoseNothing(t *testing.T) {
	const year = 365 * 24 * time.Hour
	for _, skew := range []time.Duration{time.Hour, -time.Hour, 10 * year, -10 * year} {
		t.Run(skew.String(), func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				w := setup(t, 2)
				f := begin(w, 1)
				f.join(func(c *node.Config) { c.Now = func() time.Time { return time.Now().Add(skew) } })
				w.shared("node-1", "node-2")
				f.watch.ended(f.work("both", 10)...)
				require.NoError(t, f.nodes[0].stop())
				w.shared("node-2")
				f.quick("skewed", 5*time.Second)
				f.nodes = append(f.nodes, w.node(memory, together, on(f.disks[0])))
				w.shared("node-2", "node-3")
				require.NoError(t, f.nodes[1].stop())
				w.shared("node-3")
				f.quick("straight", 5*time.Second)
				for _, s := range w.watch.log() {
					require.NotEqual(t, "Timeout", string(s.fact.Body.Name()), "no attempt times out because of a clock")
				}
				f.prove()
			})
		})
	}
}
