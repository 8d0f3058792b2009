package main

import (
	"context"
	"testing"
	"time"

	"github.com/sagalog/sagalog/events"
	"github.com/sagalog/sagalog/internal/kafka"
	"github.com/sagalog/sagalog/internal/kafka/doctor"
	"github.com/sagalog/sagalog/internal/kafka/embedded"
	"github.com/sagalog/sagalog/internal/kafka/kafkatest"
	"github.com/stretchr/testify/require"
)

// Doctor names the partition, the topic and the offsets before a take-over stops at them.
func TestDoctorNamesWhatAnInputHasLost(t *testing.T) {
	t.Parallel()
	broker := kafkatest.StartBroker(t, embedded.Config{})
	cluster, err := kafka.Connect(broker.ClusterConfig())
	require.NoError(t, err)
	defer cluster.Close()
	topics := kafka.Topics{Namespace: "x"}
	kafkatest.Create(t, cluster, topics.Base(2)...)
	producer, err := kafka.NewProducer(cluster)
	require.NoError(t, err)
	defer producer.Close()
	for sequence, f := range []*events.Fact{
		{Body: &events.PartitionClaimed{ID: "a"}},
		{Body: &events.InputsPassed{Inputs: map[events.Input]events.Passed{events.Reports: {Next: 0}, events.Submissions: {Next: 3, Hash: "h"}}}},
		{Body: &events.InputRejected{Reason: "invalid"}, Cause: events.CauseInput(events.Submissions, 1, 6), CauseHash: "i"},
	} {
		f.Time = events.At(time.Now())
		if sequence > 0 {
			f.Epoch, f.Sequence = events.Epoch{N: 1, ID: "a"}, uint64(sequence-1)
		}
		r, err := events.EncodeFact(f, 1, "/x")
		require.NoError(t, err)
		r.Topic, r.Partition = topics.Events(), 1
		_, err = producer.ProduceSync(t.Context(), r)
		require.NoError(t, err)
	}

	l := localCheck{serveConfig: &serveConfig{}, now: time.Now, made: 2}
	l.namespace = "x"
	var failed []doctor.Finding
	for _, f := range l.log(context.Background(), cluster) {
		if f.Status == doctor.StatusFail {
			failed = append(failed, f)
		}
	}
	require.Len(t, failed, 1)
	require.Contains(t, failed[0].What, "x.submissions partition 1 ends at offset 0, and the log has judged everything below offset 7")
	require.NotEmpty(t, failed[0].Remedy)
	l.starting = true
	for _, f := range l.log(context.Background(), cluster) {
		require.NotEqual(t, doctor.StatusFail, f.Status, "a node starts, because its other partitions can work")
	}
}
