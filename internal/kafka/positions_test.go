package kafka_test

import (
	"testing"

	"github.com/sagalog/sagalog/internal/kafka"
	"github.com/sagalog/sagalog/internal/kafka/kafkatest"
	"github.com/stretchr/testify/require"
)

// A reader that is in no group stores positions, with metadata, and finds them again. Another partition's position stays.
func storedPositions(t *testing.T, w world) {
	topic := w.Create(t)
	marks := kafka.NewBookmarks(w.Cluster, w.Topics.Namespace+".webhook")
	got, err := marks.Committed(kafkatest.Within(t))
	require.NoError(t, err)
	require.Empty(t, got)
	require.NoError(t, marks.Commit(kafkatest.Within(t), kafka.Positions{topic: {0: {Next: 3, Metadata: "a b,c"}}}))
	require.NoError(t, marks.Commit(kafkatest.Within(t), kafka.Positions{topic: {1: {Next: 1}}}))
	got, err = marks.Committed(kafkatest.Within(t))
	require.NoError(t, err)
	require.Equal(t, kafka.Positions{topic: {0: {Next: 3, Metadata: "a b,c"}, 1: {Next: 1}}}, got)
	require.NoError(t, marks.Commit(kafkatest.Within(t), nil))
}
