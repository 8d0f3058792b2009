package kafka_test

import (
	"fmt"
	"testing"

	"github.com/sagalog/sagalog/events"
	"github.com/sagalog/sagalog/internal/kafka"
	"github.com/sagalog/sagalog/internal/kafka/embedded"
	"github.com/sagalog/sagalog/internal/kafka/kafkatest"
	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// lagging is a broker with five records in a partition, which answers fetches and requests for the end like a new leader whose high
// watermark lags behind, until it has been asked a few times.
func lagging(t *testing.T, fetches, ends int) *kafka.Cluster {
	t.Helper()
	network := new(embedded.VirtualNetwork)
	broker, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.ListenFn(network.Listen), kfake.SeedTopics(1, "events"))
	require.NoError(t, err)
	t.Cleanup(broker.Close)
	writer, err := kgo.NewClient(kgo.SeedBrokers(broker.ListenAddrs()...), kgo.Dialer(network.DialContext))
	require.NoError(t, err)
	defer writer.Close()
	for i := range 5 {
		require.NoError(t, writer.ProduceSync(kafkatest.Within(t), &kgo.Record{Topic: "events", Value: fmt.Append(nil, i)}).FirstErr())
	}
	broker.ControlKey(int16(kmsg.Fetch), func(req kmsg.Request) (kmsg.Response, error, bool) {
		broker.KeepControl()
		if fetches--; fetches < 0 {
			return nil, nil, false
		}
		asked := req.(*kmsg.FetchRequest)
		resp := asked.ResponseKind().(*kmsg.FetchResponse)
		topic := kmsg.NewFetchResponseTopic()
		topic.Topic, topic.TopicID = asked.Topics[0].Topic, asked.Topics[0].TopicID
		p := kmsg.NewFetchResponseTopicPartition()
		p.HighWatermark, p.LastStableOffset = 2, 2
		topic.Partitions = append(topic.Partitions, p)
		resp.Topics = append(resp.Topics, topic)
		return resp, nil, true
	})
	broker.ControlKey(int16(kmsg.ListOffsets), func(req kmsg.Request) (kmsg.Response, error, bool) {
		broker.KeepControl()
		asked := req.(*kmsg.ListOffsetsRequest)
		if asked.Topics[0].Partitions[0].Timestamp != -1 {
			return nil, nil, false
		}
		if ends--; ends < 0 {
			return nil, nil, false
		}
		resp := asked.ResponseKind().(*kmsg.ListOffsetsResponse)
		topic := kmsg.NewListOffsetsResponseTopic()
		topic.Topic = asked.Topics[0].Topic
		p := kmsg.NewListOffsetsResponseTopicPartition()
		p.ErrorCode = kerr.OffsetNotAvailable.Code
		topic.Partitions = append(topic.Partitions, p)
		resp.Topics = append(resp.Topics, topic)
		return resp, nil, true
	})
	c, err := kafka.Connect(kafka.ClusterConfig{Brokers: broker.ListenAddrs(), Dialer: network.DialContext})
	require.NoError(t, err)
	t.Cleanup(c.Close)
	return c
}

// The high watermark of a new leader lags for a moment. A record above it is not lost.
func TestARecordAboveALaggingWatermarkIsNotLost(t *testing.T) {
	t.Parallel()
	c := lagging(t, 3, 2)
	r, err := c.ReadAt(kafkatest.Within(t), "events", 0, 3)
	require.NoError(t, err)
	require.Equal(t, "3", string(r.Value))
}

func TestARangeIsReadBehindALaggingWatermark(t *testing.T) {
	t.Parallel()
	c := lagging(t, 3, 2)
	var values string
	require.NoError(t, c.ReadRange(kafkatest.Within(t), "events", 0, 2, 5, func(r events.Record) error {
		values += string(r.Value)
		return nil
	}))
	require.Equal(t, "234", values)
}

func TestAnOffsetAtTheEndOfTheLogIsOutside(t *testing.T) {
	t.Parallel()
	c := lagging(t, 1, 1)
	_, err := c.ReadAt(kafkatest.Within(t), "events", 0, 5)
	require.ErrorAs(t, err, new(*kafka.OutOfRangeError))
}
