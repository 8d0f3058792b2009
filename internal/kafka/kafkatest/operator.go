package kafkatest

import (
	"context"
	"testing"

	"github.com/sagalog/sagalog/internal/kafka"
	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

// AlterTopic sets a topic's setting, and DeleteTopic deletes it: what an operator might do, and should not.
func AlterTopic(t testing.TB, b Reachable, topic, setting, value string) {
	t.Helper()
	operate(t, b, func(ctx context.Context, admin *kadm.Client) {
		resp, err := admin.AlterTopicConfigs(ctx, []kadm.AlterConfig{{Name: setting, Value: &value}}, topic)
		require.NoError(t, err)
		for _, r := range resp {
			require.NoError(t, r.Err)
		}
	})
}

// DeleteTopic deletes a topic with all that it holds.
func DeleteTopic(t testing.TB, b Reachable, topic string) {
	t.Helper()
	operate(t, b, func(ctx context.Context, admin *kadm.Client) {
		_, err := admin.DeleteTopic(ctx, topic)
		require.NoError(t, err)
	})
}

func operate(t testing.TB, b Reachable, act func(context.Context, *kadm.Client)) {
	t.Helper()
	cfg := b.ClusterConfig()
	opts := []kgo.Opt{kgo.SeedBrokers(cfg.Brokers...)}
	if cfg.Dialer != nil {
		opts = append(opts, kgo.Dialer(cfg.Dialer))
	}
	client, err := kgo.NewClient(opts...)
	require.NoError(t, err)
	defer client.Close()
	act(t.Context(), kadm.NewClient(client))
}

// Reachable is a broker, or a cluster of them.
type Reachable interface{ ClusterConfig() kafka.ClusterConfig }

// DeleteGroup deletes a group without members, with its marks and its generation.
func DeleteGroup(t testing.TB, b Reachable, group string) {
	t.Helper()
	operate(t, b, func(ctx context.Context, admin *kadm.Client) {
		answer, err := admin.DeleteGroup(ctx, group)
		require.NoError(t, err)
		require.NoError(t, answer.Err)
	})
}

// Groups returns the groups that there are.
func Groups(t testing.TB, b Reachable) (names []string) {
	t.Helper()
	operate(t, b, func(ctx context.Context, admin *kadm.Client) {
		all, err := admin.ListGroups(ctx)
		require.NoError(t, err)
		names = all.Groups()
	})
	return names
}

// DeleteRecords deletes what lies before an offset of a partition.
func DeleteRecords(t testing.TB, b Reachable, topic string, partition int32, before int64) {
	t.Helper()
	operate(t, b, func(ctx context.Context, admin *kadm.Client) {
		var at kadm.Offsets
		at.AddOffset(topic, partition, before, -1)
		answers, err := admin.DeleteRecords(ctx, at)
		require.NoError(t, err)
		require.NoError(t, answers.Error())
	})
}

// AddPartitions gives a topic so many partitions more.
func AddPartitions(t testing.TB, b Reachable, topic string, more int) {
	t.Helper()
	operate(t, b, func(ctx context.Context, admin *kadm.Client) {
		_, err := admin.CreatePartitions(ctx, more, topic)
		require.NoError(t, err)
	})
}
