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
func AlterTopic(t testing.TB, b *kafka.Broker, topic, setting, value string) {
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
func DeleteTopic(t testing.TB, b *kafka.Broker, topic string) {
	t.Helper()
	operate(t, b, func(ctx context.Context, admin *kadm.Client) {
		_, err := admin.DeleteTopic(ctx, topic)
		require.NoError(t, err)
	})
}

func operate(t testing.TB, b *kafka.Broker, act func(context.Context, *kadm.Client)) {
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
