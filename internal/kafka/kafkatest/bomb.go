package kafkatest

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kgo"
)

// Bomb produces one compressed batch to partition 0 of a topic, with a record of zeros of each size: small on the wire, and larger than a
// reader unpacks. It returns the offsets.
func Bomb(t *testing.T, b Reachable, topic string, sizes ...int) []int64 {
	t.Helper()
	c := Client(t, b,
		kgo.ProducerBatchMaxBytes(64<<20), kgo.BrokerMaxWriteBytes(100<<20),
		kgo.ProducerLinger(100*time.Millisecond), kgo.ProducerBatchCompression(kgo.GzipCompression()), kgo.RecordPartitioner(kgo.ManualPartitioner()),
	)
	var records []*kgo.Record
	for _, n := range sizes {
		records = append(records, &kgo.Record{Topic: topic, Value: make([]byte, n)})
	}
	require.NoError(t, c.ProduceSync(context.Background(), records...).FirstErr())
	var offsets []int64
	for _, r := range records {
		offsets = append(offsets, r.Offset)
	}
	return offsets
}
