package kafka

import (
	"context"
	"fmt"

	"github.com/sagalog/sagalog/internal/kafka/batch"
)

// BatchesIn calls fn with the record batches of a partition that hold the offsets from up to but not including to, as the broker stores them.
// The first may begin before from. The last is cut off at to. An error of fn ends the range and is returned unchanged. fn may keep the batches.
func BatchesIn(ctx context.Context, c *Cluster, topic string, partition int32, from, to int64, fn func(batch.Batch) error) error {
	bytes := int32(rangeFetchBytes)
	if c.cfg.Embedded {
		bytes = nearFetchBytes
	}
	for next := from; next < to; {
		got, err := c.fetch(ctx, fetchAt{Position: batch.Position{Topic: topic, Partition: partition, Offset: next}, bytes: bytes, raw: true, below: true})
		if err != nil {
			return fmt.Errorf("read %s/%d from %d: %w", topic, partition, next, denied(c, err, opRead, topic, ""))
		}
		was := next
		var failed error
		err = batch.Each(got.raw.RecordBatches, next, func(b batch.Batch) bool {
			if b.First() >= to {
				next = to
				return false
			}
			next = b.Next()
			if next > to {
				if b, failed = c.unpack.Head(b, to); failed != nil {
					return false
				}
			}
			failed = fn(b)
			return failed == nil && next < to
		})
		switch {
		case failed != nil:
			return failed
		case err != nil:
			return fmt.Errorf("read %s/%d from %d: %w", topic, partition, next, err)
		case next == was:
			return fmt.Errorf("read %s/%d from %d: the broker sends no whole batch: %w", topic, partition, next, &OutOfRangeError{Topic: topic, Partition: partition, Offset: next})
		}
	}
	return nil
}

// OffsetsAfter returns, for each partition, the offset of the first record whose timestamp is later than the given one, in milliseconds since
// 1970: the end of the partition if no record is later.
func OffsetsAfter(ctx context.Context, c *Cluster, of Partitions, millis int64) (Offsets, error) {
	found, err := c.listOffsets(ctx, of, millis+1, readUncommitted)
	if err != nil {
		return nil, err
	}
	ends, err := c.HighWatermarks(ctx, of)
	if err != nil {
		return nil, err
	}
	for topic, partitions := range ends {
		for p, end := range partitions {
			if at, ok := found[topic][p]; !ok || at < 0 {
				set(found, place{topic, p}, end)
			}
		}
	}
	return found, nil
}
