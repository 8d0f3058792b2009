package kafka

import (
	"context"
	"errors"
	"fmt"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// Stored is a position that a reader stores under the name of a group that has no members.
type Stored struct {
	// Next is the offset to start from next time.
	Next int64
	// Metadata is stored with the offset. By default brokers refuse more than 4096 bytes.
	Metadata string
}

// Positions holds a stored position for each partition.
type Positions map[string]map[int32]Stored

// CommitPositions stores positions for a group without members. The brokers refuse it while the group has some.
func (c *Cluster) CommitPositions(ctx context.Context, group string, of Positions) error {
	topics, err := topicIDs(ctx, c.client, group, withPartitions(of))
	if err != nil || len(topics) == 0 {
		return err
	}
	req := kmsg.NewPtrOffsetCommitRequest()
	req.Group, req.Generation = group, -1
	for topic, id := range topics {
		t := kmsg.NewOffsetCommitRequestTopic()
		t.Topic, t.TopicID = topic, id
		for p, s := range of[topic] {
			at := kmsg.NewOffsetCommitRequestTopicPartition()
			at.Partition, at.Offset, at.LeaderEpoch, at.Metadata = p, s.Next, -1, &s.Metadata
			t.Partitions = append(t.Partitions, at)
		}
		req.Topics = append(req.Topics, t)
	}
	resp, err := req.RequestWith(ctx, c.client)
	if err = commitError(resp, err); err != nil {
		return fmt.Errorf("commit positions of group %s: %w", group, fromClient(err))
	}
	return nil
}

// CommittedPositions returns the positions that are stored for a group.
func (c *Cluster) CommittedPositions(ctx context.Context, group string) (Positions, error) {
	resp, err := c.committed(ctx, group)
	if errors.Is(err, kerr.GroupIDNotFound) { // some brokers say this if nothing was stored yet, others return nothing
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	out := make(Positions)
	resp.Each(func(o kadm.OffsetResponse) {
		set(out, place{o.Topic, o.Partition}, Stored{Next: o.At, Metadata: o.Metadata})
	})
	return out, nil
}
