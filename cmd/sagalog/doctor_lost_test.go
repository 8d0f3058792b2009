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
	require.Contains(t, failed[0].Remedy, "restore the topic from a copy; accept-loss cannot give this up")
	l.starting = true
	for _, f := range l.log(context.Background(), cluster) {
		require.NotEqual(t, doctor.StatusFail, f.Status, "a node starts, because its other partitions can work")
	}
}

// Doctor prints the command that gives up deleted inputs, and is content when the log says that they are given up.
func TestDoctorPrintsHowToGiveUpWhatIsLost(t *testing.T) {
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
	produce := func(r events.Record) {
		_, err = producer.ProduceSync(t.Context(), r)
		require.NoError(t, err)
	}
	sequence := 0
	write := func(f *events.Fact) {
		if f.Time = events.At(time.Now()); sequence > 0 {
			f.Epoch, f.Sequence = events.Epoch{N: 1, ID: "a"}, uint64(sequence-1)
		}
		sequence++
		r, err := events.EncodeFact(f, 1, "/x")
		require.NoError(t, err)
		r.Topic, r.Partition = topics.Events(), 1
		produce(r)
	}
	l := localCheck{serveConfig: &serveConfig{}, now: time.Now, made: 2}
	l.namespace = "x"
	failed := func() (list []doctor.Finding) {
		for _, f := range l.log(context.Background(), cluster) {
			if f.Status == doctor.StatusFail {
				list = append(list, f)
			}
		}
		return list
	}
	for range 4 {
		produce(events.Record{Topic: topics.Submissions(), Partition: 1, Value: []byte("{}")})
	}
	write(&events.Fact{Body: &events.PartitionClaimed{ID: "a"}})
	write(&events.Fact{Body: &events.InputsPassed{Inputs: map[events.Input]events.Passed{events.Submissions: {Next: 1, Hash: "h"}}}})
	require.Empty(t, failed())
	kafkatest.DeleteRecords(t, broker, topics.Submissions(), 1, 3)
	found := failed()
	require.Len(t, found, 1)
	require.Contains(t, found[0].Remedy, "or give up what is lost: sagalog namespace accept-loss --input submissions --partition 1 --from 1 --to 3")
	write(&events.Fact{Body: &events.InputLossAccepted{Input: events.Submissions, From: 1, To: 3, Offset: 4}})
	require.Empty(t, failed())
	// The last judged record is deleted, and that is accepted too.
	write(&events.Fact{Body: &events.InputsPassed{Inputs: map[events.Input]events.Passed{events.Submissions: {Next: 4, Hash: "h"}}}})
	kafkatest.DeleteRecords(t, broker, topics.Submissions(), 1, 4)
	require.Len(t, failed(), 1)
	write(&events.Fact{Body: &events.InputLossAccepted{Input: events.Submissions, From: 4, To: 4, Offset: 5}})
	require.Empty(t, failed())
}
