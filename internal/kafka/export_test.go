package kafka

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// Placement is where the replicas of a partition are.
type Placement struct {
	Leader   int32
	Replicas int
}

// Placements returns the placement of each partition of a topic, by its number.
func Placements(t *testing.T, c *Cluster, topic string) []Placement {
	t.Helper()
	there, err := c.Describe(t.Context(), topic)
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

// CreateTopic creates a topic as another program might, with one replica and the broker's default settings.
func CreateTopic(t *testing.T, c *Cluster, topic string, partitions int32) {
	t.Helper()
	_, err := c.admin.CreateTopic(t.Context(), partitions, 1, nil, topic)
	require.NoError(t, err)
}

// Redirect makes the reader send everything but its fetches to another cluster.
func Redirect(r *Reader, c *Cluster) { r.cluster = c }

// InFlight returns how many records wait for their answer.
func (p *OwnerProducer) InFlight() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.inFlight
}
