package node

import (
	"testing"
	"time"

	"github.com/sagalog/sagalog/events"
	"github.com/sagalog/sagalog/internal/api"
	"github.com/stretchr/testify/require"
)

func TestNodesAreThoseWithHeartbeats(t *testing.T) {
	t.Parallel()
	now := time.Now()
	seen := func(name string, ago, skew time.Duration) seenHeartbeat {
		return seenHeartbeat{Presence: events.Presence{
			Kind: events.PresenceNode, Instance: name, SeenAt: 7, Level: 2, Partitions: map[string][]int32{ownedTopic: {1}},
		}, at: now.Add(-ago), skew: skew}
	}
	gone := seen("d", 0, 0)
	gone.SeenAt = 0 // it said goodbye
	agent := seen("e", 0, 0)
	agent.Kind = events.PresenceAgent
	l := &liveness{self: "a", seen: map[string]seenHeartbeat{
		"node/c": seen("c", listedFor/2, -time.Hour), "node/a": seen("a", 0, 0), "node/b": seen("b", 0, time.Second), "node/d": gone, "agent/e": agent, "node/f": seen("f", 2*listedFor, 0),
	}}
	require.Equal(t, []api.NodeDocument{
		{Node: "a", Level: 2, Partitions: []int32{1}, LastSeen: 7},
		{Node: "b", Level: 2, Partitions: []int32{1}, LastSeen: 7, ClockAhead: new(events.Duration(time.Second))},
		{Node: "c", Level: 2, Partitions: []int32{1}, LastSeen: 7, Silent: true, ClockAhead: new(events.Duration(-time.Hour))},
	}, l.nodes())
}

// A node was killed, and the only other one was stopped for two minutes. When that one goes on, it still knows when the first was heard for the last
// time: from then on nobody owned its partitions. The first heartbeat that it reads may be that of an agent.
func TestANodeThatWasStoppedKnowsWhenTheOthersWereHeard(t *testing.T) {
	t.Parallel()
	ago := time.Now().Add(-2 * time.Minute)
	beat := func(kind, name string, started events.Instant) *events.Record {
		b, err := events.Marshal(events.Presence{Kind: kind, Instance: name, StartedAt: started, SeenAt: events.At(time.Now())})
		require.NoError(t, err)
		return &events.Record{Key: []byte(kind + "/" + name), Value: b, Timestamp: events.At(time.Now())}
	}
	l := &liveness{self: "woken", started: ago, since: ago.Add(-time.Hour), now: time.Now, seen: map[string]seenHeartbeat{
		"node/dead":  {Presence: events.Presence{Kind: events.PresenceNode, Instance: "dead", StartedAt: 1}, at: ago},
		"node/woken": {Presence: events.Presence{Kind: events.PresenceNode, Instance: "woken", StartedAt: events.At(ago)}, at: ago},
	}}
	l.record(beat(events.PresenceAgent, "a", 1))
	l.record(beat(events.PresenceNode, "woken", events.At(ago)))
	cause, at := l.lastSign("dead", 0)
	require.Equal(t, causeSilent, cause)
	require.Equal(t, ago, at)

	l.since = ago
	l.record(beat(events.PresenceNode, "woken", events.At(ago)))
	_, at = l.lastSign("dead", 0)
	require.True(t, at.IsZero(), "after a minute without a gap it is forgotten")
}
