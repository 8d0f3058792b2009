//go:build synctests

package node_test

import (
	"testing"
	"time"

	"github.com/sagalog/sagalog/internal/kafka/kafkatest"
	"github.com/stretchr/testify/require"
)

// A group also fences an agent whose own join takes effect after the agent has given up waiting for the answer. Its next member reads
// again what the fenced one had read.
func TestFaultAFencedAgentWithoutANamesakeJoinsAgain(t *testing.T) {
	for _, request := range []string{"JoinGroup", "SyncGroup", "Heartbeat"} {
		t.Run(request, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				w, brokers := fencing(t)
				n := w.node(t.TempDir())
				w.apply(n, order)
				crew := w.hire(nil)
				w.submit(ids("before", 20)...)
				w.watch.ended(ids("before", 20)...)
				fault := brokers.Fault(kafkatest.Fault{Request: request, Group: "sagalog.agents.stock", Code: "FENCED_INSTANCE_ID", Count: 3})
				if request != "Heartbeat" {
					brokers.Fault(kafkatest.Fault{Request: "Heartbeat", Group: "sagalog.agents.stock", Code: "REBALANCE_IN_PROGRESS", Count: 1})
				}
				w.hits(t, fault.Hits, 3)
				<-time.After(time.Minute)
				require.Empty(t, crew.ended)
				require.NotEmpty(t, w.logs.find("another process has joined under this instance's name"))
				w.submit(ids("after", 20)...)
				w.watch.ended(ids("after", 20)...)
				require.NoError(t, n.stop())
				w.watch.verify()
				w.everyCallIsInTheLog(crew)
			})
		})
	}
}
