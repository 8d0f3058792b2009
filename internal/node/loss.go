package node

import (
	"context"
	"fmt"
	"strings"

	"github.com/sagalog/sagalog/events"
)

// LossOf says what a partition of an input topic, which holds the offsets from start to before end, has lost of the records
// from the resume point of its log on; "" if it lost none of them.
func LossOf(topic string, partition int32, passed events.Passed, start, end int64) string {
	place := fmt.Sprintf("%s partition %d", topic, partition)
	switch {
	case end < passed.Next:
		return fmt.Sprintf("%s ends at offset %d, and the log has judged everything below offset %d: the topic lost its end or was recreated, "+
			"and new records would get offsets that count as judged", place, end, passed.Next)
	case start > passed.Next:
		return fmt.Sprintf("%s begins at offset %d, and the log has judged everything below offset %d: the offsets %d to %d were deleted before they were judged",
			place, start, passed.Next, passed.Next, start-1)
	case start == passed.Next && passed.Hash != "":
		return fmt.Sprintf("%s begins at offset %d, up to which the log has judged everything: no record is missing, but the one before it, "+
			"by which the topic is known to be the same, was deleted", place, start)
	}
	return ""
}

// explained adds to the error of a partition that stopped what its inputs have lost.
func (s *stateStore) explained(ctx context.Context, partition int32, cause error) error {
	ctx, cancel := context.WithTimeout(ctx, anchorWait)
	defer cancel()
	info, err := s.PartitionInfo(partition)
	if err != nil {
		return cause
	}
	var found []string
	for _, in := range events.Inputs {
		topic := s.ns.topics.Input(in)
		starts, err := s.ns.cluster.StartOffsets(ctx, s.ns.all(topic))
		if err != nil {
			return cause
		}
		ends, err := s.ns.cluster.HighWatermarks(ctx, s.ns.all(topic))
		if err != nil {
			return cause
		}
		if lost := LossOf(topic, partition, info.Inputs[in], starts[topic][partition], ends[topic][partition]); lost != "" {
			found = append(found, lost)
		}
	}
	if len(found) == 0 {
		return cause // another record is at that offset
	}
	return fmt.Errorf("%w: %s", cause, strings.Join(found, "; "))
}
