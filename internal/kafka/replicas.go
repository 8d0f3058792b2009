package kafka

import (
	"context"
	"fmt"
)

// Replicas returns how many copies of a topic's records the brokers keep: those of the partition that has the fewest.
func (c *Cluster) Replicas(ctx context.Context, topic string) (int, error) {
	there, err := c.describe(ctx, topic)
	if err != nil {
		return 0, fmt.Errorf("look up topic %s: %w", topic, err)
	}
	if err := there[topic].Err; err != nil {
		return 0, fmt.Errorf("look up topic %s: %w", topic, fromClient(err))
	}
	return leastReplicas(there[topic]), nil
}
