package kafka

import (
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

// OpenBare opens a client with our settings, for what the package does not do itself.
func OpenBare(c *Cluster, opts ...kgo.Opt) (*kgo.Client, error) { return c.open(opts...) }

// AlterTopic does what an operator might.
func AlterTopic(t *testing.T, c *Cluster, topic, setting, value string) {
	t.Helper()
	resp, err := c.admin.AlterTopicConfigs(t.Context(), []kadm.AlterConfig{{Name: setting, Value: &value}}, topic)
	require.NoError(t, err)
	for _, r := range resp {
		require.NoError(t, r.Err)
	}
}

// DeleteTopic does what nobody should.
func DeleteTopic(t *testing.T, c *Cluster, topic string) {
	t.Helper()
	_, err := c.admin.DeleteTopic(t.Context(), topic)
	require.NoError(t, err)
}

// CompactNow does what the broker does every ten minutes.
func CompactNow(b *Broker) { b.cluster.Compact() }
