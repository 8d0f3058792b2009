package kafka

import (
	"context"
	"fmt"

	"github.com/twmb/franz-go/pkg/kadm"
)

// TrimBefore deletes the records of a partition below offset, but never its last record: the embedded broker forgets where
// an emptied partition ended and begins again at 0 after a restart, below every resume point. It returns an
// *OutOfRangeError for an offset behind the end, and nil for one below the start: somebody else has trimmed further.
func TrimBefore(ctx context.Context, c *Cluster, topic string, partition int32, offset int64) error {
	at := Partitions{topic: {partition}}
	starts, err := c.StartOffsets(ctx, at)
	if err != nil {
		return err
	}
	ends, err := c.HighWatermarks(ctx, at)
	if err != nil {
		return err
	}
	if offset > ends[topic][partition] {
		return &OutOfRangeError{Topic: topic, Partition: partition, Offset: offset}
	}
	offset = min(offset, ends[topic][partition]-1)
	if offset <= starts[topic][partition] {
		return nil
	}
	var to kadm.Offsets
	to.AddOffset(topic, partition, offset, -1)
	err = again(ctx, func() error {
		resp, err := c.admin.DeleteRecords(ctx, to)
		if err == nil {
			err = resp.Error()
		}
		return err
	})
	if err != nil {
		return fmt.Errorf("delete the records of %s/%d before %d: %w", topic, partition, offset,
			typed(err, topic, partition, offset))
	}
	return nil
}
