package kafkatest

import (
	"math"
	"net"
	"strconv"
	"sync"
	"testing"

	"github.com/sagalog/sagalog/internal/kafka"
	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// Fake is a cluster of several brokers in memory that a test can make misbehave. It is the engine of the embedded
// broker without its guards.
type Fake struct {
	t       testing.TB
	cluster *kfake.Cluster
	network *kafka.VirtualNetwork
	once    sync.Once
	unwatch func()
	// Brokers are the numbers of the brokers.
	Brokers []int32
}

// firstPort is that of broker 0; the others follow.
const firstPort = 9092

// StartFake starts so many brokers on a virtual network, until the test ends.
func StartFake(t testing.TB, network *kafka.VirtualNetwork, brokers int) *Fake {
	t.Helper()
	f := &Fake{t: t, network: network}
	var ports []int
	for i := range brokers {
		ports = append(ports, firstPort+i)
		f.Brokers = append(f.Brokers, int32(i))
	}
	var err error
	f.cluster, err = kfake.NewCluster(
		kfake.Ports(ports...), kfake.ListenFn(func(n, a string) (net.Listener, error) { return network.Listen(n, a) }),
		kfake.BrokerConfigs(map[string]string{"message.max.bytes": strconv.Itoa(kafka.MaxMessageBytes)}),
	)
	require.NoError(t, err)
	f.cluster.ControlKey(kmsg.OffsetForLeaderEpoch.Int16(), f.nothingLost)
	f.unwatch, err = kafka.KeepSessions(f.cluster, f.ClusterConfig())
	require.NoError(t, err)
	t.Cleanup(func() { _ = f.Close() })
	return f
}

// nothingLost answers where the records of a leader's time end. These brokers lose none when a leader moves, but of a leader
// who was the last to write they say that they know nothing, where Apache Kafka names the log's end; a client takes that
// for a loss of all records and reads the partition again.
func (f *Fake) nothingLost(req kmsg.Request) (kmsg.Response, error, bool) {
	f.cluster.KeepControl()
	asked := req.(*kmsg.OffsetForLeaderEpochRequest)
	resp := asked.ResponseKind().(*kmsg.OffsetForLeaderEpochResponse)
	for _, t := range asked.Topics {
		of := kmsg.NewOffsetForLeaderEpochResponseTopic()
		of.Topic = t.Topic
		for _, p := range t.Partitions {
			end := kmsg.NewOffsetForLeaderEpochResponseTopicPartition()
			// Clients compare: any end that is not before what they have read says that nothing is lost.
			end.Partition, end.LeaderEpoch, end.EndOffset = p.Partition, p.LeaderEpoch, math.MaxInt64
			of.Partitions = append(of.Partitions, end)
		}
		resp.Topics = append(resp.Topics, of)
	}
	return resp, nil, true
}

// Close stops the brokers, once.
func (f *Fake) Close() error {
	f.once.Do(func() {
		f.unwatch()
		f.cluster.Close()
	})
	return nil
}

// ClusterConfig returns how to reach the brokers.
func (f *Fake) ClusterConfig() kafka.ClusterConfig {
	return kafka.ClusterConfig{Brokers: f.cluster.ListenAddrs(), Dialer: f.network.DialContext, Embedded: true}
}

// Move makes a broker the leader of a partition, under the next leader epoch.
func (f *Fake) Move(topic string, partition, broker int32) {
	f.t.Helper()
	require.NoError(f.t, f.cluster.MoveTopicPartition(topic, partition, broker))
}

// Leader returns who leads a partition.
func (f *Fake) Leader(topic string, partition int32) int32 {
	return f.cluster.LeaderFor(topic, partition)
}

// Shuffle gives every partition some leader, under the next leader epoch.
func (f *Fake) Shuffle() { f.cluster.ShufflePartitionLeaders() }

// MoveCoordinators makes other brokers the coordinators of the groups, which every client has to find anew.
func (f *Fake) MoveCoordinators() { f.cluster.RehashCoordinators() }

// Compact compacts the topics that are to be, and ApplyRetention deletes what is too old for its topic.
func (f *Fake) Compact()        { f.cluster.Compact() }
func (f *Fake) ApplyRetention() { f.cluster.ApplyRetention() }

// Fault is how requests fail.
type Fault struct {
	// Request is Kafka's name of the request, such as Produce or Heartbeat.
	Request string
	// Topic is the topic that it must name, and Group the group; empty for any.
	Topic, Group string
	// Code is Kafka's name of the answer, such as REQUEST_TIMED_OUT.
	Code string
	// Count is how many requests fail; 0 means until the handle is removed.
	Count int
}

// Faulty is a fault in force.
type Faulty struct{ handle *kfake.FaultHandle }

// Fault has the brokers answer requests with an error. They do not act on them, but for REQUEST_TIMED_OUT and
// NOT_ENOUGH_REPLICAS_AFTER_APPEND, which they answer when they have.
func (f *Fake) Fault(of Fault) *Faulty {
	f.t.Helper()
	code, ok := codes[of.Code]
	require.True(f.t, ok, "no error is called %s", of.Code)
	key, ok := keys[of.Request]
	require.True(f.t, ok, "no request is called %s", of.Request)
	if of.Count == 0 {
		of.Count = -1
	}
	fault := kfake.Fault{Keys: []kmsg.Key{key}, Topic: of.Topic, Group: of.Group, Err: code, Count: of.Count}
	fault.TopLevel = key != kmsg.Produce && key != kmsg.Fetch && key != kmsg.Metadata && of.Topic == "" && of.Group == ""
	return &Faulty{f.cluster.Fault(fault)}
}

// Hits returns how many requests were answered so.
func (f *Faulty) Hits() int { return f.handle.Hits() }

// Remove ends it.
func (f *Faulty) Remove() { f.handle.Remove() }

var keys = map[string]kmsg.Key{
	"Produce": kmsg.Produce, "Fetch": kmsg.Fetch, "ListOffsets": kmsg.ListOffsets, "Metadata": kmsg.Metadata,
	"Heartbeat": kmsg.Heartbeat, "JoinGroup": kmsg.JoinGroup, "SyncGroup": kmsg.SyncGroup, "OffsetCommit": kmsg.OffsetCommit,
	"OffsetFetch": kmsg.OffsetFetch, "FindCoordinator": kmsg.FindCoordinator, "InitProducerID": kmsg.InitProducerID,
}

var codes = map[string]*kerr.Error{
	kerr.RequestTimedOut.Message: kerr.RequestTimedOut, kerr.NotEnoughReplicasAfterAppend.Message: kerr.NotEnoughReplicasAfterAppend,
	kerr.NotEnoughReplicas.Message: kerr.NotEnoughReplicas, kerr.OutOfOrderSequenceNumber.Message: kerr.OutOfOrderSequenceNumber,
	kerr.UnknownProducerID.Message: kerr.UnknownProducerID, kerr.InvalidProducerEpoch.Message: kerr.InvalidProducerEpoch,
	kerr.OffsetOutOfRange.Message: kerr.OffsetOutOfRange, kerr.RebalanceInProgress.Message: kerr.RebalanceInProgress,
	kerr.NotCoordinator.Message: kerr.NotCoordinator, kerr.CoordinatorNotAvailable.Message: kerr.CoordinatorNotAvailable,
	kerr.NotLeaderForPartition.Message: kerr.NotLeaderForPartition, kerr.LeaderNotAvailable.Message: kerr.LeaderNotAvailable,
	kerr.UnknownServerError.Message: kerr.UnknownServerError, kerr.FencedLeaderEpoch.Message: kerr.FencedLeaderEpoch,
	kerr.UnknownMemberID.Message: kerr.UnknownMemberID, kerr.IllegalGeneration.Message: kerr.IllegalGeneration,
	kerr.UnknownTopicID.Message: kerr.UnknownTopicID, kerr.KafkaStorageError.Message: kerr.KafkaStorageError, kerr.CorruptMessage.Message: kerr.CorruptMessage,
}
