package kafka

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/sagalog/sagalog/events"
)

// OpenTransaction is a transaction that was neither committed nor aborted. Nobody who reads what is committed gets beyond its first record.
type OpenTransaction struct {
	Topic     string
	Partition int32
	// Offset is that of its first record. A transaction that ends is never followed by another that begins there.
	Offset int64
	// At is the time of that record, by the clock of the broker or of the producer; zero if it is not known.
	At events.Instant
}

// AbortCommand is the command of Kafka that ends it.
func (x OpenTransaction) AbortCommand(brokers []string) string {
	return fmt.Sprintf("kafka-transactions.sh --bootstrap-server %s abort --topic %s --partition %d --start-offset %d", strings.Join(brokers, ","), x.Topic, x.Partition, x.Offset)
}

// OpenTransactions returns the oldest open transaction of each partition that has one. asked are the partitions for which the brokers answered; nothing
// is known of the others. The error says why not.
func OpenTransactions(ctx context.Context, c *Cluster, of Partitions) (open []OpenTransaction, asked Offsets, err error) {
	ends, err := c.HighWatermarks(ctx, of)
	if err != nil && len(ends) == 0 {
		return nil, nil, err
	}
	stable, errStable := c.EndOffsets(ctx, of) // asked last: below an end that is older, what is not stable is open
	asked = Offsets{}
	for topic, partitions := range stable {
		for p, offset := range partitions {
			end, ok := ends[topic][p]
			if !ok {
				continue
			}
			set(asked, place{topic, p}, offset)
			if offset < end {
				open = append(open, OpenTransaction{Topic: topic, Partition: p, Offset: offset})
			}
		}
	}
	slices.SortFunc(open, func(a, b OpenTransaction) int {
		return cmp.Or(strings.Compare(a.Topic, b.Topic), cmp.Compare(a.Partition, b.Partition))
	})
	return open, asked, cmp.Or(err, errStable)
}

// TransactionBegun returns the time of the first record of an open transaction; zero if the brokers do not answer.
func TransactionBegun(ctx context.Context, c *Cluster, x OpenTransaction) events.Instant {
	r, err := c.ReadAt(ctx, x.Topic, x.Partition, x.Offset)
	if err != nil {
		return 0
	}
	return r.Timestamp
}
