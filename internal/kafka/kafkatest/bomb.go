package kafkatest

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kgo"
)

// Bomb produces one compressed batch to partition 0 of a topic, with a record of zeros of each size: small on the wire, and
// larger than a reader decompresses. It returns the offsets.
func Bomb(t *testing.T, b Reachable, topic string, sizes ...int) []int64 {
	t.Helper()
	c := Client(t, b,
		kgo.ProducerBatchMaxBytes(64<<20), kgo.BrokerMaxWriteBytes(100<<20), kgo.MaxBufferedRecords(len(sizes)+1), kgo.ManualFlushing(),
		kgo.ProducerBatchCompression(kgo.GzipCompression()), kgo.RecordPartitioner(kgo.ManualPartitioner()),
	)
	records := make([]*kgo.Record, len(sizes))
	for i, n := range sizes {
		records[i] = &kgo.Record{Topic: topic, Value: make([]byte, n)}
		c.Produce(context.Background(), records[i], func(_ *kgo.Record, err error) {
			if err != nil {
				t.Error(err)
			}
		})
	}
	require.NoError(t, c.Flush(context.Background()))
	var offsets []int64
	for _, r := range records {
		offsets = append(offsets, r.Offset)
	}
	return offsets
}
