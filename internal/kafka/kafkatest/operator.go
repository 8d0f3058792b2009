package kafkatest

import (
	"context"
	"testing"

	"github.com/sagalog/sagalog/internal/kafka"
	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kadm"
)

// AlterTopic changes a setting of a topic, as an operator might by mistake.
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

// DeleteTopic deletes a topic.
func DeleteTopic(t testing.TB, b Reachable, topic string) {
	t.Helper()
	operate(t, b, func(ctx context.Context, admin *kadm.Client) {
		_, err := admin.DeleteTopic(ctx, topic)
		require.NoError(t, err)
	})
}

func operate(t testing.TB, b Reachable, act func(context.Context, *kadm.Client)) {
	t.Helper()
	client := Client(t, b)
	defer client.Close()
	act(t.Context(), kadm.NewClient(client))
}

// Reachable is a broker, or a cluster of them.
type Reachable interface{ ClusterConfig() kafka.ClusterConfig }

// DeleteGroup deletes a group without members, with its offsets and its generation.
func DeleteGroup(t testing.TB, b Reachable, group string) {
	t.Helper()
	operate(t, b, func(ctx context.Context, admin *kadm.Client) {
		answer, err := admin.DeleteGroup(ctx, group)
		require.NoError(t, err)
		require.NoError(t, answer.Err)
	})
}

// Groups returns the names of all groups.
func Groups(t testing.TB, b Reachable) (names []string) {
	t.Helper()
	operate(t, b, func(ctx context.Context, admin *kadm.Client) {
		all, err := admin.ListGroups(ctx)
		require.NoError(t, err)
		names = all.Groups()
	})
	return names
}

// DeleteRecords deletes the records of a partition before an offset.
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

// AddPartitions adds partitions to a topic.
func AddPartitions(t testing.TB, b Reachable, topic string, more int) {
	t.Helper()
	operate(t, b, func(ctx context.Context, admin *kadm.Client) {
		_, err := admin.CreatePartitions(ctx, more, topic)
		require.NoError(t, err)
	})
}
