package kafka_test

import (
	"net"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/sagalog/sagalog/internal/kafka"
	"github.com/sagalog/sagalog/internal/kafka/kafkatest"
)

// A partition holds a batch that is too large, and whoever should tell which one does not answer: the others are read on.
func TestASearchForATooLargeBatchHoldsUpNobodyElse(t *testing.T) {
	t.Parallel()
	w := newWorld(t, kafkatest.Start(t))
	topic := w.create(t)
	c := w.client(t, kgo.ProducerBatchCompression(kgo.ZstdCompression()), kgo.RecordPartitioner(kgo.ManualPartitioner()))
	require.NoError(t, c.ProduceSync(within(t), &kgo.Record{Topic: topic, Value: []byte(strings.Repeat("0", 900_000))}).FirstErr())
	mute, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer mute.Close()
	hole, err := kafka.Connect(kafka.ClusterConfig{Brokers: []string{mute.Addr().String()}})
	require.NoError(t, err)
	defer hole.Close()
	r := w.reader(t, kafka.ReaderConfig{MaxDecompress: 100_000})
	kafka.Redirect(r, hole)
	r.Add(topic, 0, 0, -1)
	r.Add(topic, 1, 0, -1)
	// The search ends after some seconds with an error; what is written before comes before.
	time.AfterFunc(300*time.Millisecond, func() {
		c.Produce(t.Context(), &kgo.Record{Topic: topic, Partition: 1, Value: []byte("healthy")}, nil)
	})
	fetches, err := r.Poll(within(t))
	require.NoError(t, err)
	require.Len(t, fetches, 1)
	require.EqualValues(t, 1, fetches[0].Partition)
	require.Equal(t, []string{"healthy"}, values(fetches[0].Records))
	fetches, err = r.Poll(within(t))
	require.NoError(t, err)
	require.Len(t, fetches, 1)
	require.EqualValues(t, 0, fetches[0].Partition)
	require.Error(t, fetches[0].Err)
}
