package node_test

import (
	"testing"
	"time"

	"github.com/sagalog/sagalog/internal/kafka"
	"github.com/sagalog/sagalog/internal/kafka/kafkatest"
	"github.com/stretchr/testify/require"
)

// A namespace that lost a topic of which nothing may be lost is refused, and not made anew and empty.
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
				w.watch.over = true // its topics are about to go
				w.watch.mu.Unlock()
				kafkatest.DeleteTopic(t, w.broker, topic)
				_, err := w.open(t.TempDir())
				require.ErrorContains(t, err, want)
			})
		})
	}
}

// The settings are looked at again each hour: a node that finds what could lose facts says so and is not ready.
func TestTheTopicsAreAuditedEachHour(t *testing.T) {
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
