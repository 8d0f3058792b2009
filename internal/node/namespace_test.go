package node_test

import (
	"testing"
	"time"

	"github.com/sagalog/sagalog/internal/kafka"
	"github.com/sagalog/sagalog/internal/kafka/embedded"
	"github.com/sagalog/sagalog/internal/kafka/kafkatest"
	"github.com/stretchr/testify/require"
)

// If a namespace has lost a topic whose records must not be lost, the node refuses to start, and does not recreate the
// topic.
func TestANamespaceThatLostATopicIsRefused(t *testing.T) {
	topics := kafka.Topics{Namespace: "sagalog"}
	for topic, want := range map[string]string{
		topics.Events():      "topic sagalog.events of namespace sagalog is gone",
		topics.Submissions(): "topic sagalog.submissions of namespace sagalog is gone",
		topics.Reports():     "topic sagalog.reports of namespace sagalog is gone",
		topics.Definitions(): "topic sagalog.events holds facts, and sagalog.definitions, which names their namespace, is empty",
	} {
		t.Run(topic, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				w := setup(t, 2)
				n := w.node(t.TempDir())
				w.shared("node-1")
				require.NoError(t, n.stop())
				w.watch.mu.Lock()
				w.watch.over = true // its topics are about to be deleted
				w.watch.mu.Unlock()
				kafkatest.DeleteTopic(t, w.broker, topic)
				_, err := w.open(t.TempDir())
				require.ErrorContains(t, err, want)
			})
		})
	}
}

// The settings are checked every hour. A node that finds a setting that could lose facts says so and is not ready.
func TestTheTopicsAreAuditedEachHour(t *testing.T) {
	minutes(t)
	bubble(t, func(t *testing.T) {
		w := setup(t, 1)
		n := w.node(t.TempDir())
		w.shared("node-1")
		<-time.After(2 * time.Second) // the node reads its claim back a moment after the observer read it
		require.NoError(t, n.Ready())
		kafkatest.AlterTopic(t, w.broker, w.topics.Events(), "retention.ms", "1000000000")
		<-time.After(61 * time.Minute)
		require.ErrorContains(t, n.Ready(), "retention.ms is 1000000000, must be -1")
		kafkatest.AlterTopic(t, w.broker, w.topics.Events(), "retention.ms", "-1")
		<-time.After(61 * time.Minute)
		require.NoError(t, n.Ready())
	})
}

// grown are brokers of a cluster that had one broker when its topics were created.
type grown struct{ brokers }

func (g grown) ClusterConfig() kafka.ClusterConfig {
	cc := g.brokers.ClusterConfig()
	cc.Embedded = false // an embedded broker is alone, and is not asked how many there are
	return cc
}

// A node whose cluster got more brokers starts, stays ready, and says once which topics have too few copies.
func TestANodeGoesOnAfterBrokersWereAdded(t *testing.T) {
	minutes(t)
	bubble(t, func(t *testing.T) {
		w := &world{t: t, network: new(embedded.VirtualNetwork), parts: 1}
		w.broker = kafkatest.StartFake(t, w.network, 3)
		w.connect()
		dir := t.TempDir()
		require.NoError(t, w.node(dir).stop())
		require.Empty(t, w.logs.find("copies"))

		w.broker = grown{w.broker}
		n := w.node(dir)
		<-time.After(time.Hour + time.Minute)
		require.NoError(t, n.Ready())
		said := w.logs.find("fewer than 3 copies")
		require.Len(t, said, 1)
		require.Contains(t, said[0], "WARN there are 3 brokers")
		require.Contains(t, said[0], "sagalog.events (1)")
		require.Contains(t, said[0], "kafka-reassign-partitions.sh --bootstrap-server ")
	})
}
