package kafka_test

import (
	"context"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sagalog/sagalog/events"
	"github.com/sagalog/sagalog/internal/kafka"
	"github.com/sagalog/sagalog/internal/kafka/kafkatest"
)

// The records of one caller keep their order, whether they are sent at once or held back, and when the producer switches
// between the two.
func TestLingeringRecordsKeepTheirOrder(t *testing.T) {
	t.Parallel()
	cluster := kafkatest.Start(t)
	topics := kafka.Topics{Namespace: "gather"}
	kafkatest.Create(t, cluster, topics.Base(2)...)
	p, err := kafka.NewProducer(cluster)
	require.NoError(t, err)
	defer p.Close()
	var callers sync.WaitGroup
	for partition := range int32(2) {
		callers.Go(func() {
			r := rand.New(rand.NewPCG(7, uint64(partition)))
			next := int64(0)
			for range 100 {
				var burst sync.WaitGroup
				for range 1 + r.IntN(40) {
					burst.Add(1)
					want := next
					p.TryProduce(context.Background(), events.Record{Topic: topics.Submissions(), Partition: partition}, func(_ int32, offset int64, err error) {
						if err != nil || offset != want {
							t.Errorf("partition %d: got offset %d (%v), want %d", partition, offset, err, want)
						}
						burst.Done()
					})
					next++
				}
				burst.Wait()
			}
		})
	}
	callers.Wait()
}

// Records that are held back when the producer is closed are answered, once each.
func TestLingeringRecordsAreAnsweredAtClose(t *testing.T) {
	t.Parallel()
	cluster := kafkatest.Start(t)
	topics := kafka.Topics{Namespace: "close"}
	kafkatest.Create(t, cluster, topics.Base(1)...)
	for range 20 {
		p, err := kafka.NewProducer(cluster)
		require.NoError(t, err)
		var answers [200]atomic.Int32
		var all sync.WaitGroup
		all.Add(len(answers))
		records := make([]events.Record, len(answers))
		for i := range records {
			records[i] = events.Record{Topic: topics.Submissions(), Value: []byte("x")}
		}
		p.TryProduceBatch(context.Background(), records, func(i int, _ int32, _ int64, _ error) {
			answers[i].Add(1)
			all.Done()
		})
		p.Close()
		all.Wait()
		for i := range answers {
			require.EqualValues(t, 1, answers[i].Load(), "record %d", i)
		}
	}
}
