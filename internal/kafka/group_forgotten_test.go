package kafka_test

import (
	"testing"

	"github.com/sagalog/sagalog/events"
	"github.com/sagalog/sagalog/internal/kafka"
	"github.com/sagalog/sagalog/internal/kafka/embedded"
	"github.com/sagalog/sagalog/internal/kafka/kafkatest"
	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// The group forgets a member that has just learned of a rebalance. The member joins under a new name and gets the same
// partitions, so the client reports no loss. But another member may have had the partitions in between, and its commits
// must be kept.
func TestAMemberForgottenWhileJoiningStartsFromTheMarks(t *testing.T) {
	t.Parallel()
	network := new(embedded.VirtualNetwork)
	broker, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.ListenFn(network.Listen), kfake.SeedTopics(1, "work"))
	require.NoError(t, err)
	t.Cleanup(broker.Close)
	c, err := kafka.Connect(kafka.ClusterConfig{Brokers: broker.ListenAddrs(), Dialer: network.DialContext})
	require.NoError(t, err)
	t.Cleanup(c.Close)
	producer, err := kafka.NewProducer(c)
	require.NoError(t, err)
	defer producer.Close()
	_, err = producer.ProduceSync(kafkatest.Within(t), events.Record{Topic: "work", Value: []byte("a")},
		events.Record{Topic: "work", Value: []byte("b")}, events.Record{Topic: "work", Value: []byte("c")})
	require.NoError(t, err)
	revoked := make(chan kafka.Partitions, 1)
	g, err := kafka.NewGroup(c, kafka.GroupConfig{
		Group: "crew", Topics: []string{"work"}, InstanceID: "one", OnRevoked: func(p kafka.Partitions) {
			select {
			case revoked <- p:
			default:
			}
		},
	})
	require.NoError(t, err)
	defer g.Close()
	require.Len(t, take(t, g, 3), 3)
	before := g.Mark("work", 0)

	joins := make(chan string, 8)
	broker.ControlKey(int16(kmsg.Heartbeat), func(req kmsg.Request) (kmsg.Response, error, bool) {
		broker.KeepControl()
		if len(joins) > 0 {
			return nil, nil, false
		}
		resp := req.ResponseKind().(*kmsg.HeartbeatResponse)
		resp.ErrorCode = kerr.RebalanceInProgress.Code
		return resp, nil, true
	})
	broker.ControlKey(int16(kmsg.JoinGroup), func(req kmsg.Request) (kmsg.Response, error, bool) {
		broker.KeepControl()
		joins <- req.(*kmsg.JoinGroupRequest).MemberID
		return nil, nil, false
	})
	confirmed, committed := make(chan kafka.Assignments, 1), make(chan kafka.Marks, 1)
	all := before
	all.Next = 3
	broker.ControlKey(int16(kmsg.SyncGroup), func(kmsg.Request) (kmsg.Response, error, bool) {
		go func() { // the client delays it until it has joined
			stored, _ := g.CommitMarks(kafkatest.Within(t), kafka.Marks{"work": {0: all}})
			committed <- stored
		}()
		broker.SleepControl(func() { // it is a new member now, and does not know its partitions yet
			held, _ := g.Confirm(kafkatest.Within(t))
			confirmed <- held
		})
		return nil, nil, false
	})
	require.NoError(t, c.RemoveMember(kafkatest.Within(t), "crew", "one"))
	require.Empty(t, await(t, confirmed), "its old partitions do not count as its new ones")
	require.Empty(t, await(t, committed))
	require.Equal(t, []string{"a", "b", "c"}, kafkatest.Values(take(t, g, 3)), "none of them was committed")
	require.NotEmpty(t, await(t, joins), "it joined under its old name, which the group did not know")
	require.Empty(t, await(t, joins), "then it joined under a new name")
	after := g.Mark("work", 0)
	require.NotEqual(t, before.Assignment, after.Assignment)
	require.EqualValues(t, 3, g.Shared("work", 0))
	require.Empty(t, revoked, "the client reported no loss")
	after.Next = 1
	stored, err := g.CommitMarks(kafkatest.Within(t), kafka.Marks{"work": {0: after}})
	require.NoError(t, err)
	require.Equal(t, kafka.Marks{"work": {0: after}}, stored)
	held, err := g.Confirm(kafkatest.Within(t))
	require.NoError(t, err)
	require.Equal(t, after.Assignment, held["work"][0])
}
