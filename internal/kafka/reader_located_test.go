package kafka_test

import (
	"net"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/sagalog/sagalog/internal/kafka"
	"github.com/sagalog/sagalog/internal/kafka/kafkatest"
)

// A partition holds a batch that is too large, and the broker that should locate it does not answer. Reading of the
// other partitions continues.
func TestLocatingALargeBatchDelaysNoOtherPartition(t *testing.T) {
	t.Parallel()
	w := newWorld(kafkatest.Start(t))
	topic := w.Create(t)
	kafkatest.Bomb(t, w, topic, 17<<20)
	c := kafkatest.Client(t, w, kgo.RecordPartitioner(kgo.ManualPartitioner()))
	mute, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer mute.Close()
	hole, err := kafka.Connect(kafka.ClusterConfig{Brokers: []string{mute.Addr().String()}})
	require.NoError(t, err)
	defer hole.Close()
	r := w.Reader(t, kafka.ReaderConfig{})
	kafka.Redirect(r, hole)
	r.Add(topic, 0, 0, -1)
	r.Add(topic, 1, 0, -1)
	// The search ends after some seconds with an error. Records that are written now arrive before that.
	time.AfterFunc(300*time.Millisecond, func() {
		c.Produce(t.Context(), &kgo.Record{Topic: topic, Partition: 1, Value: []byte("healthy")}, nil)
	})
	fetches, err := r.Poll(kafkatest.Within(t))
	require.NoError(t, err)
	require.Len(t, fetches, 1)
	require.EqualValues(t, 1, fetches[0].Partition)
	require.Equal(t, []string{"healthy"}, kafkatest.Values(fetches[0].Records))
	fetches, err = r.Poll(kafkatest.Within(t))
	require.NoError(t, err)
	require.Len(t, fetches, 1)
	require.EqualValues(t, 0, fetches[0].Partition)
	require.Error(t, fetches[0].Err)
}
