package kafka_test

import (
	"testing"

	"github.com/sagalog/sagalog/internal/kafka"
	"github.com/sagalog/sagalog/internal/kafka/kafkatest"
	"github.com/stretchr/testify/require"
)

func recordsDeleted(t *testing.T, w world) {
	topic := w.Create(t)
	for _, v := range []string{"a", "b", "c", "d"} {
		w.Write(t, topic, v)
	}
	begins, err := kafka.DeleteRecords(kafkatest.Within(t), w.Cluster, kafka.Offsets{topic: {0: 3}})
	require.NoError(t, err)
	require.Equal(t, kafka.Offsets{topic: {0: 3}}, begins)
	_, err = kafka.DeleteRecords(kafkatest.Within(t), w.Cluster, kafka.Offsets{topic: {0: 2}})
	require.NoError(t, err, "a node that was deposed is late")
	begin, err := w.StartOffset(kafkatest.Within(t), topic, 0)
	require.NoError(t, err)
	require.Equal(t, int64(3), begin)
	at, err := w.ReadAt(kafkatest.Within(t), topic, 0, 3)
	require.NoError(t, err)
	require.Equal(t, "d", string(at.Value))

	begins, err = kafka.DeleteRecords(kafkatest.Within(t), w.Cluster, kafka.Offsets{topic: {0: 4}, topic + ".none": {0: 1}})
	require.ErrorIs(t, err, kafka.ErrUnknownTopic)
	require.Equal(t, kafka.Offsets{topic: {0: 4}}, begins, "the others are deleted")
	none, err := kafka.DeleteRecords(kafkatest.Within(t), w.Cluster, nil)
	require.NoError(t, err)
	require.Empty(t, none)
}
