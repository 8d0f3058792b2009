package node

import (
	"context"
	"errors"
	"fmt"

	"github.com/sagalog/sagalog/events"
	"github.com/sagalog/sagalog/internal/kafka"
	"github.com/sagalog/sagalog/projector"
	"github.com/sagalog/sagalog/supervisor"
)

// cut deletes the facts in front of the carries where the log may be cut, of the partitions that this node owns: docs/protocol.md, "The log is cut
// where a carry begins".
func (t *trimmer) cut(ctx context.Context) error {
	want := kafka.Offsets{}
	topic := t.ns.topics.Events()
	var errs []error
	for _, p := range t.owners.owned() {
		at, ok, err := projector.Cut(t.store.Partition(p), events.At(t.now()))
		if errs = append(errs, err); err != nil || !ok {
			continue
		}
		begin, err := t.ns.cluster.StartOffset(ctx, topic, p)
		if errs = append(errs, err); err == nil && begin < at {
			if want[topic] == nil {
				want[topic] = map[int32]int64{}
			}
			want[topic][p] = at
		}
	}
	begins, err := kafka.DeleteRecords(ctx, t.ns.cluster, want)
	for p, begin := range begins[topic] {
		t.log.Info("the log is cut: the facts before a carry are older than keep_log, and are deleted", "partition", p, "before", begin)
	}
	return errors.Join(append(errs, err)...)
}

// begin returns where to begin to read a partition of events whose state is empty: at its first record, which is not at offset 0 if the log was cut.
func (l *partitionLog) begin(ctx context.Context, t supervisor.Topic, from int64) (int64, error) {
	if t != supervisor.EventsTopic || from > 0 {
		return from, nil
	}
	return l.cluster.StartOffset(ctx, l.topics.Events(), l.partition)
}

// beginsWithCarry says whether the log of a partition begins with a carry, so that its state can be built from there. start is where it began a moment
// ago: another node may cut it meanwhile.
func (s *stateStore) beginsWithCarry(ctx context.Context, partition int32, start int64) (bool, error) {
	for {
		r, err := s.ns.cluster.ReadAt(ctx, s.ns.topics.Events(), partition, start)
		if errors.As(err, new(*kafka.OutOfRangeError)) {
			now, asked := s.ns.cluster.StartOffset(ctx, s.ns.topics.Events(), partition)
			if asked != nil {
				return false, asked
			}
			if now > start {
				start = now
				continue
			}
		}
		if err != nil {
			return false, fmt.Errorf("read the first record of partition %d: %w", partition, err)
		}
		return r.Header(events.HeaderType) == events.TypePrefix+string(events.NameCarryBegun), nil
	}
}

// first returns the offset of the first record of a partition of events.
func (s *stateStore) first(partition int32) (int64, error) {
	ctx, cancel := context.WithTimeout(context.Background(), anchorWait)
	defer cancel()
	return s.ns.cluster.StartOffset(ctx, s.ns.topics.Events(), partition)
}
