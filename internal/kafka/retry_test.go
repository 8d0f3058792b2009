package kafka_test

import (
	"net"
	"sync"
	"testing"
	"time"

	"github.com/sagalog/sagalog/internal/kafka"
	"github.com/sagalog/sagalog/internal/kafka/kafkatest"
	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
)

// All brokers are restarted while a client is idle. It hits one dead connection after another, and repeats its request until it finds a
// working one.
func TestRequestsSurviveTheDeathOfAllConnections(t *testing.T) {
	t.Parallel()
	const brokers = 6
	network := new(dyingNetwork)
	broker, err := kfake.NewCluster(kfake.NumBrokers(brokers), kfake.ListenFn(network.Listen), kfake.SeedTopics(brokers*3, "events"))
	require.NoError(t, err)
	t.Cleanup(broker.Close)
	c, err := kafka.Connect(kafka.ClusterConfig{Brokers: broker.ListenAddrs()})
	require.NoError(t, err)
	t.Cleanup(c.Close)
	all := kafka.Partitions{"events": {}}
	for p := range int32(brokers * 3) {
		all["events"] = append(all["events"], p)
	}
	for range 2 {
		ends, err := c.EndOffsets(kafkatest.Within(t), all)
		require.NoError(t, err)
		require.Len(t, ends["events"], brokers*3)
		require.GreaterOrEqual(t, network.end(), 4, "connections")
		_, err = c.CommittedOffsets(kafkatest.Within(t), "nobody")
		require.ErrorIs(t, err, kerr.GroupIDNotFound, "an answer")
		// The cached leaders must be outdated. Waiting for that in virtual time would also close the connections for
		// another reason, and the test would prove nothing.
		<-time.After(300 * time.Millisecond)
	}
}

// dyingNetwork can close all its connections at the brokers' ends.
type dyingNetwork struct {
	// mu guards the field below.
	mu    sync.Mutex
	conns []net.Conn
}

func (n *dyingNetwork) Listen(network, addr string) (net.Listener, error) {
	l, err := net.Listen(network, addr)
	return &dyingListener{l, n}, err
}

func (n *dyingNetwork) end() int {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, c := range n.conns {
		_ = c.Close()
	}
	ended := len(n.conns)
	n.conns = nil
	return ended
}

type dyingListener struct {
	net.Listener
	network *dyingNetwork
}

func (l *dyingListener) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err == nil {
		l.network.mu.Lock()
		l.network.conns = append(l.network.conns, c)
		l.network.mu.Unlock()
	}
	return c, err
}
