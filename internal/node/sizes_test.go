package node_test

import (
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sagalog/sagalog/internal/kafka"
	"github.com/sagalog/sagalog/internal/kafka/kafkatest"
	"github.com/stretchr/testify/require"
)

// An operator sets the limit of the topic so low that the broker refuses what the owner decides. Each try costs an epoch, so there are
// few, and the node says what is wrong until the limit is back.
func TestATopicThatTakesTooLittleIsNamed(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := setup(t, 1)
		n := w.node(t.TempDir())
		w.apply(n, order)
		w.hire(nil)
		w.submit("t-before")
		w.watch.ended("t-before")
		before, err := n.Status(0)
		require.NoError(t, err)
		limit := func(bytes int) {
			kafkatest.AlterTopic(t, w.broker, w.topics.Events(), "max.message.bytes", strconv.Itoa(bytes))
		}
		limit(700)
		w.submit("t-after")
		w.soon("the node names the limit", func() bool {
			err := n.Ready()
			return err != nil && strings.Contains(err.Error(), "max.message.bytes")
		})
		time.Sleep(2 * time.Minute)
		after, err := n.Status(0)
		require.NoError(t, err)
		require.LessOrEqual(t, after.Stats.Epochs-before.Stats.Epochs, uint64(5))
		limit(kafka.MaxMessageBytes)
		w.watch.ended("t-after")
		w.soon("the node is ready", func() bool { return n.Ready() == nil })
	})
}
