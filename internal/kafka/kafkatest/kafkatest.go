// Package kafkatest starts brokers for tests: embedded, faulty and real ones.
package kafkatest

import (
	"context"
	"testing"
	"time"

	"github.com/sagalog/sagalog/internal/kafka"
	"github.com/sagalog/sagalog/internal/kafka/embedded"
	"github.com/stretchr/testify/require"
)

// startWait bounds the wait for a broker. An embedded one answers within milliseconds. Three real ones that have just started on a busy
// machine take seconds to create the topics of a namespace.
const startWait = 30 * time.Second

// Start returns a cluster of an embedded broker in memory, over a virtual network, that ends with the test.
func Start(t testing.TB) *kafka.Cluster {
	t.Helper()
	return Connect(t, StartBroker(t, embedded.Config{Network: new(embedded.VirtualNetwork)}))
}

// StartTCP is Start over TCP and on disk.
func StartTCP(t testing.TB) *kafka.Cluster {
	t.Helper()
	return Connect(t, StartBroker(t, embedded.Config{Dir: t.TempDir(), ByPort: true}))
}

// StartLocal is Start on disk, connected in memory.
func StartLocal(t testing.TB) *kafka.Cluster {
	t.Helper()
	return Connect(t, StartBroker(t, embedded.Config{Dir: t.TempDir()}))
}

// StartSynced is StartLocal with Fsync.
func StartSynced(t testing.TB) *kafka.Cluster {
	t.Helper()
	return Connect(t, StartBroker(t, embedded.Config{Dir: t.TempDir(), Fsync: true}))
}

// StartBroker opens a broker and closes it when the test ends.
func StartBroker(t testing.TB, cfg embedded.Config) *embedded.Broker {
	t.Helper()
	b, err := embedded.Open(cfg)
	require.NoError(t, err)
	t.Cleanup(func() { _ = b.Close() }) // the test may have closed it
	return b
}

// Connect reaches a broker, and closes the cluster when the test ends.
func Connect(t testing.TB, b Reachable) *kafka.Cluster {
	t.Helper()
	return connect(t, b.ClusterConfig())
}

func connect(t testing.TB, cfg kafka.ClusterConfig) *kafka.Cluster {
	t.Helper()
	c, err := kafka.Connect(cfg)
	require.NoError(t, err)
	t.Cleanup(c.Close)
	ctx, cancel := context.WithTimeout(context.Background(), startWait)
	defer cancel()
	require.NoError(t, c.Ping(ctx))
	return c
}

// Create creates topics in the same way as a namespace's topics.
func Create(t testing.TB, c *kafka.Cluster, specs ...kafka.TopicSpec) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), startWait)
	defer cancel()
	require.NoError(t, kafka.EnsureTopics(ctx, c, specs...))
}
