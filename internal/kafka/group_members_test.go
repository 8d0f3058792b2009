package kafka_test

import (
	"testing"

	"github.com/sagalog/sagalog/internal/kafka"
	"github.com/sagalog/sagalog/internal/kafka/embedded"
	"github.com/sagalog/sagalog/internal/kafka/kafkatest"
	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"
)

var (
	mayGroup = kfake.ACL{Resource: kmsg.ACLResourceTypeGroup, Name: "crew", Operation: kmsg.ACLOperationRead}
	maySee   = kfake.ACL{Resource: kmsg.ACLResourceTypeTopic, Name: "work", Operation: kmsg.ACLOperationRead}
)

// guarded returns a broker whose only user has the given permissions.
func guarded(t *testing.T, allowed ...kfake.ACL) *kafka.Cluster {
	t.Helper()
	for i := range allowed {
		allowed[i].Pattern, allowed[i].Allow = kmsg.ACLResourcePatternTypeLiteral, true
	}
	network := new(embedded.VirtualNetwork)
	broker, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.EnableSASL(), kfake.EnableACLs(),
		kfake.User("PLAIN", "user", "u", allowed...), kfake.ListenFn(network.Listen), kfake.SeedTopics(2, "work"))
	require.NoError(t, err)
	t.Cleanup(broker.Close)
	c, err := kafka.Connect(kafka.ClusterConfig{
		Brokers: broker.ListenAddrs(), Dialer: network.DialContext,
		SASL: &kafka.SASL{Mechanism: "PLAIN", User: "user", Password: "u"},
	})
	require.NoError(t, err)
	t.Cleanup(c.Close)
	return c
}

func TestAMemberWithoutPermissionGetsAnError(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]*kafka.Cluster{
		"the group is not allowed": guarded(t, maySee),
		"the topic is not allowed": guarded(t, mayGroup),
	} {
		for _, only := range []bool{true, false} {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				g, err := kafka.NewGroup(c, kafka.GroupConfig{Group: "crew", Topics: []string{"work"}, MembershipOnly: only})
				require.NoError(t, err)
				defer g.Close()
				if !only {
					_, err = g.Poll(kafkatest.Within(t), 1)
					require.ErrorIs(t, err, kafka.ErrDenied)
				}
				require.ErrorIs(t, g.Watch(kafkatest.Within(t)), kafka.ErrDenied)
			})
		}
	}
	t.Run("with both permissions", func(t *testing.T) {
		t.Parallel()
		assigned := make(chan kafka.Partitions, 1)
		g, err := kafka.NewGroup(guarded(t, maySee, mayGroup), kafka.GroupConfig{
			Group: "crew", Topics: []string{"work"}, OnAssigned: func(p kafka.Partitions) { assigned <- p },
		})
		require.NoError(t, err)
		defer g.Close()
		require.Equal(t, kafka.Partitions{"work": {0, 1}}, await(t, assigned))
	})
}
