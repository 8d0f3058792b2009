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

// lostInputs is a namespace of two partitions. A test writes the log of partition 1 and the topics of its inputs.
type lostInputs struct {
	t        *testing.T
	broker   *embedded.Broker
	cluster  *kafka.Cluster
	producer *kafka.Producer
	topics   kafka.Topics
	sequence int
	check    localCheck
}

func newLostInputs(t *testing.T) *lostInputs {
	x := &lostInputs{t: t, broker: kafkatest.StartBroker(t, embedded.Config{}), topics: kafka.Topics{Namespace: "x"}}
	var err error
	x.cluster, err = kafka.Connect(x.broker.ClusterConfig())
	require.NoError(t, err)
	t.Cleanup(x.cluster.Close)
	kafkatest.Create(t, x.cluster, x.topics.Base(2)...)
	x.producer, err = kafka.NewProducer(x.cluster)
	require.NoError(t, err)
	t.Cleanup(x.producer.Close)
	x.check = localCheck{serveConfig: &serveConfig{}, now: time.Now, made: 2}
	x.check.namespace = "x"
	return x
}

func (x *lostInputs) produce(r events.Record) {
	_, err := x.producer.ProduceSync(x.t.Context(), r)
	require.NoError(x.t, err)
}

// write appends facts to the log: first the claim of its epoch, then those of it.
func (x *lostInputs) write(list ...*events.Fact) {
	for _, f := range list {
		if f.Time = events.At(time.Now()); x.sequence > 0 {
			f.Epoch, f.Sequence = events.Epoch{N: 1, ID: "a"}, uint64(x.sequence-1)
		}
		x.sequence++
		r, err := events.EncodeFact(f, 1, "/x")
		require.NoError(x.t, err)
		r.Topic, r.Partition = x.topics.Events(), 1
		x.produce(r)
	}
}

// failed returns what doctor finds wrong.
func (x *lostInputs) failed() (list []doctor.Finding) {
	for _, f := range x.check.log(context.Background(), x.cluster) {
		if f.Status == doctor.StatusFail {
			list = append(list, f)
		}
	}
	return list
}

// Doctor names the partition, the topic and the offsets before a take-over stops at them.
func TestDoctorNamesWhatAnInputHasLost(t *testing.T) {
	t.Parallel()
	x := newLostInputs(t)
	x.write(
		&events.Fact{Body: &events.PartitionClaimed{ID: "a"}},
		&events.Fact{Body: &events.InputsPassed{Inputs: map[events.Input]events.Passed{events.Reports: {Next: 0}, events.Submissions: {Next: 3, Hash: "h"}}}},
		&events.Fact{Body: &events.InputRejected{Reason: "invalid"}, Cause: events.CauseInput(events.Submissions, 1, 6), CauseHash: "i"},
	)
	found := x.failed()
	require.Len(t, found, 1)
	require.Contains(t, found[0].What, "x.submissions partition 1 ends at offset 0, and the log has judged everything below offset 7")
	require.Contains(t, found[0].Remedy, "restore the topic from a copy; accept-loss cannot give this up")
	x.check.starting = true
	require.Empty(t, x.failed(), "a node starts, because its other partitions can work")
}

// Doctor prints the command that gives up deleted inputs, and is content when the log says that they are given up.
func TestDoctorPrintsHowToGiveUpWhatIsLost(t *testing.T) {
	t.Parallel()
	x := newLostInputs(t)
	for range 4 {
		x.produce(events.Record{Topic: x.topics.Submissions(), Partition: 1, Value: []byte("{}")})
	}
	x.write(
		&events.Fact{Body: &events.PartitionClaimed{ID: "a"}},
		&events.Fact{Body: &events.InputsPassed{Inputs: map[events.Input]events.Passed{events.Submissions: {Next: 1, Hash: "h"}}}},
	)
	require.Empty(t, x.failed())
	kafkatest.DeleteRecords(t, x.broker, x.topics.Submissions(), 1, 3)
	found := x.failed()
	require.Len(t, found, 1)
	require.Contains(t, found[0].Remedy, "or give up what is lost: sagalog namespace accept-loss --input submissions --partition 1 --from 1 --to 3")
	x.write(&events.Fact{Body: &events.InputLossAccepted{Input: events.Submissions, From: 1, To: 3, Offset: 4}})
	require.Empty(t, x.failed())
	// The last judged record is deleted, and that is accepted too.
	x.write(&events.Fact{Body: &events.InputsPassed{Inputs: map[events.Input]events.Passed{events.Submissions: {Next: 4, Hash: "h"}}}})
	kafkatest.DeleteRecords(t, x.broker, x.topics.Submissions(), 1, 4)
	require.Len(t, x.failed(), 1)
	x.write(&events.Fact{Body: &events.InputLossAccepted{Input: events.Submissions, From: 4, To: 4, Offset: 5}})
	require.Empty(t, x.failed())
}

// Doctor tells a log that was cut from one whose first facts were deleted by something else.
func TestDoctorFindsALogWithoutItsBegin(t *testing.T) {
	t.Parallel()
	x := newLostInputs(t)
	x.write(
		&events.Fact{Body: &events.PartitionClaimed{ID: "a"}},
		&events.Fact{Body: &events.CarryBegun{State: []byte(`{}`)}},
		&events.Fact{Body: &events.InputsPassed{}},
	)
	require.Empty(t, x.failed())
	kafkatest.DeleteRecords(t, x.broker, x.topics.Events(), 1, 1)
	require.Empty(t, x.failed(), "it begins with a carry")
	kafkatest.DeleteRecords(t, x.broker, x.topics.Events(), 1, 2)
	found := x.failed()
	require.Len(t, found, 1)
	require.Contains(t, found[0].What, "the facts of x.events/1 below offset 2 are gone, and no cut explains that: the log begins with InputsPassed")
	require.Contains(t, found[0].Remedy, "Restore the topic from a copy")
	kafkatest.DeleteRecords(t, x.broker, x.topics.Events(), 1, 3)
	found = x.failed()
	require.Len(t, found, 1)
	require.Contains(t, found[0].What, "the log is empty, although it had records before")
}
