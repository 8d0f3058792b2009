package kafka

import (
	"context"
	"errors"
	"fmt"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// The special timestamps of ListOffsets, and the isolation levels.
const (
	askEnd   int64 = -1
	askStart int64 = -2

	readUncommitted int8 = 0
	readCommitted   int8 = 1
)

// Partitions names partitions by topic.
type Partitions map[string][]int32

// Offsets holds an offset for each partition.
type Offsets map[string]map[int32]int64

// EndOffsets returns the last stable offset of each partition: everything below it is committed or aborted for good. The brokers are asked
// after the call began, with one request to each leader. If some partitions have no answer, it returns the others and an error.
func (c *Cluster) EndOffsets(ctx context.Context, of Partitions) (Offsets, error) {
	return c.listOffsets(ctx, of, askEnd, readCommitted)
}

// HighWatermarks returns the end of each partition, including the records of open transactions.
func (c *Cluster) HighWatermarks(ctx context.Context, of Partitions) (Offsets, error) {
	return c.listOffsets(ctx, of, askEnd, readUncommitted)
}

// StartOffsets returns the first offset of each partition that is not deleted.
func (c *Cluster) StartOffsets(ctx context.Context, of Partitions) (Offsets, error) {
	return c.listOffsets(ctx, of, askStart, readUncommitted)
}

// EndOffset is EndOffsets for one partition.
func (c *Cluster) EndOffset(ctx context.Context, topic string, partition int32) (int64, error) {
	o, err := c.EndOffsets(ctx, Partitions{topic: {partition}})
	return o[topic][partition], err
}

// StartOffset is StartOffsets for one partition.
func (c *Cluster) StartOffset(ctx context.Context, topic string, partition int32) (int64, error) {
	o, err := c.StartOffsets(ctx, Partitions{topic: {partition}})
	return o[topic][partition], err
}

func (c *Cluster) listOffsets(ctx context.Context, of Partitions, ask int64, isolation int8) (Offsets, error) {
	req := kmsg.NewPtrListOffsetsRequest()
	req.ReplicaID, req.IsolationLevel = -1, isolation
	for topic, partitions := range of {
		t := kmsg.NewListOffsetsRequestTopic()
		t.Topic = topic
		for _, p := range partitions {
			rp := kmsg.NewListOffsetsRequestTopicPartition()
			rp.Partition, rp.Timestamp = p, ask
			t.Partitions = append(t.Partitions, rp)
		}
		if len(t.Partitions) > 0 {
			req.Topics = append(req.Topics, t)
		}
	}
	out := make(Offsets, len(of))
	if len(req.Topics) == 0 {
		return out, nil
	}
	if err := retry(ctx, func() error { return c.askOffsets(ctx, req, out) }); err != nil {
		return out, err
	}
	for topic, partitions := range of {
		for _, p := range partitions {
			if _, ok := out[topic][p]; !ok {
				return out, fmt.Errorf("list offsets of %s/%d: no answer", topic, p)
			}
		}
	}
	return out, nil
}

// askOffsets lets the client split the request by leader, and repeat it if a leader has moved.
func (c *Cluster) askOffsets(ctx context.Context, req *kmsg.ListOffsetsRequest, out Offsets) error {
	var errs []error
	for _, shard := range c.client.RequestSharded(ctx, req) {
		if shard.Err != nil {
			errs = append(errs, fmt.Errorf("list offsets: %w", denied(c, fromClient(shard.Err), opDescribe, req.Topics[0].Topic, "")))
			continue
		}
		errs = append(errs, out.add(c, shard.Resp.(*kmsg.ListOffsetsResponse)))
	}
	return errors.Join(errs...)
}

func (o Offsets) add(c *Cluster, resp *kmsg.ListOffsetsResponse) error {
	var errs []error
	for _, t := range resp.Topics {
		for _, p := range t.Partitions {
			if err := kerr.ErrorForCode(p.ErrorCode); err != nil {
				errs = append(errs, fmt.Errorf("list offsets of %s/%d: %w", t.Topic, p.Partition, denied(c, fromClient(err), opDescribe, t.Topic, "")))
				continue
			}
			set(o, place{t.Topic, p.Partition}, p.Offset)
		}
	}
	return errors.Join(errs...)
}
