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
