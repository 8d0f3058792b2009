package kafka_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sagalog/sagalog/events"
	"github.com/sagalog/sagalog/internal/kafka"
	"github.com/sagalog/sagalog/internal/kafka/kafkatest"
)

// If a caller's context ends, the records of other callers must not be lost. Without precautions, the client would fail
// everything that is buffered for the partition.
func TestACancelledCallerFailsNoOtherRecord(t *testing.T) {
	cluster := kafkatest.Start(t)
	topics := kafka.Topics{Namespace: "hang"}
	kafkatest.Create(t, cluster, topics.Base(1)...)
	p, err := kafka.NewProducer(cluster)
	require.NoError(t, err)
	defer p.Close()
	const rounds = 2000
	answers := make(chan error, rounds)
	for i := range 2 * rounds {
		ctx, hangUp := context.WithCancel(t.Context())
		r := events.Record{Topic: topics.Submissions(), Value: []byte("x")}
		if i%2 == 0 {
			p.Produce(ctx, r, func(int32, int64, error) {})
			hangUp()
			continue
		}
		p.Produce(ctx, r, func(_ int32, _ int64, err error) {
			answers <- err
			hangUp()
		})
	}
	for range rounds {
		require.NoError(t, <-answers)
	}
}

// Each record of a batch gets a separate answer, even if another record's topic is missing.
func TestABatchAnswersForEachOfItsRecords(t *testing.T) {
	cluster := kafkatest.Start(t)
	topics := kafka.Topics{Namespace: "each"}
	kafkatest.Create(t, cluster, topics.Base(2)...)
	p, err := kafka.NewProducer(cluster)
	require.NoError(t, err)
	defer p.Close()
	type reply struct {
		i         int
		partition int32
		offset    int64
		err       error
	}
	records := []events.Record{
		{Topic: topics.Submissions(), Partition: 0, Value: []byte("a"), Headers: []events.Header{{Key: "k", Value: []byte("v")}}},
		{Topic: topics.Submissions(), Partition: 1, Value: []byte("b")},
		{Topic: "missing", Partition: 1, Value: []byte("c")},
		{Topic: topics.Submissions(), Partition: 0, Value: []byte("d")},
	}
	for round, produce := range []func(context.Context, []events.Record, func(int, int32, int64, error)){p.ProduceBatch, p.TryProduceBatch} {
		ctx, cancel := context.WithCancel(t.Context())
		replies := make(chan reply, len(records))
		produce(ctx, records, func(i int, partition int32, offset int64, err error) { replies <- reply{i, partition, offset, err} })
		got := make([]reply, len(records))
		for range records {
			r := <-replies
			require.Zero(t, got[r.i], "record %d is answered once", r.i)
			got[r.i] = reply{i: -1, partition: r.partition, offset: r.offset, err: r.err}
		}
		require.NoError(t, got[0].err)
		require.NoError(t, got[1].err)
		require.ErrorIs(t, got[2].err, kafka.ErrUnknownTopic)
		require.NoError(t, got[3].err)
		require.EqualValues(t, 2*round, got[0].offset)
		require.EqualValues(t, 2*round+1, got[3].offset)
		require.EqualValues(t, round, got[1].offset)
		require.EqualValues(t, 1, got[1].partition)
		cancel()
	}
}

// All callers that wait with the same context learn exactly once that it ended, and their records are still written.
func TestAllRecordsOfAContextLearnThatItEnded(t *testing.T) {
	cluster := kafkatest.Start(t)
	topics := kafka.Topics{Namespace: "ends"}
	kafkatest.Create(t, cluster, topics.Base(1)...)
	p, err := kafka.NewProducer(cluster)
	require.NoError(t, err)
	defer p.Close()
	const rounds, each = 20, 100 // all of them fit into the share of a destination
	for range rounds {
		ctx, cancel := context.WithCancel(t.Context())
		answers := make(chan int, 2*each)
		records := make([]events.Record, each)
		for i := range records {
			records[i] = events.Record{Topic: topics.Submissions(), Value: []byte("x")}
		}
		p.TryProduceBatch(ctx, records, func(i int, _ int32, _ int64, err error) {
			if err != nil {
				require.ErrorIs(t, err, context.Canceled)
			}
			answers <- i
		})
		cancel()
		seen := make([]int, each)
		for range each {
			seen[<-answers]++
		}
		for i, n := range seen {
			require.Equal(t, 1, n, "record %d", i)
		}
	}
	// A record that is produced later comes after all of them.
	offsets, err := p.ProduceSync(t.Context(), events.Record{Topic: topics.Submissions(), Value: []byte("last")})
	require.NoError(t, err)
	require.EqualValues(t, rounds*each, offsets[0])
}
