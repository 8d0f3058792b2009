package kafkatest

import (
	"context"
	"math"
	"net"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/sagalog/sagalog/internal/kafka"
	"github.com/sagalog/sagalog/internal/kafka/embedded"
	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// Fake is a cluster of several brokers in memory whose faults a test controls. It is kfake without the guards of the embedded broker.
type Fake struct {
	t       testing.TB
	cluster *kfake.Cluster
	network *embedded.VirtualNetwork
	once    sync.Once
	unwatch func()
	// Brokers are the numbers of the brokers.
	Brokers []int32
}

// firstPort is the port of broker 0; the others follow.
const firstPort = 9092

// StartFake starts brokers on a virtual network, until the test ends.
func StartFake(t testing.TB, network *embedded.VirtualNetwork, brokers int) *Fake {
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
	f.unwatch, err = embedded.KeepSessions(f.cluster, f.ClusterConfig())
	require.NoError(t, err)
	t.Cleanup(func() { _ = f.Close() })
	return f
}

// nothingLost answers requests for the end of a leader epoch. kfake loses nothing when a leader moves. But for the last leader that wrote,
// kfake answers that the epoch is unknown, whereas Apache Kafka returns the end of the log. A client would treat kfake's answer as a loss of
// all records.
func (f *Fake) nothingLost(req kmsg.Request) (kmsg.Response, error, bool) {
	f.cluster.KeepControl()
	asked := req.(*kmsg.OffsetForLeaderEpochRequest)
	resp := asked.ResponseKind().(*kmsg.OffsetForLeaderEpochResponse)
	for _, t := range asked.Topics {
		of := kmsg.NewOffsetForLeaderEpochResponseTopic()
		of.Topic = t.Topic
		for _, p := range t.Partitions {
			end := kmsg.NewOffsetForLeaderEpochResponseTopicPartition()
			// Clients compare the end with their position: any end at or after the position means that nothing is lost.
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

// CutOff returns a config for which one broker neither accepts nor refuses connections until heal is called. The other brokers have
// already taken over as leaders of its partitions of the topics.
func (f *Fake) CutOff(broker int32, topics ...string) (cfg kafka.ClusterConfig, heal func()) {
	f.t.Helper()
	for _, topic := range topics {
		for _, p := range f.cluster.PartitionInfos(topic) {
			if p.Leader == broker {
				f.Move(topic, p.Partition, (broker+1)%int32(len(f.Brokers)))
			}
		}
	}
	cfg = f.ClusterConfig()
	gone := cfg.Brokers[broker]
	cfg.Embedded = false // it has several brokers
	var healed atomic.Bool
	cfg.Dialer = func(ctx context.Context, network, addr string) (net.Conn, error) {
		if addr != gone || healed.Load() {
			return f.network.DialContext(ctx, network, addr)
		}
		<-ctx.Done()
		return nil, &net.OpError{Op: "dial", Net: network, Err: ctx.Err()}
	}
	return cfg, func() { healed.Store(true) }
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

// Shuffle gives every partition a random leader, under the next leader epoch.
func (f *Fake) Shuffle() { f.cluster.ShufflePartitionLeaders() }

// MoveCoordinators moves the coordinators of all groups, so that every client has to find them again.
func (f *Fake) MoveCoordinators() { f.cluster.RehashCoordinators() }

// Compact compacts the compacted topics, and ApplyRetention deletes records that are too old for their topic.
func (f *Fake) Compact()        { f.cluster.Compact() }
func (f *Fake) ApplyRetention() { f.cluster.ApplyRetention() }

// Fault says which requests fail, and how.
type Fault struct {
	// Request is Kafka's name of the request, such as Produce or Heartbeat.
	Request string
	// Topic and Group must be named in the request. Empty means any.
	Topic, Group string
	// Code is Kafka's name of the error, such as REQUEST_TIMED_OUT.
	Code string
	// Count is how many requests fail; 0 means all until Remove.
	Count int
}

// Faulty is an active fault.
type Faulty struct{ handle *kfake.FaultHandle }

// Fault makes the brokers answer requests with an error and do nothing. Only with REQUEST_TIMED_OUT and NOT_ENOUGH_REPLICAS_AFTER_APPEND do
// they carry the request out.
func (f *Fake) Fault(of Fault) *Faulty {
	f.t.Helper()
	code := errorNamed(of.Code)
	require.NotNil(f.t, code, "no error is called %s", of.Code)
	key, ok := keyNamed(of.Request)
	require.True(f.t, ok, "no request is called %s", of.Request)
	if of.Count == 0 {
		of.Count = -1
	}
	fault := kfake.Fault{Keys: []kmsg.Key{key}, Topic: of.Topic, Group: of.Group, Err: code, Count: of.Count}
	fault.TopLevel = key != kmsg.Produce && key != kmsg.Fetch && key != kmsg.Metadata && of.Topic == "" && of.Group == ""
	return &Faulty{f.cluster.Fault(fault)}
}

// Hits returns how many requests have failed because of the fault.
func (f *Faulty) Hits() int { return f.handle.Hits() }

// Remove ends the fault.
func (f *Faulty) Remove() { f.handle.Remove() }

// errorNamed returns the error with Kafka's name, or nil.
func errorNamed(name string) *kerr.Error {
	for code := range int16(lastCode) {
		if e := kerr.TypedErrorForCode(code); e != nil && e.Message == name {
			return e
		}
	}
	return nil
}

// lastCode is above the codes of all errors.
const lastCode = 200

// keyNamed returns the key of the request with Kafka's name.
func keyNamed(name string) (kmsg.Key, bool) {
	for key := range kmsg.Key(kmsg.MaxKey + 1) {
		if key.Name() == name {
			return key, true
		}
	}
	return 0, false
}

// Addr returns the address of a broker, and Coordinator who coordinates a group.
func (f *Fake) Addr(broker int32) string       { return f.cluster.ListenAddrs()[broker] }
func (f *Fake) Coordinator(group string) int32 { return f.cluster.CoordinatorFor(group) }
