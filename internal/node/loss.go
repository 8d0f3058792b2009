package node

import (
	"context"
	"fmt"
	"strings"

	"github.com/sagalog/sagalog/events"
	"github.com/sagalog/sagalog/internal/api"
	"github.com/sagalog/sagalog/internal/kafka"
)

// LossOf says what a partition of an input, which holds the offsets from start to before end, has lost of the records from the resume
// point of its log on; nil if it lost none of them.
func LossOf(topics kafka.Topics, in events.Input, partition int32, passed events.Passed, start, end int64) *api.Loss {
	place := fmt.Sprintf("%s partition %d", topics.Input(in), partition)
	loss := &api.Loss{Input: in, Partition: partition, From: passed.Next, To: start, Acceptable: true}
	switch {
	case end < passed.Next:
		loss.Acceptable = false
		loss.What = fmt.Sprintf("%s ends at offset %d, and the log has judged everything below offset %d: the topic lost its end or was recreated, "+
			"and new records would get offsets that count as judged", place, end, passed.Next)
	case start > passed.Next:
		loss.What = fmt.Sprintf("%s begins at offset %d, and the log has judged everything below offset %d: the offsets %d to %d were deleted before they were judged",
			place, start, passed.Next, passed.Next, start-1)
	case start == passed.Next && passed.Hash != "":
		loss.What = fmt.Sprintf("%s begins at offset %d, up to which the log has judged everything: no record is missing, but the one before it, "+
			"by which the topic is known to be the same, was deleted", place, start)
	default:
		return nil
	}
	return loss
}

// lost says what the inputs of the partitions have lost, as of now.
func (s *stateStore) lost(ctx context.Context, partitions ...int32) (list []*api.Loss, err error) {
	for _, in := range events.Inputs {
		topic := s.ns.topics.Input(in)
		of := kafka.Partitions{topic: partitions}
		starts, err := s.ns.cluster.StartOffsets(ctx, of)
		if err != nil {
			return nil, err
		}
		ends, err := s.ns.cluster.HighWatermarks(ctx, of)
		if err != nil {
			return nil, err
		}
		for _, p := range partitions {
			info, err := s.PartitionInfo(p)
			if err != nil {
				return nil, err
			}
			if info.Next == 0 {
				continue // this node has not folded the partition
			}
			if loss := LossOf(s.ns.topics, in, p, info.Inputs[in], starts[topic][p], ends[topic][p]); loss != nil {
				list = append(list, loss)
			}
		}
	}
	return list, nil
}

// explained adds to the error of a partition that stopped what its inputs have lost, and what can be done.
func (s *stateStore) explained(ctx context.Context, partition int32, cause error) error {
	ctx, cancel := context.WithTimeout(ctx, anchorWait)
	defer cancel()
	lost, err := s.lost(ctx, partition)
	if err != nil || len(lost) == 0 {
		return cause // or another record is at that offset
	}
	var found []string
	for _, l := range lost {
		found = append(found, l.What+"; "+l.Remedy())
	}
	return fmt.Errorf("%w: %s", cause, strings.Join(found, "; "))
}
