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

// Placement is where the copies of a partition are.
type Placement struct {
	Leader   int32
	Replicas int
}

// Placements returns the placement of each partition of a topic, by its number.
func Placements(t *testing.T, c *Cluster, topic string) []Placement {
	t.Helper()
	there, err := c.describe(t.Context(), topic)
	require.NoError(t, err)
	require.NoError(t, there[topic].Err)
	var out []Placement
	for _, p := range there[topic].Partitions.Sorted() {
		out = append(out, Placement{Leader: p.Leader, Replicas: len(p.Replicas)})
	}
	return out
}

// Settings returns the settings of a topic.
func Settings(t *testing.T, c *Cluster, topic string) map[string]string {
	t.Helper()
	configs, err := c.admin.DescribeTopicConfigs(t.Context(), topic)
	require.NoError(t, err)
	rc, err := configs.On(topic, nil)
	require.NoError(t, err)
	require.NoError(t, rc.Err)
	out := make(map[string]string)
	for _, s := range rc.Configs {
		out[s.Key] = s.MaybeValue()
	}
	return out
}

// CreateTopic makes a topic as somebody else might, with one copy and the broker's own settings.
func CreateTopic(t *testing.T, c *Cluster, topic string, partitions int32) {
	t.Helper()
	_, err := c.admin.CreateTopic(t.Context(), partitions, 1, nil, topic)
	require.NoError(t, err)
}

// SyncBy replaces what a broker with Fsync calls to have the disk hold what was written, before it has any clients. From
// then on it writes no marks by itself.
func SyncBy(b *Broker, sync func() error) {
	b.endMarks()
	b.commits.sync = sync
}

// MarkNow has it write them.
func MarkNow(b *Broker) error { return b.mark(nil) }

// MarksFile is where it writes them.
const MarksFile = marksFile

// DataDir is where the broker keeps its logs.
func DataDir(b *Broker) string { return b.cfg.Dir }

// Stored is where the log of a partition ends in the broker's own eyes, which wait for no disk.
func Stored(b *Broker, topic string, partition int32) int64 {
	return b.cluster.PartitionInfo(topic, partition).HighWatermark
}

// Redirect has the reader ask another cluster for what it asks beside its fetches.
func Redirect(r *Reader, c *Cluster) { r.cluster = c }
