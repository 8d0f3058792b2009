package node

import (
	"context"
	"fmt"
	"strings"

	"github.com/sagalog/sagalog/events"
	"github.com/sagalog/sagalog/internal/api"
	"github.com/sagalog/sagalog/internal/kafka"
)

// LossOf says which records from the resume point on an input's partition has lost; nil if it lost none. The partition holds the
// offsets from start to before end.
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

// lost returns the present losses of the partitions' inputs.
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
			loss := LossOf(s.ns.topics, in, p, info.Inputs[in], starts[topic][p], ends[topic][p])
			if loss == nil {
				continue
			}
			passed, err := s.passed(ctx, p) // the store may be behind the log
			if err != nil {
				return nil, err
			}
			if loss = LossOf(s.ns.topics, in, p, passed[in], starts[topic][p], ends[topic][p]); loss != nil {
				list = append(list, loss)
			}
		}
	}
	return list, nil
}

// maxBehind bounds how many records the method passed folds in memory.
const maxBehind = 20_000

// passed returns the resume points of a partition at the end of its log. It folds the records that the store lacks, and stores
// nothing.
func (s *stateStore) passed(ctx context.Context, partition int32) (map[events.Input]events.Passed, error) {
	topic := s.ns.topics.Events()
	end, err := s.ns.cluster.EndOffset(ctx, topic, partition)
	if err != nil {
		return nil, err
	}
	var inputs map[events.Input]events.Passed
	err = s.Partition(partition).Frozen(func(snap events.Snapshot, load events.Loader) error { // its owner may commit meanwhile
		if end-snap.Next > maxBehind {
			return fmt.Errorf("%w: partition %d is %d records behind its log on this node", api.ErrNoAnswer, partition, end-snap.Next)
		}
		state, err := events.OpenStateAt(s.ns.maxLevel, partition, snap, load)
		if err != nil {
			return err
		}
		if snap.Next < end {
			err = s.ns.cluster.ReadRange(ctx, topic, partition, snap.Next, end, func(r events.Record) error {
				f, err := events.DecodeFact(&r)
				if err == nil {
					_, err = state.Apply(f, r.Offset)
				}
				return err
			})
		}
		inputs = state.Partition.Inputs
		return err
	})
	return inputs, err
}

// explained adds, to the error of a stopped partition, what its inputs have lost and what can be done.
func (s *stateStore) explained(ctx context.Context, partition int32, cause error) error {
	ctx, cancel := context.WithTimeout(ctx, anchorWait)
	defer cancel()
	lost, err := s.lost(ctx, partition)
	if err != nil || len(lost) == 0 {
		return cause // or a different record is at that offset
	}
	var found []string
	for _, l := range lost {
		found = append(found, l.What+"; "+l.Remedy())
	}
	return fmt.Errorf("%w: %s", cause, strings.Join(found, "; "))
}
