package node_test

import (
	"sync/atomic"
	"testing"
	"time"

	"github.com/sagalog/sagalog/events"
	"github.com/sagalog/sagalog/internal/node"
	"github.com/stretchr/testify/require"
)

// moving makes the clock of a node movable.
func moving(ahead *atomic.Int64) func(*node.Config) {
	return func(c *node.Config) { c.Now = func() time.Time { return time.Now().Add(time.Duration(ahead.Load())) } }
}

// A node that starts with a clock that is eight days ahead of the others' would forget the IDs of all tasks that have ended, and do a
// repeated submission again. It decides nothing until its clock is corrected.
func TestANodeThatStartsWithAWrongClockDecidesNothing(t *testing.T) {
	minutes(t)
	bubble(t, func(t *testing.T) {
		w := setup(t, 3)
		a := w.node(t.TempDir(), together)
		b := w.node(t.TempDir(), together)
		w.shared("node-1", "node-2")
		w.apply(a, single("order", 1))
		w.kinds = []string{"stock"}
		w.hire(nil)
		w.submit("t-1")
		w.watch.await("it ends", func() bool { return w.watch.task("t-1") != nil && w.watch.task("t-1").State.Ended() })

		var ahead atomic.Int64
		ahead.Store(int64(8 * 24 * time.Hour))
		c := w.node(t.TempDir(), together, moving(&ahead))
		<-time.After(90 * time.Second)
		w.shared("node-1", "node-2")
		require.ErrorContains(t, c.Ready(), "the clock of this machine is 192h0m0s ahead of those of the brokers and nodes that answer: check its time synchronization (NTP)")
		require.NoError(t, a.Ready())
		require.NoError(t, b.Ready())
		require.Len(t, w.logs.find("decides nothing until the clocks agree"), 2, "once a minute")

		ahead.Store(0)
		w.shared("node-1", "node-2", "node-3")
		require.NoError(t, a.stop())
		require.NoError(t, b.stop())
		w.shared("node-3")
		w.submit("t-1", "t-2")
		w.watch.await("it ends", func() bool { return w.watch.task("t-2") != nil && w.watch.task("t-2").State.Ended() })
		require.NoError(t, c.stop())
		submitted := 0
		for _, s := range w.watch.log() {
			require.NotEqual(t, events.NameTasksSwept, s.fact.Body.Name())
			if s.fact.Body.Name() == events.NameSubmitted {
				submitted++
			}
		}
		require.Equal(t, 2, submitted, "the repeat is a duplicate")
	})
}

// A jump is not trusted after a minute, as it is on a machine that slept, while the others show another time.
func TestAJumpIsNotTrustedAgainstTheOthers(t *testing.T) {
	minutes(t)
	bubble(t, func(t *testing.T) {
		w := setup(t, 3)
		var ahead atomic.Int64
		a := w.node(t.TempDir(), together)
		b := w.node(t.TempDir(), together)
		c := w.node(t.TempDir(), together, moving(&ahead))
		w.shared("node-1", "node-2", "node-3")
		w.apply(a, single("order", 1))
		w.kinds = []string{"stock"}
		w.hire(nil)
		ahead.Store(int64(8 * 24 * time.Hour))
		<-time.After(2 * time.Minute) // a clock that nobody contradicts is trusted again after one
		require.ErrorContains(t, c.Ready(), "the clock of this machine is 192h0m0s ahead of")
		for _, s := range w.watch.log() {
			require.Less(t, s.fact.Time, events.At(time.Now().Add(time.Minute)))
		}
		ahead.Store(0)
		tasks := ids("t", 30)
		w.submit(tasks...)
		for _, id := range tasks {
			w.watch.await(id+" ends", func() bool { return w.watch.task(id) != nil && w.watch.task(id).State.Ended() })
		}
		for _, n := range []*process{a, b, c} {
			require.NoError(t, n.Ready())
			require.NoError(t, n.stop())
		}
	})
}

// A node doubts its clock if most of the votes differ from it: two of the brokers' time, one of each other node, and its own.
func TestAClockIsDoubtedByTheMajority(t *testing.T) {
	const hour = time.Hour
	for name, c := range map[string]struct {
		// broker is how far the broker is ahead of this node, others how far the other nodes are.
		broker  time.Duration
		stamped bool
		others  []time.Duration
		doubted bool
		agreed  bool
	}{
		"alone with brokers that show no time":       {0, false, nil, false, false},
		"alone with brokers that agree":              {time.Second, true, nil, false, true},
		"alone with brokers that differ":             {hour, true, nil, true, false},
		"one other that differs":                     {0, false, []time.Duration{hour}, false, false},
		"one other that differs, brokers that agree": {time.Second, true, []time.Duration{hour}, false, true},
		"one other that differs, as the brokers do":  {hour, true, []time.Duration{hour}, true, false},
		"one other that agrees, brokers that differ": {hour, true, []time.Duration{0}, false, false},
		"two others that differ":                     {0, false, []time.Duration{hour, hour}, true, false},
		"two others, one differs":                    {0, false, []time.Duration{hour, 0}, false, true},
		"two others that agree":                      {hour, true, []time.Duration{0, 0}, false, true},
		"behind":                                     {0, false, []time.Duration{-hour, -hour}, true, false},
		"less than a minute":                         {0, false, []time.Duration{59 * time.Second, 59 * time.Second}, false, true},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				var b node.Heartbeats
				b.Self("me")
				beat := func(name string, ahead time.Duration) *events.Record {
					p := nodeBeat(name)
					p.SeenAt = events.At(time.Now().Add(ahead))
					r := beatOf(t, p)
					r.Timestamp = p.SeenAt
					return r
				}
				own := beat("me", 0)
				if c.stamped {
					own.Timestamp = own.Timestamp.Add(c.broker)
				}
				b.Record(own)
				for i, ahead := range c.others {
					b.Record(beat(string(rune('a'+i)), ahead))
				}
				require.Equal(t, c.doubted, b.Clock() != nil)
				require.Equal(t, c.agreed, b.Agreed())
			})
		})
	}
}
