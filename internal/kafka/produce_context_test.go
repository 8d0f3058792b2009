package kafka_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sagalog/sagalog/events"
	"github.com/sagalog/sagalog/internal/kafka"
	"github.com/sagalog/sagalog/internal/kafka/kafkatest"
)

// One caller whose context ends must not take the records of others with it: the client would fail all that are
// buffered for the partition.
func TestACallerThatHangsUpFailsNobodyElse(t *testing.T) {
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
