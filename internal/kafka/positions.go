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

// Bookmarks are the stored positions of a group without members.
type Bookmarks struct {
	cluster *Cluster
	group   string
}

// NewBookmarks returns the bookmarks of a group.
func NewBookmarks(c *Cluster, group string) *Bookmarks { return &Bookmarks{c, group} }

// Commit stores positions. The brokers refuse it while the group has members.
func (b *Bookmarks) Commit(ctx context.Context, of Positions) error {
	topics, err := topicIDs(ctx, b.cluster.client, b.group, withPartitions(of))
	if err != nil || len(topics) == 0 {
		return err
	}
	req := kmsg.NewPtrOffsetCommitRequest()
	req.Group, req.Generation = b.group, -1
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
	resp, err := req.RequestWith(ctx, b.cluster.client)
	if err = commitError(resp, err); err != nil {
		return fmt.Errorf("commit positions of group %s: %w", b.group, denied(b.cluster, fromClient(err), opRead, "", b.group))
	}
	return nil
}

// Committed returns all positions that are stored.
func (b *Bookmarks) Committed(ctx context.Context) (Positions, error) {
	resp, err := committed(ctx, b.cluster, b.group)
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
