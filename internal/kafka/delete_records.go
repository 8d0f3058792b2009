package kafka

import (
	"context"
	"errors"
	"fmt"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
)

// DeleteRecords deletes the records below these offsets, and returns where the partitions begin then. It returns those that it could change and
// an error for the others. An offset below the beginning of a partition changes nothing.
func DeleteRecords(ctx context.Context, c *Cluster, below Offsets) (Offsets, error) {
	var at kadm.Offsets
	for topic, partitions := range below {
		for p, offset := range partitions {
			at.AddOffset(topic, p, offset, -1)
		}
	}
	begins := Offsets{}
	if len(at) == 0 {
		return begins, nil
	}
	answers, err := c.admin.DeleteRecords(ctx, at)
	var errs []error
	if err != nil { // of some brokers, perhaps
		errs = append(errs, fmt.Errorf("delete records: %w", fromClient(err)))
	}
	answers.Each(func(r kadm.DeleteRecordsResponse) {
		if errors.Is(r.Err, kerr.OffsetOutOfRange) { // the embedded broker says so if the partition begins there or later; Apache Kafka does not
			return
		}
		if r.Err != nil {
			errs = append(errs, fmt.Errorf("delete records of %s/%d below %d: %w", r.Topic, r.Partition, below[r.Topic][r.Partition], fromClient(r.Err)))
			return
		}
		set(begins, place{r.Topic, r.Partition}, r.LowWatermark)
	})
	return begins, errors.Join(errs...)
}
