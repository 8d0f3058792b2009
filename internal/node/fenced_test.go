package node_test

import (
	"testing"
	"time"

	"github.com/sagalog/sagalog/internal/kafka/embedded"
	"github.com/sagalog/sagalog/internal/kafka/kafkatest"
	"github.com/sagalog/sagalog/internal/node"
	"github.com/stretchr/testify/require"
)

// fencing returns a world over brokers that can be made to fence a member.
func fencing(t *testing.T) (*world, *kafkatest.Fake) {
	t.Helper()
	w := &world{t: t, network: new(embedded.VirtualNetwork), parts: 4, latency: 20 * time.Microsecond}
	brokers := kafkatest.StartFake(t, w.network, 3)
	w.broker = brokers
	w.connect()
	return w, brokers
}

// The group fences a node whose own join was carried out after the node had stopped waiting for it. No other process has the name.
func TestAFencedNodeWithoutANamesakeJoinsAgain(t *testing.T) {
	for _, request := range []string{"JoinGroup", "SyncGroup", "Heartbeat"} {
		t.Run(request, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				w, brokers := fencing(t)
				fault := brokers.Fault(kafkatest.Fault{Request: request, Group: "sagalog.owners", Code: "FENCED_INSTANCE_ID", Count: 3})
				n := w.node(t.TempDir(), together)
				<-time.After(time.Minute)
				require.Equal(t, 3, fault.Hits())
				require.Empty(t, n.ended)
				w.shared("node-1")
				require.NoError(t, n.Ready())
				require.NotEmpty(t, w.logs.find("another process has joined under this node's name"))
				require.NoError(t, n.stop())
			})
		})
	}
}

func TestAFencedNodeWithANamesakeEnds(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w, _ := fencing(t)
		one := w.node(t.TempDir(), together)
		w.shared("node-1")
		two := w.node(t.TempDir(), together, func(c *node.Config) { c.Name = one.name })
		<-time.After(time.Minute)
		require.Len(t, one.ended, 1)
		require.ErrorContains(t, one.stop(), `another process runs as node "node-1"`)
		require.Empty(t, two.ended)
		require.NoError(t, two.stop())
	})
}
