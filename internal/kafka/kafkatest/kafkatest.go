// Package kafkatest starts embedded brokers for tests.
package kafkatest

import (
	"context"
	"testing"
	"time"

	"github.com/sagalog/sagalog/internal/kafka"
	"github.com/stretchr/testify/require"
)

// startWait bounds the wait for a broker. One in this process answers within milliseconds; three real ones that are just
// up, on a busy machine, take seconds to make the topics of a namespace.
const startWait = 30 * time.Second

// Start returns a cluster of an embedded broker in memory, over a virtual network, that ends with the test.
func Start(t testing.TB) *kafka.Cluster {
	t.Helper()
	return Connect(t, StartBroker(t, kafka.BrokerConfig{Network: new(kafka.VirtualNetwork)}))
}

// StartTCP is Start over TCP and on disk.
func StartTCP(t testing.TB) *kafka.Cluster {
	t.Helper()
	return Connect(t, StartBroker(t, kafka.BrokerConfig{Dir: t.TempDir(), ByPort: true}))
}

// StartLocal is Start on disk and by the way that a process has to its own broker.
func StartLocal(t testing.TB) *kafka.Cluster {
	t.Helper()
	return Connect(t, StartBroker(t, kafka.BrokerConfig{Dir: t.TempDir()}))
}

// StartSynced is StartLocal with each answer waiting for the disk.
func StartSynced(t testing.TB) *kafka.Cluster {
	t.Helper()
	return Connect(t, StartBroker(t, kafka.BrokerConfig{Dir: t.TempDir(), Fsync: true}))
}

// StartBroker opens a broker and closes it when the test ends.
func StartBroker(t testing.TB, cfg kafka.BrokerConfig) *kafka.Broker {
	t.Helper()
	b, err := kafka.OpenBroker(cfg)
	require.NoError(t, err)
	t.Cleanup(func() { _ = b.Close() }) // a test may have closed it
	return b
}

// Connect reaches a broker, and closes the cluster when the test ends.
func Connect(t testing.TB, b Reachable) *kafka.Cluster {
	t.Helper()
	c, err := kafka.Connect(b.ClusterConfig())
	require.NoError(t, err)
	t.Cleanup(c.Close)
	ctx, cancel := context.WithTimeout(context.Background(), startWait)
	defer cancel()
	require.NoError(t, c.Ping(ctx))
	return c
}

// Create makes topics as the namespace's are made.
func Create(t testing.TB, c *kafka.Cluster, specs ...kafka.TopicSpec) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), startWait)
	defer cancel()
	require.NoError(t, kafka.EnsureTopics(ctx, c, specs...))
}
